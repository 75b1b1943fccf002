"""Probit sites, EP against golden values and brute-force enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from dtree.diffusion import belief, prior, probit
from dtree.diffusion.objective import Hyper
from dtree.diffusion.predictive import branch_mixture
from dtree.diffusion.tree import from_nested
from tests.diffusion.test_belief import GOLDEN, gradient_over_times


@pytest.mark.parametrize("case", GOLDEN["probit_site"])
def test_site(case: dict) -> None:
    log_z, mean, var = probit.probit_moments(float(case["b"]), case["m"], case["v"])
    assert (log_z, mean, var) == pytest.approx((case["log_Z"], case["mean"], case["var"]), abs=1e-8)


@pytest.mark.parametrize("z", [-200.0, -40.0, -29.9, -30.1, -5.0, -4.9, 0.0, 3.0, 20.0])
def test_log_normal_cdf(z: float) -> None:
    assert probit.log_normal_cdf(z) == pytest.approx(norm.logcdf(z), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("case", GOLDEN["probit"])
def test_expectation_propagation(case: dict) -> None:
    columns = from_nested(case["structure"], case["times_preorder"])
    ep = probit.expectation_propagation(columns, np.array(case["b"], float)[:, None], case["sigma2"])
    assert ep.converged
    assert ep.log_evidence == pytest.approx(case["log_prob_ep"], abs=1e-6)
    assert ep.log_evidence == pytest.approx(case["log_prob_exact"], abs=0.01)
    mean, var = belief.posterior_locations(columns, ep.leaves, case["sigma2"])
    assert mean[:3, 0] == pytest.approx(case["post_mean_ep"], abs=1e-6)
    assert var[:3, 0] == pytest.approx(case["post_var_ep"], abs=1e-6)


def test_missing_entries_add_nothing() -> None:
    columns = from_nested([[0, 1], 2], [0.4, 0.7])
    signs = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    whole = probit.expectation_propagation(columns, signs, 1.0).log_evidence
    part = probit.expectation_propagation(columns, signs[:, :1].copy(), 1.0).log_evidence
    assert whole == pytest.approx(part, abs=1e-9)


def test_gradient_of_the_ep_evidence() -> None:
    rng = np.random.default_rng(0)
    columns = prior.sample_tree(6, 1.0, rng)
    signs = np.sign(rng.standard_normal((6, 3)))
    ep = probit.expectation_propagation(columns, signs, 2.0, tol=1e-12, max_iter=500)
    gradient = gradient_over_times(columns, ep.leaves, 2.0)
    n = 6
    for i in range(n - 1):
        above = columns.rest[columns.parent[n + i]] if columns.parent[n + i] >= 0 else 1.0
        step = 1e-3 * min(above - columns.rest[n + i], columns.rest[n + i] - columns.rest[columns.child[n + i]].max())
        values = []
        for sign in (1, -1):
            rest = columns.rest.copy()
            rest[n + i] -= sign * step
            moved = columns._replace(rest=rest)
            values.append(probit.expectation_propagation(moved, signs, 2.0, tol=1e-12, max_iter=500).log_evidence)
        assert gradient[i] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-3, abs=1e-5)


def test_predictive_probabilities_sum_to_one() -> None:
    rng = np.random.default_rng(1)
    y, columns = prior.sample_data(5, 3, rng=rng)
    signs = np.sign(y)
    signs[0, 1] = 0.0
    fit = probit.log_evidence_probit(columns, signs, Hyper(sigma2=2.0))
    assert fit.evidence.converged, fit.evidence.message
    mixture = branch_mixture(fit.evidence.tree, fit.sites, Hyper(sigma2=fit.sigma2))
    everything = np.array(list(product([-1.0, 1.0], repeat=3)))
    assert np.exp(probit.log_probability(everything, mixture)).sum() == pytest.approx(1.0, abs=1e-9)


def test_learning_sigma2_improves_the_density() -> None:
    rng = np.random.default_rng(2)
    y, columns = prior.sample_data(8, 12, sigma2=9.0, rng=rng)
    signs = np.sign(y + rng.standard_normal(y.shape))
    learned = probit.log_evidence_probit(columns, signs, Hyper(), learn_sigma2=True)
    assert learned.evidence.converged, learned.evidence.message
    a, b = Hyper().precision_prior

    def penalised(sigma2: float) -> float:
        fit = probit.log_evidence_probit(columns, signs, Hyper(sigma2=sigma2))
        return fit.evidence.log_density - a * np.log(sigma2) - b / sigma2

    best = penalised(learned.sigma2)
    assert best >= penalised(1.2 * learned.sigma2) - 1e-4
    assert best >= penalised(learned.sigma2 / 1.2) - 1e-4


def test_non_binary_values_are_refused() -> None:
    with pytest.raises(ValueError, match=r"binary entries.*found 2"):
        probit.signs_from_binary(np.array([[0.0, 2.0]]))


@pytest.mark.parametrize("start", [-1.3, 0.4])
def test_a_start_away_from_zero_against_orthant_probabilities(start: float) -> None:
    columns, sigma2 = from_nested([[0, 1], 2], [0.4, 0.7]), 1.5
    covariance = sigma2 * (np.array([[1, 0.7, 0.4], [0.7, 1, 0.4], [0.4, 0.4, 1]]))
    total = 0.0
    for b in product([-1.0, 1.0], repeat=3):
        flip = np.diag(b)
        exact = multivariate_normal(np.zeros(3), flip @ (covariance + np.eye(3)) @ flip).cdf(start * np.array(b))
        ep = probit.expectation_propagation(columns, np.array(b)[:, None], sigma2, start=start)
        assert ep.converged
        assert ep.log_evidence == pytest.approx(np.log(exact), abs=0.03)
        total += np.exp(ep.log_evidence)
    assert total == pytest.approx(1.0, abs=0.01)


def test_learned_start_and_sigma2_are_at_the_maximum() -> None:
    rng = np.random.default_rng(3)
    y, columns = prior.sample_data(8, 30, sigma2=4.0, rng=rng)
    signs = np.sign(y - 2.0 + rng.standard_normal(y.shape))
    learned = probit.log_evidence_probit(columns, signs, Hyper(), learn_sigma2=True, learn_start=True)
    assert learned.evidence.converged, learned.evidence.message
    assert learned.start == pytest.approx(-2.0, abs=1.0)
    a, b = Hyper().precision_prior

    def penalised(sigma2: float, start: float) -> float:
        fit = probit.log_evidence_probit(columns, signs, Hyper(sigma2=sigma2), start=start)
        log_prior = -a * np.log(sigma2) - b / sigma2 + norm.logpdf(start, 0.0, np.sqrt(sigma2))
        return fit.evidence.log_density + log_prior

    best = penalised(learned.sigma2, learned.start)
    assert best == pytest.approx(learned.evidence.log_density, abs=1e-4)
    for factor, shift in ((1.2, 0.0), (1 / 1.2, 0.0), (1.0, 0.2), (1.0, -0.2)):
        assert best >= penalised(factor * learned.sigma2, learned.start + shift) - 1e-4
