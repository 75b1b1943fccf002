"""EM over divergence times: the mean-field bound against golden values, and monotone improvement."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from dtree.diffusion import em, prior
from dtree.diffusion.belief import expected_squares, leaves_from_data
from dtree.diffusion.em import log_evidence_em, mean_field_at_times
from dtree.diffusion.objective import Hyper, Workspace
from tests.diffusion.test_belief import CASES, golden_leaves, golden_tree


@CASES
def test_mean_field_at_times(case: dict) -> None:
    if "hyper_at_times" not in case:
        pytest.skip("no random hyperparameters in this case")
    at = case["hyper_at_times"]
    hyper = Hyper(precision_prior=tuple(at["prec_prior"]), c_prior=tuple(at["c_prior"]))
    field = mean_field_at_times(golden_tree(case), golden_leaves(case), hyper)
    assert field.precision == pytest.approx(at["q_prec"], abs=1e-8)
    assert field.c == pytest.approx(at["q_c"], abs=1e-8)
    assert field.bound == pytest.approx(at["bound"], abs=1e-8)
    assert field.bound < at["exact_log_p_y_t_given_T"]


@pytest.mark.parametrize("hyper", [Hyper(1.0, 1.0), Hyper()], ids=["fixed", "integrated"])
@pytest.mark.parametrize("over", ["logit", "times"])
def test_more_iterations_never_lower_the_bound(hyper: Hyper, over: str) -> None:
    y, columns = prior.sample_data(8, 6, rng=np.random.default_rng(0))
    leaves = leaves_from_data(y)
    steps = (1, 2, 4, 8, 16, 30, 100)
    values = [log_evidence_em(columns, leaves, hyper, over=over, max_iter=k).log_evidence for k in steps]
    assert np.all(np.diff(values) > -1e-6)


@pytest.mark.parametrize("hyper", [Hyper(1.0, 1.0), Hyper()], ids=["fixed", "integrated"])
@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("n", [4, 12, 40])
def test_ordinary_trees_converge(n: int, noise: float, hyper: Hyper) -> None:
    for seed in range(3):
        y, columns = prior.sample_data(n, 3, noise=noise, rng=np.random.default_rng(seed))
        fit = log_evidence_em(columns, leaves_from_data(y, noise), hyper)
        assert fit.converged, fit.message


def test_the_quasi_newton_steps_climb_what_em_climbs() -> None:
    # many more EM steps of their own arrive at the same place
    y, columns = prior.sample_data(6, 5, rng=np.random.default_rng(3))
    leaves, hyper = leaves_from_data(y), Hyper()
    fit = log_evidence_em(columns, leaves, hyper)
    work = Workspace(columns, leaves, hyper)
    for _ in range(300):
        em._em_step(work, leaves, hyper, [(-30.0, 30.0)] * 5, 1.0)
    assert work.tree.rest == pytest.approx(fit.tree.rest, rel=1e-3)


@pytest.mark.parametrize("proper", [0.0, 1.0])
def test_gradients_of_bound_and_m_step(proper: float) -> None:
    y, columns = prior.sample_data(7, 3, rng=np.random.default_rng(0))
    leaves = leaves_from_data(y, 0.01)
    work = Workspace(columns, leaves, Hyper())
    s = work.logit()
    slope = approx_fprime(s, lambda x: em._negative_bound(x, work, proper)[0], 1e-6)
    assert em._negative_bound(s, work, proper)[1] == pytest.approx(slope, abs=1e-4)
    grad, spare = np.empty(6), np.empty(6)
    tree = columns._replace(rest=np.zeros(13))
    given = em.Expected(work.jumps(), expected_squares(columns, leaves, 1.0), 1.3, 0.8, 1.5, proper)

    def value(x: np.ndarray, out: np.ndarray) -> float:
        return em.m_step_value(x, tree, work.frame, given, out)

    value(s, grad)
    assert grad == pytest.approx(approx_fprime(s, lambda x: value(x, spare), 1e-6), abs=1e-3)


def test_the_printed_objective_runs_to_the_leaves_and_says_so() -> None:
    y, columns = prior.sample_data(10, 3, noise=0.02, rng=np.random.default_rng(0))
    fit = log_evidence_em(columns, leaves_from_data(y, 0.02), Hyper(), over="times")
    assert not fit.converged
    assert "ran to the leaves" in fit.message


def test_non_convergence_is_reported() -> None:
    y, columns = prior.sample_data(8, 3, rng=np.random.default_rng(1))
    fit = log_evidence_em(columns, leaves_from_data(y), Hyper(), max_iter=1)
    assert not fit.converged
    assert "did not converge" in fit.message
