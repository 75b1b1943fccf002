"""Learning hyperparameters by climbing the evidence bound of a tree.

For a fixed tree the root bound is differentiable: d log phi_t = r d log phi_h + (1-r)(d log phi_t(l) + d log
phi_t(r)), so its gradient is sum_k omega_k d log phi_h(k). As in [HG05] the tree given the hyperparameters and the
hyperparameters given the tree are improved in turn until the bound stops rising; a step that would lower it is not
taken.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.core.progress import report
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.statistics import node_statistics

_LARGEST_STEP = 8.0  # how far, in logs, one round may move a hyperparameter
_STEPS = 30
_FLAT = 1e-2  # slope, or width of a bracket, in a log: nothing worth another look at the tree is gained beyond

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


def bound_and_gradient(tree: Tree, model: Model, statistics: np.ndarray) -> tuple[float, np.ndarray]:
    """The bound of a fixed tree under another model, and its gradient over prior then family parameters.

    `statistics` (2m-1, s) are those of the nodes; a coarsened model's are coarsened.
    """
    counts = model.counts(statistics)
    value, by_prior, omega = _by_prior(tree, model.prior, counts, model.log_phi_h(statistics))
    return value, np.concatenate([by_prior, model.family.gradient(statistics, omega)])


def _by_prior(
    tree: Tree, prior: Prior, counts: np.ndarray, log_phi_h: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The bound of a tree, its gradient over the parameters of the prior, and how probable every node is a cluster."""
    moved = tree.with_potentials(log_phi_h)
    omega = np.exp(moved.log_omega)
    gradient = prior.gradient(counts, omega) + prior.normaliser_gradient(counts[-1])
    return prior.log_normaliser(counts[-1]) + float(moved.log_phi_t[-1]), gradient, omega


class OnTree(NamedTuple):
    """A model with its prior learned on a tree, and the bound there, hyperprior added."""

    model: Model
    bound: float


def prior_on_tree(model: Model, tree: Tree, statistics: np.ndarray) -> OnTree:
    """The prior at which a fixed tree with node statistics (2m-1, s) has the highest bound, hyperprior added."""
    counts = model.counts(statistics)
    log_marginals = model.log_phi_h(statistics) - model.prior.log_kappa(counts)

    def at(theta: np.ndarray) -> tuple[float, np.ndarray]:
        prior = model.prior.with_free_parameters(theta)
        value, gradient, _ = _by_prior(tree, prior, counts, prior.log_kappa(counts) + log_marginals)
        log_density, slope = prior.log_hyperprior()
        return value + log_density, gradient + slope

    start = model.prior.free_parameters()
    best, bound = start, at(start)[0]
    theta = _climb_one(at, start) if start.shape[0] == 1 else _climb(at, start, _STEPS)
    if theta is not None and (value := at(theta)[0]) > bound:
        best, bound = theta, value
    return OnTree(replace(model, prior=model.prior.with_free_parameters(best)), bound)


def _climb_one(at: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray) -> np.ndarray:
    """Where the slope over one parameter crosses zero: widening steps uphill, then false position (Illinois)."""
    low, slope_low = float(start[0]), float(at(start)[1][0])
    step, end = math.copysign(1.0, slope_low), float(start[0]) + math.copysign(_LARGEST_STEP, slope_low)
    while abs(slope_low) > _FLAT:
        high = max(low + step, end) if step < 0 else min(low + step, end)
        slope_high = float(at(np.array([high]))[1][0])
        if slope_low * slope_high <= 0.0:
            break
        low, slope_low, step = high, slope_high, 1.5 * step
        if low == end:
            return np.array([low])
    else:
        return np.array([low])
    for _ in range(_STEPS):
        middle = (low * slope_high - high * slope_low) / (slope_high - slope_low)
        slope = float(at(np.array([middle]))[1][0])
        if abs(slope) < _FLAT or abs(high - low) < _FLAT:
            return np.array([middle])
        if slope * slope_high < 0.0:
            low, slope_low = high, slope_high
        else:
            slope_low *= 0.5
        high, slope_high = middle, slope
    return np.array([high])


def _climb(at: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, steps: int) -> np.ndarray | None:
    """Uphill from `start` within a box around it; None where nothing higher was found."""

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            with np.errstate(all="ignore"):  # so far out that potentials overflow: seen below, and turned back from
                value, gradient = at(theta)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            return 1e300, np.zeros_like(theta)  # outside the domain: the line search turns back
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return 1e300, np.zeros_like(theta)
        return -value, -gradient

    before = negative(start)[0]
    box = [(value - _LARGEST_STEP, value + _LARGEST_STEP) for value in start]
    from scipy.optimize import minimize  # slow to load, and only fits need it

    found = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": steps})
    return found.x if found.fun < before else None


def _with_parameters(model: Model, theta: np.ndarray) -> Model:
    p = model.prior.free_parameters().shape[0]
    prior, family = model.prior.with_free_parameters(theta[:p]), model.family.with_free_parameters(theta[p:])
    return replace(model, prior=prior, family=family)


def improve_on_tree(model: Model, tree: Tree, atoms: np.ndarray, steps: int = _STEPS) -> Model:
    """A model at least as good as the given one by the bound of this fixed tree."""
    statistics = node_statistics(tree, atoms)

    def at(theta: np.ndarray) -> tuple[float, np.ndarray]:
        moved = _with_parameters(model, theta)
        if not moved.family.rounding(statistics[-1]) <= _LEARNED_ROUNDING:  # equal rows want a scale of zero
            raise ValueError("the scale is too small for the spread of the rows")
        return bound_and_gradient(tree, moved, statistics)

    start = np.concatenate([model.prior.free_parameters(), model.family.free_parameters()])
    theta = _climb(at, start, steps)
    return model if theta is None else _with_parameters(model, theta)


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
