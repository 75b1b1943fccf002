"""Two families that define only what the contract requires run through all six variational mixtures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import betaln, digamma, gammaln
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.core.families import Family, Gaussian
from dtree.core.jit import kernel
from dtree.core.verbs import implements, log_marginal
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.steps import Rule, make_block
from dtree.variational.variants import VARIANTS
from tests.naive import variational as naive


class CompiledGeometric(NamedTuple):
    a: float
    b: float


@implements(log_marginal, CompiledGeometric)
@kernel
def _log_marginal_geometric(family, statistics):
    a, b = family.a + statistics[0], family.b + statistics[1]
    front = math.lgamma(family.a + family.b) - math.lgamma(family.a) - math.lgamma(family.b)
    return front + math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@dataclass(frozen=True, eq=False, repr=False)
class Geometric(Family):
    """Failures before a success: p(x) = p (1 - p)**x, p ~ Beta(a, b)."""

    a: float
    b: float

    def statistics(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        return np.hstack([np.ones((len(X), 1)), X])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledGeometric:
        return CompiledGeometric(self.a, self.b)


class CompiledExponential(NamedTuple):
    shape: np.ndarray
    rate: np.ndarray


@implements(log_marginal, CompiledExponential)
@kernel
def _log_marginal_exponential(family, statistics):
    total = 0.0
    for j in range(family.shape.shape[0]):
        shape, rate = family.shape[j] + statistics[0], family.rate[j] + statistics[1 + j]
        total += family.shape[j] * math.log(family.rate[j]) - math.lgamma(family.shape[j])
        total += math.lgamma(shape) - shape * math.log(rate)
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(Family):
    """Waiting times, columns independent: x_j ~ Exponential(l_j), l_j ~ Gamma(shape_j, rate_j)."""

    shape: np.ndarray
    rate: np.ndarray

    def statistics(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        return np.hstack([np.ones((len(X), 1)), X])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledExponential:
        return CompiledExponential(self.shape, self.rate)


class NaiveGeometric:
    def __init__(self, X):
        self.X = X

    def log_marginal(self, w):
        return betaln(0.8 + w.sum(), 1.3 + w @ self.X[:, 0]) - betaln(0.8, 1.3)


class NaiveExponential:
    def __init__(self, X):
        self.X = X

    def log_marginal(self, w):
        shape, rate = np.array([0.7, 1.5]), np.array([0.3, 2.0])
        after = gammaln(shape + w.sum()) - (shape + w.sum()) * np.log(rate + w @ self.X)
        return float((shape * np.log(rate) - gammaln(shape) + after).sum())


def case(name, rows, seed=0):
    """Rows (n, d) of two groups, the family, its naive twin, and the groups (n,)."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 2
    if name == "geometric":
        X = (rng.geometric(np.where(y == 0, 0.9, 0.004))[:, None] - 1).astype(float)
        return X, Geometric(0.8, 1.3), NaiveGeometric(X), y
    X = rng.exponential(np.where(y == 0, 0.01, 60.0)[:, None], size=(rows, 2))
    return X, Exponential(np.array([0.7, 1.5]), np.array([0.3, 2.0])), NaiveExponential(X), y


NAMES = ["geometric", "exponential"]


def test_what_is_not_written_follows_from_the_constructor():
    geometric, exponential = Geometric(0.8, 1.3), Exponential(np.ones(2), np.array([1.0, 2.0]))
    assert (geometric.name, geometric.n_features, geometric.parameters()) == ("Geometric", 1, {"a": 0.8, "b": 1.3})
    assert exponential.n_features == 2
    assert list(exponential.parameters()) == ["shape", "rate"]
    assert repr(geometric) == "Geometric(a=0.8, b=1.3)"
    assert geometric.free_parameters().shape == (0,)
    with pytest.raises(ValueError, match="Geometric has no defaults: give its hyperparameters"):
        Geometric.defaults(None)

    class Forgetful(Gaussian):
        def __init__(self, width):
            super().__init__([0.0], 1.0, 3.0, [[width]])

    with pytest.raises(TypeError, match="Forgetful keeps no attribute 'width'"):
        Forgetful(2.0).parameters()


def test_expected_log_densities_are_the_textbook_ones():
    X, family, _, _ = case("geometric", 40)
    statistics = np.array([[0.0, 0.0], [3.25, 40.5], [1e-30, 1e-28]])
    a, b = 0.8 + statistics[:, 0], 1.3 + statistics[:, 1]
    expected = digamma(a) - digamma(a + b) + X * (digamma(b) - digamma(a + b))
    assert family.statistics(X) @ family.expected_log_density(statistics).T == pytest.approx(expected, rel=1e-10)
    X, family, _, _ = case("exponential", 40)
    statistics = np.array([[0.0, 0.0, 0.0], [3.25, 40.5, 0.01]])
    shape, rate = family.shape + statistics[:, :1], family.rate + statistics[:, 1:]
    expected = (digamma(shape) - np.log(rate)).sum(axis=1) - X @ (shape / rate).T
    assert family.statistics(X) @ family.expected_log_density(statistics).T == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_bounds_rise_and_lie_below_the_exact_evidence(name, variant):
    X, family, twin, _ = case(name, 6)
    which = VARIANTS[variant]
    rule = Rule(family, which, 0.7)
    evidence = naive.log_evidence(twin, which.sticks, 0.7, 3)
    for seed in range(3):
        start = np.random.default_rng(seed).dirichlet(np.ones(3), size=6)
        rows = InMemory(make_block(family, X), start, "exact", "sequential")
        fit = ascend(rows, rows.sums(rule), rule, 100, tol=1e-12)
        assert fit.is_bound
        assert len(fit.trace) > 2
        assert np.diff(fit.trace).min() > -1e-9
        assert evidence - 8.0 < fit.elbo < evidence + 1e-9


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_estimator_finds_the_groups(name, variant):
    X, family, _, y = case(name, 120)
    model = dtree.DPMixtureVB(variant, family, truncation=6, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.8
    assert np.array_equal(model.predict(X), model.labels_)
    if not VARIANTS[variant].collapsed:
        assert np.diff(model.elbo_trace_).min() > -1e-7
    if name == "geometric":
        assert np.exp(model.score_samples(np.arange(20_000.0)[:, None])).sum() == pytest.approx(1.0, abs=0.01)
    with pytest.raises(ValueError, match="names no parameters"):
        model.component_frame()


@pytest.mark.parametrize("name", NAMES)
def test_the_profile_is_the_mean_of_the_features(name):
    X, family, _, y = case(name, 40)
    profile = family.profile(family.statistics(X))
    groups = profile.of(y, 2).in_data_units()
    assert groups == pytest.approx(np.stack([X[y == 0].mean(axis=0), X[y == 1].mean(axis=0)]))
    assert profile.kind == "standard"
