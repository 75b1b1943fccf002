"""Approximate trees: with all pairs known they are the exact ones, with few they come near."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.core.model import Model
from dtree.hierarchy.approximate import build_approximate_tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.statistics import node_statistics


def _rows(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    groups = rng.integers(6, size=n)
    if kind == "numbers":
        return rng.normal(size=(6, 3))[groups] * 6 + rng.normal(size=(n, 3))
    if kind == "lattice":
        return np.round(rng.normal(size=(n, 2)))  # full of ties and equal rows
    return (rng.random((n, 8)) < rng.random((6, 8))[groups]).astype(float)


def _model(kind: str) -> Model:
    d = {"numbers": 3, "lattice": 2, "binary": 8}[kind]
    if kind == "binary":
        return Model(dtree.Bernoulli(np.ones(d), np.ones(d)), dtree.DirichletProcess(1.0))
    family = dtree.DiagonalGaussian(np.zeros(d), 0.05, np.full(d, 2.0), np.ones(d))
    return Model(family, dtree.DirichletProcess(1.0))


@pytest.mark.parametrize("kind", ["numbers", "lattice", "binary"])
@pytest.mark.parametrize("exact", [2, 40])
def test_with_all_pairs_known_the_tree_is_exact_bhcs(kind, exact):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(50, 160))
        model = _model(kind)
        atoms = model.atoms(_rows(kind, n, rng))
        known = build_approximate_tree(model, atoms, rng, exact=exact, partners=n, group=n)
        wanted = build_tree(model, atoms)
        np.testing.assert_array_equal(known.merges, wanted.merges)
        np.testing.assert_array_equal(known.log_phi_t, wanted.log_phi_t)


@pytest.mark.parametrize("kind", ["numbers", "lattice", "binary"])
def test_potentials_are_exact_whatever_is_known(kind):
    rng, model = np.random.default_rng(1), _model(kind)
    atoms = model.atoms(_rows(kind, 700, rng))
    tree = build_approximate_tree(model, atoms, rng, exact=50)
    tree.validate()
    np.testing.assert_allclose(tree.log_phi_h, model.log_phi_h(node_statistics(tree, atoms)), rtol=1e-9)


def test_clusters_of_many_rows_are_found():
    rng, model = np.random.default_rng(2), _model("numbers")
    groups = rng.integers(6, size=3000)
    rows = 9.0 * np.eye(3)[groups % 3] * np.where(groups < 3, 1, -1)[:, None] + rng.normal(size=(3000, 3))
    tree = build_approximate_tree(model, model.atoms(rows), rng, exact=100)
    exact = build_tree(model, model.atoms(rows))
    assert adjusted_rand_score(groups, tree.cut()) > 0.99
    assert tree.log_phi_t[-1] > exact.log_phi_t[-1] - 1.0  # greedy merges may be caught, with all pairs too


def test_threads_and_the_same_seed_change_nothing():
    rng, model = np.random.default_rng(3), _model("numbers")
    atoms = model.atoms(_rows("numbers", 2500, rng))
    trees = [build_approximate_tree(model, atoms, np.random.default_rng(0), exact=20, threads=t) for t in (1, 1, 3)]
    for tree in trees[1:]:
        np.testing.assert_array_equal(tree.merges, trees[0].merges)


def test_equal_rows_are_one_cluster():
    model = _model("numbers")
    atoms = model.atoms(np.ones((900, 3)))
    tree = build_approximate_tree(model, atoms, np.random.default_rng(0), exact=5)
    assert tree.cut().max() == 0
