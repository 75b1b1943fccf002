"""Growth and loss of small clusters: the exact transition matrix by enumeration, and that the kernel draws from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dtree.mcmc.clusters import canonical
from dtree.mcmc.problem import Problem
from dtree.mcmc.small_clusters import NEAR, blocks_of, grow_or_shrink, restlessness
from tests.mcmc.test_births import N, problem
from tests.naive.mcmc import log_phi_function, partition_posterior
from tests.naive.partitions import all_partitions, clusters_of

BLOCK = np.array([0, 1, 0, 0, 1])


def naive_matrix(found: Problem) -> np.ndarray:
    """Every growth and every loss of every partition, straight from the definition."""
    log_phi = log_phi_function(found.model, found.atoms)
    partitions = [frozenset(frozenset(c) for c in clusters_of(p)) for p in all_partitions(N)]
    index = {p: k for k, p in enumerate(partitions)}

    def joining(c, x):
        return math.exp(log_phi(c | {x}) - log_phi(c))

    def chance(partition, c):
        return 1.0 / len(c) / sum(1.0 / len(other) for other in partition)

    def growth(partition, c, x, source):
        """The state after it, the probability of proposing it, and of proposing its reverse there."""
        rest = source - {x}
        after = (partition - {c, source}) | {c | {x}, rest}
        elsewhere = {other: joining(other, x) for other in after if other != c | {x}}
        back = chance(after, c | {x}) / len(c | {x}) * elsewhere[rest] / sum(elsewhere.values())
        near = np.mean([(BLOCK[y] == BLOCK[x]) / np.count_nonzero(BLOCK[x] == BLOCK) for y in c])
        return after, 0.5 * chance(partition, c) * (NEAR * near + (1 - NEAR) / N), 0.5 * back

    def worth(partition):
        return sum(log_phi(c) for c in partition)

    matrix = np.zeros((len(partitions), len(partitions)))
    for row, partition in enumerate(partitions):
        for c in partition:
            for source in partition - {c}:
                for x in source if len(source) > 1 else ():
                    after, there, back = growth(partition, c, x, source)
                    ratio = math.exp(worth(after) - worth(partition)) * back / there
                    matrix[row, index[after]] += there * min(1.0, ratio)
                    matrix[index[after], row] += back * min(1.0, 1.0 / ratio)
    for row in range(len(partitions)):
        matrix[row, row] += 1.0 - matrix[row].sum()
    return matrix


def test_the_definition_leaves_the_posterior_invariant() -> None:
    found = problem()
    posterior = partition_posterior(found.model, found.atoms)
    matrix = naive_matrix(found)
    assert matrix.min() >= 0.0
    np.testing.assert_allclose(posterior @ matrix, posterior, atol=1e-14)


def test_the_kernel_draws_from_it() -> None:
    found = problem()
    matrix = naive_matrix(found)
    partitions = [p.copy() for p in all_partitions(N)]
    index = {tuple(p): k for k, p in enumerate(partitions)}
    rng, draws = np.random.default_rng(5), 3000
    for row in range(0, len(partitions), 6):
        counts = np.zeros(len(partitions))
        for _ in range(draws):
            work = found.load(partitions[row], found.model.prior)
            grow_or_shrink(work, blocks_of(BLOCK), rng)
            counts[index[tuple(canonical(work.labels))]] += 1
        error = np.sqrt(matrix[row] * (1 - matrix[row]) / draws)
        assert np.all(np.abs(counts / draws - matrix[row]) < 5 * error + 1e-9)


def test_restlessness_is_the_probability_of_leaving() -> None:
    found = problem()
    labels = np.array([0, 0, 1, 2, 1])
    log_phi = log_phi_function(found.model, found.atoms)
    out = np.empty(N)
    restlessness(found.load(labels, found.model.prior), out)
    for i in range(N):
        others = [frozenset(np.flatnonzero((labels == k) & (np.arange(N) != i)).tolist()) for k in range(3)]
        weights = [math.exp(log_phi(c | {i}) - log_phi(c)) if c else 0.0 for c in others]
        new = math.exp(log_phi(frozenset({i})))
        stay = weights[labels[i]] or new
        assert out[i] == pytest.approx(1.0 - stay / (sum(weights) + new), abs=1e-10)
