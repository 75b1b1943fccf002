"""Families against golden values, the chain rule, finite differences, and each other's compiled twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dtree.core.families import FAMILIES, Family, Gaussian, Multinomial, moments_of
from dtree.core.verbs import log_marginal, log_marginal_joined, log_marginal_merged
from tests.golden import golden, golden_family

CASES = golden("families")
case_ids = [case["name"] for case in CASES]


def rows_for(name: str, rng: np.random.Generator, n: int, d: int = 3) -> np.ndarray:
    match FAMILIES[name].value_kind:
        case "binary" | "category":
            return rng.integers(0, 2, (n, d)).astype(float)
        case "count":
            return rng.poisson(rng.gamma(1.0, 4.0, (1, d)), (n, d)).astype(float)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def family_for(name: str, X: np.ndarray, share: float = 0.2) -> Family:
    return FAMILIES[name].defaults(moments_of(X), share)


@pytest.mark.parametrize("case", CASES, ids=case_ids)
def test_golden_marginals_and_predictives(case):
    family, X, X_test = golden_family(case), np.array(case["X"]), np.array(case["X_test"])
    assert family.log_predictive(X_test) == pytest.approx(case["log_predictive_prior"], abs=1e-8)
    for subset, log_p, log_pred in zip(case["subsets"], case["log_marginal"], case["log_predictive"], strict=True):
        assert family.log_marginal(X[subset]) == pytest.approx(log_p, abs=1e-8)
        assert family.log_predictive(X_test, X[subset]) == pytest.approx(log_pred, abs=1e-8)


@pytest.mark.parametrize("case", CASES, ids=case_ids)
def test_golden_values_do_not_depend_on_where_statistics_are_taken(case):
    X = np.array(case["X"])
    family = golden_family(case).anchored(moments_of(X + 3.0))
    for subset, log_p in zip(case["subsets"], case["log_marginal"], strict=True):
        assert family.log_marginal(X[subset]) == pytest.approx(log_p, abs=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 8))
def test_product_of_predictives_is_the_marginal(name, seed, n):
    rng = np.random.default_rng(seed)
    X = rows_for(name, rng, n)
    family = family_for(name, X)
    chain = family.log_predictive(X[:1])[0] + sum(family.log_predictive(X[i : i + 1], X[:i])[0] for i in range(1, n))
    assert chain == pytest.approx(family.log_marginal(X), abs=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 9))
def test_statistics_add(name, seed, cut):
    X = rows_for(name, np.random.default_rng(seed), 10)
    family = family_for(name, X)
    whole = family.statistics(X)
    parts = family.statistics(X[:cut]).sum(axis=0) + family.statistics(X[cut:]).sum(axis=0)
    assert np.allclose(whole.sum(axis=0), parts, rtol=1e-12)
    assert np.all(whole[:, 0] == 1.0)


@pytest.mark.parametrize("coarsening", [1.0, 0.3])
@pytest.mark.parametrize("name", FAMILIES)
def test_merged_columns_equal_one_by_one(name, coarsening):
    rng = np.random.default_rng(5)
    X = rows_for(name, rng, 150, d=20)
    family = family_for(name, X)
    atoms = coarsening * family.statistics(X) * rng.integers(1, 4, 150)[:, None]
    compiled = family.compile(atoms.sum(axis=0), coarsening)
    columns, out = np.ascontiguousarray(atoms.T), np.full(150, np.nan)
    log_marginal_merged(compiled, columns, atoms[3], 2, 147, out)
    expected = [log_marginal(compiled, atoms[3] + atoms[j]) for j in range(2, 147)]
    assert out[2:147] == pytest.approx(expected, rel=1e-10)
    assert np.isnan(out[[0, 1, 147, 149]]).all()
    log_own, joined = np.array([log_marginal(compiled, atom) for atom in atoms]), np.full(150, np.nan)
    log_marginal_joined(compiled, columns, log_own, atoms[3], 2, 147, joined)
    assert joined[2:147] == pytest.approx(expected, rel=1e-10)
    assert np.isnan(joined[[0, 1, 147, 149]]).all()


@pytest.mark.parametrize("name", ["gaussian", "gaussian-diag"])
def test_rows_recorded_to_a_step_have_a_scatter_of_their_own_when_merged(name):
    X = np.random.default_rng(7).integers(0, 4, (20, 3)).astype(float)
    plain = FAMILIES[name].defaults(moments_of(X), 0.5)
    family = type(plain)(**{**plain.parameters(), "step": [1.0, 1.0, 1.0]})
    atoms = family.statistics(X)
    out = np.empty(20)
    compiled = family.compile(atoms.sum(axis=0))
    log_marginal_merged(compiled, np.ascontiguousarray(atoms.T), atoms[3], 0, 20, out)
    assert out == pytest.approx(family.log_marginal_of(atoms + atoms[3]), abs=1e-10)


def test_points_too_far_for_the_logarithm_of_lanes_are_merged_all_the_same():
    family = Gaussian([0.0, 0.0], 0.1, 4.0, np.eye(2), origin=[0.0, 0.0], unit=[1.0, 1.0])
    atoms = family.statistics(np.array([[0.0, 1.0], [3e150, 0.0], [2.0, 0.5]]))
    out = np.empty(3)
    log_marginal_merged(family.compile(atoms.sum(axis=0)), np.ascontiguousarray(atoms.T), atoms[0], 0, 3, out)
    assert out == pytest.approx(family.log_marginal_of(atoms + atoms[0]), rel=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_tables_change_nothing(name):
    rng = np.random.default_rng(6)
    X = rows_for(name, rng, 30)
    family = family_for(name, X)
    total = family.statistics(X).sum(axis=0)
    from_table, from_function = family.compile(total), family.compile(np.zeros_like(total))
    assert log_marginal(from_table, total) == pytest.approx(log_marginal(from_function, total), rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=case_ids)
def test_gradient_against_finite_differences(case):
    family, X = golden_family(case), np.array(case["X"])
    rows = family.statistics(X)
    statistics = np.vstack([rows, rows[:3].sum(axis=0), rows.sum(axis=0)])
    weights = np.linspace(0.1, 1.0, statistics.shape[0])
    theta = family.free_parameters()
    assert np.allclose(family.with_free_parameters(theta).free_parameters(), theta)
    step = 1e-5
    for i, value in enumerate(family.gradient(statistics, weights)):
        moved = np.zeros_like(theta)
        moved[i] = step
        high = weights @ family.with_free_parameters(theta + moved).log_marginal_of(statistics)
        low = weights @ family.with_free_parameters(theta - moved).log_marginal_of(statistics)
        assert value == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "poisson"])
def test_sparse_rows_equal_dense_rows(name):
    X = rows_for(name, np.random.default_rng(7), 12, d=6)
    family = family_for(name, X)
    assert np.array_equal(family.statistics(sparse.csr_array(X)), family.statistics(X))
    clusters = family.statistics(X[:6]).sum(axis=0)[None, :]
    assert np.allclose(
        family.log_predictive_of(sparse.csr_array(X), clusters), family.log_predictive_of(X, clusters), atol=1e-12
    )
    dense, thin = moments_of(X), moments_of(sparse.csr_array(X))
    assert np.allclose(dense.mean, thin.mean)
    assert np.allclose(dense.variance, thin.variance)


def test_multinomial_coefficient_is_a_constant_of_the_data():
    X = rows_for("multinomial", np.random.default_rng(8), 9, d=4)
    with_it, without = Multinomial(np.ones(4), coefficient=True), Multinomial(np.ones(4))
    difference = [with_it.log_marginal(X[: i + 1]) - without.log_marginal(X[: i + 1]) for i in range(9)]
    alone = [with_it.log_marginal(X[i : i + 1]) - without.log_marginal(X[i : i + 1]) for i in range(9)]
    assert np.allclose(difference, np.cumsum(alone))


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_of_another_width_are_refused(name):
    rng = np.random.default_rng(10)
    family = family_for(name, rows_for(name, rng, 9))
    for width in (2, 4):
        with pytest.raises(ValueError, match="the family has 3 features but the rows have shape"):
            family.log_predictive(rows_for(name, rng, 2, d=width), rows_for(name, rng, 5))


def test_paper_prior_has_determinant_one_tenth():
    X = np.random.default_rng(9).normal(size=(50, 4)) * [1, 10, 100, 1000]
    family = Gaussian.paper_prior(X)
    assert np.linalg.slogdet(family.scale)[1] == pytest.approx(-np.log(10.0))
    assert (family.strength, family.dof) == (0.1, 10.0)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Gaussian([0, 0], 0.0, 8, np.eye(2)), "strength must be positive"),
        (lambda: Gaussian([0, 0], 1.0, 1, np.eye(2)), "dof must be above"),
        (lambda: Gaussian([0, 0], 1.0, 8, [[1, 2], [2, 1]]), "positive definite"),
        (lambda: Gaussian([0, 0, 0], 1.0, 8, np.eye(2)), "mean has 3 entries"),
        (lambda: FAMILIES["gaussian-diag"]([0, 0], 1.0, -1.0, 1.0), "shape must be positive"),
        (lambda: FAMILIES["bernoulli"]([1, np.nan], [1, 1]), "a must be positive"),
        (lambda: Multinomial([[1, 1]]), "one number per feature"),
    ],
)
def test_bad_hyperparameters_get_a_sentence(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()
