"""The golden values: every quantity at the given start, and all six variants iteration by iteration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dtree.core.families import Gaussian
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.label_kernels import collapsed_weights, conditional_log_prior
from dtree.variational.predictive import log_predictive
from dtree.variational.steps import Rule, bound, make_block, sums_of
from dtree.variational.sums_of_bernoullis import corrected_log, distribution_of_sum, expected_value, taylor_log
from dtree.variational.sweeps import exact_sweep
from dtree.variational.variants import VARIANTS
from dtree.variational.weights import (
    approximate_log_prior,
    exact_log_prior,
    expected_log_weights,
    expected_weights,
    label_order,
    log_prior_at_counts,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "vb.json").read_text())
CASES = {case["name"]: case for case in GOLDEN["cases"]}
RUNS = [(name, i) for name, case in CASES.items() for i in range(len(case["runs"]))]


def family_of(case):
    prior = case["prior"]
    return Gaussian(prior["m0"], prior["k0"], prior["nu0"], prior["S0"])


def run_name(run):
    return "-".join([run[0], *(CASES[run[0]]["runs"][run[1]][key] for key in ("variant", "expectation", "schedule"))])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("weights", ["TSB", "FSD"])
def test_every_term_at_the_start(name, weights):
    case = CASES[name]
    family, alpha, X, r = family_of(case), case["alpha"], np.array(case["X"]), np.array(case["r0"])
    golden = case["at_r0"][weights]
    plain, collapsed = VARIANTS[weights], VARIANTS["C" + weights]
    block = make_block(family, X)
    rule = Rule(family, collapsed, alpha, corrected=False)
    sums = sums_of(block, r, rule)
    whole = np.ones(len(X), dtype=np.int64)
    exact = exact_log_prior(collapsed, alpha, r, whole)
    assert expected_log_weights(plain, alpha, sums.counts) == pytest.approx(golden["e_logpi"], abs=1e-10)
    assert expected_weights(plain, alpha, sums.counts) == pytest.approx(golden["expected_weights"], abs=1e-10)
    at_counts = log_prior_at_counts(plain, alpha, sums.counts)
    assert at_counts == pytest.approx(golden["log_p_at_expected_counts"], abs=1e-10)
    assert exact == pytest.approx(golden["e_logpz_exact"], abs=1e-10)
    assert approximate_log_prior(collapsed, alpha, sums.moments(), False) == pytest.approx(
        golden["e_logpz_taylor"], abs=1e-10
    )
    assert bound(sums, Rule(family, plain, alpha)) == pytest.approx(golden["elbo_uncollapsed"], abs=1e-9)
    assert bound(sums, rule, exact) == pytest.approx(golden["elbo_collapsed_exact"], abs=1e-9)

    conditional = np.empty(case["T"])
    conditional_log_prior(collapsed_weights(collapsed, alpha, sums.moments(), False), r[0], conditional)
    shift = 0.0 if plain.sticks else np.log(len(X) - 1 + alpha)  # a constant that the softmax does not need
    assert conditional - shift == pytest.approx(golden["cond_taylor_row0"], abs=1e-10)
    labels = r.copy()
    exact_sweep(collapsed, alpha, np.zeros_like(r), labels, whole, sequential=False)
    expected = np.exp(golden["cond_exact_row0"])
    assert labels[0] == pytest.approx(expected / expected.sum(), abs=1e-12)

    scores = family.statistics_of_kept(block.rows) @ family.expected_log_density(sums.statistics).T
    assert scores == pytest.approx(np.array(case["at_r0"]["e_loglik"]), abs=1e-9)
    student = log_predictive(family, np.array(case["X_test"]), sums.statistics)
    assert student == pytest.approx(np.array(case["at_r0"]["student_logpdf_test"]), abs=1e-9)
    if "log_evidence_exact" in golden:
        assert bound(sums, rule, exact) < golden["log_evidence_exact"]


def density(family, alpha, variant, sums, X):
    log_weights = np.log(expected_weights(variant, alpha, sums.counts))
    return np.logaddexp.reduce(log_predictive(family, X, sums.statistics) + log_weights, axis=1)


@pytest.mark.parametrize("run", RUNS, ids=run_name)
def test_runs_follow_the_golden_iterations(run):
    case = CASES[run[0]]
    golden = case["runs"][run[1]]
    family, alpha, X, X_test = family_of(case), case["alpha"], np.array(case["X"]), np.array(case["X_test"])
    variant = VARIANTS[golden["variant"]]
    rule = Rule(family, variant, alpha, corrected=False, order="size")
    expectation = golden["expectation"] if variant.collapsed else "taylor"
    for iterations, state in golden["after"].items():
        rows = InMemory(make_block(family, X), np.array(case["r0"]), expectation, golden["schedule"])
        fit = ascend(rows, rows.sums(rule), rule, int(iterations), tol=0.0)
        assert fit.is_bound
        assert fit.elbo == pytest.approx(state["elbo"], abs=1e-8)
        assert rows.responsibilities == pytest.approx(np.array(state["r"]), abs=1e-8)
        assert density(family, alpha, variant, fit.sums, X_test) == pytest.approx(state["test_log_density"], abs=1e-8)

    rows = InMemory(make_block(family, X), np.array(case["r0"]), expectation, golden["schedule"])
    fit = ascend(rows, rows.sums(rule), rule, 40, tol=0.0)
    for _ in range(100):  # until labels stand still: the bound stops moving long before they do
        before = rows.responsibilities.copy()
        fit = ascend(rows, fit.sums, rule, 40, tol=0.0)
        if np.abs(rows.responsibilities - before).max() < 1e-12:
            break
    end = golden["converged"]
    assert fit.elbo == pytest.approx(end["elbo"], abs=1e-8)
    assert np.sort(fit.sums.counts) == pytest.approx(np.sort(end["expected_sizes"]), abs=1e-8)
    assert density(family, alpha, variant, fit.sums, X_test) == pytest.approx(end["test_log_density"], abs=1e-8)


@pytest.mark.parametrize("entry", GOLDEN["taylor_error"], ids=lambda entry: f"a={entry['a']:.3g},mean={entry['mean']}")
def test_expectations_of_a_log(entry):
    n, a, mean = entry["N"], entry["a"], entry["mean"]
    p = mean / n
    variance = n * p * (1 - p)
    distribution = np.empty(n + 1)
    distribution_of_sum(np.full(n, p), np.ones(n, dtype=np.int64), distribution)
    exact = expected_value(distribution, n + 1, np.log(a + np.arange(n + 1.0)))
    assert exact == pytest.approx(entry["exact"], abs=1e-10)
    assert taylor_log(a, mean, variance) == pytest.approx(entry["taylor"], abs=1e-10)
    corrected = corrected_log(a, mean, variance, n * np.log1p(-p))
    assert corrected == pytest.approx(entry["exact"], abs=0.01)  # the plain expansion is off by up to 2.9


@pytest.mark.parametrize("entry", GOLDEN["best_order"], ids=lambda entry: f"alpha={entry['alpha']}")
def test_best_order_of_labels(entry):
    counts = np.array(entry["counts"], dtype=float)
    order = label_order(entry["alpha"], counts)
    assert counts[order].tolist() == entry["best"]
