"""Every fast assignment kernel against fresh marginal likelihoods."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from dtree.core.families import Bernoulli, DiagonalGaussian, Gaussian, Multinomial, Poisson
from dtree.core.lanes import LANES, log_of_lanes
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.kmeans.greedy import sum_by_label
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.scoring.any_family import assign_atoms, atom_tables
from tests.naive.kmeans import frozen_gains, log_marginal_of_rows


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


def tight_far_away_rows(*outlier: float) -> np.ndarray:
    """Rows in float32 that differ by sixteenths, a thousand units from the origin, and one far from them, the last."""
    steps = np.random.default_rng(3).integers(0, 3, size=(21, 2))
    X = np.array([1024.0, -512.0]) + steps / 16.0
    X[-1] += outlier
    return X.astype(np.float32)


def words_of_one_row(times: int) -> np.ndarray:
    """Counts where the last row alone holds the last word."""
    X = np.random.default_rng(3).poisson(3.0, size=(8, 3))
    X[:-1, 2], X[-1, 2] = 0, times
    return X


# The statistics of these rows are exact doubles: whole sixteenths, squared. So what is lost is lost in the scores.
UNITS = {"origin": np.zeros(2), "unit": np.ones(2)}
AWAY = [1024.0, -512.0]
CANCELLING = {
    "gaussian": (Gaussian(AWAY, 0.01, 6.0, 0.01 * np.eye(2), **UNITS), tight_far_away_rows(2.0**22, 0.0)),
    "diagonal": (DiagonalGaussian(AWAY, 0.01, 2.0, [0.01, 0.01], **UNITS), tight_far_away_rows(2.0**22, -(2.0**21))),
    "diagonal-shapes": (DiagonalGaussian(AWAY, 0.01, [2, 3], [0.01, 0.01], **UNITS), tight_far_away_rows(2.0**22, 0.0)),
    "a rare word": (Multinomial([1e-20, 0.5, 1e-20]), words_of_one_row(1)),
    "a rare word twice": (Multinomial([1e-20, 0.5, 1e-20]), words_of_one_row(2)),
}


@pytest.mark.parametrize("name", CANCELLING)
def test_a_row_that_is_nearly_all_of_its_cluster_is_taken_out_exactly(name):
    """The gain of staying is the difference of two marginals of the rows: alpha is set just beside where it decides."""
    family, X = CANCELLING[name]
    n = X.shape[0]
    stay = np.log(n - 1.0) + log_marginal_of_rows(family, X) - log_marginal_of_rows(family, X[:-1])
    alone = log_marginal_of_rows(family, X[-1:])
    own = np.zeros(n, dtype=np.int64)
    for margin in (-1e-3, 1e-3):
        model = Model(family, DirichletProcess(float(np.exp(stay - alone + margin))))
        scorer = Scorer(model, sum_by_label(model.atoms(X), own, 1))
        result = scorer.assign(X, own)
        assert result.best[-1] == 0
        assert result.unexplained[-1] == (margin > 0), "a new cluster must win exactly when it is worth more"


def test_a_row_whose_cluster_is_lost_without_it_does_not_stay():
    """Squares of 1e12 leave nothing of the other rows in their sum; the answer is still a cluster, not an error."""
    for family in (CANCELLING["gaussian"][0], CANCELLING["diagonal"][0]):
        X = tight_far_away_rows(0.0, 0.0).astype(np.float64)
        X[-1] = 3e12, 7e12
        model = Model(family, DirichletProcess(1.0))
        own = np.zeros(X.shape[0], dtype=np.int64)
        result = Scorer(model, sum_by_label(model.atoms(X), own, 1)).assign(X, own)
        assert result.best[-1] == 0
        assert result.unexplained[-1]


def test_marginals_of_the_rows_themselves():
    X = tight_far_away_rows(0.5, 0.0).astype(np.float64)
    for family in (CANCELLING["gaussian"][0], CANCELLING["diagonal"][0]):
        assert log_marginal_of_rows(family, X) == pytest.approx(family.log_marginal(X), rel=1e-6)
    counts = words_of_one_row(2)
    family = Multinomial([0.2, 0.5, 0.1])
    assert log_marginal_of_rows(family, counts) == pytest.approx(family.log_marginal(counts), rel=1e-10)


def test_log_of_lanes():
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, LANES // 2)), 1.0 + rng.uniform(-0.5, 1e-3, LANES // 2)])
    out = np.empty(LANES)
    log_of_lanes(x, np.empty((2, LANES), dtype=np.int64), out)
    np.testing.assert_allclose(out, np.log(x), rtol=4e-16, atol=2e-16)
