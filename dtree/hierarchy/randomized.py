"""Randomised BHC (Heller & Ghahramani 2005b, named in [XHG09]): O(n log n) instead of O(n^2).

BHC on a random subset gives a top split; every other row is filtered to one of its two sides; each side is treated in
the same way until it is small enough for exact BHC. The tree is approximate, its potentials and its bound are exact.
"""

from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.predictive import by_blocks, log_cluster_weights
from dtree.hierarchy.statistics import cluster_statistics, node_statistics


def build_randomized_tree(model: Model, atoms: np.ndarray, X: Any, rng: np.random.Generator, subset: int = 500) -> Tree:
    """The randomised tree over atoms (m, s) of rows X (m, d); `subset` atoms are clustered exactly at a time.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> X = np.array([[1], [2], [50], [48], [1], [51], [2], [49], [0]])
    >>> tree = build_randomized_tree(model, model.atoms(X), X, np.random.default_rng(0), subset=5)
    >>> tree.cut(n_clusters=2).tolist()
    [0, 0, 1, 1, 0, 1, 0, 1, 0]
    """
    m = atoms.shape[0]
    # Each task is a set of leaves; a large one is split in two and the two tasks follow, so parents stand before
    # children.
    tasks: list[np.ndarray] = [np.arange(m)]
    children: list[tuple[int, int] | None] = []
    exact: list[Tree | None] = []
    at = 0
    while at < len(tasks):
        members = tasks[at]
        at += 1
        if members.shape[0] <= max(subset, 2):
            children.append(None)
            exact.append(build_tree(model, atoms[members]))
            continue
        sides = _top_split(model, atoms, X, members, rng, subset)
        children.append((len(tasks), len(tasks) + 1))
        exact.append(None)
        tasks += [members[sides], members[~sides]]
    merges: list[tuple[int, int]] = []
    top = [0] * len(tasks)
    for task in range(len(tasks) - 1, -1, -1):
        pair = children[task]
        if pair is not None:
            merges.append((min(top[pair[0]], top[pair[1]]), max(top[pair[0]], top[pair[1]])))
            top[task] = m + len(merges) - 1
            continue
        tree, members = exact[task], tasks[task]
        assert tree is not None
        number = np.concatenate([members, m + len(merges) + np.arange(members.shape[0] - 1)])
        merges += [(min(number[a], number[b]), max(number[a], number[b])) for a, b in tree.merges]
        top[task] = int(number[-1])
    counts = np.rint(model.counts(atoms))
    shape = Tree.from_merges(merges, counts, np.zeros(2 * m - 1))
    return shape.with_potentials(model.log_phi_h(node_statistics(shape, atoms)))


def _top_split(
    model: Model, atoms: np.ndarray, X: Any, members: np.ndarray, rng: np.random.Generator, subset: int
) -> np.ndarray:
    """Which members go to the first side: the subset's root split, the others to the side with the likelier cluster."""
    chosen = np.sort(rng.choice(members.shape[0], subset, replace=False))
    sample = members[chosen]
    tree = build_tree(model, atoms[sample])
    first = np.zeros(subset, dtype=np.bool_)
    first[tree.leaves_below(int(tree.left[-1]))] = True
    labels = tree.cut()
    if labels.max() == 0:  # one cluster: its two halves compete
        labels = np.where(first, 0, 1)
    clusters = cluster_statistics(labels, atoms[sample])
    side_of_cluster = np.zeros(clusters.shape[0], dtype=np.bool_)
    side_of_cluster[labels] = first
    log_sizes = log_cluster_weights(model, model.counts(clusters))
    best = by_blocks(
        lambda rows: np.argmax(model.family.log_predictive_of(X[rows], clusters) + log_sizes, axis=1), members
    )
    sides = side_of_cluster[best]
    sides[chosen] = first
    return sides
