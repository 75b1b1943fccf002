"""Passes over chunks: exact bookkeeping, never worse, and at least as good as the sequential reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from dtree.core.families import DiagonalGaussian, Gaussian, Multinomial, Poisson, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.kmeans.fit import chunk_bounds, fit_passes, survey_rows
from dtree.kmeans.greedy import sequential_kmeans, sum_by_label
from dtree.kmeans.passes import PassSettings, assign_chunk, combine_in_tree, combine_sums, consolidate, start_state
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.survey import check_rows


def blobs(n, d=3, k=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 4, size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


def documents(n=300, v=30, seed=0):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(v, 0.2), size=4)
    return np.array([rng.multinomial(20, topics[i % 4]) for i in range(n)])


@pytest.mark.parametrize("family", [Gaussian, DiagonalGaussian])
def test_objective_is_the_objective_of_the_labels(family):
    X = blobs(700)
    model = Model(family.defaults(moments_of(X)), DirichletProcess(1.0))
    fit = fit_passes(model, X, start_state(model, X[:50], 0, len(X)), PassSettings(), chunk_rows=64)
    rebuilt = sum_by_label(model.atoms(X), fit.labels, fit.state.k)
    np.testing.assert_allclose(rebuilt, fit.state.statistics, rtol=1e-9, atol=1e-9)
    assert abs(math.fsum(model.log_phi_h(rebuilt)) - fit.state.objective) < 1e-6
    assert fit.state.objective == max(step.objective for step in fit.trace)


def test_births_find_clusters_the_sample_missed():
    X = np.vstack([blobs(200, seed=1), np.full((5, 3), 60.0) + blobs(5, k=1)])
    model = Model(Gaussian.defaults(moments_of(X[:200])), DirichletProcess(1.0))
    start = start_state(model, X[:100], 0, len(X))
    fit = fit_passes(model, X, start, PassSettings(), chunk_rows=50)
    assert len(set(fit.labels[200:].tolist())) == 1
    assert fit.labels[200] not in fit.labels[:200]


def test_births_of_many_chunks_become_one_cluster():
    model = Model(Poisson([1.0, 1.0], [0.1, 0.1]), DirichletProcess(1.0))
    X = np.array([[1, 1], [2, 1], [80, 90], [82, 88]] * 40)
    scorer = Scorer(model, model.atoms(X[:1]))
    results = [assign_chunk(scorer, X[a:b], None, i, 1, 0) for i, (a, b) in enumerate(chunk_bounds(len(X), 8))]
    state = consolidate(model, combine_in_tree([r[1] for r in results], lambda g: combine_sums(model, g)), 1)
    labels = np.concatenate([state.relabel(i, raw) for i, (raw, _) in enumerate(results)])
    assert state.k == 2
    assert np.array_equal(labels, np.array([0, 0, 1, 1] * 40))
    np.testing.assert_allclose(state.statistics, sum_by_label(model.atoms(X), labels, 2))


@pytest.mark.parametrize("seed", range(3))
def test_at_least_as_good_as_the_sequential_reference(seed):
    X = blobs(1500, d=4, k=12, seed=seed)
    model = Model(Gaussian.defaults(moments_of(X)), DirichletProcess(1.0))
    reference = sequential_kmeans(model, model.atoms(X), np.random.default_rng(seed).permutation(len(X)))
    survey = survey_rows(X, Gaussian, seed, 256, 600)
    start = start_state(model, survey.sample, seed, len(X))
    fit = fit_passes(model, X, start, PassSettings(seed), chunk_rows=256)
    assert fit.state.objective >= reference.objective - 1e-6


def test_sparse_rows_give_the_same_answer():
    X = documents()
    model = Model(Multinomial.defaults(moments_of(X)), DirichletProcess(1.0))
    start = start_state(model, X[:100], 0, len(X))
    dense = fit_passes(model, X, start, PassSettings(), chunk_rows=37)
    thin = fit_passes(model, sparse.csr_array(X), start, PassSettings(), chunk_rows=37)
    assert np.array_equal(dense.labels, thin.labels)
    assert dense.state.objective == thin.state.objective
    assert dense.state.k == 4


@pytest.mark.parametrize("chunk_rows", [7, 64, 1000])
def test_survey_equals_moments_of_the_whole(chunk_rows):
    X = blobs(300) + 1e6
    survey = survey_rows(X, Gaussian, 3, chunk_rows, 40)
    expected, found = moments_of(X), survey.moments(True)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-9)
    np.testing.assert_allclose(found.mean, expected.mean)
    assert survey.sample.shape == (40, 3)
    assert np.all(np.diff(survey.keys) > 0)
    thin = survey_rows(sparse.csr_array(documents()), Multinomial, 3, chunk_rows, 40)
    np.testing.assert_allclose(thin.moments(False).variance, moments_of(documents()).variance)


def test_bad_rows_are_named():
    X = np.ones((10, 2))
    X[7, 1] = np.inf
    with pytest.raises(ValueError, match="row 7 holds NaN or infinity in column 1"):
        survey_rows(X, Gaussian, 0, 3, 5)
    with pytest.raises(ValueError, match="row 4 is not a whole number of 0 or more in column 0"):
        check_rows(sparse.csr_array(np.array([[0, 1], [-1, 0]])), Poisson, 3)
    with pytest.raises(ValueError, match="the data have type"):
        check_rows(np.array([["a"]]), Poisson)
    with pytest.raises(ValueError, match="takes dense rows"):
        survey_rows(sparse.csr_array(np.eye(4)), Gaussian, 0, 3, 5)
