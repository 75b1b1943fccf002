"""Randomised BHC as passes: the same bits anywhere, exact potentials, and clusters that a subset alone would miss."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.core.families import Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.drive import Given, Place, drive, resume
from dtree.engine.predict import predict_into
from dtree.estimators.bayes_kmeans import BayesKMeansBHC
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.statistics import node_statistics
from dtree.kmeans.greedy import sum_by_label
from dtree.methods.descent import Frontier, Split, grow, leaves_of, split_node
from dtree.methods.randomized import RandomizedBHC, Settings
from dtree.methods.settings import checked
from dtree.runs.folder import FolderStore
from dtree.runs.run import Run

TRUTH = np.random.default_rng(1).permutation(np.repeat(np.arange(10), [600, 600, 500, 500, 300, 200, 150, 100, 40, 10]))
CENTRES = np.random.default_rng(0).normal(0, 12.0, size=(10, 3))
X = CENTRES[TRUTH] + np.random.default_rng(2).normal(size=(3000, 3))
FAMILY = Gaussian.defaults(moments_of(X), share=0.02)
OPTIONS = {"family": FAMILY, "subset": 80, "seed": 4, "chunk_bytes": 3000 * 24 // 11}


def fit(data, out=None, client=None, progress=None, seed=0, chunk_bytes=None, **settings):
    given, place = Given(data, chunk_bytes=chunk_bytes), Place(out, client=client)
    return drive(RandomizedBHC(), checked(Settings, settings), given, place, seed, progress)


def fitted(run):
    return run.fitted(RandomizedBHC.Fitted)


def column(run, name):
    return np.asarray(run.row_array(name)).astype(np.int64)


def bits(run):
    found = fitted(run)
    arrays = [column(run, "labels"), column(run, "leaves"), found.statistics, found.leaf_clusters]
    return [values.tobytes() for values in [*arrays, found.tree.left, found.tree.right, found.tree.log_phi_t]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("randomized")
    np.save(folder / "x.npy", X)
    fit(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def test_clusters_are_found(reference):
    labels = column(Run.open(reference / "run"), "labels")
    assert adjusted_rand_score(TRUTH, labels) > 0.98
    # A cluster of which a subset of 80 holds about one row shows itself further down, where its side is smaller.
    small = np.bincount(labels[TRUTH == 8])
    assert small.max() >= 38
    assert np.count_nonzero(labels == small.argmax()) <= 42


def test_potentials_are_exact(reference):
    run = Run.open(reference / "run")
    found, leaves = fitted(run), column(run, "leaves")
    model, tree = found.model, found.tree
    atoms = sum_by_label(model.atoms(X), leaves, tree.n_leaves)
    np.testing.assert_allclose(found.statistics, atoms, rtol=1e-9, atol=1e-8)
    tree.validate()
    np.testing.assert_allclose(tree.log_phi_h, model.log_phi_h(node_statistics(tree, atoms)), rtol=1e-9)
    assert found.log_evidence_bound >= found.log_joint
    assert np.array_equal(column(run, "labels"), tree.cut()[leaves])
    assert np.all(np.diff(np.unique(leaves, return_index=True)[1]) > 0)  # leaves are numbered by their first row
    assert not (run.path / "passes").exists()


def stopped(reference, out):
    class Stop(Exception):
        pass

    def stop_after(step):
        if step.number == 2:
            raise Stop

    with pytest.raises(Stop):
        fit(reference / "x.npy", out, progress=stop_after, **OPTIONS)


@pytest.mark.parametrize(
    ("name", "harm", "sentence"),
    [("target", 10**6, "the tree in its checkpoint is none"), ("statistics", np.nan, "statistics")],
)
def test_a_forged_checkpoint_is_refused(reference, tmp_path, name, harm, sentence):
    stopped(reference, tmp_path / "run")
    store, newest = FolderStore(tmp_path / "run"), "checkpoints/gen-00000002"
    state = store.get(newest, RandomizedBHC.State)
    harmed = getattr(state.frontier, name).copy()
    harmed[0] = harm
    store.drop(newest)
    store.put(newest, msgspec.structs.replace(state, frontier=state.frontier._replace(**{name: harmed})))
    with pytest.raises(ValueError, match=sentence):
        resume(tmp_path / "run")


def test_the_run_opens_and_predicts(reference, tmp_path):
    run, model = Run.open(reference / "run"), dtree.open(reference / "run")
    assert type(model) is BayesKMeansBHC
    assert np.array_equal(model.tree_.merges, fitted(run).tree.merges)
    assert np.array_equal(model.labels_, column(run, "labels"))
    assert predict_into(reference / "run", X, tmp_path / "p.zarr") == 3000
    predicted = FolderStore(tmp_path / "p.zarr").read_rows("labels", 0, 3000)
    assert np.mean(predicted == model.labels_) > 0.99
    facts = RandomizedBHC().facts(fitted(run), column(run, "leaves"))
    assert facts.n_clusters == model.n_clusters_
    assert facts.shape().height.shape == (model.tree_.n_leaves - 1,)


def test_few_rows_are_clustered_exactly():
    few = X[:60]
    run = fit(few, family=FAMILY, subset=100)
    exact = build_tree(Model(FAMILY, DirichletProcess(1.0)), fitted(run).model.atoms(few))
    assert adjusted_rand_score(exact.cut(), column(run, "labels")) > 0.99
    assert fitted(run).leaf_clusters.max() == exact.cut().max()


def test_one_cluster(tmp_path):
    one = np.random.default_rng(0).normal(size=(500, 2))
    run = fit(one, tmp_path / "run", family="gaussian-diag", subset=50, chunk_bytes=1600)
    assert fitted(run).leaf_clusters.tolist() == [0]
    assert not column(run, "labels").any()
    assert dtree.open(tmp_path / "run").n_clusters_ == 1


def test_sparse_rows(tmp_path, client):
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.1), size=3)
    rows = sparse.csr_array(np.array([rng.multinomial(30, topics[i % 3]) for i in range(400)]))
    run = fit(rows, tmp_path / "run", client, family="multinomial", subset=60, chunk_bytes=20_000)
    labels = column(run, "labels")
    assert fitted(run).leaf_clusters.max() + 1 == 3
    assert np.array_equal(labels[:-3], labels[3:])


def test_constant_columns_are_left_out():
    settings = {"family": "gaussian-diag", "subset": 80, "seed": 4}
    wider = fit(np.insert(X, 1, 7.0, axis=1), **settings)
    assert fitted(wider).columns.tolist() == [0, 2, 3]
    assert np.array_equal(column(wider, "labels"), column(fit(X, **settings), "labels"))


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
        fit(X, tmp_path / "run", subset=1)
    assert not (tmp_path / "run").exists()
