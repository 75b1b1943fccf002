"""Every fast assignment kernel against fresh marginal likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dtree.core.families import Bernoulli, DiagonalGaussian, Gaussian, Multinomial, Poisson
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.kmeans.greedy import sum_by_label
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.scoring.any_family import assign_atoms, atom_tables
from dtree.kmeans.scoring.lanes import LANES, log_of_lanes
from tests.naive.kmeans import frozen_gains


def cases():
    rng = np.random.default_rng(11)
    n, d = 90, 5
    centres = rng.normal(0, 3, size=(4, d))
    labels = rng.integers(0, 4, size=n)
    real = centres[labels] + rng.normal(size=(n, d))
    real[-1] = 40.0
    rates = rng.gamma(1.0, 3.0, size=(4, d))
    counts = rng.poisson(rates[labels])
    counts[3] = 0
    binary = (rng.random((n, d)) < rng.random((4, d))[labels]).astype(np.uint8)
    scale = np.eye(d) + 0.2
    return {
        "gaussian": (Gaussian(np.zeros(d), 0.2, d + 3.0, scale, origin=np.ones(d), unit=np.full(d, 2.0)), real),
        "diagonal": (DiagonalGaussian(np.zeros(d), 0.2, 2.0, np.ones(d)), real),
        "diagonal-shapes": (DiagonalGaussian(np.zeros(d), 0.2, np.arange(1.0, d + 1), np.ones(d)), real),
        "bernoulli": (Bernoulli(np.full(d, 0.3), np.arange(1.0, d + 1)), binary),
        "multinomial": (Multinomial(np.full(d, 0.4)), counts),
        "multinomial-coefficient": (Multinomial(np.full(d, 0.4), True), counts),
        "poisson": (Poisson(np.full(d, 0.7), np.full(d, 0.3)), counts),
        "poisson-rates": (Poisson(np.full(d, 0.7), np.arange(1.0, d + 1)), counts),
    }, labels


CASES, LABELS = cases()


@pytest.mark.parametrize("coarsening", [1.0, 0.5])
@pytest.mark.parametrize("prior", [DirichletProcess(1.3), GeneralizedGamma(1.0, 0.3, 2.0)], ids=["dp", "nggp"])
@pytest.mark.parametrize("name", CASES)
def test_assignment_equals_naive(name, prior, coarsening):
    family, X = CASES[name]
    model = Model(family, prior, coarsening)
    own = LABELS.copy()
    own[5] = 4  # a cluster of one row
    own[7] = -1  # a row without a cluster yet
    atoms = model.atoms(X)
    statistics = sum_by_label(atoms, own, 5)
    gains = frozen_gains(model, atoms, own, statistics)
    scorer = Scorer(model, statistics)
    inputs = [X] + ([sparse.csr_array(X), sparse.csr_matrix(X)] if family.accepts_sparse else [])
    for rows in inputs:
        result = scorer.assign(rows, own)
        chosen = gains[np.arange(len(own)), result.best]
        np.testing.assert_allclose(chosen, gains[:, :5].max(axis=1), atol=1e-9)
        clear = np.abs(gains[:, 5] - gains[:, :5].max(axis=1)) > 1e-9
        assert np.array_equal(result.unexplained[clear], (gains[:, 5] > gains[:, :5].max(axis=1))[clear])
        assert not result.unexplained[5] or result.best[5] != 4  # a lone row is never born again
        np.testing.assert_allclose(scorer.accumulate(rows, own, 5), statistics, rtol=1e-12, atol=1e-10)
    tables = atom_tables(model, statistics)
    best, unexplained = np.empty(len(own), dtype=np.int64), np.empty(len(own), dtype=np.bool_)
    assign_atoms(tables, atoms, own, best, unexplained)
    np.testing.assert_allclose(gains[np.arange(len(own)), best], gains[:, :5].max(axis=1), atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_no_clusters_yet(name):
    family, X = CASES[name]
    model = Model(family, DirichletProcess(1.0))
    result = Scorer(model, np.zeros((0, model.atoms(X[:1]).shape[1]))).assign(X)
    assert np.all(result.best == -1)
    assert np.all(result.unexplained)


def test_rows_do_not_depend_on_their_neighbours():
    family, X = CASES["gaussian"]
    model = Model(family, DirichletProcess(1.0))
    statistics = sum_by_label(model.atoms(X), LABELS, 4)
    scorer = Scorer(model, statistics)
    whole = scorer.assign(X, LABELS).best
    parts = np.concatenate([scorer.assign(X[i : i + 7], LABELS[i : i + 7]).best for i in range(0, len(X), 7)])
    assert np.array_equal(whole, parts)


def test_log_of_lanes():
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, LANES // 2)), 1.0 + rng.uniform(-0.5, 1e-3, LANES // 2)])
    out = np.empty(LANES)
    log_of_lanes(x, np.empty((2, LANES), dtype=np.int64), out)
    np.testing.assert_allclose(out, np.log(x), rtol=4e-16, atol=2e-16)
