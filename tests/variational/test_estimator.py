"""DPMixtureVB as users meet it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from dtree import DPMixtureVB
from dtree.core.families import Gaussian
from dtree.variational.variants import VARIANTS

FAST = {"max_iter": 100, "tol": 1e-5, "random_state": 0}


def blobs(rows=200, d=2, seed=0):
    random = np.random.default_rng(seed)
    centres = 7.0 * np.eye(3, d)
    y = random.integers(3, size=rows)
    return centres[y] + random.normal(size=(rows, d)), y


CHECKED = {"max_iter": 20, "tol": 1e-3, "split_merge": 1, "random_state": 0}


@parametrize_with_checks([DPMixtureVB(**CHECKED), DPMixtureVB("TSB", "gaussian-diag", init="kmeans", **CHECKED)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
def test_finds_blobs_with_nothing_set(variant, family):
    X, y = blobs()
    model = DPMixtureVB(variant, family, random_state=0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.98
    assert model.n_clusters_ == 3
    assert model.weights_.sum() == pytest.approx(1.0)
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(200))
    assert model.means_.shape == (40, 2)
    assert model.converged_


@pytest.mark.parametrize("family", ["bernoulli", "multinomial", "poisson"])
def test_finds_groups_of_counts_dense_and_sparse(family):
    random = np.random.default_rng(1)
    y = random.integers(2, size=300)
    rates = np.array([[0.2] * 6 + [4.0] * 6, [4.0] * 6 + [0.2] * 6])
    X = random.poisson(rates[y]).astype(float)
    X = np.minimum(X, 1.0) if family == "bernoulli" else X
    dense = DPMixtureVB("O-CTSB", family, truncation=10, **FAST).fit(X)
    assert adjusted_rand_score(y, dense.labels_) > 0.9
    thin = DPMixtureVB("O-CTSB", family, truncation=10, **FAST).fit(sparse.csr_matrix(X))
    assert adjusted_rand_score(y, thin.labels_) > 0.9
    assert thin.score_samples(sparse.csr_matrix(X)) == pytest.approx(thin.score_samples(X), abs=1e-9)
    total = {"bernoulli": "probabilities_", "multinomial": "probabilities_", "poisson": "intensities_"}[family]
    assert getattr(dense, total).shape == (10, 12)


@pytest.mark.parametrize("variant", ["O-TSB", "CFSD"])
def test_predictive_density_integrates_to_one(variant):
    X, _ = blobs(60, seed=3)
    model = DPMixtureVB(variant, truncation=5, **FAST).fit(X)
    axis = np.linspace(-60.0, 60.0, 601)
    a, b = (grid.ravel() for grid in np.meshgrid(axis, axis))
    total = np.exp(model.score_samples(np.column_stack([a, b]))).sum() * (axis[1] - axis[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.02)  # Student tails reach beyond the square


def test_poisson_predictive_sums_to_one():
    X = np.random.default_rng(0).poisson(3.0, size=(50, 1)).astype(float)
    model = DPMixtureVB("FSD", "poisson", truncation=4, **FAST).fit(X)
    assert np.exp(model.score_samples(np.arange(200.0)[:, None])).sum() == pytest.approx(1.0, abs=1e-8)


def test_starts_from_labels_and_from_responsibilities():
    X, y = blobs()
    from_labels = DPMixtureVB("FSD", truncation=6, init=y, split_merge=0, **FAST).fit(X)
    given = np.eye(3)[y]
    from_shares = DPMixtureVB("FSD", truncation=6, init=given, split_merge=0, **FAST).fit(X)
    assert from_labels.elbo_ == from_shares.elbo_
    assert adjusted_rand_score(y, from_labels.labels_) == 1.0


def test_restarts_keep_the_highest_bound():
    X, _ = blobs(120)
    settings = {"truncation": 10, "init": "kmeans", "split_merge": 0, **FAST}
    one = DPMixtureVB("CFSD", n_init=1, **settings).fit(X)
    many = DPMixtureVB("CFSD", n_init=5, **settings).fit(X)
    assert many.elbo_ >= one.elbo_


def test_warm_start_goes_on_where_it_stopped():
    X, _ = blobs()
    settings = {"truncation": 8, "init": "kmeans", "split_merge": 0, "random_state": 0}
    model = DPMixtureVB("FSD", max_iter=3, tol=0.0, warm_start=True, **settings).fit(X)
    first = model.elbo_
    for _ in range(30):
        model.fit(X)
    assert model.elbo_ > first
    whole = DPMixtureVB("FSD", max_iter=300, tol=0.0, **settings).fit(X)
    assert model.elbo_ == pytest.approx(whole.elbo_, abs=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_partial_fit_over_batches_comes_close_to_a_whole_fit(variant):
    X, y = blobs(400)
    model = DPMixtureVB(variant, truncation=6, **FAST)
    traces = []
    for _ in range(15):
        for part in range(4):
            traces.append(model.partial_fit(X[part::4]).elbo_)
    if not VARIANTS[variant].collapsed:
        assert np.diff(traces[3:]).min() > -1e-8
    assert model.fit_.sums.rows == pytest.approx(400)
    assert adjusted_rand_score(y, model.predict(X)) > 0.98
    again = len(model.elbo_trace_)
    model.partial_fit(X[0::4], batch="another name")
    assert model.fit_.sums.rows == pytest.approx(500)
    assert len(model.elbo_trace_) == again + 1


def test_learned_alpha_raises_the_bound():
    X, _ = blobs()
    fixed = DPMixtureVB("TSB", truncation=20, alpha=20.0, **FAST).fit(X)
    learned = DPMixtureVB("TSB", truncation=20, alpha=20.0, learn_alpha=True, **FAST).fit(X)
    assert learned.elbo_ > fixed.elbo_
    assert learned.alpha_ < 5.0


def test_same_seed_same_answer_and_pickles():
    X, _ = blobs()
    first, second = (DPMixtureVB(truncation=10, **FAST).fit(X) for _ in range(2))
    assert first.elbo_ == second.elbo_
    loaded = pickle.loads(pickle.dumps(first))
    assert np.array_equal(loaded.score_samples(X), first.score_samples(X))


def test_order_of_rows_does_not_matter():
    X, _ = blobs()
    order = np.random.default_rng(1).permutation(len(X))
    first = DPMixtureVB(truncation=10, **FAST).fit(X)
    second = DPMixtureVB(truncation=10, **FAST).fit(X[order])
    assert np.array_equal(first.labels_[order], second.labels_)


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_default_is_equivariant_under_shift_and_scale(shift, unit):
    X, _ = blobs(80)
    plain = DPMixtureVB("FSD", truncation=8, **FAST).fit(X)
    moved = DPMixtureVB("FSD", truncation=8, **FAST).fit(X * unit + shift * unit)
    assert np.array_equal(plain.labels_, moved.labels_)
    assert moved.elbo_ == pytest.approx(plain.elbo_ - 160 * np.log(unit), abs=1e-3)


def test_constant_and_collinear_columns_are_no_trouble():
    X, y = blobs()
    X = np.column_stack([X, np.full(200, 3.0), X[:, 0] + X[:, 1]])
    for family in ("gaussian", "gaussian-diag"):
        model = DPMixtureVB("O-CTSB", family, truncation=8, **FAST).fit(X)
        assert np.isfinite(model.elbo_)
        assert np.all(np.isfinite(model.score_samples(X)))
        assert adjusted_rand_score(y, model.labels_) > 0.5
    alike = DPMixtureVB(truncation=4, **FAST).fit(np.ones((20, 2)))
    assert alike.n_clusters_ == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"truncation": 1}, "truncation must be at least 2"),
        ({"truncation": 500}, "truncation 500 is above the number of rows 200"),
        ({"variant": "VB"}, "choose one of TSB, O-TSB, CTSB, O-CTSB, FSD, CFSD"),
        ({"family": "cauchy"}, "unknown family 'cauchy'"),
        ({"family": "poisson"}, "needs counts"),
        ({"family": "bernoulli"}, "needs zeros and ones"),
        ({"alpha": 0.0}, "alpha must be a positive number"),
        ({"init": "guess"}, "unknown init 'guess'"),
        ({"init": np.zeros(7)}, "one label per row"),
        ({"init": np.arange(200), "truncation": 10}, "200 different labels but truncation is 10"),
        ({"init": -np.ones((200, 3)), "truncation": 10}, "not negative"),
        ({"expectation": "guess"}, "choose one of exact, corrected, taylor"),
        ({"schedule": "guess"}, "unknown schedule"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"family": Gaussian(np.zeros(3), 1.0, 5.0, np.eye(3))}, "3 features but the data have 2"),
    ],
)
def test_bad_settings_get_one_sentence(settings, sentence):
    X, _ = blobs()
    with pytest.raises(ValueError, match=sentence):
        DPMixtureVB(**settings).fit(X)


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (np.zeros(200), "sums to zero"),
        (-np.ones(200), "not negative"),
        (np.ones(7), "one number per row"),
        (np.full(200, np.nan), "finite"),
    ],
)
def test_bad_weights_get_one_sentence(weight, sentence):
    X, _ = blobs()
    with pytest.raises(ValueError, match=sentence):
        DPMixtureVB().fit(X, sample_weight=weight)


def test_exact_expectations_refuse_large_data():
    X = np.random.default_rng(0).normal(size=(6000, 1))
    with pytest.raises(ValueError, match="use expectation='corrected'"):
        DPMixtureVB(expectation="exact").fit(X)


def test_a_scale_lost_to_rounding_is_named():
    family = Gaussian(np.zeros(2), 1.0, 3.0, np.eye(2))
    lost = np.array([[2.0, 0.0, 0.0, -5.0, 0.0, 1.0]])  # a negative sum of squares
    with pytest.raises(ValueError, match="not positive definite"):
        family.expected_log_density(lost)
