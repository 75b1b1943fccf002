"""Variational mixtures by passes: the same bits on any number of workers, after a death, and after a resumption."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import zarr
from scipy import sparse

from dtree.core.families import Gaussian, moments_of
from dtree.engine.cluster import cluster_client
from dtree.engine.variational import fit_variational, open_run, predict_dataset, resume
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.engine.variational_folder import VariationalRun
from dtree.variational.variants import VARIANTS


def rows(n=2500, d=3, k=7, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 5.0, size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


# A start from few rows and no tolerance, so that every one of the passes changes something.
OPTIONS = {
    "variant": "O-CTSB",
    "family": Gaussian.defaults(moments_of(rows()), share=0.05),
    "truncation": 10,
    "chunk_bytes": 2500 * 24 // 11,
    "sample_rows": 500,
    "seed": 3,
    "max_iter": 6,
    "tol": 0.0,
    "split_merge": 0,
    "init": "kmeans",
}


def bits(path):
    """Everything a finished run says, as bytes."""
    run = VariationalRun(path)
    point = run.checkpoint(run.generations()[-1])
    labels = np.asarray(zarr.open_array(str(run.path / "labels"), mode="r")[...])
    arrays = (labels, point.sums.statistics, point.sums.gram, point.sums.log_zero, np.array(point.bounds))
    return [array.tobytes() for array in arrays] + [run.attributes["shown"], point.alpha, point.sums.entropy]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    np.save(folder / "x.npy", rows())
    fit_variational(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def test_results_belong_together(reference):
    model, X = open_run(reference / "run"), rows()
    run = VariationalRun(reference / "run")
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.array_equal(np.unique(model.labels_), np.arange(model.n_clusters_))
    assert model.n_clusters_ >= 5  # the other tests compare something worth comparing
    assert model.n_iter_ == 6
    assert len(model.elbo_trace_) == 6
    assert not model.elbo_is_bound_
    assert np.asarray(zarr.open_array(str(run.path / "trace" / "elbo"), mode="r")[...]).tolist() == list(
        model.elbo_trace_
    )
    assert not (run.path / "passes").exists()
    assert not (run.path / "staged").exists()
    assert run.attributes["method"] == "variational"
    assert resume(run.path).elbo_ == model.elbo_


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_fit_by_passes_is_the_fit_in_memory(tmp_path, variant):
    """All rows fit the sample, so the passes start where the fit in memory stops, and stay there."""
    X = rows(700, k=4)
    settings = {"truncation": 8, "tol": 1e-8}
    passes = fit_variational(X, tmp_path / "run", variant, chunk_bytes=700 * 24 // 5, **settings)
    memory = DPMixtureVB(variant, random_state=0, **settings).fit(X)
    assert np.array_equal(passes.labels_, memory.labels_)
    # In memory a collapsed variant has an exact bound at so few rows; the engine's is the expansion.
    assert passes.elbo_ == pytest.approx(memory.elbo_, abs=0.5 if VARIANTS[variant].collapsed else 1e-3)
    assert passes.score_samples(X) == pytest.approx(memory.score_samples(X), abs=1e-2)
    assert passes.converged_
    if not VARIANTS[variant].collapsed:
        assert passes.elbo_is_bound_
        assert np.diff(passes.elbo_trace_).min() > -1e-8


@pytest.mark.parametrize(("workers", "processes"), [(1, True), (2, False)])
def test_same_bits_on_any_cluster(reference, tmp_path, workers, processes):
    with cluster_client(n_workers=workers, processes=processes, memory_limit="1.5GB", warm=False) as client:
        fit_variational(reference / "x.npy", tmp_path / "run", client=client, **OPTIONS)
    assert bits(tmp_path / "run") == bits(reference / "run")


def test_same_bits_after_a_worker_is_killed(reference, tmp_path, client):
    victims = []

    def kill_one(step):
        if step.number in (1, 3):
            victims.append(next(worker.pid for worker in client.cluster.workers.values() if worker.pid))
            os.kill(victims[-1], signal.SIGKILL)

    fit_variational(reference / "x.npy", tmp_path / "run", client=client, progress=kill_one, **OPTIONS)
    assert len(victims) == 2
    assert bits(tmp_path / "run") == bits(reference / "run")


@pytest.mark.parametrize("stop_after", [1, 4, 6])
def test_same_bits_after_an_interruption(reference, tmp_path, stop_after):
    def stop(step):
        if step.number == stop_after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_variational(reference / "x.npy", tmp_path / "run", progress=stop, **OPTIONS)
    with pytest.raises(ValueError, match="is not finished: resume it"):
        open_run(tmp_path / "run")
    seen = []
    resume(tmp_path / "run", progress=lambda step: seen.append(step.number))
    assert seen == list(range(stop_after + 1, 7))
    assert bits(tmp_path / "run") == bits(reference / "run")


@pytest.mark.parametrize("variant", ["TSB", "CFSD"])
def test_learned_alpha_survives_a_resumption(tmp_path, variant):
    options = {**OPTIONS, "variant": variant, "learn_alpha": True, "alpha": 5.0}

    def stop(step):
        if step.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_variational(rows(), tmp_path / "stopped", progress=stop, **options)
    fit_variational(rows(), tmp_path / "whole", **options)
    again = resume(tmp_path / "stopped")
    assert bits(tmp_path / "stopped") == bits(tmp_path / "whole")
    assert again.alpha_ != 5.0


def test_workers_predict_what_the_opened_run_predicts(reference, tmp_path, client):
    new = rows(500, seed=1)
    assert predict_dataset(reference / "run", new, tmp_path / "labels.zarr", client=client) == 500
    model = open_run(reference / "run")
    labels = np.asarray(zarr.open_array(str(tmp_path / "labels.zarr" / "labels"), mode="r")[...])
    density = np.asarray(zarr.open_array(str(tmp_path / "labels.zarr" / "log_density"), mode="r")[...])
    assert np.array_equal(labels, model.predict(new))
    assert density == pytest.approx(model.score_samples(new), abs=1e-10)


def test_sparse_counts(tmp_path):
    random = np.random.default_rng(1)
    y = random.integers(2, size=400)
    rates = np.array([[0.2] * 6 + [4.0] * 6, [4.0] * 6 + [0.2] * 6])
    X = sparse.csr_matrix(random.poisson(rates[y]).astype(float))
    model = fit_variational(X, tmp_path / "run", "FSD", "multinomial", truncation=6)
    assert model.n_clusters_ == 2
    assert np.array_equal(model.labels_, model.predict(X))


def test_constant_columns_are_left_out(tmp_path):
    X = rows(400, k=3)
    wide = np.column_stack([X[:, 0], np.full(400, 7.0), X[:, 1:]])
    plain = fit_variational(X, tmp_path / "plain", "O-TSB", truncation=6)
    model = fit_variational(wide, tmp_path / "wide", "O-TSB", truncation=6)
    assert model.columns_.tolist() == [0, 2, 3]
    assert np.array_equal(plain.labels_, model.labels_)
    assert np.array_equal(plain.score_samples(X), model.score_samples(wide))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"truncation": 1}, "truncation must be at least 2"),
        ({"truncation": 500}, "truncation 500 is above the number of rows 60"),
        ({"variant": "VB"}, "choose one of TSB, O-TSB, CTSB, O-CTSB, FSD, CFSD"),
        ({"family": "cauchy"}, "unknown family 'cauchy'"),
        ({"family": "poisson"}, "row 0 is not a whole number"),
        ({"alpha": -1.0}, "alpha must be a positive number"),
        ({"init": np.zeros(60)}, "starts from a sample"),
        ({"expectation": "exact"}, "needs schedule='parallel'"),
        ({"warm_start": True}, "no setting 'warm_start'"),
    ],
)
def test_bad_settings_get_one_sentence_and_no_folder_that_blocks(tmp_path, settings, sentence):
    X = rows(60, k=3)
    with pytest.raises(ValueError, match=sentence):
        fit_variational(X, tmp_path / "run", **settings)
    fit_variational(X, tmp_path / "run", "FSD", truncation=5)
