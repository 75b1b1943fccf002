"""Where chains start. Different chains start differently, so that their agreement means something."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from dtree.core.checks import named
from dtree.core.partition import canonical_labels
from dtree.hierarchy.incremental_forest import Forest
from dtree.mcmc.hyperparameters import parameter_vector, resample
from dtree.mcmc.problem import Problem

_SETTLING_ROUNDS = 5  # so that the first u and hyperparameters fit the partition that a chain starts from


def _grown(problem: Problem, rng: np.random.Generator, noisy: bool = False) -> np.ndarray:
    forest = Forest(problem.model, noisy)
    forest.insert(problem.atoms, rng.permutation(problem.m))
    return forest.labels()


def _random(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    clusters = max(2, round(2.0 * math.log(1.0 + problem.n)))
    return canonical_labels(rng.integers(0, clusters, problem.m))


STARTS: dict[str, Callable[[Problem, np.random.Generator], np.ndarray]] = {
    "noisy": partial(_grown, noisy=True),
    "incremental": _grown,
    "one": lambda problem, rng: np.zeros(problem.m, dtype=np.int64),
    "random": _random,
}


def start_of_chain(number: int) -> str:
    """The start of the chain with this number, going round."""
    return list(STARTS)[number % len(STARTS)]


def starting_point(problem: Problem, start: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels (m,) and the prior's parameters: u (and hyperparameters) settle on the partition first."""
    labels = named(STARTS, start, "start")(problem, rng)
    prior = problem.model.prior
    counts = np.bincount(labels, weights=problem.counts)
    for _ in range(_SETTLING_ROUNDS):
        prior = resample(prior, counts, rng, problem.resample_hyperparameters)
    return labels, parameter_vector(prior)
