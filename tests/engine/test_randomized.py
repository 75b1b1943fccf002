"""Randomised BHC as passes: the same bits anywhere, exact potentials, and clusters that a subset alone would miss."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import zarr
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.core.families import Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.descent import Frontier, Split, grow, leaves_of, split_node
from dtree.engine.fit import predict_dataset, read_tree
from dtree.engine.randomized import fit_randomized, resume
from dtree.engine.runs import Run
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.statistics import node_statistics
from dtree.kmeans.greedy import sum_by_label

RESULTS = ("labels", "leaves", "statistics/clusters", "tree/left", "tree/right", "tree/log_phi_t")
TRUTH = np.random.default_rng(1).permutation(np.repeat(np.arange(10), [600, 600, 500, 500, 300, 200, 150, 100, 40, 10]))
CENTRES = np.random.default_rng(0).normal(0, 12.0, size=(10, 3))
X = CENTRES[TRUTH] + np.random.default_rng(2).normal(size=(3000, 3))
FAMILY = Gaussian.defaults(moments_of(X), share=0.02)
OPTIONS = {"family": FAMILY, "subset": 80, "seed": 4, "chunk_bytes": 3000 * 24 // 11}


def bits(run):
    return {name: np.asarray(zarr.open_array(f"{run}/{name}", mode="r")[...]).tobytes() for name in RESULTS}


def column(run, name):
    return np.asarray(zarr.open_array(f"{run}/{name}", mode="r")[...]).astype(np.int64)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("randomized")
    np.save(folder / "x.npy", X)
    fit_randomized(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def test_clusters_are_found(reference):
    labels = column(reference / "run", "labels")
    assert adjusted_rand_score(TRUTH, labels) > 0.98
    # A cluster of which a subset of 80 holds about one row shows itself further down, where its side is smaller.
    small = np.bincount(labels[TRUTH == 8])
    assert small.max() >= 38
    assert np.count_nonzero(labels == small.argmax()) <= 42


def test_potentials_are_exact(reference):
    run, leaves = Run(reference / "run"), column(reference / "run", "leaves")
    model, tree = run.model(), read_tree(reference / "run")
    atoms = sum_by_label(model.atoms(X), leaves, tree.n_leaves)
    np.testing.assert_allclose(run.clusters(), atoms, rtol=1e-9, atol=1e-8)
    tree.validate()
    np.testing.assert_allclose(tree.log_phi_h, model.log_phi_h(node_statistics(tree, atoms)), rtol=1e-9)
    assert run.attributes["log_evidence_bound"] >= run.attributes["log_joint"]
    assert np.array_equal(column(reference / "run", "labels"), tree.cut()[leaves])
    assert np.all(np.diff(np.unique(leaves, return_index=True)[1]) > 0)  # leaves are numbered by their first row
    assert not (run.path / "passes").exists()


def test_same_bits_on_workers(reference, tmp_path, client):
    fit_randomized(reference / "x.npy", tmp_path / "run", client=client, **OPTIONS)
    assert bits(tmp_path / "run") == bits(reference / "run")


def test_resumed_run_gives_the_same_bits(reference, tmp_path):
    class Stop(Exception):
        pass

    def stop_after(step):
        if step.number == 2:
            raise Stop

    with pytest.raises(Stop):
        fit_randomized(reference / "x.npy", tmp_path / "run", progress=stop_after, **OPTIONS)
    shutil.copytree(tmp_path / "run", tmp_path / "harmed")
    seen = []
    resume(tmp_path / "run", progress=lambda step: seen.append(step.number))
    assert seen[0] == 3
    assert bits(tmp_path / "run") == bits(reference / "run")
    for name, harm, sentence in (
        ("target", 10**6, "the tree in its checkpoint is none"),
        ("statistics", np.nan, "statistics"),
    ):
        place = max((tmp_path / "harmed" / "checkpoints").glob("gen-*")) / name
        kept = zarr.open_array(str(place), mode="r")[...]
        zarr.open_array(str(place), mode="r+")[0] = harm
        with pytest.raises(ValueError, match=sentence):
            resume(tmp_path / "harmed")
        zarr.open_array(str(place), mode="r+")[...] = kept


def test_the_run_opens_and_predicts(reference, tmp_path):
    model = dtree.open(reference / "run")
    assert np.array_equal(model.tree_.merges, read_tree(reference / "run").merges)
    assert np.array_equal(model.labels_, column(reference / "run", "labels"))
    assert predict_dataset(reference / "run", X, tmp_path / "p.zarr") == 3000
    assert np.mean(column(tmp_path / "p.zarr", "labels") == model.labels_) > 0.99


def test_few_rows_are_clustered_exactly(tmp_path):
    few = X[:60]
    result = fit_randomized(few, tmp_path / "run", family=FAMILY, subset=100)
    exact = build_tree(Model(FAMILY, DirichletProcess(1.0)), Run(tmp_path / "run").model().atoms(few))
    assert adjusted_rand_score(exact.cut(), column(tmp_path / "run", "labels")) > 0.99
    assert result.n_clusters == exact.cut().max() + 1


def test_one_cluster(tmp_path):
    one = np.random.default_rng(0).normal(size=(500, 2))
    result = fit_randomized(one, tmp_path / "run", family="gaussian-diag", subset=50, chunk_bytes=1600)
    assert result.n_clusters == result.n_leaves == 1
    assert not column(tmp_path / "run", "labels").any()
    assert dtree.open(tmp_path / "run").n_clusters_ == 1


def test_sparse_rows(tmp_path, client):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.1), size=3)
    rows = sparse.csr_array(np.array([rng.multinomial(30, topics[i % 3]) for i in range(400)]))
    result = fit_randomized(rows, tmp_path / "run", "multinomial", subset=60, chunk_bytes=20_000, client=client)
    labels = column(tmp_path / "run", "labels")
    assert result.n_clusters == 3
    assert np.array_equal(labels[:-3], labels[3:])


def test_a_side_that_no_row_took_is_no_leaf():
    model = Model(FAMILY, DirichletProcess(1.0))
    atoms = model.atoms(X[:4])
    nothing = np.zeros(1, dtype=np.int64)
    empty = np.zeros(0, dtype=np.int64)
    root = Frontier(nothing - 1, nothing - 1, atoms[:1] * 0, nothing, nothing, empty, empty, atoms[:0])
    # ((0 1) 2): the node itself is the last merge
    state = grow(root, {0: Split(atoms[:3], np.arange(3), [(0, 1), (3, 2)], True)})
    assert state.left.tolist() == [1, 3, -1, -1, -1]
    assert state.right.tolist() == [2, 4, -1, -1, -1]
    assert state.target.tolist() == [3, 4, 2]
    held = state._replace(
        statistics=np.vstack([atoms[:2] * 0, atoms[0], atoms[1] * 0, atoms[2]]), first=np.arange(5)[::-1]
    )
    leaf_of, merges = leaves_of(held, model)
    assert leaf_of.tolist() == [-1, -1, 1, -1, 0]
    assert merges == [(0, 1)]


def test_sides_of_a_split_follow_the_tree():
    model = Model(FAMILY, DirichletProcess(1.0))
    split = split_node(model, X[:80], whole=False)
    assert split.part[0] == 0
    assert set(split.part.tolist()) == {0, 1}
    resolved = split_node(model, X[:80], whole=True)
    assert len(resolved.merges) == resolved.statistics.shape[0] - 1
    assert split_node(model, X[TRUTH == 0][:50], whole=True) is None


def test_bad_settings(tmp_path):
    with pytest.raises(ValueError, match="subset must be at least 2"):
        fit_randomized(X, tmp_path / "run", subset=1)
