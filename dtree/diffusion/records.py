"""Prepared data and posteriors as a run keeps them: plain records of arrays, checked when they are put together."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dtree.diffusion.belief import Leaves
from dtree.diffusion.posterior import FittedTree, Posterior
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.tree import Columns, validate


class StackedTrees(NamedTuple):
    """k trees over n leaves: parent (k, 2n-1), child (k, 2n-1, 2), rest (k, 2n-1), and the leaves (probit: sites) of
    each tree, mean (k, n, d) and var (k, n, q), or (1, ...) when all trees share them."""

    parent: np.ndarray
    child: np.ndarray
    rest: np.ndarray
    leaf_mean: np.ndarray
    leaf_var: np.ndarray


class KeptPosterior(NamedTuple):
    """A `Posterior` as a run keeps it; `averaged` is None when the density averages over the best trees themselves."""

    best: StackedTrees
    averaged: StackedTrees | None
    log_evidence: np.ndarray
    converged: np.ndarray
    messages: list[str]
    weights: np.ndarray
    log_joint: np.ndarray


def check_prepared(prepared: Prepared) -> None:
    """ValueError unless the parts of prepared data fit together."""
    (mean, var, _), labels, (offset, basis) = prepared.leaves, prepared.leaf_of_row, prepared.affine
    n, d = mean.shape
    q = var.shape[1] if var.ndim == 2 else 0
    parts = ((prepared.noise, (n,)), (prepared.rows, (n,)), (offset, (d,)), (var, (n, q)), (mean, (n, d)))
    if any(values.shape != shape or values.dtype != np.float64 for values, shape in parts):
        raise ValueError("the leaves of the run do not fit together")
    if q not in (1, d) or basis.shape not in ((d,), (d, d)) or labels.ndim != 1:
        raise ValueError("the leaves of the run do not fit together")
    if labels.dtype.kind != "i" or (labels.size and not 0 <= labels.min() <= labels.max() < n):
        raise ValueError("the rows of the run belong to leaves that it does not have")
    if prepared.constants.ndim != 1 or prepared.columns.size != d:
        raise ValueError("the columns of the run do not fit its leaves")
    finite = (mean, prepared.noise, prepared.rows, offset, basis, np.array(prepared.log_volume))
    if not all(np.all(np.isfinite(values)) for values in finite) or not np.all(var >= 0):  # infinite: not observed
        raise ValueError("the leaves of the run hold NaN or infinity")
    signs = prepared.signs
    if signs.shape not in ((0, 0), (n, d)) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError("the signs of the run are not -1, 0 or 1 for each entry")
    hyper = prepared.hyper.as_array()
    if not np.all(np.isfinite(hyper)) or not (hyper[1] > 0 and hyper[4] > 0):
        raise ValueError("the hyperparameters of the run are not positive numbers")


def kept_posterior(posterior: Posterior) -> KeptPosterior:
    """What a run keeps of a posterior."""
    best, averaged, weights, log_joint = posterior
    return KeptPosterior(
        _stacked(best),
        None if averaged is best else _stacked(averaged),
        np.array([fit.log_evidence for fit in best]),
        np.array([fit.converged for fit in best], dtype=np.int64),
        [fit.message for fit in best],
        weights,
        log_joint,
    )


def _stacked(fits: Sequence[FittedTree]) -> StackedTrees:
    shared = all(fit.leaves is fits[0].leaves for fit in fits)
    distinct = [fit.leaves for fit in (fits[:1] if shared else fits)]
    parent, child, rest = (np.stack(column) for column in zip(*(fit.tree for fit in fits), strict=True))
    mean, var = np.stack([own.mean for own in distinct]), np.stack([own.var for own in distinct])
    return StackedTrees(parent, child, rest, mean, var)


def posterior_again(kept: KeptPosterior, prepared: Prepared) -> Posterior:
    """The posterior that `kept_posterior` was given; ValueError unless every tree is one, over the prepared leaves."""
    pairs = _trees(kept.best, prepared)
    if not len(pairs) == len(kept.messages) == kept.log_evidence.size == kept.converged.size or not pairs:
        raise ValueError("the trees of the run and their evidences differ in number")
    best = [
        FittedTree(tree, own, float(value), bool(flag), message)
        for (tree, own), value, flag, message in zip(
            pairs, kept.log_evidence, kept.converged, kept.messages, strict=True
        )
    ]
    averaged = best
    if kept.averaged is not None:
        averaged = [FittedTree(tree, own, np.nan, True, "sampled") for tree, own in _trees(kept.averaged, prepared)]
    weights = kept.weights
    if weights.shape != (len(averaged),) or not np.isclose(weights.sum(), 1.0) or weights.min() < 0:
        raise ValueError("the weights of the run's trees do not sum to one")
    return Posterior(best, averaged, weights, kept.log_joint)


def check_trees(stacked: Columns, n: int) -> list[Columns]:
    """Each of k trees, parent (k, 2n-1) and so on; ValueError unless it is one over n leaves."""
    (parent, child, rest), m = stacked, 2 * n - 1
    k = parent.shape[0]
    if [part.shape for part in stacked] != [(k, m), (k, m, 2), (k, m)]:
        raise ValueError(f"the trees of the run do not have {n} leaves")
    if [part.dtype.kind for part in stacked] != ["i", "i", "f"]:
        raise ValueError("the trees of the run are not whole numbers and times")
    if max(abs(parent).max(initial=0), abs(child).max(initial=0)) >= m:
        raise ValueError("the trees of the run name nodes that do not exist")
    trees = [Columns(*columns) for columns in zip(parent, child, rest, strict=True)]
    for tree in trees:
        validate(tree)
    return trees


def _trees(stacked: StackedTrees, prepared: Prepared) -> list[tuple[Columns, Leaves]]:
    """Every tree with its leaves."""
    parent, child, rest, mean, var = (np.ascontiguousarray(part) for part in stacked)
    (n, d), k = prepared.leaves.mean.shape, parent.shape[0]
    trees = check_trees(Columns(parent, child, rest), n)
    distinct = mean.shape[0]
    if distinct not in (1, k) or mean.shape[1:] != (n, d) or var.shape not in (mean.shape, (distinct, n, 1)):
        raise ValueError("the leaves of the run's trees do not fit together")
    leaves = [Leaves(own, spread, prepared.leaves.n_observed) for own, spread in zip(mean, var, strict=True)]
    return list(zip(trees, leaves if distinct == k else leaves * k, strict=True))
