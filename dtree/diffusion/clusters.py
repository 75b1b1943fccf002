"""Clusters of a diffusion tree: subtrees standing at one time, and the one a new row most probably belongs to.

A diffusion tree has no clusters of its own. Cutting it at a time gives the subtrees that stand there; the default cut
is in the widest gap between divergence times, where the number of subtrees stays the same for longest.
"""

from collections.abc import Callable

import numpy as np

from dtree.diffusion.predictive import BranchMixture
from dtree.diffusion.tree import Columns, children_first, smallest_leaf


def widest_gap(tree: Columns) -> int:
    """The number of subtrees that stands for the longest stretch of diffusion time, at least two.

    >>> from dtree.diffusion.tree import from_nested
    >>> widest_gap(from_nested([[0, 1], [2, [3, 4]]], [0.1, 0.9, 0.8, 0.95]))
    2
    """
    n = tree.n_leaves
    times = np.sort(1.0 - tree.rest[n:])
    if n == 2:
        return 2
    # after the k-th divergence k + 1 subtrees stand; every row by itself (k = n - 1) is no clustering
    return int(np.argmax(np.diff(times))) + 2


def cut(tree: Columns, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Cluster of every node (2n-1,), -1 above the cut, and the nodes (k,) at the tops of the clusters.

    Clusters are numbered by their smallest leaf.

    >>> from dtree.diffusion.tree import from_nested
    >>> labels, tops = cut(from_nested([[0, 1], 2], [0.3, 0.7]), 2)
    >>> labels.tolist(), tops.tolist()
    ([0, 0, 1, 0, -1], [3, 2])
    """
    n = tree.n_leaves
    if not 1 <= n_clusters <= n:
        raise ValueError(f"A tree over {n} leaves can be cut into 1 to {n} clusters, not {n_clusters}.")
    # the n_clusters - 1 earliest divergences are above the cut; equal times are ranked as in a canonical tree
    order = children_first(tree.child, tree.root)[::-1]
    order = order[np.argsort(-tree.rest[order], kind="stable")]
    above = np.zeros(2 * n - 1, dtype=bool)
    above[order[: n_clusters - 1]] = True
    tops = np.array([i for i in range(2 * n - 1) if not above[i] and (tree.parent[i] < 0 or above[tree.parent[i]])])
    tops = tops[np.argsort(smallest_leaf(tree)[tops])]
    labels = np.full(2 * n - 1, -1)
    labels[tops] = np.arange(n_clusters)
    for i in [*children_first(tree.child, tree.root)[::-1]]:
        if labels[i] >= 0:
            labels[tree.child[i]] = labels[i]
    return labels, tops


def log_memberships(
    score: Callable[[BranchMixture], np.ndarray], mixture: BranchMixture, labels: np.ndarray, n_clusters: int
) -> np.ndarray:
    """Log weight (r, k) with which the branches of each cluster explain each row: its share of the mixture.

    `score` gives the log density (r,) of the rows under a mixture.
    """
    return np.stack([score(mixture.on_branches(labels == k)) for k in range(n_clusters)], axis=1)
