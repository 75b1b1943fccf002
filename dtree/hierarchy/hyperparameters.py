"""Learning hyperparameters by climbing the evidence bound of a tree.

For a fixed tree the root bound is differentiable: d log phi_t = r d log phi_h + (1-r)(d log phi_t(l) + d log
phi_t(r)), so its gradient is sum_k omega_k d log phi_h(k). As in [HG05] the tree given the hyperparameters and the
hyperparameters given the tree are improved in turn until the bound stops rising; a step that would lower it is not
taken.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from dtree.core.model import Model
from dtree.core.progress import report
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.statistics import node_statistics

_LARGEST_STEP = 8.0  # how far, in logs, one round may move a hyperparameter

# A marginal raises its sum of squares to a power, which learning was seen to take to 1e5: an error of this size,
# relative to what the prior adds to the sum, is then 0.01 in the log. At 0.04 equal rows were parted.
_LEARNED_ROUNDING = 1e-7


class Learned(NamedTuple):
    """The best model found, its tree, and the bound after each round."""

    model: Model
    tree: Tree
    trace: list[float]


def log_bound(tree: Tree, model: Model, count: float) -> float:
    """The evidence bound log_normaliser + log phi_t(root)."""
    return model.prior.log_normaliser(count) + float(tree.log_phi_t[-1])


def bound_and_gradient(
    tree: Tree, model: Model, statistics: np.ndarray, prior_only: bool = False, log_marginals: np.ndarray | None = None
) -> tuple[float, np.ndarray]:
    """The bound of a fixed tree under another model, and its gradient over prior then family parameters.

    `statistics` (2m-1, s) are those of the nodes; a coarsened model's are coarsened. Who varies the prior alone may
    give their log marginals, which then stay the same.
    """
    counts = model.counts(statistics)
    if log_marginals is None:
        log_phi_h = model.log_phi_h(statistics)
    else:
        log_phi_h = model.prior.log_kappa(counts) + log_marginals
    moved = tree.with_potentials(log_phi_h)
    omega = np.exp(moved.log_omega)
    gradient = model.prior.gradient(counts, omega) + model.prior.normaliser_gradient(counts[-1])
    if not prior_only:
        gradient = np.concatenate([gradient, model.family.gradient(statistics, omega)])
    return log_bound(moved, model, counts[-1]), gradient


def _with_parameters(model: Model, theta: np.ndarray, prior_only: bool) -> Model:
    p = model.prior.free_parameters().shape[0]
    prior = model.prior.with_free_parameters(theta[:p])
    family = model.family if prior_only else model.family.with_free_parameters(theta[p:])
    return replace(model, prior=prior, family=family)


def improve_on_tree(
    model: Model, tree: Tree, atoms: np.ndarray, prior_only: bool = False, hyperprior: bool = False, steps: int = 30
) -> Model:
    """A model at least as good as the given one by the bound of this fixed tree, hyperprior of alpha added or not."""
    statistics = node_statistics(tree, atoms)
    start = model.prior.free_parameters()
    if not prior_only:
        start = np.concatenate([start, model.family.free_parameters()])
    log_marginals = None
    if prior_only:
        log_marginals = model.log_phi_h(statistics) - model.prior.log_kappa(model.counts(statistics))

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            moved = _with_parameters(model, theta, prior_only)
            if not moved.family.rounding(statistics[-1]) <= _LEARNED_ROUNDING:  # equal rows want a scale of zero
                return 1e300, np.zeros_like(theta)
            with np.errstate(all="ignore"):  # so far out that potentials overflow: seen below, and turned back from
                value, gradient = bound_and_gradient(tree, moved, statistics, prior_only, log_marginals)
            if hyperprior:
                log_density, slope = moved.prior.log_hyperprior()
                value += log_density
                gradient[: slope.shape[0]] += slope
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return 1e300, np.zeros_like(theta)  # outside the family's domain: the line search turns back
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return 1e300, np.zeros_like(theta)
        return -value, -gradient

    before = -negative(start)[0]
    box = [(value - _LARGEST_STEP, value + _LARGEST_STEP) for value in start]
    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": steps})
    return _with_parameters(model, found.x, prior_only) if -found.fun > before else model


def learn(model: Model, atoms: np.ndarray, rounds: int = 20, tolerance: float = 1e-4) -> Learned:
    """Alternate trees and hyperparameters until the bound stops rising; it never falls."""
    tree = build_tree(model, atoms)
    count = float(model.counts(atoms).sum())
    trace = [log_bound(tree, model, count)]
    if model.family.value_kind == "real" and not np.ptp(atoms / atoms[:, :1], axis=0).any():
        return Learned(model, tree, trace)  # rows that are all equal say nothing of how far apart rows are
    for done in range(rounds):
        report("learning hyperparameters", done, rounds)
        candidate = improve_on_tree(model, tree, atoms)
        grown = build_tree(candidate, atoms)
        bound, statistics = log_bound(grown, candidate, count), node_statistics(tree, atoms)
        on_tree = tree.with_potentials(candidate.log_phi_h(statistics))
        on_tree_bound = log_bound(on_tree, candidate, candidate.counts(statistics)[-1])
        if bound < on_tree_bound:  # the greedy tree of better hyperparameters may itself be worse: keep the old one
            grown, bound = on_tree, on_tree_bound
        if not bound > trace[-1] + tolerance:
            break
        model, tree = candidate, grown
        trace.append(bound)
    return Learned(model, tree, trace)
