"""Dendrogram purity, the measure of [HG05]: how well a tree keeps classes together, exactly.

Pick a leaf uniformly among those whose class has at least two members, then another leaf of its class uniformly; take
the smallest subtree that holds both and the fraction of its leaves in that class. The purity is the mean.
"""

from typing import Any

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import Tree


@kernel
def _purity(left, right, classes, n_classes):
    m = left.shape[0] + 1
    members = np.zeros((2 * m - 1, n_classes), dtype=np.int64)
    for i in range(m):
        members[i, classes[i]] = 1
    size = np.ones(2 * m - 1)
    pair_purity = np.zeros(n_classes)  # over ordered pairs of the class, the purity of their smallest common subtree
    for i in range(m - 1):
        l, r = left[i], right[i]
        size[m + i] = size[l] + size[r]
        for c in range(n_classes):
            members[m + i, c] = members[l, c] + members[r, c]
            meeting = 2.0 * members[l, c] * members[r, c]
            if meeting > 0:
                pair_purity[c] += meeting * members[m + i, c] / size[m + i]
    total = 0.0
    leaves = 0.0
    for c in range(n_classes):
        count = members[2 * m - 2, c]
        if count > 1:
            total += pair_purity[c] / (count - 1)
            leaves += count
    return total, leaves


def dendrogram_purity(tree: Tree | np.ndarray, y: Any) -> float:
    """Dendrogram purity of a tree, or of a SciPy linkage matrix, against the classes y (m,) of its leaves.

    >>> from scipy.cluster.hierarchy import linkage
    >>> dendrogram_purity(linkage([[0.0], [0.1], [5.0], [5.2]]), [0, 0, 1, 1])
    1.0
    """
    if isinstance(tree, Tree):
        left, right = tree.left, tree.right
    else:
        merges = np.asarray(tree)
        if merges.ndim != 2 or merges.shape[1] < 2:
            raise ValueError("tree must be a Tree or a SciPy linkage matrix")
        left, right = (np.ascontiguousarray(merges[:, side], dtype=np.int64) for side in (0, 1))
    classes = np.unique(np.asarray(y), return_inverse=True)[1].ravel()
    if classes.shape[0] != left.shape[0] + 1:
        raise ValueError(f"y has {classes.shape[0]} entries but the tree has {left.shape[0] + 1} leaves")
    total, leaves = _purity(left, right, classes, int(classes.max()) + 1)
    if leaves == 0:
        raise ValueError("dendrogram purity needs a class with at least two members")
    return float(total / leaves)
