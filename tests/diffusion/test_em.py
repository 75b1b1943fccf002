"""EM over divergence times: the mean-field bound against golden values, and monotone improvement."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.diffusion import prior
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.em import log_evidence_em, mean_field_at_times
from dtree.diffusion.objective import Hyper
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
def test_more_iterations_never_lower_the_bound(hyper: Hyper) -> None:
    y, columns = prior.sample_data(8, 6, rng=np.random.default_rng(0))
    leaves = leaves_from_data(y)
    values = [log_evidence_em(columns, leaves, hyper, max_iter=k).log_evidence for k in (1, 2, 4, 8, 16)]
    assert np.all(np.diff(values) > -1e-6)


def test_non_convergence_is_reported() -> None:
    y, columns = prior.sample_data(8, 3, rng=np.random.default_rng(1))
    fit = log_evidence_em(columns, leaves_from_data(y), Hyper(), max_iter=1)
    assert not fit.converged
    assert "did not converge" in fit.message
