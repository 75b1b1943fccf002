"""Statistics of the nodes of a tree from those of its leaves."""

from __future__ import annotations

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import Tree


@kernel
def _add_upwards(left, right, statistics):
    m = left.shape[0] + 1
    for i in range(m - 1):
        for s in range(statistics.shape[1]):
            statistics[m + i, s] = statistics[left[i], s] + statistics[right[i], s]


def node_statistics(tree: Tree, atoms: np.ndarray) -> np.ndarray:
    """Statistics (2m-1, s) of all nodes."""
    statistics = np.empty((2 * tree.n_leaves - 1, atoms.shape[1]))
    statistics[: tree.n_leaves] = atoms
    _add_upwards(tree.left, tree.right, statistics)
    return statistics


def cluster_statistics(labels: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Statistics (k, s) of clusters 0..k-1 from the labels (m,) of the atoms (m, s).

    >>> cluster_statistics(np.array([0, 1, 0]), np.array([[1.0, 2.0], [1.0, 5.0], [1.0, 3.0]])).tolist()
    [[2.0, 5.0], [1.0, 5.0]]
    """
    statistics = np.zeros((int(labels.max(initial=-1)) + 1, atoms.shape[1]))
    np.add.at(statistics, labels, atoms)
    return statistics
