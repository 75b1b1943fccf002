"""Prepared data and posteriors as named arrays and JSON, and back, bit for bit: what a run on disk holds of a fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dtree.diffusion.affine import Affine
from dtree.diffusion.belief import Leaves
from dtree.diffusion.objective import Hyper
from dtree.diffusion.posterior import FittedTree, Posterior
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.tree import Columns, validate

Pieces = tuple[dict[str, np.ndarray], dict[str, Any]]


def prepared_to_pieces(prepared: Prepared) -> Pieces:
    """Arrays and numbers of prepared data."""
    arrays = {
        "leaf_mean": prepared.leaves.mean,
        "leaf_var": prepared.leaves.var,
        "offset": prepared.affine.offset,
        "basis": prepared.affine.basis,
        "noise": prepared.noise,
        "rows": prepared.rows,
        "leaf_of_row": prepared.leaf_of_row,
        "signs": prepared.signs,
    }
    hyper = prepared.hyper
    numbers = {
        "n_observed": int(prepared.leaves.n_observed),
        "sigma2": hyper.sigma2,
        "c": hyper.c,
        "precision_prior": [float(value) for value in hyper.precision_prior],
        "c_prior": [float(value) for value in hyper.c_prior],
        "log_volume": prepared.log_volume,
    }
    return arrays, numbers


def prepared_from_pieces(arrays: Mapping[str, np.ndarray], numbers: Mapping[str, Any]) -> Prepared:
    """The prepared data that `prepared_to_pieces` was given; ValueError unless the pieces fit together."""
    (a, b), (shape, rate) = numbers["precision_prior"], numbers["c_prior"]
    sigma2, c = numbers["sigma2"], numbers["c"]
    leaves = Leaves(arrays["leaf_mean"], arrays["leaf_var"], int(numbers["n_observed"]))
    n, d = leaves.mean.shape
    q = leaves.var.shape[1] if leaves.var.ndim == 2 else 0
    expected = {"noise": (n,), "rows": (n,), "offset": (d,), "leaf_var": (n, q)}
    for name, size in expected.items():
        if arrays[name].shape != size or arrays[name].dtype != np.float64:
            raise ValueError(f"the leaves of the run do not fit together: {name} has shape {arrays[name].shape}")
    labels = arrays["leaf_of_row"]
    if q not in (1, d) or arrays["basis"].shape not in ((d,), (d, d)) or labels.ndim != 1:
        raise ValueError("the leaves of the run do not fit together")
    if labels.dtype.kind != "i" or (labels.size and not 0 <= labels.min() <= labels.max() < n):
        raise ValueError("the rows of the run belong to leaves that it does not have")
    hyper = Hyper(
        None if sigma2 is None else float(sigma2),
        None if c is None else float(c),
        (float(a), float(b)),
        (float(shape), float(rate)),
    )
    affine = Affine(arrays["offset"], arrays["basis"])
    return Prepared(
        leaves, hyper, affine, arrays["noise"], arrays["rows"], labels, arrays["signs"], float(numbers["log_volume"])
    )


def posterior_to_pieces(posterior: Posterior) -> Pieces:
    """Arrays and words of a posterior; sites of single trees are kept only where trees have their own (probit)."""
    arrays = {
        "log_evidence": np.array([fit.log_evidence for fit in posterior.best]),
        "converged": np.array([fit.converged for fit in posterior.best], dtype=np.int64),
        "weights": posterior.weights,
        "log_joint": posterior.log_joint,
    }
    lists = {"best": posterior.best}
    if posterior.averaged is not posterior.best:
        lists["averaged"] = posterior.averaged
    for name, fits in lists.items():
        for field in Columns._fields:
            arrays[f"{name}_{field}"] = np.stack([getattr(fit.tree, field) for fit in fits])
        if any(fit.leaves is not posterior.best[0].leaves for fit in fits):
            arrays[f"{name}_leaf_mean"] = np.stack([fit.leaves.mean for fit in fits])
            arrays[f"{name}_leaf_var"] = np.stack([fit.leaves.var for fit in fits])
    return arrays, {"messages": [fit.message for fit in posterior.best]}


def posterior_from_pieces(arrays: Mapping[str, np.ndarray], words: Mapping[str, Any], prepared: Prepared) -> Posterior:
    """The posterior that `posterior_to_pieces` was given; every tree is checked."""
    messages, log_evidence, converged = words["messages"], arrays["log_evidence"], arrays["converged"]
    trees = _trees(arrays, "best", prepared.leaves.mean.shape[0])
    if not len(trees) == len(messages) == log_evidence.size == converged.size or not trees:
        raise ValueError("the trees of the run and their evidences differ in number")
    leaves = _leaves(arrays, "best", prepared, len(trees))
    best = [
        FittedTree(tree, own, float(value), bool(flag), str(message))
        for tree, own, value, flag, message in zip(trees, leaves, log_evidence, converged, messages, strict=True)
    ]
    averaged: list[FittedTree] = best
    if "averaged_rest" in arrays:
        drawn = _trees(arrays, "averaged", prepared.leaves.mean.shape[0])
        leaves = _leaves(arrays, "averaged", prepared, len(drawn))
        averaged = [FittedTree(tree, own, np.nan, True, "sampled") for tree, own in zip(drawn, leaves, strict=True)]
    weights = arrays["weights"]
    if weights.shape != (len(averaged),) or not np.isclose(weights.sum(), 1.0) or weights.min() < 0:
        raise ValueError("the weights of the run's trees do not sum to one")
    return Posterior(best, averaged, weights, arrays["log_joint"])


def _leaves(arrays: Mapping[str, np.ndarray], name: str, prepared: Prepared, count: int) -> list[Leaves]:
    """The leaves of each tree: its own where they were kept, else those of all."""
    if f"{name}_leaf_mean" not in arrays:
        return [prepared.leaves] * count
    mean, var = arrays[f"{name}_leaf_mean"], arrays[f"{name}_leaf_var"]
    if not mean.shape == var.shape == (count, *prepared.leaves.mean.shape):
        raise ValueError("the leaves of the run's trees do not fit together")
    n_observed = prepared.leaves.n_observed
    pairs = zip(mean, var, strict=True)
    return [Leaves(np.ascontiguousarray(a), np.ascontiguousarray(b), n_observed) for a, b in pairs]


def _trees(arrays: Mapping[str, np.ndarray], name: str, n: int) -> Sequence[Columns]:
    stacked = [np.asarray(arrays[f"{name}_{field}"]) for field in Columns._fields]
    m = 2 * n - 1
    k = stacked[0].shape[0]
    if [part.shape for part in stacked] != [(k, m), (k, m, 2), (k, m)]:
        raise ValueError(f"the trees of the run do not have {n} leaves")
    if max(abs(stacked[0]).max(initial=0), abs(stacked[1]).max(initial=0)) >= m:
        raise ValueError("the trees of the run name nodes that do not exist")
    trees = [Columns(*[np.ascontiguousarray(part[i]) for part in stacked]) for i in range(k)]
    for tree in trees:
        validate(tree)
    return trees
