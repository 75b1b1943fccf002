"""What the loop promises: bounds that do not fall, escapes and batches that only raise them, the external check."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

from dtree.core.families import Bernoulli, Gaussian, Poisson
from dtree.variational import escapes, fitting
from dtree.variational.escapes import escape
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.memoised import Memory
from dtree.variational.steps import Rule, make_block, sums_of
from dtree.variational.variants import VARIANTS
from dtree.variational.weights import expected_weights


def blobs(rows=300, seed=0, spread=4.0):
    random = np.random.default_rng(seed)
    centres = spread * random.normal(size=(4, 2))
    return centres[random.integers(4, size=rows)] + random.normal(size=(rows, 2))


def family_for(X):
    return Gaussian(X.mean(axis=0), 0.1, 4.0, np.cov(X.T) * 0.1)


def random_start(rows, size, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(size), size=rows)


@pytest.mark.parametrize("learn_alpha", [False, True])
@pytest.mark.parametrize("alpha", [0.5, 4.0])
@pytest.mark.parametrize("variant", ["TSB", "O-TSB", "FSD"])
def test_uncollapsed_bound_never_falls(variant, alpha, learn_alpha):
    for seed in range(3):
        X = blobs(seed=seed)
        rule = Rule(family_for(X), VARIANTS[variant], alpha)
        rows = InMemory(make_block(rule.family, X), random_start(300, 8, seed))
        fit = ascend(rows, rows.sums(rule), rule, 200, 1e-12, learn_alpha)
        assert np.diff(fit.trace).min() > -1e-8
        if learn_alpha:
            assert fit.rule.alpha != alpha


@pytest.mark.parametrize("variant", ["TSB", "O-CTSB"])
def test_statistics_that_are_kept_change_no_bits(variant, monkeypatch):
    X = blobs(700)
    rule = Rule(family_for(X), VARIANTS[variant], 1.0)
    found = []
    for most in (fitting._MOST_REMEMBERED, 0):
        monkeypatch.setattr(fitting, "_MOST_REMEMBERED", most)
        rows = InMemory(make_block(rule.family, X), random_start(700, 8))
        fit = ascend(rows, rows.sums(rule), rule, 30, 0.0)
        other = Rule(fit.rule.family.refined(fit.sums.statistics, np.ones(8)), rule.variant, 1.0)
        again = ascend(rows, rows.sums(other), other, 5, 0.0)
        found.append((fit.trace, again.trace, rows.responsibilities.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize("variant", ["CTSB", "CFSD"])
def test_exact_sequential_collapsed_bound_never_falls(variant):
    X = blobs(60)
    rule = Rule(family_for(X), VARIANTS[variant], 1.0)
    rows = InMemory(make_block(rule.family, X), random_start(60, 6), "exact", "sequential")
    fit = ascend(rows, rows.sums(rule), rule, 60, 1e-12)
    assert fit.is_bound
    assert np.diff(fit.trace).min() > -1e-8


def test_large_collapsed_bounds_are_labelled_as_approximate():
    X = blobs(1500)
    for variant, is_bound in (("CFSD", False), ("O-CTSB", False), ("FSD", True), ("TSB", True)):
        rule = Rule(family_for(X), VARIANTS[variant], 1.0)
        rows = InMemory(make_block(rule.family, X), random_start(1500, 4))
        assert ascend(rows, rows.sums(rule), rule, 3, 0.0).is_bound is is_bound


def test_finite_symmetric_dirichlet_equals_scikit_learn_iteration_by_iteration():
    X = blobs(400)
    size, alpha, d = 6, 1.3, 2
    mean, scale = X.mean(axis=0), np.cov(X.T) * 0.2
    theirs = BayesianGaussianMixture(
        n_components=size,
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=alpha / size,
        mean_prior=mean,
        mean_precision_prior=0.3,
        degrees_of_freedom_prior=d + 1.5,
        covariance_prior=scale,
        reg_covar=0.0,
        warm_start=True,
        max_iter=1,
        tol=0.0,
        init_params="random",
        random_state=3,
    )
    ours = Rule(Gaussian(mean, 0.3, d + 1.5, scale), VARIANTS["FSD"], alpha)
    constants = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X)
        theirs_r = theirs.predict_proba(X)  # their responsibilities after one iteration are our start
        rows = InMemory(make_block(ours.family, X), theirs_r)
        sums = rows.sums(ours)
        for _ in range(15):
            theirs.fit(X)  # E-step then M-step from the last parameters
            fit = ascend(rows, sums, ours, 0, 0.0)
            weights = expected_weights(ours.variant, alpha, fit.sums.counts)
            assert theirs.weights_ == pytest.approx(weights, abs=1e-10)
            _, _, posterior_mean, posterior_scale = ours.family.posterior(fit.sums.statistics)
            unit = ours.family.unit
            assert theirs.means_ == pytest.approx(ours.family.origin + unit * posterior_mean, abs=1e-9)
            covariance = posterior_scale * np.outer(unit, unit) / (ours.family.dof + fit.sums.counts)[:, None, None]
            assert theirs.covariances_ == pytest.approx(covariance, abs=1e-9)
            constants.append(fit.elbo - theirs.lower_bound_)
            sums = rows.run(fit.state)
            assert theirs.predict_proba(X) == pytest.approx(rows.responsibilities, abs=1e-9)
    assert np.ptp(constants) < 1e-7  # the bounds differ by a constant of data and prior


@pytest.mark.parametrize("variant", VARIANTS)
def test_escapes_only_raise_the_bound_and_leave_a_poor_start(variant):
    X = blobs(120, spread=8.0)
    rule = Rule(family_for(X), VARIANTS[variant], 1.0)
    rows = InMemory(make_block(rule.family, X), np.eye(10)[np.argsort(np.argsort(X[:, 0])) * 10 // 120])
    fit = ascend(rows, rows.sums(rule), rule, 300, 1e-8)
    better, kept = escape(rows, fit, 300, 1e-8, 20, np.random.default_rng(0))
    assert better.elbo >= fit.elbo
    assert np.diff(better.trace[len(fit.trace) :]).min(initial=0.0) > -1e-6
    assert kept.responsibilities.sum(axis=1) == pytest.approx(np.ones(120))
    assert (better.sums.counts > 1.0).sum() == 4
    assert sums_of(kept.block, kept.responsibilities, rule).statistics == pytest.approx(
        better.sums.statistics, abs=1e-7
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_kept_escape_that_used_up_the_passes_earns_another(variant, monkeypatch):
    monkeypatch.setattr(escapes, "_CHEAP_PASSES", 0)  # as where a pass is not cheap
    X = blobs(120, spread=8.0)
    rule = Rule(family_for(X), VARIANTS[variant], 1.0)
    rows = InMemory(make_block(rule.family, X), np.eye(10)[np.zeros(120, dtype=int)])
    fit = ascend(rows, rows.sums(rule), rule, 1, 1e-8)
    passes = []
    monkeypatch.setattr(escapes, "ascend", lambda *given: passes.append(given[3]) or ascend(*given))
    better, kept = escape(rows, fit, 300, 1e-8, 20, np.random.default_rng(0))
    assert min(passes) >= 1
    assert better.elbo > fit.elbo + 1.0
    assert (better.sums.counts > 1.0).sum() == 4
    assert better.trace[: len(fit.trace)] == fit.trace
    assert better.trace[-1] == better.elbo
    again = sums_of(kept.block, kept.responsibilities, rule).statistics
    assert again == pytest.approx(better.sums.statistics, abs=1e-7)


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("variant", ["TSB", "O-TSB", "FSD"])
def test_revisiting_batches_never_lowers_the_bound(variant, kind):
    random = np.random.default_rng(2)
    X = blobs(240)
    family = family_for(X)
    if kind == "poisson":
        X = random.poisson(np.where(random.random((240, 1)) < 0.5, 2.0, 9.0), size=(240, 3)).astype(float)
        family = Poisson([1.0] * 3, [0.3] * 3)
    if kind == "bernoulli":
        X = (random.random((240, 5)) < np.where(random.random((240, 1)) < 0.5, 0.1, 0.8)).astype(float)
        family = Bernoulli([1.0] * 5, [1.0] * 5)
    rule = Rule(family, VARIANTS[variant], 2.0)
    batches = [make_block(family, X[i::4]) for i in range(4)]
    memory = Memory(rule, sums_of(batches[0], random_start(60, 6), rule))
    for name, block in enumerate(batches):
        memory.visit(str(name), block)
    assert memory.total().rows == pytest.approx(240)
    first = len(memory.trace)
    for _ in range(8):
        for name, block in enumerate(batches):
            memory.visit(str(name), block)
    assert np.diff(memory.trace[first - 1 :]).min() > -1e-8
    assert memory.total().rows == pytest.approx(240)
