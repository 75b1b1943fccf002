"""Blocks of leaves: bounds that hold, and trees that are the same with and without them."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.families import DiagonalGaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.hierarchy import blocks as blocks_module
from dtree.hierarchy.bhc import build_tree, leaf_slots
from dtree.hierarchy.blocks import least_log_d, make_blocks
from dtree.hierarchy.queue import drop_first, empty_queue, push, replace_first
from dtree.hierarchy.scores import score_against
from tests.naive.bhc import greedy_tree

SHAPES = ["same", "different"]


def family_of(shapes: str, X: np.ndarray, step: float | None = None) -> DiagonalGaussian:
    d, spread = X.shape[1], X.var(axis=0) + 0.01
    shape = 2.0 if shapes == "same" else np.linspace(1.5, 3.0, d)
    return DiagonalGaussian(X.mean(axis=0) + 1.0, 0.1, shape, 0.1 * spread, step=None if step is None else [step] * d)


def clustered(rng: np.random.Generator, m: int, d: int, k: int = 5) -> np.ndarray:
    """Rows of stretched clusters, some far out."""
    shape = rng.normal(size=(k, d, d))
    y = rng.integers(0, k, m)
    X = 6.0 * rng.normal(size=(k, d))[y] + np.einsum("nij,nj->ni", shape[y], rng.normal(size=(m, d)))
    X[0] += 1000.0
    return X


def sure_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few leaves are put in blocks too; how many a block holds is compiled into kernels and stays."""
    monkeypatch.setattr(blocks_module, "_FEWEST_LEAVES", 2)


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("coarsening", [1.0, 0.3])
def test_no_pair_is_better_than_the_bound_of_its_block(shapes, coarsening, monkeypatch):
    sure_of_blocks(monkeypatch)
    rng = np.random.default_rng(5)
    X = clustered(rng, 300, 3)
    model = Model(family_of(shapes, X), DirichletProcess(1.0), coarsening)
    for weights in (None, np.where(rng.random(300) < 0.5, 1, 3)):
        atoms = model.atoms(X, weights)
        compiled = model.compile(atoms.sum(axis=0))
        slots, blocks = leaf_slots(model, compiled, atoms)
        assert np.isfinite(blocks.least).sum() >= 6
        bound, score, pruned = np.empty(blocks.start.size), np.empty(slots.node.size), 0
        owners = [slots.columns[:, i].copy() for i in (0, 7, 200)]
        owners += [slots.columns[:, 100:103].sum(axis=1), slots.columns[:, 40:90].sum(axis=1)]
        for row in owners:
            worth = float(rng.normal())
            least_log_d(compiled, blocks, row, worth, bound)
            columns = slots.columns, slots.log_own, slots.log_phi_t
            score_against(compiled, *columns, row, worth, 0, 300, score)
            least = np.minimum.reduceat(score[:300], blocks.start)
            assert np.all(bound <= least)
            pruned += np.sum(bound > np.sort(score[:300])[12])
        assert pruned > 0  # they are of use too


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", ["plain", "lattice", "weights", "coarse", "step", "nggp"])
def test_blocks_do_not_change_the_tree(shapes, kind, monkeypatch):
    sure_of_blocks(monkeypatch)
    rng = np.random.default_rng(8)
    m = 130
    X = clustered(rng, m, 2, 4)
    if kind in ("lattice", "step"):
        X = np.round(X / 2.0) * 2.0  # many duplicates and equal distances
    prior = GeneralizedGamma(1.0, 0.4, 3.0) if kind == "nggp" else DirichletProcess(0.8)
    model = Model(family_of(shapes, X, 2.0 if kind == "step" else None), prior, 0.4 if kind == "coarse" else 1.0)
    atoms = model.atoms(X, rng.integers(1, 3, m) if kind == "weights" else None)
    order, blocks = make_blocks(model.compile(atoms.sum(axis=0)), atoms.T, model.log_phi_h(atoms))
    assert np.array_equal(np.sort(order), np.arange(m))
    assert np.isfinite(blocks.least).sum() >= 2
    found = build_tree(model, atoms)
    monkeypatch.setattr(blocks_module, "_FEWEST_LEAVES", m + 1)
    plain = build_tree(model, atoms)
    assert found.merges.tolist() == plain.merges.tolist()
    assert np.array_equal(found.log_phi_t, plain.log_phi_t)


@pytest.mark.parametrize("shapes", SHAPES)
def test_blocks_give_the_tree_of_the_naive_twin(shapes, monkeypatch):
    sure_of_blocks(monkeypatch)
    X = np.round(clustered(np.random.default_rng(3), 70, 2, 3))
    model = Model(family_of(shapes, X), DirichletProcess(1.0))
    atoms = model.atoms(X)
    assert build_tree(model, atoms).merges.tolist() == greedy_tree(model, atoms).merges.tolist()


def test_leaves_in_one_place_are_split_all_the_same(monkeypatch):
    sure_of_blocks(monkeypatch)
    X = np.zeros((200, 2))
    X[:100, 0] = 5.0
    model = Model(family_of("same", X), DirichletProcess(1.0))
    atoms = model.atoms(X)
    _, blocks = make_blocks(model.compile(atoms.sum(axis=0)), atoms.T, model.log_phi_h(atoms))
    assert blocks.live.sum() == 200
    assert blocks.live.max() <= blocks_module._MOST_IN_BLOCK
    assert sorted(build_tree(model, atoms).cut(n_clusters=2).tolist()) == [0] * 100 + [1] * 100


def test_queue_hands_out_the_smallest_first():
    rng = np.random.default_rng(0)
    queue, held = empty_queue(300), []
    for node in range(300):
        entry = (float(rng.integers(0, 5)), int(rng.integers(0, 5)), int(rng.integers(0, 5)))
        push(queue, node, *entry)
        held.append(entry)
        if node % 3 == 0:
            first = min(held)
            assert (queue.score[0], queue.low[0], queue.high[0]) == first
            held.remove(first)
            if node % 2:
                drop_first(queue)
            else:
                later = (first[0] + 2.0, first[1], first[2])
                replace_first(queue, node, *later)
                held.append(later)
    while held:
        assert (queue.score[0], queue.low[0], queue.high[0]) == min(held)
        held.remove(min(held))
        drop_first(queue)
    assert queue.size[0] == 0
