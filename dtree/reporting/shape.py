"""The tree as the page draws it, whichever kind of tree it came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dtree.core.tree import Tree
from dtree.diffusion.tree import Columns, canonical


@dataclass(frozen=True, eq=False)
class Shape:
    """Children of the m-1 forks, rows under each of the 2m-1 nodes, and where the forks stand, root highest.

    scale : what the height is: "odds" (log odds against one cluster) or "time" (1 - divergence time).
    r, p : (2m-1,) probability of being one cluster given that none reaches beyond it, and without that condition; by "draws" of
        chains the shares of draws in which the rows below are together, and in which they are a cluster.
    """

    left: np.ndarray
    right: np.ndarray
    size: np.ndarray
    height: np.ndarray
    scale: str
    r: np.ndarray | None = None
    p: np.ndarray | None = None
    by: str = "tree"

    @property
    def n_leaves(self) -> int:
        """Number of leaves m."""
        return self.left.shape[0] + 1

    @property
    def parent(self) -> np.ndarray:
        """Parent (2m-1,) of every node, -1 for the root."""
        parent = np.full(2 * self.n_leaves - 1, -1, dtype=np.int64)
        forks = np.arange(self.n_leaves, 2 * self.n_leaves - 1)
        parent[self.left], parent[self.right] = forks, forks
        return parent

    @property
    def sibling(self) -> np.ndarray:
        """The other child (2m-1,) of a node's parent, -1 for the root."""
        sibling = np.full(2 * self.n_leaves - 1, -1, dtype=np.int64)
        sibling[self.left], sibling[self.right] = self.right, self.left
        return sibling

    @property
    def level(self) -> np.ndarray:
        """Forks (2m-1,) between a node and the root."""
        level, parent = np.zeros(2 * self.n_leaves - 1, dtype=np.int64), self.parent
        for node in range(2 * self.n_leaves - 3, -1, -1):
            level[node] = level[parent[node]] + 1
        return level

    def leaf_order(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Leaves (m,) left to right, and the first and the last but one place (2m-1,) of the leaves under each node."""
        m = self.n_leaves
        below = np.ones(2 * m - 1, dtype=np.int64)
        for fork, (a, b) in enumerate(zip(self.left, self.right)):
            below[m + fork] = below[a] + below[b]
        start = np.zeros(2 * m - 1, dtype=np.int64)
        for fork in range(m - 2, -1, -1):
            start[self.left[fork]] = start[m + fork]
            start[self.right[fork]] = start[m + fork] + below[self.left[fork]]
        order = np.empty(m, dtype=np.int64)
        order[start[:m]] = np.arange(m)
        return order, start, start + below

    def first_leaf(self, node: int) -> int:
        """The leaf with the smallest number below a node."""
        waiting, first = [node], self.n_leaves
        while waiting:
            at = waiting.pop()
            if at < self.n_leaves:
                first = min(first, at)
            else:
                waiting += [int(self.left[at - self.n_leaves]), int(self.right[at - self.n_leaves])]
        return first

    def clusters_of_nodes(self, leaf_cluster: np.ndarray) -> np.ndarray:
        """The cluster (2m-1,) that all leaves below a node belong to, or -1."""
        m = self.n_leaves
        cluster = np.concatenate([leaf_cluster, np.full(m - 1, -1)])
        for fork, (a, b) in enumerate(zip(self.left, self.right)):
            if cluster[a] == cluster[b]:
                cluster[m + fork] = cluster[a]
        return cluster


def shape_of_tree(tree: Tree) -> Shape:
    """A tree of Bayesian hierarchical clustering; forks stand at log d, no child above its parent."""
    m = tree.n_leaves
    height = tree.log_d.copy()
    for fork in range(m - 2, -1, -1):
        for child in (tree.left[fork], tree.right[fork]):
            if child >= m:
                height[child - m] = min(height[child - m], height[fork])
    return Shape(tree.left, tree.right, tree.size, height, "odds", tree.r, np.exp(tree.log_omega))


def shape_of_diffusion(columns: Columns, rows: np.ndarray | None = None) -> Shape:
    """A diffusion tree; forks stand at the time that was left when they parted. `rows` (m,) behind each leaf."""
    columns = canonical(columns)
    m = columns.n_leaves
    left, right = columns.child[m:, 0].astype(np.int64), columns.child[m:, 1].astype(np.int64)
    size = np.ones(2 * m - 1, dtype=np.int64)
    if rows is not None:
        size[:m] = np.rint(rows)
    for fork in range(m - 1):
        size[m + fork] = size[left[fork]] + size[right[fork]]
    return Shape(left, right, size, columns.rest[m:].copy(), "time")
