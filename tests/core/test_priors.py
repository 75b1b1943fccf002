"""Priors against golden values, finite differences and the sum over partitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.verbs import log_kappa
from tests.golden import golden, golden_prior
from tests.naive.partitions import all_partitions

MEASURES = golden("nrm")["measures"]
PRIORS = [DirichletProcess(1.7), DirichletProcess(1.7, u=0.8), GeneralizedGamma(1.3, 0.4, 2.1)]


@pytest.mark.parametrize("case", MEASURES, ids=lambda case: f"{case['measure']}-{case['params']}")
def test_golden_kappa_and_psi(case):
    for u, psi, log_kappas in zip(case["u"], case["psi"], case["log_kappa"], strict=True):
        prior = golden_prior(case, u)
        assert prior.psi(u) == pytest.approx(psi, abs=1e-8)
        assert prior.log_kappa(case["n"]) == pytest.approx(log_kappas, abs=1e-8)


@pytest.mark.parametrize("case", MEASURES, ids=lambda case: f"{case['measure']}-{case['params']}")
def test_integrating_u_out_gives_the_golden_partition_probabilities(case):
    for sizes, log_eppf in zip(case["block_sizes"], case["log_eppf"], strict=True):
        n = sum(sizes)

        def density(x: float, sizes: list[int] = sizes, n: int = n) -> float:
            prior = golden_prior(case, np.exp(x))
            return float(np.exp(prior.log_normaliser(n) + prior.log_kappa(sizes).sum() + x))

        total = quad(density, -60, 60, points=[0.0], limit=400, epsabs=0.0, epsrel=1e-11)[0]
        assert np.log(total) == pytest.approx(log_eppf, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_compiled_kappa_equals_the_python_one(prior):
    counts = np.array([1.0, 2.0, 5.0, 11.0])
    for compiled in (prior.compile(10.0), prior.compile(1.0)):
        assert [log_kappa(compiled, n) for n in counts] == pytest.approx(prior.log_kappa(counts), abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=repr)
def test_gradients_against_finite_differences(prior):
    counts, weights, step = np.array([1.0, 3.0, 7.0]), np.array([0.3, 1.0, 0.6]), 1e-6
    theta = prior.free_parameters()

    def value(at: np.ndarray) -> float:
        moved = prior.with_free_parameters(at)
        return float(weights @ moved.log_kappa(counts) + moved.log_normaliser(11.0))

    exact = prior.gradient(counts, weights) + prior.normaliser_gradient(11.0)
    for i in range(theta.shape[0]):
        shift = step * np.eye(theta.shape[0])[i]
        assert exact[i] == pytest.approx((value(theta + shift) - value(theta - shift)) / (2 * step), rel=1e-6)


def test_dirichlet_process_probabilities_sum_to_one():
    prior = DirichletProcess(0.7)
    total = sum(np.exp(prior.log_kappa(np.bincount(p)).sum() + prior.log_normaliser(6)) for p in all_partitions(6))
    assert total == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: DirichletProcess(0.0), "alpha must be positive"),
        (lambda: DirichletProcess(1.0, u=-1.0), "u must be positive"),
        (lambda: GeneralizedGamma(sigma=1.0), "sigma must lie between 0 and 1"),
    ],
)
def test_bad_hyperparameters_get_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()
