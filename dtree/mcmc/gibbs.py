"""Marginal Gibbs sampling, one atom at a time; `gibbs-subset` visits a uniform random subset per sweep ([LC15] 4.2)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dtree.mcmc.clusters import Work
from dtree.mcmc.problem import Problem
from dtree.mcmc.worth import gibbs_sweep

SUBSET_SHARE = 0.1  # of the atoms in a sweep
Moves = Callable[[Problem, Work, np.random.Generator], Work]


class State(NamedTuple):
    """A partition and the parameters of its prior; all a chain remembers between sweeps."""

    labels: np.ndarray  # (m,) canonical
    prior: np.ndarray  # parameters of the prior
    log_joint: np.ndarray  # () log p(X, partition [, u])


def init(problem: Problem, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator) -> State:
    """Start from a partition and a prior's parameters."""
    return State(labels, prior, np.array(problem.log_joint(labels, problem.prior_at(prior))))


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One sweep over all atoms, then u and the hyperparameters."""
    return sweep(problem, state, np.arange(problem.m), rng)


def subset_step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One sweep over a tenth of the atoms, drawn uniformly, then u and the hyperparameters."""
    return sweep(problem, state, random_subset(problem, rng), rng)


def random_subset(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the atoms, at least one, drawn uniformly."""
    return rng.choice(problem.m, max(1, int(SUBSET_SHARE * problem.m)), replace=False)


def sweep(
    problem: Problem, state: State, order: np.ndarray, rng: np.random.Generator, before: Moves | None = None
) -> State:
    """Other moves that come `before`, if any; Gibbs moves of the atoms in `order`; then u and the hyperparameters."""
    prior = problem.prior_at(state.prior)
    work = problem.load(state.labels, prior)
    if before is not None:
        work = before(problem, work, rng)
    work = problem.repeat(work, gibbs_sweep, order.shape[0], order, rng)
    return State(*problem.finish(work, prior, rng))
