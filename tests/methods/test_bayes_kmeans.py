"""The same bits on any number of workers, after a death, and after a resumption."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import zarr
from scipy import sparse

import dtree
from dtree.core.families import Gaussian, Multinomial, moments_of
from dtree.core.model import Model
from dtree.core.partition import canonical_labels
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.engine import pairs
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Given, Place, drive, resume
from dtree.engine.pairs import merge_on_workers, triangle_blocks
from dtree.engine.predict import predict_into
from dtree.kmeans.greedy import merge_clusters, sum_by_label
from dtree.kmeans.scoring import Scorer
from dtree.methods.bayes_kmeans import BayesKMeans, BayesKMeansBHC
from dtree.methods.settings import checked
from dtree.runs.run import Run


def rows(n=3000, d=3, k=12, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 6.0, size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


FAMILY = Gaussian.defaults(moments_of(rows()), share=0.02)
OPTIONS = {"chunk_bytes": 3000 * 24 // 11, "seed": 3, "sample_rows": 150, "tol": 0.0, "family": FAMILY}


def fit(data, out=None, client=None, progress=None, seed=0, chunk_bytes=None, tree=True, **settings):
    method = BayesKMeansBHC() if tree else BayesKMeans()
    given, place = Given(data, chunk_bytes=chunk_bytes), Place(out, client=client)
    return drive(method, checked(method.Settings, settings), given, place, seed, progress)


def fitted(run):
    return run.fitted(BayesKMeansBHC.Fitted)


def bits(run):
    found = fitted(run)
    arrays = [run.row_array("labels"), run.row_array("leaves"), found.statistics, found.leaf_clusters]
    return [values.tobytes() for values in [*arrays, found.tree.left, found.tree.right, found.tree.log_phi_t]]


def opened(reference):
    return Run.open(reference / "run")


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    np.save(folder / "x.npy", rows())
    fit(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def test_results_belong_together(reference):
    run = opened(reference)
    found, leaves = fitted(run), run.row_array("leaves").astype(np.int64)
    model, X, k = found.model, rows(), found.statistics.shape[0]
    statistics = sum_by_label(model.atoms(X), leaves, k)
    np.testing.assert_allclose(statistics, found.statistics, rtol=1e-9, atol=1e-8)
    objective = found.log_joint - model.prior.log_normaliser(3000)
    assert abs(model.log_phi_h(statistics).sum() - objective) < 1e-6
    labels = run.row_array("labels")
    assert np.array_equal(labels, dtree.open(run.path).labels_)
    assert np.array_equal(labels, found.leaf_clusters[leaves])
    assert np.array_equal(leaves, canonical_labels(leaves))
    assert found.leaf_clusters.max() + 1 >= 8  # the other tests compare something worth comparing
    assert len(found.trace) >= 4
    assert objective == pytest.approx(max(step.objective for step in found.trace), abs=1e-9)
    found.tree.validate()
    assert found.tree.size[-1] == 3000
    assert found.log_evidence_bound >= found.log_joint
    assert not (run.path / "passes").exists()
    assert not (run.path / "staged").exists()
    again = resume(run.path)
    assert again.header == run.header
    assert bits(again) == bits(run)


def test_same_bits_after_a_worker_is_killed(reference, tmp_path, client):
    victims = []

    def kill_one(step):
        if step.number == 2:
            victims.append(next(iter(client.run(os.getpid).values())))
            os.kill(victims[0], signal.SIGKILL)

    run = fit(reference / "x.npy", tmp_path / "run", client=client, progress=kill_one, **OPTIONS)
    assert victims
    client.wait_for_workers(2, timeout=60)
    assert bits(run) == bits(opened(reference))


def test_sparse_rows_out_of_core(tmp_path, client):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.1), size=3)
    X = sparse.csr_array(np.array([rng.multinomial(30, topics[i % 3]) for i in range(400)]))
    run = fit(X, tmp_path / "run", client, family="multinomial", chunk_bytes=20_000)
    labels = run.row_array("labels")
    assert fitted(run).leaf_clusters.max() + 1 == 3
    assert np.array_equal(labels[:-3], labels[3:])


def test_predict(reference, tmp_path, client):
    assert predict_into(reference / "run", rows(), tmp_path / "p.zarr", client) == 3000
    predicted = zarr.open_array(str(tmp_path / "p.zarr" / "labels"), mode="r")[...]
    log_density = zarr.open_array(str(tmp_path / "p.zarr" / "log_density"), mode="r")[...]
    model = dtree.open(reference / "run")
    assert np.mean(predicted == model.labels_) > 0.98
    assert np.allclose(log_density, model.score_samples(rows()), atol=1e-9)
    with pytest.raises(ValueError, match="columns"):
        predict_into(reference / "run", rows(d=2), tmp_path / "q.zarr")


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
@pytest.mark.parametrize("coarsening", [1.0, 0.6])
def test_labels_of_one_look_are_those_of_an_assignment(family, coarsening):
    run = fit(rows(600), family=family, coarsening=coarsening, tree=False)
    found, X = run.fitted(BayesKMeans.Fitted), 2.0 * rows(4000, seed=0)  # between the clusters
    labels, _ = BayesKMeans().predict(found, X)
    assert np.array_equal(labels, found.leaf_clusters[Scorer(found.model, found.statistics).assign(X).best])
    assert np.unique(labels).size > 4


def test_bad_rows_are_named_from_a_worker(tmp_path, client):
    X = rows(500)
    X[321, 2] = np.nan
    with pytest.raises(ValueError, match="row 321 holds NaN or infinity in column 2"):
        fit(X, tmp_path / "run", family="gaussian", client=client, chunk_bytes=2400)


def test_run_keeps_the_model_to_the_last_bit(tmp_path):
    X = rows(200)
    settings = {"prior": GeneralizedGamma(0.3, 0.2, 1.5), "coarsening": 0.8, "max_iter": 2, "tree": False}
    run, here = fit(X, tmp_path / "run", **settings), fit(X, **settings)
    again = fitted(Run.open(tmp_path / "run")).model
    assert again.prior == GeneralizedGamma(0.3, 0.2, 1.5)
    assert again.coarsening == 0.8
    assert np.array_equal(again.family.scale, fitted(here).model.family.scale)
    assert not (run.path / "tree").exists()


def test_blocks_on_workers_equal_blocks_here(client):
    rng = np.random.default_rng(2)
    X = rows(240, d=2, k=4)
    model = Model(Gaussian.defaults(moments_of(X)), DirichletProcess(1.0))
    atoms = sum_by_label(model.atoms(X), rng.integers(0, 60, 240), 60)
    here, there = merge_clusters(model, atoms), merge_on_workers(client, model, atoms)
    assert np.array_equal(here.label_map, there.label_map)
    assert here.statistics.tobytes() == there.statistics.tobytes()


def test_central_task_shares_its_pairs_out(reference, tmp_path, monkeypatch):
    monkeypatch.setattr(pairs, "_PAIRS_WORTH_SHARING", 3)
    shared = []
    real = pairs.merge_on_workers
    monkeypatch.setattr(pairs, "merge_on_workers", lambda *args: shared.append(1) or real(*args))
    with cluster_client(n_workers=2, processes=False, memory_limit="1.5GB", warm=False) as client:
        run = fit(reference / "x.npy", tmp_path / "run", client=client, **OPTIONS)
    assert shared
    assert bits(run) == bits(opened(reference))


def test_triangle_blocks_cover_all_rows():
    for k in (0, 1, 2, 50):
        blocks = triangle_blocks(k, pairs=7)
        assert [row for start, stop in blocks for row in range(start, stop)] == list(range(k))


def test_multinomial_model_survives_the_store(tmp_path):
    X = np.random.default_rng(0).poisson(1.0, size=(60, 5))
    family = Multinomial(np.full(5, 0.3), coefficient=True)
    fit(X, tmp_path / "run", family=family, max_iter=3)
    assert fitted(Run.open(tmp_path / "run")).model.family.coefficient is True
