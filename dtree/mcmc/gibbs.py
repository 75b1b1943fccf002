"""Marginal Gibbs sampling, one atom at a time; `gibbs-subset` visits a uniform random subset per sweep ([LC15] 4.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtree.mcmc.clusters import gibbs_sweep
from dtree.mcmc.problem import Problem

SUBSET_SHARE = 0.1


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
    return _sweep(problem, state, np.arange(problem.m), rng)


def subset_step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One sweep over a tenth of the atoms, drawn uniformly, then u and the hyperparameters."""
    size = max(1, int(SUBSET_SHARE * problem.m))
    return _sweep(problem, state, rng.choice(problem.m, size, replace=False), rng)


def _sweep(problem: Problem, state: State, order: np.ndarray, rng: np.random.Generator) -> State:
    prior = problem.prior_at(state.prior)
    work = problem.load(state.labels, prior)
    work = problem.repeat(work, gibbs_sweep, order.shape[0], order, rng)
    labels, vector, log_joint = problem.finish(work, prior, rng)
    return State(labels, vector, np.array(log_joint))
