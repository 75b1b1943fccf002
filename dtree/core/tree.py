"""The tree is columns.

Leaves are nodes 0..m-1, internal nodes m..2m-2 in merge order, so children always stand before their parents and every
bottom-up or top-down sweep is a plain loop. `left, right` (m-1,) are the children of internal node m+i; `size`,
`log_phi_h`, `log_phi_t` (2m-1,) belong to all nodes.

    phi_t(leaf) = phi_h,  phi_t(k) = phi_h(k) + phi_t(left) phi_t(right),  r = phi_h / phi_t

r is the probability that the node is one cluster, given that no cluster reaches beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtree.core.jit import kernel
from dtree.core.partition import canonical_labels


@kernel
def log_add(a, b):
    """log(exp(a) + exp(b)) without overflow."""
    high = max(a, b)
    if high == -np.inf:
        return high
    return high + math.log1p(math.exp(min(a, b) - high))


@kernel
def sum_over_partitions(left, right, log_phi_h):
    """log phi_t (2m-1,) of every node from log phi_h."""
    m = left.shape[0] + 1
    log_phi_t = log_phi_h.copy()
    for i in range(m - 1):
        log_phi_t[m + i] = log_add(log_phi_h[m + i], log_phi_t[left[i]] + log_phi_t[right[i]])
    return log_phi_t


@kernel
def _best_partition(left, right, log_phi_h):
    """For each node whether it is one cluster in the most probable tree-consistent partition below it."""
    m = left.shape[0] + 1
    best = log_phi_h.copy()
    joined = np.ones(2 * m - 1, dtype=np.bool_)
    for i in range(m - 1):
        apart = best[left[i]] + best[right[i]]
        joined[m + i] = log_phi_h[m + i] >= apart
        best[m + i] = max(log_phi_h[m + i], apart)
    return joined


@kernel
def _highest(left, right, accepted):
    """The highest accepted node above each node (itself included), or -1."""
    m = left.shape[0] + 1
    owner = np.full(2 * m - 1, -1, dtype=np.int64)
    for k in range(2 * m - 2, -1, -1):
        if owner[k] < 0 and accepted[k]:
            owner[k] = k
        if k >= m:
            owner[left[k - m]] = owner[k]
            owner[right[k - m]] = owner[k]
    return owner


@kernel
def _monotone_heights(left, right, own):
    """Heights (2m-1,) pushed down so that no child stands above its parent."""
    m = left.shape[0] + 1
    height = own.copy()
    for k in range(2 * m - 2, m - 1, -1):
        for child in (left[k - m], right[k - m]):
            height[child] = min(height[child], height[k])
    return height


@kernel
def _cluster_probabilities(left, right, log_r, log_not_r):
    m = left.shape[0] + 1
    log_reach = np.zeros(2 * m - 1)  # log probability that no ancestor is a cluster
    log_omega = np.empty(2 * m - 1)
    for k in range(2 * m - 2, -1, -1):
        log_omega[k] = log_reach[k] + log_r[k]
        if k >= m:
            log_reach[left[k - m]] = log_reach[k] + log_not_r[k]
            log_reach[right[k - m]] = log_reach[k] + log_not_r[k]
    return log_omega


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree over atoms with the potentials of Bayesian hierarchical clustering.

    >>> log_phi_h = np.log([0.5, 0.5, 0.5, 0.4, 0.05])
    >>> tree = Tree.from_merges([[0, 1], [2, 3]], size=[1, 1, 1], log_phi_h=log_phi_h)
    >>> tree.r.round(3).tolist()
    [1.0, 1.0, 1.0, 0.615, 0.133]
    >>> tree.cut().tolist()
    [0, 0, 1]
    >>> tree.to_newick(["a", "b", "c"])
    '(c:2.014903,(a:0.485508,b:0.485508):1.529395);'
    """

    left: np.ndarray
    right: np.ndarray
    size: np.ndarray
    log_phi_h: np.ndarray
    log_phi_t: np.ndarray

    @classmethod
    def from_merges(cls, merges: Any, size: Any, log_phi_h: Any) -> Tree:
        """Build the columns from merges (m-1, 2), the counts (m,) of the leaves and log phi_h (2m-1,)."""
        merges = np.asarray(merges, dtype=np.int64).reshape(-1, 2)
        m = merges.shape[0] + 1
        sizes = np.empty(2 * m - 1, dtype=np.int64)
        sizes[:m] = size
        for i, (a, b) in enumerate(merges):
            sizes[m + i] = sizes[a] + sizes[b]
        left, right = np.ascontiguousarray(merges[:, 0]), np.ascontiguousarray(merges[:, 1])
        log_phi_h = np.ascontiguousarray(log_phi_h, dtype=np.float64)
        return cls(left, right, sizes, log_phi_h, sum_over_partitions(left, right, log_phi_h))

    @property
    def n_leaves(self) -> int:
        """Number of leaves m."""
        return self.left.shape[0] + 1

    @property
    def merges(self) -> np.ndarray:
        """Children (m-1, 2) of the internal nodes, in merge order."""
        return np.column_stack([self.left, self.right])

    @property
    def parent(self) -> np.ndarray:
        """Parent (2m-1,) of every node, -1 for the root."""
        parent = np.full(self.size.shape[0], -1, dtype=np.int64)
        inner = np.arange(self.n_leaves, self.size.shape[0])
        parent[self.left] = inner
        parent[self.right] = inner
        return parent

    @property
    def log_r(self) -> np.ndarray:
        """Log probability (2m-1,) that the node is one cluster, given that no larger one holds it."""
        return np.minimum(self.log_phi_h - self.log_phi_t, 0.0)

    @property
    def r(self) -> np.ndarray:
        """exp(log_r)."""
        return np.exp(self.log_r)

    @property
    def log_d(self) -> np.ndarray:
        """Log dissimilarity (m-1,) of each merge: negative where joining is more probable than not."""
        m = self.n_leaves
        return self.log_phi_t[self.left] + self.log_phi_t[self.right] - self.log_phi_h[m:]

    @property
    def log_omega(self) -> np.ndarray:
        """Log posterior probability (2m-1,) that the node is a cluster, over tree-consistent partitions."""
        log_not_r = np.full(self.size.shape[0], -np.inf)
        log_not_r[self.n_leaves :] = -np.logaddexp(0.0, -self.log_d)
        return _cluster_probabilities(self.left, self.right, self.log_r, log_not_r)

    def cut(self, threshold: float | None = None, n_clusters: int | None = None) -> np.ndarray:
        """Labels (m,) of the leaves: the highest nodes with r >= threshold (0.5), or exactly n_clusters clusters."""
        if n_clusters is not None:
            if threshold is not None:
                raise ValueError("give either threshold or n_clusters, not both")
            return self._cut_into(n_clusters)
        threshold = 0.5 if threshold is None else threshold
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(f"threshold is a probability between 0 and 1, got {threshold}")
        # In logs, with room for rounding: log d <= 0 and r >= 1/2 must be the same question.
        accepted = self.log_r >= (math.log(threshold) if threshold > 0 else -np.inf) - 1e-12
        accepted[: self.n_leaves] = True
        return self._labels(accepted)

    def _cut_into(self, n_clusters: int) -> np.ndarray:
        m = self.n_leaves
        if not 1 <= n_clusters <= m:
            raise ValueError(f"n_clusters must lie between 1 and the number of leaves ({m}), got {n_clusters}")
        height = self._heights()
        # The internal nodes highest first; a parent never stands below its child, and ties go to the later node.
        order = m + np.lexsort((np.arange(m - 1), height[m:]))[::-1]
        accepted = np.ones(2 * m - 1, dtype=np.bool_)
        accepted[order[: n_clusters - 1]] = False
        return self._labels(accepted)

    def map_partition(self) -> np.ndarray:
        """Labels (m,) of the most probable partition among those consistent with the tree.

        Not always equal to `cut()`, contrary to what [LC15] says: r weighs a node against all partitions below it, this
        one only against the best of them.
        """
        return self._labels(_best_partition(self.left, self.right, self.log_phi_h))

    def _labels(self, accepted: np.ndarray) -> np.ndarray:
        return canonical_labels(_highest(self.left, self.right, accepted)[: self.n_leaves])

    def leaves_below(self, node: int) -> np.ndarray:
        """The leaves under a node, in increasing order."""
        m = self.n_leaves
        stack, leaves = [int(node)], []
        while stack:
            k = stack.pop()
            if k < m:
                leaves.append(k)
            else:
                stack += [int(self.left[k - m]), int(self.right[k - m])]
        return np.sort(np.asarray(leaves, dtype=np.int64))

    def _heights(self) -> np.ndarray:
        """-log r of each node, pushed down so that heights are monotone; leaves at 0."""
        own = np.logaddexp(0.0, np.concatenate([np.full(self.n_leaves, -np.inf), self.log_d]))
        return _monotone_heights(self.left, self.right, own)

    def to_linkage(self) -> np.ndarray:
        """SciPy linkage matrix (m-1, 4) with heights -log r, monotone in the way that keeps cuts.

        A node more probable than its descendants pulls them down to its own height, so that
        `scipy.cluster.hierarchy.fcluster(Z, -log(threshold), "distance")` and `cut(threshold)` agree. Rows are sorted by
        height, as SciPy's `is_monotonic` demands; column 3 counts leaves, as SciPy demands too.
        """
        m = self.n_leaves
        height = self._heights()[m:]
        order = np.lexsort((np.arange(m - 1), height))
        number = np.arange(2 * m - 1)
        number[m + order] = np.arange(m, 2 * m - 1)
        children = np.sort(number[self.merges[order]], axis=1)
        return np.column_stack([children, height[order], self._leaf_counts()[m + order]]).astype(np.float64)

    def _leaf_counts(self) -> np.ndarray:
        counts = np.ones(2 * self.n_leaves - 1, dtype=np.int64)
        for i in range(self.n_leaves - 1):
            counts[self.n_leaves + i] = counts[self.left[i]] + counts[self.right[i]]
        return counts

    def to_newick(self, names: Sequence[str] | None = None) -> str:
        """Newick text with branch lengths from the monotone heights."""
        m = self.n_leaves
        if names is not None and len(names) != m:
            raise ValueError(f"there are {len(names)} names but {m} leaves")
        height, parent = self._heights(), self.parent
        text: list[str] = [newick_name(str(names[i]) if names is not None else str(i)) for i in range(m)]
        text += [""] * (m - 1)
        for k in range(2 * m - 1):
            if k >= m:
                a, b = self.left[k - m], self.right[k - m]
                text[k] = f"({text[a]},{text[b]})"
                text[a] = text[b] = ""
            if parent[k] >= 0:
                text[k] += f":{height[parent[k]] - height[k]:.6f}"
        return text[-1] + ";"

    def validate(self) -> None:
        """Raise ValueError naming the first broken invariant; see `_INVARIANTS` for what they are and why."""
        for invariant, (holds, why) in _INVARIANTS.items():
            if not holds(self):
                raise ValueError(f"the tree breaks the invariant '{invariant}': {why}")


