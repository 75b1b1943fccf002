"""Births and deaths of subtrees: the exact transition matrix by enumeration, and that the kernel draws from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dtree.core.families import DiagonalGaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.mcmc.births import _birth, _death, birth_odds, births_and_deaths, node_clusters
from dtree.mcmc.clusters import canonical
from dtree.mcmc.guide import Guide, make_guide
from dtree.mcmc.problem import Problem
from tests.naive.mcmc import NaiveGuide, log_phi_function, partition_posterior
from tests.naive.partitions import all_partitions, clusters_of

MERGES = [[0, 1], [2, 3], [4, 5], [6, 7]]  # ((0 1) 4) with (2 3), five leaves
N = 5


def problem() -> Problem:
    rng = np.random.default_rng(0)
    model = Model(DiagonalGaussian([0.0, 0.0], 0.2, 2.0, [1.0, 1.0]), GeneralizedGamma(1.2, 0.3, 0.7))
    weight = np.array([1, 1, 2, 1, 1])
    return Problem(model, model.atoms(rng.normal(size=(N, 2)) * 1.5, weight), resample_hyperparameters=False)


def guide() -> Guide:
    columns = np.array(MERGES)
    return make_guide(columns[:, 0].copy(), columns[:, 1].copy(), np.ones(2 * N - 1))


def naive_matrix(problem: Problem, weight: np.ndarray) -> np.ndarray:
    """Every birth and every death of every partition, straight from the definition."""
    tree, log_phi = NaiveGuide(np.array(MERGES)), log_phi_function(problem.model, problem.atoms)
    leaves = [tree.leaves(g) for g in range(2 * N - 1)]
    v = weight / weight.sum()
    partitions = [frozenset(frozenset(c) for c in clusters_of(p)) for p in all_partitions(N)]
    index = {p: k for k, p in enumerate(partitions)}

    def join_weights(partition, B):
        return {c: math.exp(log_phi(c | B) - log_phi(c)) for c in partition if c != B}

    matrix = np.zeros((len(partitions), len(partitions)))
    for row, partition in enumerate(partitions):
        for g, B in enumerate(leaves):  # births
            for c in partition:
                if c > B:
                    after = (partition - {c}) | {c - B, B}
                    z = sum(join_weights(after, B).values())
                    mortal = sum(cluster in leaves for cluster in after)
                    accept = min(1.0, math.exp(log_phi(B)) / (z * mortal * v[g]))
                    matrix[row, index[after]] += 0.5 * v[g] * accept
        dying = [c for c in partition if c in leaves]
        for B in dying:
            joins = join_weights(partition, B)
            z = sum(joins.values())
            accept = min(1.0, z * len(dying) * v[leaves.index(B)] / math.exp(log_phi(B)))
            for c, join in joins.items():
                after = (partition - {c, B}) | {c | B}
                matrix[row, index[after]] += 0.5 / len(dying) * accept * join / z
        matrix[row, row] += 1.0 - matrix[row].sum()
    return matrix


def weights(problem: Problem) -> np.ndarray:
    work = problem.load(np.array([0, 0, 1, 1, 0]), problem.model.prior)
    odds = np.empty(2 * N - 1)
    birth_odds(work, guide(), odds)
    assert np.all(odds > 0)
    return odds


def test_the_definition_leaves_the_posterior_invariant() -> None:
    found = problem()
    matrix = naive_matrix(found, weights(found))
    posterior = partition_posterior(found.model, found.atoms)
    flow = posterior[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, atol=1e-14)


def test_the_kernel_draws_from_it() -> None:
    found, weight = problem(), weights(problem())
    matrix = naive_matrix(found, weight)
    partitions = [p.copy() for p in all_partitions(N)]
    index = {tuple(p): k for k, p in enumerate(partitions)}
    rng, draws, cumulative = np.random.default_rng(3), 3000, np.cumsum(weight)
    for row in range(0, len(partitions), 6):
        counts = np.zeros(len(partitions))
        for _ in range(draws):
            work = found.load(partitions[row], found.model.prior)
            assert births_and_deaths(work, guide(), cumulative, 1, 0, rng) == 1
            counts[index[tuple(canonical(work.labels))]] += 1
        error = np.sqrt(matrix[row] * (1 - matrix[row]) / draws)
        assert np.all(np.abs(counts / draws - matrix[row]) < 5 * error + 1e-9)


def test_clusters_that_are_nodes() -> None:
    tree = NaiveGuide(np.array(MERGES))
    leaves = [tree.leaves(g) for g in range(2 * N - 1)]
    low, node = np.empty(N, np.int64), np.empty(N, np.int64)
    for labels in all_partitions(N):
        k = int(labels.max()) + 1
        count = node_clusters(guide(), labels, np.bincount(labels), k, low, node)
        expected = [leaves.index(frozenset(c)) if frozenset(c) in leaves else -1 for c in clusters_of(labels)]
        assert node[:k].tolist() == expected
        assert count == sum(g >= 0 for g in expected)


@pytest.mark.parametrize("seed", range(3))
def test_statistics_and_labels_stay_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = Model(DiagonalGaussian([0.0, 0.0], 0.2, 2.0, [1.0, 1.0]), DirichletProcess(3.0))
    found = Problem(model, model.atoms(rng.normal(size=(25, 2)) * 3))
    merges = np.array([[0, 1], *([k + 1, 24 + k] for k in range(1, 24))])
    long = make_guide(merges[:, 0].copy(), merges[:, 1].copy(), np.ones(49))
    work = found.grown(found.load(canonical(rng.integers(0, 4, 25)), model.prior))
    cumulative = np.cumsum(np.ones(49))
    for _ in range(200):
        work = found.repeat(work, births_and_deaths, 5, long, cumulative, 5, rng)
        k = int(work.clusters.open[0])
        for slot in range(k):
            members = np.flatnonzero(work.labels == slot)
            assert work.clusters.n_atoms[slot] == len(members) > 0
            np.testing.assert_allclose(
                work.clusters.columns[:, slot], found.atoms[members].sum(axis=0), rtol=1e-9, atol=1e-9
            )
        assert work.labels.max() == k - 1


def test_what_can_die_is_known_after_every_move() -> None:
    """It is kept up to date move by move; here it is found anew from the labels."""
    rng = np.random.default_rng(0)
    model = Model(DiagonalGaussian([0.0, 0.0], 0.2, 2.0, [1.0, 1.0]), DirichletProcess(3.0))
    found = Problem(model, model.atoms(rng.normal(size=(25, 2)) * 3))
    merges = np.array([[2 * k, 2 * k + 1] for k in range(24)])
    bushy, cumulative = make_guide(merges[:, 0].copy(), merges[:, 1].copy(), np.ones(49)), np.cumsum(np.ones(49))
    work = found.grown(found.load(canonical(np.arange(25) // 8), model.prior))
    low, node, again, other = np.zeros((4, work.clusters.n_atoms.shape[0]), dtype=np.int64)

    def from_labels(low, node):
        k = int(work.clusters.open[0])
        return node_clusters(bushy, work.labels, work.clusters.n_atoms, k, low, node), low[:k].copy(), node[:k].copy()

    mortal = from_labels(low, node)[0]
    changes = [0, 0]
    for step in range(600):
        k = int(work.clusters.open[0])
        if k + 3 > work.clusters.columns.shape[1]:
            break
        mortal = (_death if step % 2 else _birth)(work, bushy, cumulative, low, node, mortal, rng)
        changes[step % 2] += int(work.clusters.open[0]) != k
        count, first, nodes = from_labels(again, other)
        assert mortal == count
        np.testing.assert_array_equal(low[: nodes.shape[0]], first)
        np.testing.assert_array_equal(node[: nodes.shape[0]], nodes)
    assert min(changes) > 20
