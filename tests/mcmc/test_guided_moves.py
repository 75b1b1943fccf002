"""The guided kernels against the golden division probabilities and exact transition matrices."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from dtree.core.families import DiagonalGaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.mcmc.allocate import allocate, division_of
from dtree.mcmc.clusters import canonical
from dtree.mcmc.guide import Guide, make_guide
from dtree.mcmc.problem import Problem
from dtree.mcmc.tgmcmc import guided_split_merge, score_subtree, subtree_gibbs, turns
from tests.naive.mcmc import NaiveGuide, divisions, log_phi_function, partition_posterior
from tests.naive.partitions import all_partitions, clusters_of

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "guided_moves.json").read_text())


def golden_problem() -> Problem:
    p = GOLDEN["params"]
    family = DiagonalGaussian(p["m"], p["k"], p["a"], p["b"])
    model = Model(family, DirichletProcess(GOLDEN["alpha"]))
    return Problem(model, model.atoms(np.array(GOLDEN["X"])), resample_hyperparameters=False)


def uniform_guide(merges: list[list[int]]) -> Guide:
    columns = np.array(merges)
    return make_guide(columns[:, 0].copy(), columns[:, 1].copy(), np.ones(2 * len(merges) + 1))


def replayed_log_q(problem: Problem, guide: Guide, labels: np.ndarray, g: int, i: int, j: int) -> float:
    """log q of the division of labels[i] and labels[j]'s union into these two clusters."""
    work = problem.load(canonical(labels), problem.model.prior)
    a, b = work.labels[i], work.labels[j]
    division = division_of(guide, work.labels, a, b, work.members)
    log_q = allocate(work.model, work.atoms, work.row, guide, division, g, i, j, np.random.default_rng(0))
    assert division.forced
    assert np.array_equal(division.side, work.labels[division.members] == b)
    return log_q


def test_division_probabilities() -> None:
    problem, guide = golden_problem(), uniform_guide(GOLDEN["guide_merges"])
    for case in GOLDEN["split_proposals"]:
        assert case["cluster"] == [0, 1, 2, 3]
        total = 0.0
        for split in case["splits"]:
            labels = np.array([0 if k in split["side_i"] else 1 for k in range(4)])
            log_q = replayed_log_q(problem, guide, labels, case["node"], case["i"], case["j"])
            assert log_q == pytest.approx(split["log_q"], abs=1e-8)
            total += math.exp(log_q)
        assert total == pytest.approx(1.0, abs=1e-10)


def split_merge_matrix(problem: Problem, guide: Guide, merges: list[list[int]]) -> np.ndarray:
    """Exact transition matrix of the guided split-merge move, nodes uniform, q from the kernel's replay."""
    m = problem.m
    partitions = [p.copy() for p in all_partitions(m)]
    index = {tuple(p): k for k, p in enumerate(partitions)}
    log_phi = log_phi_function(problem.model, problem.atoms)
    tree = NaiveGuide(np.array(merges))
    matrix = np.zeros((len(partitions), len(partitions)))
    inner = range(m, 2 * m - 1)
    for row, labels in enumerate(partitions):
        for g in inner:
            left, right = tree.leaves(tree.children[g][0]), tree.leaves(tree.children[g][1])
            for i in left:
                for j in right:
                    chance = 1.0 / (len(inner) * len(left) * len(right))
                    ci = frozenset(np.flatnonzero(labels == labels[i]))
                    cj = frozenset(np.flatnonzero(labels == labels[j]))
                    if labels[i] != labels[j]:
                        log_q = replayed_log_q(problem, guide, labels, g, i, j)
                        accept = min(1.0, math.exp(log_phi(ci | cj) + log_q - log_phi(ci) - log_phi(cj)))
                        merged = np.where(labels == labels[j], labels[i], labels)
                        matrix[row, index[tuple(canonical(merged))]] += chance * accept
                        matrix[row, row] += chance * (1.0 - accept)
                        continue
                    others = sorted(ci - {i, j})
                    for bits in range(2 ** len(others)):
                        side = frozenset([j, *(x for b, x in enumerate(others) if bits >> b & 1)])
                        divided = labels.copy()
                        divided[sorted(side)] = labels.max() + 1
                        log_q = replayed_log_q(problem, guide, divided, g, i, j)
                        accept = min(1.0, math.exp(log_phi(ci - side) + log_phi(side) - log_phi(ci) - log_q))
                        q = math.exp(log_q)
                        matrix[row, index[tuple(canonical(divided))]] += chance * q * accept
                        matrix[row, row] += chance * q * (1.0 - accept)
    return matrix


def subtree_gibbs_matrix(problem: Problem, guide: Guide) -> np.ndarray:
    """Exact transition matrix of subtree Gibbs, nodes uniform, weights from the kernel."""
    m = problem.m
    partitions = [p.copy() for p in all_partitions(m)]
    index = {tuple(p): k for k, p in enumerate(partitions)}
    matrix = np.zeros((len(partitions), len(partitions)))
    for row, labels in enumerate(partitions):
        for g in range(2 * m - 1):
            leaves = guide.order[guide.start[g] : guide.stop[g]]
            for i in leaves:
                work = problem.load(labels, problem.model.prior)
                k = int(work.clusters.open[0])
                size = score_subtree(work, guide, g, i)
                block = work.members[:size].copy()
                p = np.exp(work.clusters.scores[: k + 1] - work.clusters.scores[: k + 1].max())
                for slot, share in enumerate(p / p.sum()):
                    if share > 0:
                        moved = labels.copy()
                        moved[block] = slot
                        matrix[row, index[tuple(canonical(moved))]] += share / ((2 * m - 1) * len(leaves))
    return matrix


