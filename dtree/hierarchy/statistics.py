"""Statistics of the nodes of a tree from those of its leaves."""

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import Tree, sums_below


@kernel
def add_by_label(atoms, labels, out):
    """Add every atom (m, s) with label c >= 0 to out[c] (k, s), in row order."""
    for i in range(atoms.shape[0]):
        if labels[i] >= 0:
            for s in range(atoms.shape[1]):
                out[labels[i], s] += atoms[i, s]


def node_statistics(tree: Tree, atoms: np.ndarray) -> np.ndarray:
    """Statistics (2m-1, s) of all nodes."""
    return sums_below(tree.left, tree.right, np.asarray(atoms, dtype=np.float64))


def cluster_statistics(labels: np.ndarray, atoms: np.ndarray) -> np.ndarray:
    """Statistics (k, s) of clusters 0..k-1 from the labels (m,) of the atoms (m, s).

    >>> cluster_statistics(np.array([0, 1, 0]), np.array([[1.0, 2.0], [1.0, 5.0], [1.0, 3.0]])).tolist()
    [[2.0, 5.0], [1.0, 5.0]]
    """
    statistics = np.zeros((int(labels.max(initial=-1)) + 1, atoms.shape[1]))
    add_by_label(np.asarray(atoms), labels, statistics)
    return statistics