def newick_name(name: str) -> str:
    """A name as Newick wants it: quoted when it holds a character with a meaning.

    >>> newick_name("Killer whale")
    "'Killer whale'"
    """
    plain = name and not set(name) & set("()[]{},;:'\" \t\n_")
    return name if plain else "'" + name.replace("'", "''") + "'"


def _shapes_agree(tree: Tree) -> bool:
    nodes = 2 * tree.left.shape[0] + 1
    columns = (tree.size, tree.log_phi_h, tree.log_phi_t)
    return tree.right.shape == tree.left.shape and all(column.shape == (nodes,) for column in columns)


def _children_before_parents(tree: Tree) -> bool:
    parents = np.arange(tree.n_leaves, 2 * tree.n_leaves - 1)
    merges = tree.merges
    return bool(np.all(merges >= 0) and np.all(merges < parents[:, None]))


def _one_parent_each(tree: Tree) -> bool:
    children = np.sort(tree.merges.ravel())
    return bool(np.array_equal(children, np.arange(2 * tree.n_leaves - 2)))


def _sizes_add(tree: Tree) -> bool:
    m = tree.n_leaves
    sums = tree.size[tree.left] + tree.size[tree.right]
    return bool(np.all(tree.size[:m] >= 1) and np.array_equal(tree.size[m:], sums))


def _potentials_finite(tree: Tree) -> bool:
    return bool(np.all(np.isfinite(tree.log_phi_h)) and np.all(np.isfinite(tree.log_phi_t)))


def _potentials_sum(tree: Tree) -> bool:
    expected = sum_over_partitions(tree.left, tree.right, tree.log_phi_h)
    return bool(np.allclose(tree.log_phi_t, expected, rtol=1e-9, atol=1e-9))


_INVARIANTS = {
    "shapes agree": (_shapes_agree, "m leaves need m-1 merges and 2m-1 sizes and potentials"),
    "children before parents": (_children_before_parents, "a sweep in index order must meet children first"),
    "one parent each": (_one_parent_each, "every node but the root is the child of exactly one merge"),
    "sizes add": (_sizes_add, "a node holds the rows of its children, and a leaf at least one row"),
    "potentials are finite": (_potentials_finite, "a potential that is NaN or infinite comes from bad input"),
    "potentials sum": (_potentials_sum, "phi_t must be phi_h plus the product of the children's phi_t"),
}
