"""The sampler of binary rows against orthant probabilities with quadrature over times, and against the prior."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy import integrate, stats

import dtree
from dtree.diffusion import prior, probit_mcmc
from dtree.diffusion.mcmc import tree_of
from dtree.diffusion.objective import Hyper
from dtree.diffusion.tree import Columns, from_nested, structure_key
from dtree.diffusion.truncated import draw_positive

SIGNS = np.array(
    [
        [1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0],
        [1.0, 1.0, -1.0, -1.0, -1.0, 1.0, 1.0],
        [1.0, -1.0, 1.0, -1.0, -1.0, -1.0, 0.0],
    ]
)


def orthant_probability(covariance: np.ndarray, b: np.ndarray) -> float:
    """P(all b x > 0) for three centred normal variables, b = 0 for one that is not seen (Sheppard's formula)."""
    scale = np.sqrt(np.diag(covariance))
    angle = np.arcsin(covariance / np.outer(scale, scale)) * np.outer(b, b)
    above = angle[np.triu_indices(3, 1)].sum()
    return 0.25 + above / (2 * np.pi) if 0.0 in b else 0.125 + above / (4 * np.pi)


def exact_posterior(sigma2: float, c: float) -> tuple[np.ndarray, float]:
    """Probabilities that the pairs (0, 1), (0, 2), (1, 2) join first, and the mean rest of the root, by quadrature."""
    x, weight = leggauss(24)
    x, weight = 0.5 * (x + 1.0), 0.5 * weight
    mass, rest = np.zeros(3), 0.0
    for k, (a, b) in enumerate(((0, 1), (0, 2), (1, 2))):
        for i, j in product(range(24), repeat=2):
            upper = x[i] ** (1 / (1.5 * c))  # Beta(c H_2, 1), then Beta(c, 1)
            lower = upper * x[j] ** (1 / c)
            covariance = np.full((3, 3), sigma2 * (1 - upper))
            covariance[a, b] = covariance[b, a] = sigma2 * (1 - lower)
            np.fill_diagonal(covariance, sigma2 + 1.0)
            p = weight[i] * weight[j] * np.prod([orthant_probability(covariance, bits) for bits in SIGNS.T])
            mass[k] += p
            rest += p * upper
    return mass / mass.sum(), rest / mass.sum()


def test_structures_of_three_leaves_match_orthant_probabilities() -> None:
    rng = np.random.default_rng(0)
    expected, rest = exact_posterior(3.0, 1.3)
    chain = probit_mcmc.init(from_nested([[0, 1], 2], [0.3, 0.6]), SIGNS, Hyper(3.0, 1.3), 0.0, rng)
    seen, rests = np.zeros(3), []
    for _ in range(6000):
        probit_mcmc.step(chain, rng)
        tree = tree_of(chain.pool)
        clades = structure_key(tree)
        seen += [frozenset(pair) in clades for pair in ((0, 1), (0, 2), (1, 2))]
        rests.append(tree.rest[tree.root])
    assert seen / 6000 == pytest.approx(expected, abs=0.025)
    assert np.mean(rests) == pytest.approx(rest, abs=0.015)
    assert (chain.counts[1::2] > 0).all()  # every kind of move was used


@pytest.mark.slow
def test_geweke_with_everything_free() -> None:
    """Alternating bits given all else and all else given bits leaves the prior of all else unchanged."""
    rng = np.random.default_rng(1)
    hyper = Hyper(None, None, (6.0, 6.0), (4.0, 4.0))
    tree, numbers = prior.sample_tree(3, 1.0, rng), np.array([1.0, 1.0, 0.0])
    found = []
    for _ in range(20_000):
        sigma2, _, start = numbers
        z = start + prior.sample_locations(tree, 4, sigma2, rng)[:3] + rng.standard_normal((3, 4))
        chain = probit_mcmc.init(tree, np.sign(z), hyper, None, rng, numbers=numbers, latent=z - start)
        chain = probit_mcmc.step(chain, rng)
        tree, numbers = tree_of(chain.pool), chain.numbers
        sigma2, c, start = numbers
        pair = frozenset((0, 1)) in structure_key(tree)
        found.append((1 / sigma2, sigma2**-2, c, c * c, start**2 / sigma2, start, tree.rest[tree.root], pair))
    root = integrate.quad(lambda c: stats.gamma(4, scale=0.25).pdf(c) * 1.5 * c / (1.5 * c + 1), 0, 20)[0]
    expected = np.array([1.0, 7 / 6, 1.0, 1.25, 1.0, 0.0, root, 1 / 3])
    blocks = np.array(found).reshape(50, -1, 8).mean(axis=1)
    error = blocks.std(axis=0, ddof=1) / np.sqrt(50)
    assert np.abs((blocks.mean(axis=0) - expected) / error).max() < 4.0


def test_a_chain_is_carried_on_to_the_bit() -> None:
    tree = from_nested([[0, 1], 2], [0.3, 0.6])
    once = probit_mcmc.init(tree, SIGNS, Hyper(), None, np.random.default_rng(2))
    rng = np.random.default_rng(3)
    for _ in range(4):
        probit_mcmc.step(once, rng)
    twice = probit_mcmc.init(tree, SIGNS, Hyper(), None, np.random.default_rng(2))
    rng = np.random.default_rng(3)
    for _ in range(4):
        probit_mcmc.step(twice, rng)
        now = Columns(twice.pool.parent, twice.pool.child, twice.pool.rest)
        latent = twice.pool.mean[:3].copy()
        twice = probit_mcmc.init(now, SIGNS, Hyper(), None, rng, numbers=twice.numbers, latent=latent)
    assert np.array_equal(once.pool.rest, twice.pool.rest)
    assert np.array_equal(once.pool.mean, twice.pool.mean)
    assert np.array_equal(once.numbers, twice.numbers)


@pytest.mark.parametrize(("mean", "deviation"), [(1.0, 2.0), (-0.5, 1.5), (-6.0, 2.0), (-40.0, 1.0)])
def test_draws_above_zero(mean: float, deviation: float) -> None:
    rng = np.random.default_rng(4)
    drawn = np.array([draw_positive(mean, deviation, rng) for _ in range(4000)])
    truth = stats.truncnorm(-mean / deviation, np.inf, mean, deviation)
    assert drawn.min() > 0.0
    assert drawn.mean() == pytest.approx(truth.mean(), abs=5 * truth.std() / np.sqrt(4000))
    assert drawn.std() == pytest.approx(truth.std(), rel=0.1)


def test_sampled_trees_of_binary_rows(tmp_path) -> None:
    rng = np.random.default_rng(5)
    rows = (prior.sample_data(9, 3, sigma2=6.0, rng=rng)[0] + rng.standard_normal((9, 3)) > 0).astype(float)
    rows[2, 1] = np.nan
    model = dtree.DiffusionTree(
        "mcmc", "probit", n_permutations=2, mcmc_draws=6, mcmc_warmup=4, random_state=0, n_clusters=2
    ).fit(rows)
    assert len(model.averaged_trees_) == 12
    assert np.isfinite(model.log_joint_).all()
    everything = np.array(list(product([0.0, 1.0], repeat=3)))
    assert np.exp(model.score_samples(everything)).sum() == pytest.approx(1.0, abs=1e-9)
    assert set(np.unique(model.sample(20, random_state=0))) <= {0.0, 1.0}
    dtree.save(model, tmp_path / "model.zarr")
    again = dtree.open(tmp_path / "model.zarr")
    assert np.array_equal(again.score_samples(everything), model.score_samples(everything))
    assert np.array_equal(again.predict(rows), model.predict(rows))
