"""The predictive density: golden values, normalisation by quadrature, the exact ratio, samples."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss

from dtree.diffusion import predictive, prior
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.objective import Hyper, log_joint_in_logit
from dtree.diffusion.tree import from_nested
from tests.diffusion.test_belief import CASES, GOLDEN, golden_leaves, golden_tree, node_of


@CASES
def test_golden_given_times(case: dict) -> None:
    columns, leaves = golden_tree(case), golden_leaves(case)
    mixture = predictive.branch_mixture(
        columns, leaves, Hyper(case["sigma2"], case["c"]), noise=case["noise"] / case["sigma2"], nodes=64
    )
    assert np.exp(mixture.log_weight).sum() == pytest.approx(1.0)
    for entry in case["branch_probs"]:
        on_branch = np.exp(mixture.log_weight[node_of(entry["child"], columns.n_leaves)]).sum()
        assert on_branch == pytest.approx(entry["prob"], abs=1e-8)
    value = predictive.log_density(np.array(case["x_test"]), [mixture], [0.0])
    assert value == pytest.approx(case["predictive_log_density_given_times"], abs=1e-4)


def test_sixteen_nodes_are_close_to_sixty_four() -> None:
    rng = np.random.default_rng(1)
    y, columns = prior.sample_data(20, 2, noise=0.01, rng=rng)
    leaves, hyper = leaves_from_data(y, 0.01), Hyper()
    x = rng.standard_normal((50, 2))
    few, many = (
        predictive.log_density(x, [predictive.branch_mixture(columns, leaves, hyper, noise=0.01, nodes=k)], [0.0])
        for k in (16, 64)
    )
    assert few == pytest.approx(many, abs=2e-3)


@pytest.mark.parametrize("hyper", [Hyper(1.0, 1.0), Hyper()], ids=["fixed", "integrated"])
def test_integrates_to_one_in_one_dimension(hyper: Hyper) -> None:
    rng = np.random.default_rng(2)
    y, columns = prior.sample_data(5, 1, noise=0.05, rng=rng)
    leaves = leaves_from_data(y, 0.05)
    grid, step = np.linspace(-60, 60, 240_001, retstep=True)
    mixtures = [predictive.branch_mixture(columns, leaves, hyper, noise=0.05) for _ in range(2)]
    density = np.exp(predictive.log_density(grid[:, None], mixtures, [-3.0, -4.0]))
    assert density.sum() * step == pytest.approx(1.0, abs=2e-4)


def test_integrates_to_one_in_two_dimensions() -> None:
    rng = np.random.default_rng(3)
    y, columns = prior.sample_data(6, 2, noise=0.05, rng=rng)
    y[0, 1] = np.nan
    leaves = leaves_from_data(y, 0.05)
    grid, step = np.linspace(-7, 7, 401, retstep=True)
    x = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    mixture = predictive.branch_mixture(columns, leaves, Hyper(1.0, 1.0), noise=0.05)
    assert np.exp(predictive.log_density(x, [mixture], [0.0])).sum() * step**2 == pytest.approx(1.0, abs=2e-3)


def test_missing_entries_are_marginalised() -> None:
    rng = np.random.default_rng(4)
    y, columns = prior.sample_data(6, 2, noise=0.05, rng=rng)
    mixture = predictive.branch_mixture(columns, leaves_from_data(y, 0.05), Hyper(), noise=0.05)
    grid, step = np.linspace(-60, 60, 60_001, retstep=True)
    line = np.column_stack([np.full_like(grid, 0.3), grid])
    whole = np.exp(predictive.log_density(line, [mixture], [0.0])).sum() * step
    part = np.exp(predictive.log_density(np.array([[0.3, np.nan]]), [mixture], [0.0]))[0]
    assert part == pytest.approx(whole, rel=1e-3)


def test_exact_ratio_for_two_leaves() -> None:
    """Averaged over the posterior of the one time, the predictive is p(y1, y2, y3) / p(y1, y2)."""
    golden = GOLDEN["full_predictive"]
    leaves = leaves_from_data(np.array(golden["y"]))
    hyper = Hyper(golden["sigma2"], golden["c"])
    x, weight = leggauss(200)
    s = 15.0 * x  # logit w; the density in s falls off exponentially
    mixtures, log_weights = [], []
    for value, mass in zip(s, weight):
        columns = from_nested([0, 1], [0.5])
        columns.rest[2] = 1.0 / (1.0 + np.exp(-value))
        mixtures.append(predictive.branch_mixture(columns, leaves, hyper, nodes=64))
        log_weights.append(log_joint_in_logit(columns, leaves, hyper) + np.log(mass))
    value = predictive.log_density(np.array(golden["x"]), mixtures, log_weights)
    assert value == pytest.approx(golden["log_density"], abs=1e-3)


@pytest.mark.parametrize("hyper", [Hyper(1.0, 1.0), Hyper()], ids=["fixed", "integrated"])
def test_samples_follow_the_density(hyper: Hyper) -> None:
    rng = np.random.default_rng(5)
    y, columns = prior.sample_data(4, 1, noise=0.05, rng=rng)
    leaves = leaves_from_data(y, 0.05)
    mixture = predictive.branch_mixture(columns, leaves, hyper, noise=0.05)
    draws = predictive.sample_rows(4000, columns, leaves, hyper, rng, noise=0.05)[:, 0]
    grid, step = np.linspace(-60, 60, 120_001, retstep=True)
    cdf = np.cumsum(np.exp(predictive.log_density(grid[:, None], [mixture], [0.0]))) * step
    gap = np.abs(np.interp(np.sort(draws), grid, cdf) - (np.arange(4000) + 0.5) / 4000).max()
    assert gap < 1.63 / np.sqrt(4000)  # Kolmogorov-Smirnov, one in a hundred
