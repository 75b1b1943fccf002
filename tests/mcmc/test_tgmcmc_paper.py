"""The sampler as printed: runs, keeps its trees in order, and is biased by a total variation of a tenth and more."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.families import Gaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.mcmc import tgmcmc_paper
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import begin_chain, run_chain
from tests.naive.mcmc import partition_posterior
from tests.naive.partitions import all_partitions


def problem_of(n: int) -> Problem:
    X = np.array([[0.0, 0.3], [0.4, -0.2], [1.6, 1.2], [2.1, 0.4], [0.9, 0.8], [-0.7, 1.1]])[:n]
    model = Model(Gaussian([0.8, 0.5], 0.3, 5.0, [[1.0, 0.2], [0.2, 0.8]]), DirichletProcess(1.0))
    return Problem(model, model.atoms(X), resample_hyperparameters=False)


def total_variation(n: int, sweeps: int) -> tuple[float, float]:
    """Distance of the visited partitions from the posterior, and what sampling error alone would give."""
    problem = problem_of(n)
    checkpoint = begin_chain(problem, "tgmcmc-paper", 0, start="noisy")
    draws, _ = run_chain(problem, "tgmcmc-paper", checkpoint, sweeps, warmup=50)
    index = {tuple(p): k for k, p in enumerate(all_partitions(n))}
    visited = np.array([index[tuple(row)] for row in draws.labels])
    parts = [np.bincount(p, minlength=len(index)) / len(p) for p in np.array_split(visited, 20)]
    share, error = np.mean(parts, axis=0), np.std(parts, axis=0, ddof=1) / np.sqrt(20)
    exact = partition_posterior(problem.model, problem.atoms)
    return 0.5 * float(np.abs(share - exact).sum()), 0.4 * float(error.sum())


def test_trees_and_partition_agree() -> None:
    rng = np.random.default_rng(4)
    model = Model(Gaussian([0.0, 0.0], 0.3, 5.0, np.eye(2)), DirichletProcess(1.0))
    X = np.concatenate([rng.normal(size=(12, 2)), rng.normal(size=(12, 2)) + 5])
    problem = Problem(model, model.atoms(X), resample_hyperparameters=False)
    labels = np.repeat([0, 1], 12)
    state = tgmcmc_paper.init(problem, labels, np.array([1.0, np.nan]), rng)
    for _ in range(15):
        state = tgmcmc_paper.step(problem, state, rng)
        members: dict[int, set[int]] = {leaf: {leaf} for leaf in range(24)}
        for k, (a, b) in enumerate(zip(state.left, state.right)):
            if a >= 0:
                members[24 + k] = members[int(a)] | members[int(b)]
        for label in range(state.labels.max() + 1):
            assert members[int(state.roots[label])] == set(np.flatnonzero(state.labels == label))


@pytest.mark.slow
@pytest.mark.parametrize("n", [4, 5, 6])
def test_biased_as_maths_says(n: int) -> None:
    variation, by_chance = total_variation(n, 20_000)
    assert variation > 3.0 * by_chance
    assert 0.005 < variation < 0.4
