"""Fitted models on disk: which kinds of run there are, `save` and `open`.

A kind is one module of this folder that registers how its estimator is taken apart and put together, and one line below. The store
knows arrays and settings; those modules, to the right of the estimators, know which of a model's attributes they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from dtree.store.run import made_by_passes, read_run, write_run


class _Kind(NamedTuple):
    name: str
    module: str
    fitted: str  # an attribute that only a fitted estimator has


_KINDS = {
    "BHC": _Kind("bhc", "dtree.runs.bhc", "tree_"),
    "DPMixtureMCMC": _Kind("chains", "dtree.runs.chains", "partitions_"),
    "DPMixtureVB": _Kind("dp-mixture-vb", "dtree.runs.variational", "fit_"),
    "DiffusionTree": _Kind("diffusion-tree", "dtree.runs.diffusion", "tree_"),
}


def save(
    model: Any,
    run: str | Path,
    *,
    provenance: Mapping[str, Any] | None = None,
    row_names: Sequence[str] | None = None,
    overwrite: bool = False,
) -> None:
    """Write a fitted model as a run that `open` gives back bit for bit.

    Parameters
    ----------
    model : a fitted estimator, e.g. BHC.
    run : the folder to make, by custom `something.zarr`.
    provenance : what else to remember: the command, the seed, the data's fingerprint.
    row_names : (n,) names of the rows, kept with the labels; those the model was fitted with when None.
    overwrite : replace an existing run; the old one stays until the new one is complete.

    >>> import tempfile, dtree
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
    >>> model = dtree.BHC().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/run.zarr")
    ...     again = open(f"{folder}/run.zarr")
    >>> bool(np.array_equal(again.score_samples(X), model.score_samples(X)))
    True
    """
    kind = _known(model)
    notes = dict(provenance or {})
    if row_names is None:
        row_names = getattr(model, "row_names_", None)
    if row_names is not None:
        notes["row_names"] = [str(name) for name in row_names]
    write_run(run, kind.name, model, notes, overwrite)


def open(run: str | Path) -> Any:
    """The fitted model in a run, every part of it checked; a damaged or hostile run gets one sentence (ValueError).

    >>> import tempfile, dtree
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(dtree.BHC("poisson").fit([[1], [2], [90], [95]]), f"{folder}/run.zarr")
    ...     open(f"{folder}/run.zarr").labels_.tolist()
    [0, 0, 1, 1]
    """
    if made_by_passes(run):
        from dtree.engine.methods import open_run

        return open_run(run)
    for kind in _KINDS.values():
        import_module(kind.module)  # where it registers itself
    return read_run(run)


def _known(model: Any) -> _Kind:
    """The kind of a fitted estimator, registered."""
    for base in type(model).__mro__:
        if base.__name__ in _KINDS and base.__module__.startswith("dtree."):
            kind = _KINDS[base.__name__]
            if not hasattr(model, kind.fitted):
                raise ValueError(f"this {base.__name__} is not fitted yet; call fit before saving it")
            import_module(kind.module)
            return kind
    raise ValueError(f"a {type(model).__name__} cannot be saved as a run")
