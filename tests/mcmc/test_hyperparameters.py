"""u, alpha and sigma: conditionals against quadrature, and Geweke's joint-distribution test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dtree.core.families import Poisson
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.mcmc.hyperparameters import from_parameter_vector, log_gamma_variate, parameter_vector, resample
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import sampler_named
from tests.naive.partitions import all_partitions, clusters_of


def test_log_gamma_variate_of_a_small_shape() -> None:
    rng = np.random.default_rng(0)
    draws = np.array([log_gamma_variate(0.3, rng) for _ in range(4000)])
    assert stats.kstest(np.exp(draws), stats.gamma(0.3).cdf).pvalue > 1e-3
    assert np.isfinite(log_gamma_variate(1e-4, rng))


def test_parameter_vector_goes_both_ways() -> None:
    for prior in (DirichletProcess(2.0), GeneralizedGamma(0.5, 0.3, 7.0)):
        assert from_parameter_vector(prior, parameter_vector(prior)) == prior


def test_dirichlet_process_alpha_given_the_partition() -> None:
    """p(alpha | k, n) is proportional to alpha^k Gamma(alpha)/Gamma(alpha + n) times its Gamma(1, 1) prior."""
    rng = np.random.default_rng(1)
    counts, n, k = np.array([6.0, 3.0, 1.0]), 10.0, 3
    prior: DirichletProcess = DirichletProcess(1.0)
    draws = []
    for _ in range(12_000):
        prior = resample(prior, counts, rng)
        draws.append(prior.alpha)
    grid = np.linspace(1e-4, 25.0, 20_000)
    log_p = k * np.log(grid) + gammaln(grid) - gammaln(grid + n) - grid
    p = np.exp(log_p - log_p.max())
    mean = (grid * p).sum() / p.sum()
    draws = np.array(draws[::6])
    assert draws.mean() == pytest.approx(mean, abs=5 * draws.std() / math.sqrt(len(draws)))


def test_generalized_gamma_given_the_partition() -> None:
    """Moments of (log u, sigma, alpha) against a three-dimensional grid."""
    rng = np.random.default_rng(2)
    counts, n, k = np.array([5.0, 2.0, 1.0]), 8.0, 3
    prior = GeneralizedGamma(1.0, 0.5, 1.0)
    draws = []
    for _ in range(30_000):
        prior = resample(prior, counts, rng)
        draws.append((math.log(prior.u), prior.sigma, prior.alpha))
    x = np.linspace(-8, 60, 500)[:, None, None]
    sigma = np.linspace(0.004, 0.996, 125)[None, :, None]
    alpha = np.exp(np.linspace(-30, 3.5, 260))[None, None, :]
    tilt = np.logaddexp(0.0, x)
    log_p = n * x - alpha * np.expm1(sigma * tilt) + k * (np.log(alpha * sigma) - gammaln(1 - sigma))
    log_p = log_p + sum(gammaln(c - sigma) - (c - sigma) * tilt for c in counts)
    log_p = log_p - alpha + 0.5 * np.log(sigma * (1 - sigma)) + np.log(alpha)  # last: the grid is even in log alpha
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    expected = [(x * p).sum(), (sigma * p).sum(), (alpha * p).sum()]
    batches = np.array([part.mean(axis=0) for part in np.array_split(np.array(draws), 30)])
    error = batches.std(axis=0, ddof=1) / math.sqrt(30)
    assert np.all(np.abs(batches.mean(axis=0) - expected) < 4.5 * error + 0.01)


def forward_draws(n: int, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(clusters, log u, sigma, alpha) from the joint prior: the partition by enumeration, u on a grid given it."""
    partitions = [[len(c) for c in clusters_of(p)] for p in all_partitions(n)]
    x = np.linspace(-12.0, 40.0, 700)
    tilt = np.logaddexp(0.0, x)
    out = []
    while len(out) < draws:
        alpha, sigma = rng.gamma(1.0), rng.beta(1.5, 1.5)
        log_front = math.log(alpha * sigma) - math.lgamma(1 - sigma)
        base = n * x - alpha * np.expm1(sigma * tilt) - math.lgamma(n)
        weights = np.array(
            [
                np.exp(base + sum(log_front + math.lgamma(s - sigma) - (s - sigma) * tilt for s in sizes))
                for sizes in partitions
            ]
        )
        cell = rng.choice(weights.size, p=weights.ravel() / weights.sum())
        partition, place = divmod(cell, x.shape[0])
        out.append((len(partitions[partition]), x[place] + (rng.random() - 0.5) * (x[1] - x[0]), sigma, alpha))
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["gibbs", "split-merge", "slice", "tgmcmc"])
def test_geweke_joint_distribution(sampler: str) -> None:
    """Alternating data given the state and the state given data must reproduce the prior of everything."""
    n, sweeps = 4, 12_000
    rng = np.random.default_rng(7)
    family = Poisson([1.5], [0.5])
    rule = sampler_named(sampler)
    step = rule.function(rule.step)
    labels, vector = np.zeros(n, dtype=np.int64), parameter_vector(GeneralizedGamma(1.0, 0.5, 1.0))
    visited = []
    for sweep in range(sweeps):
        rates = rng.gamma(1.5, 1.0 / 0.5, size=n)
        X = rng.poisson(rates[labels])[:, None]
        model = Model(family, from_parameter_vector(GeneralizedGamma(), vector))
        problem = Problem(model, model.atoms(X))
        state = rule.function("init")(problem, labels, vector, rng)
        state = step(problem, state, rng)
        labels, vector = state.labels, state.prior
        if sweep >= 200:
            alpha, sigma, u = vector
            visited.append((labels.max() + 1, math.log(u), sigma, alpha))
    forward = forward_draws(n, 6000, rng)
    chain = np.array(visited)
    batches = np.array([part.mean(axis=0) for part in np.array_split(chain, 25)])
    error = np.hypot(batches.std(axis=0, ddof=1) / 5.0, forward.std(axis=0) / math.sqrt(len(forward)))
    z = (batches.mean(axis=0) - forward.mean(axis=0)) / error
    assert np.all(np.abs(z) < 4.5), z
