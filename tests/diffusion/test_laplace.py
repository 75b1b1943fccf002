"""Maxima, Laplace evidences and their importance correction against golden values and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtree.diffusion import laplace, prior
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.objective import Hyper, Workspace, log_joint_in_logit
from dtree.diffusion.tree import from_nested
from tests.diffusion.test_belief import CASES, GOLDEN, golden_leaves, golden_tree
from tests.naive import diffusion as naive


def fixed(case: dict) -> Hyper:
    return Hyper(sigma2=case["sigma2"], c=case["c"])


@CASES
def test_maximum_and_laplace(case: dict) -> None:
    columns, leaves = golden_tree(case), golden_leaves(case)
    fit = laplace.log_evidence_laplace(columns, leaves, fixed(case))
    offset = prior.log_structure_prior(columns)
    golden = case["map_in_logit_w"]
    assert fit.converged, fit.message
    assert fit.log_density - offset == pytest.approx(golden["log_density"], abs=1e-6)
    assert 1 - fit.tree.rest[columns.n_leaves :][::-1] == pytest.approx(golden["times"], abs=1e-3)
    assert fit.log_evidence - offset == pytest.approx(golden["laplace"], abs=1e-3)


@CASES
def test_importance_correction_reaches_the_exact_evidence(case: dict) -> None:
    columns, leaves = golden_tree(case), golden_leaves(case)
    fit = laplace.log_evidence_laplace(columns, leaves, fixed(case))
    value, ess = laplace.importance_correction(fit, leaves, fixed(case), np.random.default_rng(0), draws=2**14)
    value -= prior.log_structure_prior(columns)
    if "log_evidence_given_structure" in case:
        assert value == pytest.approx(case["log_evidence_given_structure"], abs=0.02)
    else:
        assert value == pytest.approx(case["log_evidence_importance"], abs=0.04)
    assert ess > 1500


@CASES
def test_quadrature_twin(case: dict) -> None:
    if "log_evidence_given_structure" not in case:
        pytest.skip("too many leaves for quadrature")
    value = naive.log_evidence_given_structure(
        golden_tree(case), np.array(case["y"]), case["sigma2"], case["c"], case["noise"]
    )
    assert value == pytest.approx(case["log_evidence_given_structure"], abs=1e-5)


@CASES
def test_integrated_hyperparameters(case: dict) -> None:
    if "hyper_integrated" not in case:
        pytest.skip("closed form only without noise")
    columns, leaves = golden_tree(case), golden_leaves(case)
    at, golden = case["hyper_at_times"], case["hyper_integrated"]
    hyper = Hyper(precision_prior=tuple(at["prec_prior"]), c_prior=tuple(at["c_prior"]))
    offset = prior.log_structure_prior(columns)
    # density in the times t rather than in s: divide by |d rest / d s|
    work = Workspace(columns, leaves, hyper)
    above = np.where(columns.parent >= 0, columns.rest[columns.parent], 1.0)
    slope = (columns.rest * (above - columns.rest) / above)[work.n :]
    in_times = log_joint_in_logit(columns, leaves, hyper) - np.log(slope).sum() - offset
    assert in_times == pytest.approx(at["exact_log_p_y_t_given_T"], abs=1e-8)

    fit = laplace.log_evidence_laplace(columns, leaves, hyper)
    assert fit.log_density - offset == pytest.approx(golden["map_log_density"], abs=1e-6)
    assert 1 - fit.tree.rest[columns.n_leaves :][::-1] == pytest.approx(golden["times"], abs=1e-3)
    assert fit.log_evidence - offset == pytest.approx(golden["laplace"], abs=1e-3)
    value, _ = laplace.importance_correction(fit, leaves, hyper, np.random.default_rng(1), draws=2**14)
    assert value - offset == pytest.approx(golden["importance"], abs=0.03)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 9), d=st.integers(1, 3), seed=st.integers(0, 1000), missing=st.booleans(), free=st.booleans())
def test_hessian_equals_finite_differences(n: int, d: int, seed: int, missing: bool, free: bool) -> None:
    rng = np.random.default_rng(seed)
    y, columns = prior.sample_data(n, d, c=1.0, noise=0.1, rng=rng)
    if missing:
        y[rng.random(y.shape) < 0.3] = np.nan
        y[0] = 0.3
    hyper = Hyper() if free else Hyper(sigma2=1.3, c=0.8)
    leaves = leaves_from_data(y, 0.1)
    work = Workspace(columns, leaves, hyper)
    _, converged, message, _ = laplace.maximise(work, tol=1e-10)
    assert converged, message
    s = work.logit()
    numeric = np.empty((n - 1, n - 1))
    for k in range(n - 1):
        step = np.zeros(n - 1)
        step[k] = 1e-5
        work.density(s + step)
        up = work.grad.copy()
        work.density(s - step)
        numeric[k] = -(up - work.grad) / 2e-5
    work.density(s)
    term, positive = laplace.laplace_at_maximum(work)
    sign, log_det = np.linalg.slogdet(numeric)
    assert positive
    assert sign > 0
    assert term == pytest.approx(0.5 * (n - 1) * np.log(2 * np.pi) - 0.5 * log_det, abs=2e-3)


def test_sparse_curvature_is_close_to_dense() -> None:
    rng = np.random.default_rng(2)
    y, columns = prior.sample_data(60, 5, c=1.0, rng=rng)
    leaves = leaves_from_data(y)
    for hyper in (Hyper(sigma2=1.0, c=1.0), Hyper()):
        dense = laplace.log_evidence_laplace(columns, leaves, hyper)
        sparse = laplace.log_evidence_laplace(columns, leaves, hyper, dense_limit=0)
        assert dense.converged
        assert sparse.converged
        assert sparse.log_evidence == pytest.approx(dense.log_evidence, abs=0.01 * 60)


def test_sparse_curvature_is_exact_on_three_leaves() -> None:
    """With two internal nodes every pair is a node and its parent."""
    case = next(c for c in GOLDEN["cases"] if c["name"] == "three_leaves_5d")
    columns, leaves = golden_tree(case), golden_leaves(case)
    for hyper in (fixed(case), Hyper()):
        dense = laplace.log_evidence_laplace(columns, leaves, hyper)
        sparse = laplace.log_evidence_laplace(columns, leaves, hyper, dense_limit=0)
        assert sparse.log_evidence == pytest.approx(dense.log_evidence, abs=1e-8)


def test_laplace_ranks_all_fifteen_structures() -> None:
    rng = np.random.default_rng(11)
    y, _ = prior.sample_data(4, 4, c=1.0, rng=rng)
    leaves, hyper = leaves_from_data(y), Hyper(sigma2=1.0, c=1.0)
    exact, approximate = [], []
    for structure in naive.structures((0, 1, 2, 3)):
        columns = from_nested(structure, [0.2, 0.4, 0.6])
        exact.append(
            naive.log_evidence_given_structure(columns, y, 1.0, 1.0, 0.0, nodes=24) + prior.log_structure_prior(columns)
        )
        approximate.append(laplace.log_evidence_laplace(columns, leaves, hyper).log_evidence)
    assert np.argmax(exact) == np.argmax(approximate)
    assert np.array(approximate) == pytest.approx(np.array(exact), abs=0.5)
