"""What must hold of every fit, whatever the rows and the settings."""

from __future__ import annotations

import pickle
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster.hierarchy import is_valid_linkage
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import dtree
from dtree.methods.cluster_levels import MOST_CLUSTERS
from tests.soak.rows import Drawn

_OURS = ("/dtree/", "sklearn/utils/", "sklearn/base.py")  # where a sentence for the user may come from


class Broken(Exception):
    """Something that must always hold does not."""


class Refused(Exception):
    """The rows or settings were refused with one clear sentence, which is an answer too."""


def require(holds: Any, what: str) -> None:
    if not holds:
        raise Broken(what)


@contextmanager
def only_sentences() -> Iterator[None]:
    """Nothing may be raised but a ValueError of one clear sentence that dtree itself wrote, and no warning of numpy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # sentences for the user
        try:
            yield
        except (Broken, Refused):
            raise
        except ValueError as problem:
            where = traceback.extract_tb(problem.__traceback__)[-1].filename
            sentence = str(problem)
            clear = 15 <= len(sentence) <= 600 and "\n" not in sentence and "damaged" not in sentence
            if clear and any(place in where for place in _OURS):
                raise Refused(sentence) from problem
            raise Broken(f"no clear sentence but ValueError: {sentence[:300]!r} in {where}") from problem
        except Exception as problem:
            last = traceback.extract_tb(problem.__traceback__)
            ours = [frame for frame in last if "/dtree/" in frame.filename] or last
            where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}"
            raise Broken(f"{type(problem).__name__}: {str(problem)[:300]!r} in {where}") from problem


def fitted(model: Any, drawn: Drawn) -> Any:
    """The model fitted to the rows."""
    given = {} if drawn.weight is None or isinstance(model, dtree.DiffusionTree) else {"sample_weight": drawn.weight}
    return model.fit(drawn.rows, **given)


def answer(model: Any, rows: Any) -> dict[str, np.ndarray]:
    """Everything that two equal models must say alike, bit for bit."""
    found = {"labels": model.labels_, "predict": model.predict(rows), "density": model.score_samples(rows)}
    if hasattr(model, "predict_proba"):
        found["shares"] = model.predict_proba(rows)
    if hasattr(model, "linkage_"):
        found["linkage"] = model.linkage_
    for name in ("log_evidence_bound_", "elbo_", "log_joint_", "log_evidence_"):
        if hasattr(model, name):
            found[name] = np.asarray(getattr(model, name))
    return found


def require_same(one: dict[str, np.ndarray], other: dict[str, np.ndarray], what: str) -> None:
    require(one.keys() == other.keys(), f"{what}: {sorted(one.keys() ^ other.keys())} only once")
    for name, values in one.items():
        require(np.array_equal(values, other[name], equal_nan=True), f"{what}: {name} differs")


# Each check is given the fitted model and its rows --------------------------------------------------------------------


def labels_are_contiguous(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    labels = model.labels_
    require(labels.shape == (drawn.shape[0],), f"labels have shape {labels.shape}")
    if drawn.weight is not None and (drawn.weight == 0).any():
        labels = labels[drawn.weight > 0]  # a row that does not count gets a label but need not keep it
    found = np.unique(labels)
    require(np.array_equal(found, np.arange(found.shape[0])), f"labels are not contiguous: {found[:20]}")
    require(found.shape[0] == model.n_clusters_, f"{model.n_clusters_} clusters but {found.shape[0]} labels")


def everything_is_finite(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    for name, values in answer(model, drawn.rows).items():
        if name == "log_evidence_" and (model.inference == "mcmc" or not model.converged_):
            continue  # said to be NaN, or minus infinity
        require(np.all(np.isfinite(values)), f"{name} is not finite")
    for name in ("weights_", "means_", "covariances_", "confidence_", "outlier_score_", "cluster_stability_"):
        values = getattr(model, name, None)
        if name == "means_" and isinstance(getattr(model, "family_", None), dtree.Mixed):
            continue  # a category has no mean
        require(values is None or np.all(np.isfinite(values)), f"{name} is not finite")


def trees_are_valid(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    tree = getattr(model, "tree_", None)
    if tree is None:
        return
    if isinstance(tree, dtree.Tree):
        tree.validate()
    if hasattr(model, "linkage_") and model.linkage_.shape[0]:
        require(is_valid_linkage(model.linkage_), "SciPy does not take the linkage")
        require(np.all(np.diff(model.linkage_[:, 2]) >= 0), "heights of the linkage fall")


def shares_add_up(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(drawn.rows)
        require(np.all(shares >= 0) and np.allclose(shares.sum(axis=1), 1.0), "probabilities do not add up to 1")
        best = shares[np.arange(shares.shape[0]), model.predict(drawn.rows)]
        if not isinstance(model, dtree.TreeClustering | dtree.BayesKMeansBHC | dtree.BayesKMeans):
            require(np.all(best >= shares.max(axis=1) - 1e-9), "predict is not the most probable cluster")


def bounds_are_in_order(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    rising = {"bound_trace_": 1e-9, "elbo_trace_": 1e-8}
    for name, slack in rising.items():
        trace = np.asarray(getattr(model, name, ()))
        if name == "elbo_trace_" and trace.size and (model.variant not in ("TSB", "FSD") or model.family == "auto"):
            continue  # a collapsed bound is an expansion and may fall, and reordering is a step of its own
        fall = np.diff(trace) if trace.size else trace
        require(np.all(fall >= -slack * np.abs(trace[1:]) - slack), f"{name} falls by {-fall.min(initial=0):.3g}")
    if type(model) is dtree.BHC and model.coarsening == 1.0 and model.tree_.n_leaves <= 60:
        bounds = list(dtree.evidence_bounds(model).values())
        slack = 1e-9 * max(1.0, abs(bounds[0]))
        require(np.all(np.diff(bounds) >= -slack), f"bounds are not in order: {bounds}")
        ours = model.log_evidence_bound_
        require(abs(bounds[0] - ours) <= slack, f"the bound is {ours}, the first of all bounds {bounds[0]}")
        if model.tree_.n_leaves <= 8 and drawn.weight is None and drawn.is_plain:
            exact = dtree.exact_log_evidence(drawn.rows[:, model.columns_], model.family_, model.prior_)
            require(exact >= bounds[-1] - 1e-8 * max(1.0, abs(exact)), f"the bound {bounds[-1]} is above {exact}")


def same_seed_same_answer(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    again = clone(model)
    require(again.get_params().keys() == model.get_params().keys(), "a clone has other parameters")
    require_same(answer(model, drawn.rows), answer(fitted(again, drawn), drawn.rows), "the same seed")


def copies_are_equal(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    ours = answer(model, drawn.rows)
    require_same(ours, answer(pickle.loads(pickle.dumps(model)), drawn.rows), "pickle")
    with tempfile.TemporaryDirectory() as folder:
        dtree.save(model, f"{folder}/run.zarr")
        require_same(ours, answer(dtree.open(f"{folder}/run.zarr"), drawn.rows), "save and open")


def far_rows_get_an_answer(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    if isinstance(drawn.rows, pd.DataFrame):
        return
    rows = drawn.dense().astype(float)[: min(3, drawn.shape[0])]
    if drawn.families[-1] == "gaussian-diag":
        rows = np.concatenate([rows * far for far in (1e3, -1e8, 1e15)])
    elif "poisson" in drawn.families and not (isinstance(model, dtree.DiffusionTree) or model.family == "bernoulli"):
        rows = rows * 1e6 + 1.0
    elif "bernoulli" in drawn.families:
        rows = 1.0 - rows
    found = answer(model, rows)
    require(np.all((found["predict"] >= 0) & (found["predict"] < _components(model))), "far rows get no cluster")
    require(np.all(np.isfinite(found["density"])), "the log density of far rows is not finite")
    require(np.all(np.isfinite(found.get("shares", 0.0))), "the probabilities of far rows are not finite")


def _components(model: Any) -> int:
    return model.truncation_ if isinstance(model, dtree.DPMixtureVB) else model.n_clusters_


def units_do_not_matter(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    """In other units (a power of two: no digit is lost) the clusters are the same, or as good."""
    sampled = isinstance(model, dtree.DPMixtureMCMC | dtree.DiffusionTree)
    if not drawn.is_plain or sampled or np.abs(drawn.rows).max() > 1e100:
        return
    power = int(rng.choice([-10, 1, 10]))
    again = fitted(clone(model), drawn._replace(rows=drawn.rows * 2.0**power))
    if np.array_equal(model.labels_, again.labels_):
        return
    name = next(name for name in ("log_evidence_bound_", "elbo_", "log_joint_") if hasattr(model, name))
    held = drawn.shape[0] if drawn.weight is None else drawn.weight.sum()
    expected = getattr(model, name) - held * model.columns_.shape[0] * power * np.log(2.0)
    apart = abs(getattr(again, name) - expected)
    counts = f"{again.n_clusters_} clusters, not {model.n_clusters_}"
    require(apart <= 1e-6 * held, f"in units 2^{power} there are {counts}, and the bound is {apart:.3g} off")


def order_does_not_matter(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    """Where no two numbers are equal, and so no merges tie, rows and columns in another order make the same tree."""
    is_exact = type(model) is dtree.BHC and model.method == "exact" and not model.optimize
    if not is_exact or not drawn.is_plain or np.unique(drawn.rows).size < drawn.rows.size:
        return
    unit = (drawn.rows - drawn.rows.mean(axis=0)) / drawn.rows.std(axis=0)
    spread = np.linalg.svd(unit, compute_uv=False)[: drawn.shape[0] - 1]
    if spread[-1] < 1e-6 * spread[0]:
        return  # rounding, which hangs on the order, is most of what a determinant says of such rows
    rows, columns = rng.permutation(drawn.shape[0]), rng.permutation(drawn.shape[1])
    weight = None if drawn.weight is None else drawn.weight[rows]
    again = fitted(clone(model), drawn._replace(rows=drawn.rows[rows][:, columns], weight=weight))
    ours, theirs = model.log_evidence_bound_, again.log_evidence_bound_
    held = drawn.shape[0] if weight is None else weight.sum()
    # The logarithm of a determinant is off by rounding times the condition number, which is a square of the spreads'.
    slack = max(1e-6, 10 * np.finfo(np.float64).eps * (spread[0] / spread[-1]) ** 2)
    require(abs(ours - theirs) <= slack * held, f"in another order the bound is {theirs}, not {ours}")


def learning_on_keeps_it_whole(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    """More rows, perhaps far out, are learned from, or are refused and leave the model as it was."""
    if not hasattr(model, "partial_fit"):
        return
    ours = answer(model, drawn.rows)
    copy = pickle.loads(pickle.dumps(model))
    which = rng.integers(drawn.shape[0], size=min(4, drawn.shape[0]))
    rows = drawn.rows.iloc[which] if isinstance(drawn.rows, pd.DataFrame) else drawn.dense()[which]
    if drawn.is_plain:
        rows = rows * 10.0 ** rng.choice([0, 3, 9])
    try:
        with only_sentences():
            copy.partial_fit(rows)
    except Refused:
        require_same(ours, answer(copy, drawn.rows), "refused rows")
        return
    trees_are_valid(copy, drawn, rng)
    for name, values in answer(copy, drawn.rows).items():
        require(np.all(np.isfinite(values)), f"after more rows {name} is not finite")
    expected = which.size + (drawn.shape[0] if isinstance(model, dtree.IncrementalBHC) else 0)
    require(copy.labels_.shape == (expected,), f"after more rows there are {copy.labels_.shape[0]} labels")


def cells_are_finite(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    if not hasattr(model, "impute") or type(model.family_).__name__ == "Multinomial":
        return
    filled = np.asarray(model.impute(drawn.rows), dtype=float)
    require(np.all(np.isfinite(filled[:, model.columns_])), "impute leaves holes")
    odd = model.surprisal(drawn.rows)
    require(not np.any(np.isinf(odd)), "a surprisal is infinite")


def levels_are_cuts(model: Any, drawn: Drawn, rng: np.random.Generator) -> None:
    if isinstance(model, dtree.DiffusionTree) or model.n_clusters_ > MOST_CLUSTERS:
        return
    found = dtree.levels(model, drawn.rows)
    require(found.labels.shape == (drawn.shape[0],), "labels of levels are not one per row")
    require(found.reason and "\n" not in found.reason, "no reason is given for a level")
    for count in (1, found.tree.n_leaves):
        require(int(found.at_clusters(count).max()) < count, f"a cut into {count} has more clusters")


CHECKS: tuple[Callable[[Any, Drawn, np.random.Generator], None], ...] = (
    labels_are_contiguous, everything_is_finite, trees_are_valid, shares_add_up, bounds_are_in_order,
    same_seed_same_answer, copies_are_equal, far_rows_get_an_answer, cells_are_finite, levels_are_cuts,
    units_do_not_matter, order_does_not_matter, learning_on_keeps_it_whole,
)  # fmt: skip
