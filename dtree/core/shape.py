"""A tree as it is drawn, whichever kind of tree it came from."""

from dataclasses import dataclass

import numpy as np

from dtree.core.tree import Binary, Tree, monotone_heights


@dataclass(frozen=True, eq=False)
class Shape(Binary):
    """Children of the m-1 forks, rows under each of the 2m-1 nodes, and where the forks stand, root highest.

    scale : what the height is: "odds" (log odds against one cluster), "time" (1 - divergence time) or "depth" (of the
        valley that a fork closes, in nats).
    r, p : (2m-1,) probability of being one cluster given that none reaches beyond it, and without that condition; by
        "draws" of chains the shares of draws in which the rows below are together, and in which they are a cluster.
    """

    left: np.ndarray
    right: np.ndarray
    size: np.ndarray
    height: np.ndarray
    scale: str
    r: np.ndarray | None = None
    p: np.ndarray | None = None
    by: str = "tree"
    cut: float | None = None  # the height at which a tree of levels is cut

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
        m, below = self.n_leaves, self.leaf_counts()
        start = np.zeros(2 * m - 1, dtype=np.int64)
        for fork in range(m - 2, -1, -1):
            start[self.left[fork]] = start[m + fork]
            start[self.right[fork]] = start[m + fork] + below[self.left[fork]]
        order = np.empty(m, dtype=np.int64)
        order[start[:m]] = np.arange(m)
        return order, start, start + below

    def first_leaf(self, node: int) -> int:
        """The leaf with the smallest number below a node."""
        return int(self.leaves_below(node)[0])

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
    height = monotone_heights(tree.left, tree.right, np.concatenate([np.full(m, -np.inf), tree.log_d]))[m:]
    return Shape(tree.left, tree.right, tree.size, height, "odds", tree.r, np.exp(tree.log_omega))
