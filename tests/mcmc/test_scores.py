"""What joining, leaving and moving is worth, by every family's fast form, against log marginals of the statistics."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.families import DiagonalGaussian, Family, Gaussian, Multinomial
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.core.verbs import log_marginal, log_marginal_pair
from dtree.mcmc.problem import Problem
from dtree.mcmc.scores import (
    block_gains,
    join_gains,
    leave_gain,
    log_likelihood,
    put_atom,
    refresh_slots,
    shift_atom,
)

N, WORDS = 30, 120


def documents() -> np.ndarray:
    """Few words each, some of them often: products that are long, that must be cut, and counts that are looked up."""
    rng = np.random.default_rng(4)
    X = rng.poisson(0.7, size=(N, WORDS)) * rng.integers(1, 4, size=(N, WORDS))
    X[::3, 5] = 400
    X[1] = 0
    return X


def points() -> np.ndarray:
    return np.random.default_rng(5).normal(size=(N, 2))


CASES = {
    "words": (Multinomial(np.full(WORDS, 0.1)), documents()),
    "rare words": (Multinomial(np.geomspace(1e-12, 10.0, WORDS), coefficient=True), documents()),
    "next to impossible words": (Multinomial(np.full(WORDS, 1e-290)), documents()),
    "full Gaussian": (Gaussian([0.0, 0.0], 0.3, 5.0, np.eye(2)), points()),
    "diagonal Gaussian": (DiagonalGaussian([0.0, 0.0], 0.3, 2.0, [1.0, 1.0]), points()),
}


@pytest.mark.parametrize("coarsening", [1.0, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_gains_are_differences_of_log_marginals(name: str, coarsening: float) -> None:
    family, X = CASES[name]
    problem, work, labels = loaded(family, X, coarsening)
    compiled, clusters, atoms = problem.family, work.clusters, problem.atoms
    k = int(clusters.open[0])
    stats = np.array([atoms[labels == c].sum(axis=0) for c in range(k)])
    worth = np.array([log_marginal(compiled, row) for row in stats])
    assert clusters.log_marginal[:k] == pytest.approx(worth, rel=1e-11)
    out = np.full(k, np.nan)
    for i in (0, 1, 7, 15):
        joined = np.array([log_marginal(compiled, row + atoms[i]) for row in stats])
        join_gains(work.cache, compiled, clusters, atoms, i, 0, k, np.inf, out)
        assert out == pytest.approx(joined - worth, rel=1e-9, abs=1e-7)
        join_gains(work.cache, compiled, clusters, atoms, i, 2, 3, np.inf, out)
        assert out[2] == pytest.approx(joined[2] - worth[2], rel=1e-9, abs=1e-7)
        own = labels[i]
        left = worth[own] - log_marginal(compiled, stats[own] - atoms[i])
        found = leave_gain(work.cache, compiled, clusters, atoms, i, own)
        assert found == pytest.approx(left, rel=1e-9, abs=1e-7)
        pair = log_marginal_pair(compiled, stats[2], worth[2], atoms[i], np.empty(stats.shape[1]))
        assert pair == pytest.approx(joined[2], rel=1e-11)
    block = atoms[:9].sum(axis=0)
    block_gains(work.cache, compiled, clusters, block, k, out)
    expected = [log_marginal(compiled, row + block) for row in stats] - worth
    assert out == pytest.approx(expected, rel=1e-9, abs=1e-7)


@pytest.mark.parametrize("coarsening", [1.0, 0.5])
@pytest.mark.parametrize("name", CASES)
def test_atoms_put_and_taken_away_leave_true_marginals(name: str, coarsening: float) -> None:
    family, X = CASES[name]
    problem, work, labels = loaded(family, X, coarsening)
    clusters, atoms = work.clusters, problem.atoms
    rng = np.random.default_rng(6)
    for i in rng.permutation(N)[:20]:
        members = np.flatnonzero(labels == labels[i])
        if members.shape[0] == 1:
            continue
        target = (labels[i] + 1) % int(clusters.open[0])
        put_atom(work.cache, problem.family, clusters, atoms, i, labels[i], -1.0)
        put_atom(work.cache, problem.family, clusters, atoms, i, target, 1.0)
        labels[i] = target
    k = int(clusters.open[0])
    stats = np.array([atoms[labels == c].sum(axis=0) for c in range(k)])
    np.testing.assert_allclose(clusters.columns[:, :k].T, stats, rtol=1e-12, atol=1e-12)
    kept = clusters.log_marginal[:k].copy()
    refresh_slots(work.cache, problem.family, clusters, 0, k)
    assert kept == pytest.approx(clusters.log_marginal[:k], rel=1e-10)
    shift_atom(work.cache, clusters, atoms, 0, labels[0], 1.0)
    np.testing.assert_allclose(clusters.columns[:, labels[0]], stats[labels[0]] + atoms[0], rtol=1e-12, atol=1e-12)


def test_log_likelihood_is_linear_in_the_statistics() -> None:
    for family, X in CASES.values():
        problem, work, _ = loaded(family, X, 1.0)
        natural = np.random.default_rng(7).normal(size=problem.atoms.shape[1])
        for i in (0, 1, 8):
            found = log_likelihood(work.cache, problem.atoms, i, natural)
            assert found == pytest.approx(problem.atoms[i] @ natural, rel=1e-11)


def loaded(family: Family, X: np.ndarray, coarsening: float):
    model = Model(family, DirichletProcess(1.0), coarsening)
    problem = Problem(model, model.atoms(X))
    labels = np.arange(N) % 4
    labels[-1] = 4
    return problem, problem.load(labels, model.prior), labels.copy()
