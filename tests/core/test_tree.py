"""The tree's invariants, cuts, linkage and Newick text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, is_monotonic, is_valid_linkage, leaves_list

from dtree.core.partition import canonical_labels
from dtree.core.tree import Tree
from tests.naive.partitions import all_partitions, clusters_of


def random_tree(seed: int, m: int) -> Tree:
    rng = np.random.default_rng(seed)
    active, merges = list(range(m)), []
    for k in range(m, 2 * m - 1):
        a, b = (active.pop(rng.integers(len(active))) for _ in range(2))
        merges.append(sorted((a, b)))
        active.append(k)
    return Tree.from_merges(np.array(merges).reshape(-1, 2), rng.integers(1, 5, m), rng.normal(0, 4, 2 * m - 1))


trees = st.builds(random_tree, seed=st.integers(0, 10_000), m=st.integers(1, 30))


@settings(max_examples=40, deadline=None)
@given(tree=trees, threshold=st.floats(0.01, 0.99))
def test_linkage_is_monotone_and_keeps_cuts(tree, threshold):
    tree.validate()
    if tree.n_leaves < 2:
        assert tree.cut().tolist() == [0]
        return
    linkage = tree.to_linkage()
    assert is_valid_linkage(linkage)
    assert is_monotonic(linkage)
    from_linkage = canonical_labels(fcluster(linkage, -np.log(threshold) + 1e-12, "distance"))
    assert np.array_equal(from_linkage, tree.cut(threshold))
    assert sorted(leaves_list(linkage)) == list(range(tree.n_leaves))


@settings(max_examples=40, deadline=None)
@given(tree=trees)
def test_cut_into_k_gives_k_clusters_that_refine_each_other(tree):
    previous = tree.cut(n_clusters=1)
    for k in range(1, tree.n_leaves + 1):
        labels = tree.cut(n_clusters=k)
        assert len(set(labels)) == k
        assert all(len({previous[i] for i in cluster}) == 1 for cluster in clusters_of(labels))
        previous = labels


def _consistent(tree: Tree, labels: np.ndarray) -> bool:
    nodes = [frozenset(tree.leaves_below(k)) for k in range(2 * tree.n_leaves - 1)]
    return all(frozenset(c) in nodes for c in clusters_of(labels))


@pytest.mark.parametrize("seed", range(6))
def test_map_partition_and_omega_by_enumeration(seed):
    tree = random_tree(seed, 6)
    node_of = {frozenset(tree.leaves_below(k).tolist()): k for k in range(11)}
    weights, memberships = [], []
    best, best_labels = -np.inf, None
    for labels in all_partitions(6):
        nodes = [node_of.get(frozenset(c)) for c in clusters_of(labels)]
        if None in nodes:
            continue
        log_weight = sum(tree.log_phi_h[k] for k in nodes)
        weights.append(log_weight)
        memberships.append(np.isin(np.arange(11), nodes))
        if log_weight > best:
            best, best_labels = log_weight, labels
    assert np.array_equal(tree.map_partition(), best_labels)
    assert np.logaddexp.reduce(weights) == pytest.approx(tree.log_phi_t[-1], abs=1e-10)
    probability = np.exp(np.array(weights) - tree.log_phi_t[-1])
    assert probability @ np.array(memberships) == pytest.approx(np.exp(tree.log_omega), abs=1e-10)


def test_newick_quotes_names_and_sums_to_heights():
    tree = random_tree(1, 4)
    text = tree.to_newick(["plain", "two words", "it's", "a,b"])
    assert "'two words'" in text
    assert "'it''s'" in text
    assert "'a,b'" in text
    assert text.endswith(";")
    assert text.count("(") == text.count(")") == 3
    with pytest.raises(ValueError, match="2 names but 4 leaves"):
        tree.to_newick(["a", "b"])


def test_deep_trees_need_no_recursion():
    m = 20_000
    merges = np.column_stack([np.r_[0, np.arange(m, 2 * m - 2)], np.arange(1, m)])
    tree = Tree.from_merges(merges, np.ones(m), np.linspace(0, -1, 2 * m - 1))
    assert len(tree.to_newick()) > m
    assert tree.cut(n_clusters=3).max() == 2


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (lambda t: {"size": t.size[:-1]}, "shapes agree"),
        (lambda t: {"left": np.r_[t.left[:-1], 2 * t.n_leaves]}, "children before parents"),
        (lambda t: {"left": np.r_[t.left[:-1], t.right[-1]]}, "one parent each"),
        (lambda t: {"size": t.size + 1}, "sizes add"),
        (lambda t: {"log_phi_h": t.log_phi_h * np.nan}, "potentials are finite"),
        (lambda t: {"log_phi_t": t.log_phi_t + 0.1}, "potentials sum"),
    ],
)
def test_validate_names_the_broken_invariant(change, invariant):
    tree = random_tree(3, 5)
    with pytest.raises(ValueError, match=invariant):
        replace(tree, **change(tree)).validate()


def test_bad_cuts_get_a_sentence():
    tree = random_tree(4, 5)
    for arguments, sentence in [
        ({"threshold": 2.0}, "between 0 and 1"),
        ({"n_clusters": 6}, "between 1 and the number of leaves"),
        ({"threshold": 0.5, "n_clusters": 2}, "not both"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            tree.cut(**arguments)
