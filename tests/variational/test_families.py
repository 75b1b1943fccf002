"""Every family against its naive twin, dense and sparse, and bounds against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from dtree.core.families import Bent, Bernoulli, DiagonalGaussian, Gaussian, Multinomial, Poisson
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.label_kernels import best_and_share
from dtree.variational.mixture import Mixture
from dtree.variational.predictive import log_predictive
from dtree.variational.steps import Block, Rule, bound, e_step, m_step, make_block, sums_of
from dtree.variational.variants import VARIANTS
from dtree.variational.weights import exact_log_prior
from tests.naive import variational as naive

ROWS, SIZE, ALPHA = 6, 3, 0.7


def make(name, rows=ROWS):
    random = np.random.default_rng(5)
    counts = random.poisson(2.0, size=(rows, 3)).astype(float)
    real = random.normal(size=(rows, 2)) * 2.0 + 3.0
    if name == "gaussian":
        parts = ([3.0, 2.5], 0.3, 4.0, [[1.0, 0.2], [0.2, 0.8]])
        return real, Gaussian(*parts, origin=[2.0, 2.0], unit=[2.0, 0.5]), naive.NaiveGaussian(real, *parts)
    if name == "gaussian-diag":
        parts = ([3.0, 2.5], 0.3, [2.0, 1.5], [0.6, 0.9])
        family = DiagonalGaussian(*parts, origin=[2.0, 2.0], unit=[2.0, 0.5])
        return real, family, naive.NaiveDiagonal(real, *parts)
    if name == "bernoulli":
        X = (counts > 1).astype(float)
        return X, Bernoulli([0.5, 1.0, 2.0], 0.7), naive.NaiveBernoulli(X, [0.5, 1.0, 2.0], [0.7] * 3)
    if name == "multinomial":
        return counts, Multinomial([0.5, 1.0, 0.2]), naive.NaiveMultinomial(counts, [0.5, 1.0, 0.2])
    parts = ([1.0, 2.0, 0.5], [0.5, 1.0, 0.3])
    return counts, Poisson(*parts), naive.NaivePoisson(counts, *parts)


FAMILIES = ["gaussian", "gaussian-diag", "bernoulli", "multinomial", "poisson"]
COUNTS = ["bernoulli", "multinomial", "poisson"]


def start(rows=ROWS, size=SIZE, seed=1):
    return np.random.default_rng(seed).dirichlet(np.ones(size), size=rows)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("variant", ["TSB", "FSD", "CTSB", "CFSD"])
def test_iterations_equal_the_naive_twin(name, variant):
    X, family, twin = make(name)
    which = VARIANTS[variant]
    rule = Rule(family, which, ALPHA)
    rows = InMemory(make_block(family, X), start(), "exact", "parallel")
    fit = ascend(rows, rows.sums(rule), rule, 3, tol=0.0)
    expected = naive.iterate(twin, which.sticks, ALPHA, start(), 3, which.collapsed)
    assert rows.responsibilities == pytest.approx(expected, abs=1e-10)
    assert fit.elbo == pytest.approx(naive.bound(twin, which.sticks, ALPHA, expected, which.collapsed), abs=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_true_bounds_lie_below_the_evidence(name, variant):
    X, family, twin = make(name, rows=5)
    which = VARIANTS[variant]
    rule = Rule(family, which, ALPHA)
    evidence = naive.log_evidence(twin, which.sticks, ALPHA, SIZE)
    for seed in range(3):
        rows = InMemory(make_block(family, X), start(5, seed=seed), "exact", "sequential")
        fit = ascend(rows, rows.sums(rule), rule, 100, tol=1e-10)
        assert fit.is_bound
        assert fit.elbo < evidence + 1e-9
        assert fit.elbo > evidence - 8.0  # and not far below


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("weights", ["TSB", "FSD"])
def test_collapsing_never_lowers_the_bound(name, weights):
    X, family, _ = make(name, rows=12)
    for seed in range(4):
        r = start(12, 4, seed)
        block = make_block(family, X)
        plain = Rule(family, VARIANTS[weights], ALPHA)
        collapsed = Rule(family, VARIANTS["C" + weights], ALPHA)
        exact = exact_log_prior(collapsed.variant, ALPHA, r, np.ones(12, dtype=np.int64))
        assert bound(sums_of(block, r, collapsed), collapsed, exact) >= bound(sums_of(block, r, plain), plain) - 1e-12


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("variant", ["FSD", "O-CTSB"])
def test_sparse_rows_equal_dense_rows(name, variant):
    X, family, _ = make(name, rows=40)
    if name == "multinomial":
        family = Multinomial(family.concentration, coefficient=True)
    rule = Rule(family, VARIANTS[variant], ALPHA)
    found = []
    for data in (X, sparse.csr_matrix(X), sparse.csr_array(X)):
        rows = InMemory(make_block(family, data), start(40))
        fit = ascend(rows, rows.sums(rule), rule, 5, tol=0.0)
        found.append((fit.elbo, rows.responsibilities, log_predictive(family, data, fit.sums.statistics)))
    for elbo, labels, predictive in found[1:]:
        assert elbo == pytest.approx(found[0][0], abs=1e-9)
        assert labels == pytest.approx(found[0][1], abs=1e-11)
        assert predictive == pytest.approx(found[0][2], abs=1e-10)
    direct = family.log_predictive_of(X, fit.sums.statistics)
    assert found[0][2] == pytest.approx(direct, abs=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_weights_stand_for_equal_rows(name, variant):
    X, family, _ = make(name, rows=10)
    weight = np.array([1, 2, 3, 1, 1, 2, 1, 4, 1, 1])
    r = start(10)
    rule = Rule(family, VARIANTS[variant], ALPHA)
    results = []
    for rows_of, weights, labels in (
        (X, weight.astype(float), r),
        (np.repeat(X, weight, axis=0), np.ones(weight.sum()), np.repeat(r, weight, axis=0)),
    ):
        rows = InMemory(make_block(family, rows_of, weights), labels.copy())
        results.append(ascend(rows, rows.sums(rule), rule, 6, tol=0.0))
    assert results[0].trace == pytest.approx(results[1].trace, abs=1e-9)
    assert results[0].sums.statistics == pytest.approx(results[1].sums.statistics, abs=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_sums_of_blocks_add_to_the_same_bits(variant):
    X, family, _ = make("gaussian", rows=3000)
    rule = Rule(family, VARIANTS[variant], ALPHA)
    block = make_block(family, X)
    state = m_step(sums_of(block, start(3000, 5), rule), rule)
    parts = [block.part(i, min(i + 700, 3000)) for i in range(0, 3000, 700)]
    forwards = [e_step(part, state) for part in parts]
    backwards = [e_step(part, state) for part in reversed(parts)][::-1]
    for first, second in zip(forwards, backwards):
        assert np.array_equal(first.statistics, second.statistics)
        assert np.array_equal(first.gram, second.gram)
        assert first.entropy == second.entropy
    total = forwards[0]
    for sums in forwards[1:]:
        total = total + sums
    whole = e_step(block, state)
    assert total.statistics == pytest.approx(whole.statistics, rel=1e-11)
    assert total.entropy == pytest.approx(whole.entropy, rel=1e-11)


@pytest.mark.parametrize("variant", ["CTSB", "CFSD", "O-CTSB"])
def test_passes_without_kept_responsibilities_reach_the_same_fixed_point(variant):
    X, family, _ = make("gaussian", rows=60)
    rule = Rule(family, VARIANTS[variant], ALPHA)
    block = make_block(family, X)
    rows = InMemory(block, start(60))
    kept = ascend(rows, rows.sums(rule), rule, 2000, tol=1e-16)
    state = kept.state
    free = e_step(block, state)
    with_memory = e_step(Block(block.rows, block.weight, rows.responsibilities), state)
    assert free.counts == pytest.approx(with_memory.counts, abs=1e-6)
    assert free.entropy == pytest.approx(with_memory.entropy, abs=1e-6)


@pytest.mark.parametrize("variant", ["FSD", "O-CTSB"])
def test_threads_do_not_change_bits(variant):
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 3)) + 4.0 * random.integers(3, size=(20_000, 1))
    family = Gaussian(X.mean(axis=0), 0.1, 5.0, 0.1 * np.cov(X.T))
    rule = Rule(family, VARIANTS[variant], 1.0)
    found = []
    for threads in (1, 2, 3):
        rows = InMemory(make_block(family, X), np.eye(6)[np.arange(20_000) % 6], threads=threads)
        found.append(ascend(rows, rows.sums(rule), rule, 3, tol=0.0))
    for first, second in itertools.pairwise(found):
        assert first.trace == second.trace
        assert np.array_equal(first.sums.statistics, second.sums.statistics)


def test_the_best_component_and_the_share_of_its_group_are_those_of_responsibilities():
    X, family, _ = make("gaussian", rows=60)
    rule = Rule(family, VARIANTS["TSB"], ALPHA)
    mixture = Mixture.of(InMemory(make_block(family, X), start(60, 4)).sums(rule), rule)
    order, group = np.array([3, 0, 2, 1]), np.array([0, 1, 1, 0])
    best, share = best_and_share(mixture.scores(X, order), group)
    assert np.array_equal(best, mixture.best(X, order))
    shares = mixture.responsibilities(X, order)
    expected = np.where(group[best] == 0, shares[:, [0, 3]].sum(axis=1), shares[:, [1, 2]].sum(axis=1))
    np.testing.assert_allclose(share, expected, rtol=1e-12, atol=1e-300)


def test_rows_that_are_bent_once_have_the_same_scores_and_densities():
    X = np.exp(np.random.default_rng(2).normal(size=(66, 3)))
    straight = Gaussian(np.zeros(3), 0.1, 6.0, np.eye(3))
    family = Bent(straight, np.ones(3), np.full(3, 0.5), np.array([0.2, 1.0, 0.6]))
    rule = Rule(family, VARIANTS["TSB"], ALPHA)
    mixture = Mixture.of(InMemory(make_block(family, X), start(66, 4)).sums(rule), rule)
    order, kept = np.array([2, 0, 1]), mixture.kept(X)
    assert np.array_equal(mixture.scorer(order)(X, kept), mixture.scores(X, order))
    np.testing.assert_allclose(mixture.log_density(X, order, kept), mixture.log_density(X, order), rtol=1e-12)
    assert mixture.kept(np.where(X > 1.0, np.nan, X)) is None