def test_split_merge_transition_matrix() -> None:
    problem = golden_problem()
    matrix = split_merge_matrix(problem, uniform_guide(GOLDEN["guide_merges"]), GOLDEN["guide_merges"])
    golden = np.array(GOLDEN["transition_split_merge_uniform_inner_nodes"])
    np.testing.assert_allclose(matrix, golden, atol=1e-8)
    posterior = np.array(GOLDEN["posterior"])
    np.testing.assert_allclose(posterior @ matrix, posterior, atol=1e-10)


def test_subtree_gibbs_transition_matrix() -> None:
    problem = golden_problem()
    matrix = subtree_gibbs_matrix(problem, uniform_guide(GOLDEN["guide_merges"]))
    np.testing.assert_allclose(matrix, np.array(GOLDEN["transition_subtree_gibbs_uniform_nodes"]), atol=1e-8)


def test_enumerated_posterior_is_the_golden_one() -> None:
    problem = golden_problem()
    np.testing.assert_allclose(partition_posterior(problem.model, problem.atoms), GOLDEN["posterior"], atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_divisions_equal_the_recursive_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = 6
    family = DiagonalGaussian([0.0, 0.0], 0.2, 2.0, [1.0, 1.0])
    model = Model(family, DirichletProcess(0.7))
    problem = Problem(model, model.atoms(rng.normal(size=(m, 2)) * 2))
    merges, roots = [], list(range(m))
    for k in range(m - 1):
        a, b = sorted(rng.choice(roots, 2, replace=False).tolist())
        merges.append([a, b])
        roots = [*(r for r in roots if r not in (a, b)), m + k]
    guide, tree = uniform_guide(merges), NaiveGuide(np.array(merges))
    log_phi = log_phi_function(model, problem.atoms)
    g = 2 * m - 2 - seed % 3
    i, j = min(tree.leaves(tree.children[g][0])), max(tree.leaves(tree.children[g][1]))
    cluster = frozenset([i, j, *rng.choice(m, 3).tolist()])
    for (side_i, side_j), q in divisions(tree, cluster, g, i, j, log_phi).items():
        labels = np.full(m, 2)
        labels[sorted(side_i)], labels[sorted(side_j)] = 0, 1
        assert math.exp(replayed_log_q(problem, guide, labels, g, i, j)) == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("move", [guided_split_merge, subtree_gibbs])
def test_drawn_moves_follow_the_exact_matrix(move) -> None:
    """The kernels that draw must do what the replayed probabilities say: rows of the matrix by frequency."""
    problem, guide = golden_problem(), uniform_guide(GOLDEN["guide_merges"])
    golden = {
        guided_split_merge: "transition_split_merge_uniform_inner_nodes",
        subtree_gibbs: "transition_subtree_gibbs_uniform_nodes",
    }
    matrix = np.array(GOLDEN[golden[move]])
    partitions = [p.copy() for p in all_partitions(4)]
    index = {tuple(p): k for k, p in enumerate(partitions)}
    rng = np.random.default_rng(5)
    draws = 3000
    for row in (0, 4, 9, 14):
        counts = np.zeros(15)
        for _ in range(draws):
            work = problem.load(partitions[row], problem.model.prior)
            move(work, guide, rng)
            labels = canonical(work.labels)
            counts[index[tuple(labels)]] += 1
            assert int(work.clusters.open[0]) == labels.max() + 1
        error = np.sqrt(matrix[row] * (1 - matrix[row]) / draws)
        assert np.all(np.abs(counts / draws - matrix[row]) < 5 * error + 1e-9)


def test_moves_keep_statistics_and_labels_together() -> None:
    rng = np.random.default_rng(3)
    family = DiagonalGaussian([0.0, 0.0], 0.2, 2.0, [1.0, 1.0])
    model = Model(family, DirichletProcess(2.0))
    problem = Problem(model, model.atoms(rng.normal(size=(25, 2)) * 3))
    merges = [[0, 1], *([k + 1, 24 + k] for k in range(1, 24))]
    guide = uniform_guide(merges)
    work = problem.load(canonical(rng.integers(0, 6, 25)), model.prior)
    work = problem.grown(work)
    for step in range(400):
        (guided_split_merge if step % 2 else subtree_gibbs)(work, guide, rng)
        k = int(work.clusters.open[0])
        for slot, members in enumerate([np.flatnonzero(work.labels == s) for s in range(k)]):
            assert work.clusters.n_atoms[slot] == len(members) > 0
            np.testing.assert_allclose(
                work.clusters.columns[:, slot], problem.atoms[members].sum(axis=0), rtol=1e-9, atol=1e-9
            )
        assert len(clusters_of(work.labels)) == k
        if k + 3 > work.clusters.columns.shape[1]:
            work = problem.grown(work)


def test_turns_come_as_often_as_weights_say_and_evenly() -> None:
    weights = np.array([1.0, 5.0, 0.5, 3.5])
    taken = np.concatenate([turns(np.cumsum(weights), 7, sweep) for sweep in range(1000)])
    share = np.bincount(taken, minlength=4) / taken.shape[0]
    np.testing.assert_allclose(share, weights / weights.sum(), atol=2e-3)
    for atom, weight in enumerate(weights):
        assert np.diff(np.flatnonzero(taken == atom)).max() < 4.0 * weights.sum() / weight
    later = np.concatenate([turns(np.cumsum(weights), 7, sweep) for sweep in range(10**7, 10**7 + 1000)])
    np.testing.assert_allclose(np.bincount(later, minlength=4) / later.shape[0], share, atol=2e-3)
