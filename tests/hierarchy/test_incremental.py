"""Incremental BHC against its slow twin, and what must hold for any forest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.core.families import DiagonalGaussian, Gaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.estimators.incremental import IncrementalBHC
from dtree.hierarchy.exact import log_evidence_by_recursion
from dtree.hierarchy.hyperparameters import log_bound
from dtree.hierarchy.incremental_forest import Forest, incremental_tree, noisy_partition
from tests.naive.incremental import NaiveForest, sets_below
from tests.naive.partitions import clusters_of


def family() -> DiagonalGaussian:
    return DiagonalGaussian([0.0, 0.0], 0.1, 2.0, [0.7, 0.7])


def blobs(seed: int, n: int = 40, centres: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(centres, 2))[rng.integers(centres, size=n)] * 4 + rng.normal(size=(n, 2))


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("prior", [DirichletProcess(1.0), GeneralizedGamma(2.0, 0.4, 30.0)], ids=["dp", "nggp"])
@pytest.mark.parametrize("seed", range(4))
def test_same_forest_as_the_twin(seed: int, prior, noisy: bool) -> None:
    model = Model(family(), prior)
    X = blobs(seed)
    weight = np.random.default_rng(seed).integers(1, 4, size=X.shape[0])
    atoms = model.atoms(X, weight)
    order = np.random.default_rng(seed + 100).permutation(X.shape[0])
    forest = Forest(model, noisy=noisy, balanced=False)
    forest.insert(atoms, order)
    twin = NaiveForest(model, atoms, noisy)
    for atom in order:
        twin.insert(int(atom))
    assert {frozenset(c) for c in clusters_of(forest.labels())} == twin.clusters()
    tree = forest.tree()
    tree.validate()
    assert twin.nodes() <= set(sets_below(tree))


@pytest.mark.parametrize("balanced", [False, True])
def test_potentials_are_those_of_the_sets(balanced: bool) -> None:
    model = Model(family(), DirichletProcess(0.8))
    atoms = model.atoms(blobs(1, 120))
    forest = Forest(model, balanced=balanced)
    forest.insert(atoms)
    tree = forest.tree()
    tree.validate()
    for node, members in enumerate(sets_below(tree)):
        expected = model.log_phi_h(atoms[sorted(members)].sum(axis=0))[0]
        assert tree.log_phi_h[node] == pytest.approx(expected, abs=1e-8)


def test_in_blocks_equals_in_one_go() -> None:
    model = Model(family(), DirichletProcess(1.0))
    atoms = model.atoms(blobs(2, 300))
    whole, parts = Forest(model), Forest(model)
    whole.insert(atoms)
    for start in range(0, 300, 37):
        parts.insert(atoms[start : start + 37])
    assert np.array_equal(whole.labels(), parts.labels())
    assert np.array_equal(whole.tree().merges, parts.tree().merges)
    np.testing.assert_array_equal(parts.atoms(), atoms)


@pytest.mark.parametrize("noisy", [False, True])
def test_a_forest_made_of_its_columns_grows_on_to_the_same_bits(noisy: bool) -> None:
    model = Model(family(), DirichletProcess(1.0))
    atoms = model.atoms(blobs(2, 300))
    order = np.random.default_rng(0).permutation(300)
    whole, parts = Forest(model, noisy=noisy), Forest(model, noisy=noisy)
    whole.insert(atoms, order)
    parts.announce(atoms)
    for start in range(0, 300, 37):
        parts = Forest.from_columns(model, parts.columns(), noisy)
        parts.insert_some(atoms, order[start : start + 37])
    parts.n_atoms = 300
    for forest in (whole, parts):
        forest.insert(atoms[:50] + 1.0)
    ours, theirs = parts.columns(), whole.columns()
    for name, values in ours.pool._asdict().items():
        if name != "meta":  # where the queue begins depends on its room
            assert values.tobytes() == getattr(theirs.pool, name).tobytes(), name
    assert ours.room.tobytes() == theirs.room.tobytes()
    assert parts.tree().log_phi_t.tobytes() == whole.tree().log_phi_t.tobytes()


def test_balanced_trees_are_shallow() -> None:
    model = Model(family(), DirichletProcess(1.0))
    atoms = model.atoms(np.random.default_rng(0).normal(size=(1500, 2)))
    depths = {}
    for balanced in (False, True):
        tree = incremental_forest_tree(model, atoms, balanced)
        depth = np.zeros(2 * tree.n_leaves - 1)
        parent = tree.parent
        for node in range(2 * tree.n_leaves - 3, -1, -1):
            depth[node] = depth[parent[node]] + 1
        depths[balanced] = depth.max()
    assert depths[True] < 80
    assert depths[True] < depths[False] / 2


def incremental_forest_tree(model: Model, atoms: np.ndarray, balanced: bool):
    forest = Forest(model, balanced=balanced)
    forest.insert(atoms)
    return forest.tree()


def test_bound_lies_below_the_evidence() -> None:
    model = Model(family(), DirichletProcess(1.0))
    atoms = model.atoms(blobs(3, 10))
    tree = incremental_tree(model, atoms)
    assert log_bound(tree, model, 10.0) <= log_evidence_by_recursion(model, atoms) + 1e-9


def test_finds_separated_clusters() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=600)
    X = rng.normal(size=(6, 3))[y] * 12 + rng.normal(size=(600, 3))
    model = Model(Gaussian.paper_prior(X), DirichletProcess(1.0))
    forest = Forest(model)
    forest.insert(model.atoms(X))
    assert adjusted_rand_score(y, forest.tree().cut()) > 0.97


def test_noisy_start_is_rough() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(6, size=600)
    X = rng.normal(size=(6, 3))[y] * 5 + rng.normal(size=(600, 3))
    model = Model(Gaussian.paper_prior(X), DirichletProcess(1.0))
    labels = noisy_partition(model, model.atoms(X))
    assert 1 <= labels.max() + 1 <= 60


def test_estimator_streams() -> None:
    X = blobs(5, 400)
    whole = IncrementalBHC(family(), DirichletProcess(1.0), shuffle=False).fit(X)
    stream = IncrementalBHC(family(), DirichletProcess(1.0), shuffle=False)
    for start in range(0, 400, 100):
        stream.partial_fit(X[start : start + 100])
    assert stream.n_seen_ == 400
    assert np.array_equal(whole.labels_, stream.labels_)
    assert stream.log_evidence_bound_ == pytest.approx(whole.log_evidence_bound_)
    assert np.mean(whole.predict(X) == whole.labels_) > 0.9
    fresh = whole.fit(X[:50])
    assert fresh.n_seen_ == 50


def test_estimator_density_integrates_to_one() -> None:
    X = blobs(6, 30)[:, :1]
    model = IncrementalBHC(DiagonalGaussian([0.0], 0.1, 2.0, [0.7]), DirichletProcess(1.0), random_state=1).fit(X)
    grid = np.linspace(-200.0, 200.0, 40_001)
    total = np.exp(model.score_samples(grid[:, None])).sum() * (grid[1] - grid[0])
    assert total == pytest.approx(1.0, abs=1e-2)


def test_noisy_estimator_and_weights() -> None:
    X = blobs(7, 60)
    model = IncrementalBHC(family(), GeneralizedGamma(1.0, 0.3, 20.0), init="noisy", random_state=0)
    model.fit(X, sample_weight=np.full(60, 2))
    assert model.tree_.size[-1] == 120
    assert model.n_clusters_ == model.n_trees_


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="unknown init 'random'"):
        IncrementalBHC(init="random").fit(blobs(1))
    with pytest.raises(ValueError, match="sums to zero"):
        IncrementalBHC(family()).fit(blobs(1)).partial_fit(blobs(2), sample_weight=np.zeros(40))


@pytest.mark.parametrize("init", ["exact", "noisy"])
def test_rows_of_weight_0_are_labelled_as_new_rows_are(init: str, tmp_path: Path) -> None:
    X, weight = blobs(7, 60), np.arange(60) % 4
    held = weight > 0
    settings = {"family": family(), "prior": DirichletProcess(1.0), "init": init, "random_state": 0}
    model = IncrementalBHC(**settings).fit(X[:40], sample_weight=weight[:40])
    without = IncrementalBHC(**settings).fit(X[:40][held[:40]], sample_weight=weight[:40][held[:40]])
    assert np.array_equal(model.tree_.merges, without.tree_.merges)
    assert np.array_equal(model.labels_[held[:40]], without.labels_)
    assert np.array_equal(model.labels_[~held[:40]], without.predict(X[:40][~held[:40]]))
    dtree.save(model, tmp_path / "run")
    opened = dtree.open(tmp_path / "run")
    assert np.array_equal(opened.labels_, model.labels_)
    for grown in (model, opened):  # labels follow the forest, those of earlier rows of weight 0 too
        grown.partial_fit(X[40:], sample_weight=weight[40:])
        assert grown.n_seen_ == 60
        assert grown.tree_.size[-1] == weight.sum()
    without.partial_fit(X[40:][held[40:]], sample_weight=weight[40:][held[40:]])
    dtree.save(opened, tmp_path / "grown")
    for grown in (model, opened, dtree.open(tmp_path / "grown")):
        assert np.array_equal(grown.labels_[held], without.labels_)
        assert np.array_equal(grown.labels_[~held], without.predict(X[~held]))
        assert grown.n_clusters_ == without.n_clusters_
        assert np.array_equal(grown.score_samples(X), without.score_samples(X))


def test_files_and_dask_collections_enter_in_blocks(tmp_path) -> None:
    dask_array = pytest.importorskip("dask.array")
    X = blobs(5, 200)
    np.save(tmp_path / "rows.npy", X)
    settings = {"family": family(), "prior": DirichletProcess(1.0), "shuffle": False}
    whole = IncrementalBHC(**settings).fit(X)
    for data in (tmp_path / "rows.npy", dask_array.from_array(X, chunks=(70, 1))):
        found = IncrementalBHC(**settings).fit(data)
        assert np.array_equal(found.labels_, whole.labels_)
        assert np.array_equal(found.predict(data), whole.predict(X))
    weight = np.arange(200) % 3 + 1
    blocked = IncrementalBHC(**settings).fit(dask_array.from_array(X, chunks=(70, 2)), sample_weight=weight)
    assert np.array_equal(blocked.labels_, IncrementalBHC(**settings).fit(X, sample_weight=weight).labels_)


def test_atoms_stand_for_many_rows() -> None:
    X = blobs(5, 400)
    atoms = np.add.reduceat(family().statistics(X), np.arange(0, 400, 4))
    model = IncrementalBHC(family(), "dp", random_state=0)
    for start in range(0, 100, 25):
        model.partial_fit_atoms(atoms[start : start + 25])
    assert model.n_seen_ == 100
    assert model.tree_.size[-1] == 400
    model.tree_.validate()
    assert model.partial_fit(X[:10]).n_seen_ == 110
    with pytest.raises(ValueError, match="as an object"):
        IncrementalBHC().partial_fit_atoms(atoms)


def test_names_of_all_blocks() -> None:
    import pandas

    X = blobs(6, 20)
    frame = pandas.DataFrame(X, columns=["a", "b"], index=[f"r{i}" for i in range(20)])
    model = IncrementalBHC(family(), "dp").partial_fit(frame[:12]).partial_fit(frame[12:])
    assert model.row_names_.tolist() == frame.index.tolist()
    assert not hasattr(model.partial_fit(frame.reset_index(drop=True)), "row_names_")
