"""What must hold between the parts of a run that was read from somewhere; one sentence if it does not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.methods import method_named
from dtree.methods.settings import checked


@contextmanager
def one_sentence(run: Any) -> Iterator[None]:
    """Say that the run is damaged when a check fails, or cannot even be made of what was read."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ValueError(f"{run.location} is damaged: {reason}") from None


def checked_settings(run: Any) -> Any:
    """The settings of a run, after checking that each has a value that makes sense."""
    kind = method_named(run.header.method, run.location).Settings
    settings = run.store.get("settings", kind)
    with one_sentence(run):
        settings = checked(kind, {name: getattr(settings, name) for name in kind.__struct_fields__})
    run.store.check("settings")  # last: what is wrong with a value says more than that it is not the one written
    return settings


def checked_fitted(run: Any) -> Any:
    """The fitted record of a finished run, after checking that its parts fit together."""
    method = method_named(run.header.method, run.location)
    fitted = run.fitted(method.Fitted)
    with one_sentence(run):
        check_names(run.header)
        method.check(fitted, run.header)
    run.store.check()
    return fitted


def check_statistics(model: Model, statistics: np.ndarray, what: str) -> None:
    """ValueError unless statistics (k, s) are some that rows under the model could give."""
    width = model.family.statistics(np.zeros((1, model.family.n_features))).shape[1]
    shaped = statistics.dtype == np.float64 and statistics.ndim == 2 and statistics.shape[1] == width
    if not shaped or statistics.shape[0] < 1:
        raise ValueError(f"the statistics {what} have not {width} columns of numbers")
    if not np.all(np.isfinite(statistics)):
        raise ValueError(f"the statistics {what} hold NaN or infinity")
    if not np.all(model.counts(statistics) > 0):
        raise ValueError(f"the statistics {what} hold an empty cluster")
    with np.errstate(all="ignore"):
        if not np.all(np.isfinite(model.log_phi_h(statistics))):
            raise ValueError(f"the statistics {what} are none that its model could give")


def check_columns(model: Model, columns: np.ndarray, data: Any) -> None:
    """ValueError unless the columns in use are as many as the model has features, and are columns of the data.

    `data` is the header of a run or its job: both know `n_features`.
    """
    d = data.n_features
    if columns.dtype != np.int64 or columns.shape != (model.family.n_features,):
        raise ValueError("its columns are not one per feature of the family")
    if columns.min() < 0 or columns.max() >= d or np.unique(columns).size != columns.size:
        raise ValueError(f"its columns are not distinct numbers below {d}")


def check_tree(model: Model, tree: Tree, atoms: np.ndarray) -> None:
    """ValueError unless the tree is one over atoms (m, s) under the model."""
    m = atoms.shape[0]
    if tree.n_leaves != m:
        raise ValueError(f"its tree has {tree.n_leaves} leaves for {m} statistics")
    # Tables and direct formulas differ in the last digits only; a tree of other data or another model in the first.
    known = np.allclose(tree.log_phi_h[:m], model.log_phi_h(atoms), rtol=1e-6, atol=1e-6)
    if not known or not np.array_equal(tree.size[:m], np.rint(model.counts(atoms))):
        raise ValueError("its model and its tree do not belong together")


def check_names(header: Any) -> None:
    """ValueError unless there are as many names as there are rows and features."""
    for names, many, what in (
        (header.feature_names, header.n_features, "feature"),
        (header.row_names, header.n_rows, "row"),
    ):
        if names is not None and len(names) != many:
            raise ValueError(f"it has {len(names)} {what} names for {many} {what}s")
