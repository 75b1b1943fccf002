"""The density of a mixture by lanes of rows is that of the naive sum over clusters."""

import numpy as np
import pytest
from scipy.special import logsumexp

from dtree.core.families import Bent, Bernoulli, DiagonalGaussian, Gaussian
from dtree.core.lanes import LANES, exp_of_lanes, log_of_lanes
from dtree.core.mixture_density import log_mixture_of

D = 5
FAMILIES = {
    "full": Gaussian(np.zeros(D), 0.1, D + 3.0, np.eye(D)),
    "full, recorded to a step": Gaussian(np.zeros(D), 0.1, D + 3.0, np.eye(D), step=np.full(D, 0.1)),
    "diagonal": DiagonalGaussian(np.zeros(D), 0.1, 2.0, np.ones(D)),
    "diagonal, shapes that differ": DiagonalGaussian(np.zeros(D), 0.1, np.linspace(1.0, 3.0, D), np.ones(D)),
    "bent": Bent(
        Gaussian(np.zeros(D), 0.1, D + 3.0, np.eye(D)), np.zeros(D), np.full(D, 3.0), np.linspace(0.1, 1.9, D)
    ),
    "bent, diagonal": Bent(DiagonalGaussian(np.zeros(D), 0.1, 2.0, np.ones(D)), 0.0, 3.0, np.linspace(0.1, 1.9, D)),
}


def _mixture(family, k=7):
    """Rows near k clusters, their statistics and one cluster without rows, and log weights."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, k, size=3 * LANES + 11)
    X = 10.0 * rng.normal(size=(k, D))[y] + rng.normal(size=(y.shape[0], D))
    statistics = np.stack([family.statistics(X[y == c]).sum(axis=0) for c in range(k)])
    statistics[0] *= 1e6  # a cluster of millions of rows: a large exponent, tiny distances
    return X, np.vstack([statistics, 0.0 * statistics[:1]]), np.log(np.append(np.full(k, 0.99 / k), 0.01))


def _naive(family, X, statistics, log_weights):
    return logsumexp(family.log_predictive_of(X, statistics) + log_weights, axis=1)


@pytest.mark.parametrize("name", FAMILIES)
def test_density_is_that_of_the_naive_sum(name):
    family = FAMILIES[name]
    X, *mixture = _mixture(family)
    assert log_mixture_of(family, X, *mixture) == pytest.approx(_naive(family, X, *mixture), rel=0, abs=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_do_not_depend_on_those_beside_them(name):
    family = FAMILIES[name]
    X, *mixture = _mixture(family)
    together = log_mixture_of(family, X, *mixture)
    assert [log_mixture_of(family, X[i : i + 1], *mixture)[0] for i in (0, LANES, len(X) - 1)] == [
        together[0], together[LANES], together[-1],
    ]  # fmt: skip


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.filterwarnings("ignore:overflow")
def test_rows_that_lack_values_and_rows_far_away(name):
    family = FAMILIES[name]
    X, *mixture = _mixture(family)
    X[3, 1] = np.nan
    assert log_mixture_of(family, X, *mixture) == pytest.approx(_naive(family, X, *mixture), rel=0, abs=1e-10)
    X[3, 1], X[5], X[6], X[7, 0] = 0.0, 1e9, 1e80, -1e140
    assert log_mixture_of(family, X, *mixture) == pytest.approx(_naive(family, X, *mixture), rel=1e-13)


def test_other_families_are_asked_themselves():
    family = Bernoulli(np.ones(3), np.ones(3))
    X = np.random.default_rng(0).integers(0, 2, size=(20, 3)).astype(float)
    mixture = family.statistics(X[:4]), np.log(np.full(4, 0.25))
    assert np.array_equal(log_mixture_of(family, X, *mixture), _naive(family, X, *mixture))


def test_exponential_and_logarithm_of_lanes():
    rng, bits, out = np.random.default_rng(1), np.empty((2, LANES), dtype=np.int64), np.empty(LANES)
    x = -rng.exponential(30.0, size=LANES)
    x[:4] = 0.0, -1e-300, -700.0, -5000.0
    exp_of_lanes(x, bits, out)
    assert out == pytest.approx(np.exp(np.maximum(x, -700.0)), rel=5e-16)
    log_of_lanes(-x[1:2] + np.exp(x), bits, out)
    assert out == pytest.approx(np.log(-x[1] + np.exp(x)), rel=5e-16)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_most_probable_cluster_or_none_where_rounding_would_decide(name):
    family = FAMILIES[name]
    X, statistics, log_weights = _mixture(family)
    statistics[2], log_weights[2] = statistics[1], log_weights[1]  # the same cluster twice
    best = np.empty(X.shape[0], dtype=np.int64)
    log_mixture_of(family, X, statistics, log_weights, best=best)
    expected = (family.log_predictive_of(X, statistics[:-1]) + log_weights[:-1]).argmax(axis=1)
    twice = np.isin(expected, [1, 2])
    assert 0 < twice.sum() < 0.5 * X.shape[0]
    assert np.array_equal(best, np.where(twice, -1, expected))
    X[3, 1] = np.nan  # no shortcut
    log_mixture_of(family, X, statistics, log_weights, best=best)
    assert np.all(best == -1)


@pytest.mark.filterwarnings("ignore:overflow")
def test_no_cluster_is_told_for_a_row_that_is_too_far_away():
    X, *mixture = _mixture(FAMILIES["full"])
    X[5], best = 1e200, np.empty(X.shape[0], dtype=np.int64)
    log_mixture_of(FAMILIES["full"], X, *mixture, best=best)
    assert np.flatnonzero(best < 0).tolist() == [5]
