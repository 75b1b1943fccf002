"""Nodes kept as lists of what is not zero: the same tree as without, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln

from dtree.core.families import Multinomial
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.tables import add_log_gamma_ratios, log_gamma_table
from dtree.hierarchy import sparse_nodes as sparse_nodes_module
from dtree.hierarchy.bhc import build_tree, leaf_slots
from dtree.hierarchy.sparse_nodes import add_sparse, forget_merged, move_sparse, put_sparse, sparse_nodes
from tests.naive.bhc import greedy_tree


def words(rng: np.random.Generator, m: int, v: int) -> np.ndarray:
    """Counts of few words of many, many rows equal, one empty, one with counts that are not small."""
    topics = rng.dirichlet(np.full(v, 0.05), 3)
    X = np.array([rng.multinomial(6, topics[i % 3]) for i in range(m)]).astype(float)
    X[m // 2 :] = X[rng.integers(0, m // 2, m - m // 2)]
    X[1] = 0.0
    X[2, :3] = [40.0, 7.0, 5.0]
    return X


@pytest.mark.parametrize("kind", ["plain", "weights", "coarse", "nggp"])
def test_lists_do_not_change_the_tree(kind, monkeypatch):
    rng = np.random.default_rng(4)
    X = words(rng, 60, 40)
    prior = GeneralizedGamma(1.0, 0.4, 3.0) if kind == "nggp" else DirichletProcess(0.8)
    model = Model(Multinomial(np.full(40, 0.2), coefficient=True), prior, 0.4 if kind == "coarse" else 1.0)
    atoms = model.atoms(X, rng.integers(1, 3, 60) if kind == "weights" else None)
    assert sparse_nodes(model.compile(atoms.sum(axis=0)), atoms).leaf.size == np.count_nonzero(atoms)
    with_lists = build_tree(model, atoms)
    monkeypatch.setattr(sparse_nodes_module, "_LARGEST_DENSITY", 0.0)
    without, slow = build_tree(model, atoms), greedy_tree(model, atoms)
    assert with_lists.merges.tolist() == without.merges.tolist() == slow.merges.tolist()
    assert with_lists.log_phi_t == pytest.approx(slow.log_phi_t, rel=1e-10)


def test_merged_leaves_are_forgotten_and_no_others():
    atoms = Model(Multinomial(np.full(30, 0.2)), DirichletProcess(1.0)).atoms(words(np.random.default_rng(1), 20, 30))
    model = Model(Multinomial(np.full(30, 0.2)), DirichletProcess(1.0))
    slots, _ = leaf_slots(model, model.compile(atoms.sum(axis=0)), atoms)
    merged = np.array([0, 2, 7, 19])
    slots.slot_of[merged] = -1
    sparse = slots.sparse
    forget_merged(sparse, slots.slot_of)
    left = np.zeros_like(atoms)
    for c in range(atoms.shape[1]):
        for i in range(sparse.first[c], sparse.first[c + 1]):
            left[sparse.leaf[sparse.start[i] : sparse.stop[i]], c] = sparse.value[i]
    atoms[merged] = 0.0
    assert np.array_equal(left, atoms)


def test_a_merged_node_is_what_was_put_there_also_after_it_moved():
    model = Model(Multinomial(np.full(30, 0.2)), DirichletProcess(1.0))
    atoms = model.atoms(words(np.random.default_rng(1), 20, 30))
    compiled = model.compile(atoms.sum(axis=0))
    sparse = sparse_nodes(compiled, atoms)
    put_sparse(compiled.family, sparse, 20, atoms[3] + atoms[8])
    put_sparse(compiled.family, sparse, 21, atoms[4] + atoms[5])
    move_sparse(sparse, 21, 20)
    row = np.ones(atoms.shape[1])
    add_sparse(sparse, 20, -1, row)
    add_sparse(sparse, 7, 2, row)
    assert np.array_equal(row, 1.0 + atoms[4] + atoms[5] + atoms[2])


@pytest.mark.parametrize("own", [0.0, 3.0, 2.5])
@pytest.mark.parametrize("counts", [[0.0, 2.0, 7.0], [1.0, 0.5, 2.0], [1.0, 5.0, 300.0]])
@pytest.mark.parametrize("coarsening", [1.0, 0.5])
def test_log_gamma_ratios_in_the_table_and_beyond(own, counts, coarsening):
    shift, counts = np.array([0.3, 1.7]), np.array(counts)
    table = log_gamma_table(shift, np.array([20.0, 10.0]), coarsening)
    for feature in range(2):
        out = np.ones(3)
        add_log_gamma_ratios(table, feature, own, counts, np.empty(3, dtype=np.int32), out)
        expected = 1.0 + gammaln(shift[feature] + own + counts) - gammaln(shift[feature])
        assert out == pytest.approx(expected, rel=1e-13)
