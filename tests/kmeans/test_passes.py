"""Passes over chunks: exact bookkeeping, never worse, and at least as good as the sequential reference."""

from __future__ import annotations

import math
import uuid
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from dtree.core.families import DiagonalGaussian, Gaussian, Multinomial, Poisson, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.data import open_source
from dtree.data.chunks import chunk_bounds
from dtree.engine.workers import Here
from dtree.kmeans.greedy import sequential_kmeans, sum_by_label
from dtree.kmeans.passes import Progress, assign_chunk, combine_in_tree, combine_sums, consolidate, start_state
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.survey import Survey, check_rows
from dtree.methods.bayes_kmeans import BayesKMeans, Prepared, Settings
from dtree.methods.contract import Job
from dtree.methods.survey import survey_of
from dtree.runs.memory import MemoryStore


class Found(NamedTuple):
    labels: np.ndarray
    statistics: np.ndarray
    objective: float
    trace: list[Progress]


def job_of(X: Any, settings: Settings, seed: int, chunk_rows: int) -> Job:
    return Job(BayesKMeans(), settings, seed, open_source(X), MemoryStore(), uuid.uuid4().hex, chunk_rows)


def survey_rows(X: Any, family: Any, seed: int, chunk_rows: int, sample_rows: int) -> Survey:
    job = job_of(X, Settings(family.name), seed, chunk_rows)
    return survey_of(job, Here(), family.name, sample_rows)


def fit_passes(model: Model, X: Any, sample: Any, chunk_rows: int, seed: int = 0) -> Found:
    """All passes of Bayes K-means over rows in memory, from the clusters of a given sample."""
    job, workers = job_of(X, Settings(model.family, model.prior), seed, chunk_rows), Here()
    first = start_state(model, sample, seed, X.shape[0]).statistics
    job.store.put("prepared", Prepared(np.arange(X.shape[1]), "", model, first))
    state = job.method.start(job, workers)
    while True:
        job.store.put(f"checkpoints/gen-{state.number:08d}", state)
        if job.method.over(job, state):
            break
        state = job.method.step(job, workers, state)
    fitted = job.method.finish(job, workers, state)
    objective = job.state(fitted.best_pass).clusters.objective
    return Found(job.store.rows["labels"].astype(np.int64), fitted.statistics, objective, fitted.trace)


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
    fit = fit_passes(model, X, X[:50], chunk_rows=64)
    rebuilt = sum_by_label(model.atoms(X), fit.labels, fit.statistics.shape[0])
    np.testing.assert_allclose(rebuilt, fit.statistics, rtol=1e-9, atol=1e-9)
    assert abs(math.fsum(model.log_phi_h(rebuilt)) - fit.objective) < 1e-6
    assert fit.objective == max(step.objective for step in fit.trace)
    assert fit.trace[0].line().startswith("pass 1: objective ")


def test_births_find_clusters_the_sample_missed():
    X = np.vstack([blobs(200, seed=1), np.full((5, 3), 60.0) + blobs(5, k=1)])
    model = Model(Gaussian.defaults(moments_of(X[:200])), DirichletProcess(1.0))
    fit = fit_passes(model, X, X[:100], chunk_rows=50)
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
    fit = fit_passes(model, X, survey.sample, chunk_rows=256, seed=seed)
    assert fit.objective >= reference.objective - 1e-6


def test_sparse_rows_give_the_same_answer():
    X = documents()
    model = Model(Multinomial.defaults(moments_of(X)), DirichletProcess(1.0))
    dense = fit_passes(model, X, X[:100], chunk_rows=37)
    thin = fit_passes(model, sparse.csr_array(X), X[:100], chunk_rows=37)
    assert np.array_equal(dense.labels, thin.labels)
    assert dense.objective == thin.objective
    assert dense.statistics.shape[0] == 4


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
