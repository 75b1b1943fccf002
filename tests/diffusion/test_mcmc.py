"""The reference sampler against enumeration of structures with quadrature over times, and against the prior."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.diffusion import mcmc, prior
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.objective import Hyper
from dtree.diffusion.pool import TREE_KEY
from dtree.diffusion.tree import Columns, from_nested, structure_key, validate
from tests.naive import diffusion as naive


def key_of(columns: Columns) -> int:
    """The structure hash that the chain maintains, from scratch."""
    return int(mcmc.init(columns, leaves_from_data(np.zeros((4, 1)), 1.0), Hyper()).pool.meta[TREE_KEY])


def structure_frequencies(chain: mcmc.State, rng: np.random.Generator, sweeps: int) -> dict:
    seen: dict = {}
    for _ in range(sweeps):
        chain = mcmc.step(chain, rng)
        key = int(chain.pool.meta[TREE_KEY])
        seen[key] = seen.get(key, 0) + 1
    return {key: count / sweeps for key, count in seen.items()}


def test_structures_of_four_leaves_match_enumeration() -> None:
    rng = np.random.default_rng(0)
    y, _ = prior.sample_data(4, 2, c=1.0, noise=0.2, rng=rng)
    y *= 0.6
    log_post, keys = [], []
    for structure in naive.structures((0, 1, 2, 3)):
        columns = from_nested(structure, [0.2, 0.4, 0.6])
        log_post.append(
            naive.log_evidence_given_structure(columns, y, 1.0, 1.0, 0.2, nodes=24) + prior.log_structure_prior(columns)
        )
        keys.append(key_of(columns))
    exact = np.exp(np.array(log_post) - np.logaddexp.reduce(log_post))
    hyper = Hyper(sigma2=1.0, c=1.0)
    chain = mcmc.init(from_nested([[0, 1], [2, 3]], [0.2, 0.4, 0.6]), leaves_from_data(y, 0.2), hyper)
    seen = structure_frequencies(chain, rng, 12_000)
    frequency = np.array([seen.get(key, 0.0) for key in keys])
    assert frequency == pytest.approx(exact, abs=0.025)
    assert 0.5 * np.abs(frequency - exact).sum() < 0.05


def test_without_data_the_chain_samples_the_prior() -> None:
    """All entries missing: structures and times must follow the prior, also with c integrated over its Gamma."""
    rng = np.random.default_rng(1)
    leaves = leaves_from_data(np.full((4, 1), np.nan))
    hyper = Hyper(sigma2=1.0, c=0.8)
    chain = mcmc.init(from_nested([[0, 1], [2, 3]], [0.2, 0.4, 0.6]), leaves, hyper)
    roots, seen = [], {}
    for _ in range(12_000):
        chain = mcmc.step(chain, rng)
        columns = mcmc.tree_of(chain.pool)
        roots.append(np.log(columns.rest[-1]))
        key = structure_key(columns)
        seen[key] = seen.get(key, 0) + 1
    assert -np.mean(roots) == pytest.approx(1 / (0.8 * float(prior.harmonic(3))), rel=0.05)
    for structure in naive.structures((0, 1, 2, 3)):
        columns = from_nested(structure, [0.2, 0.4, 0.6])
        share = seen[structure_key(columns)] / 12_000
        assert share == pytest.approx(np.exp(prior.log_structure_prior(columns)), abs=0.015)


def test_geweke_joint_distribution() -> None:
    """Alternating data given tree and tree given data leaves the prior of trees unchanged (3 leaves, all
    integrated)."""
    rng = np.random.default_rng(2)
    hyper = Hyper(sigma2=1.0, c=1.0)
    columns = prior.sample_tree(3, 1.0, rng)
    roots, pairs = [], []
    for _ in range(8000):
        y = prior.sample_locations(columns, 2, 1.0, rng)[:3]
        y += np.sqrt(0.1) * rng.standard_normal(y.shape)
        chain = mcmc.step(mcmc.init(columns, leaves_from_data(y, 0.1), hyper), rng)
        columns = mcmc.tree_of(chain.pool)
        roots.append(columns.rest[-1])
        pairs.append(frozenset([0, 1]) in structure_key(columns))
    validate(columns)
    # w at the root is Beta(c H_2, 1) = Beta(1.5, 1): mean 0.6; each pair of leaves is equally likely
    assert np.mean(roots) == pytest.approx(0.6, abs=0.02)
    assert np.mean(pairs) == pytest.approx(1 / 3, abs=0.04)


@pytest.mark.slow
def test_integrated_hyperparameters_match_importance_sampling() -> None:
    from dtree.diffusion.laplace import importance_correction, log_evidence_laplace

    rng = np.random.default_rng(3)
    y, _ = prior.sample_data(4, 2, c=1.0, noise=0.2, rng=rng)
    leaves, hyper = leaves_from_data(y, 0.2), Hyper()
    log_post, keys = [], []
    for structure in naive.structures((0, 1, 2, 3)):
        columns = from_nested(structure, [0.2, 0.4, 0.6])
        fit = log_evidence_laplace(columns, leaves, hyper)
        log_post.append(importance_correction(fit, leaves, hyper, rng, draws=2**14)[0])
        keys.append(key_of(columns))
    exact = np.exp(np.array(log_post) - np.logaddexp.reduce(log_post))
    chain = mcmc.init(from_nested([[0, 1], [2, 3]], [0.2, 0.4, 0.6]), leaves, hyper)
    seen = structure_frequencies(chain, rng, 40_000)
    assert np.array([seen.get(key, 0.0) for key in keys]) == pytest.approx(exact, abs=0.02)
