"""Marginal Gibbs sampling, one atom at a time; `gibbs-subset` visits a uniform random subset per sweep ([LC15] 4.2)."""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import implements
from dtree.mcmc.problem import Problem
from dtree.mcmc.sweeps import Block, make_moves, several
from dtree.mcmc.worth import gibbs_sweep

SUBSET_SHARE = 0.1  # of the atoms in a sweep


class State(NamedTuple):
    """A partition and the parameters of its prior; all a chain remembers between sweeps."""

    labels: np.ndarray  # (m,) canonical
    prior: np.ndarray  # parameters of the prior
    log_joint: np.ndarray  # () log p(X, partition [, u])


def init(problem: Problem, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator) -> State:
    """Start from a partition and a prior's parameters."""
    return State(labels, prior, np.array(problem.log_joint(labels, problem.prior_at(prior))))


class Visits(NamedTuple):
    """Gibbs moves of the atoms in `order`, one after the other."""

    order: np.ndarray


@implements(make_moves, Visits)
@kernel
def _visit(moves, number, work, rng):
    return gibbs_sweep(work, moves.order, 0, rng) == moves.order.shape[0]


def block(problem: Problem, state: State, most: int, rng: np.random.Generator) -> Block:
    """Sweeps over all atoms, each followed by u and the hyperparameters."""
    return several(problem, state, Visits(np.arange(problem.m)), most, rng)


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One of them."""
    return block(problem, state, 1, rng).state


def subset_step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One sweep over a tenth of the atoms, drawn uniformly, then u and the hyperparameters."""
    return several(problem, state, Visits(random_subset(problem, rng)), 1, rng).state


def random_subset(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the atoms, at least one, drawn uniformly."""
    return rng.choice(problem.m, max(1, int(SUBSET_SHARE * problem.m)), replace=False)
