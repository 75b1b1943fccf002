"""The tree is columns.

Leaves are nodes 0..m-1, internal nodes m..2m-2 in merge order, so children always stand before their parents and every
bottom-up or top-down sweep is a plain loop. `left, right` (m-1,) are the children of internal node m+i; `size`,
`log_phi_h`, `log_phi_t` (2m-1,) belong to all nodes.

    phi_t(leaf) = phi_h,  phi_t(k) = phi_h(k) + phi_t(left) phi_t(right),  r = phi_h / phi_t

r is the probability that the node is one cluster, given that no cluster reaches beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dtree.core.jit import kernel
from dtree.core.partition import canonical_labels

_FEW_NUMBERS = 2000  # a millisecond of plain Python


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
def monotone_heights(left, right, own):
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


@kernel
def _add_upwards(left, right, values):
    m = left.shape[0] + 1
    for i in range(m - 1):
        for s in range(values.shape[1]):
            values[m + i, s] = values[left[i], s] + values[right[i], s]


def _for_size(compiled: Any, numbers: int) -> Any:
    """A kernel, or for few numbers the same code as plain Python: the first machine code that a process loads takes
    half a second, and a page about a small run needs no other."""
    return compiled if numbers > _FEW_NUMBERS else getattr(compiled, "py_func", compiled)


def sums_below(left: np.ndarray, right: np.ndarray, leaf_values: np.ndarray) -> np.ndarray:
    """Sums over the leaves below each node, (2m-1,) or (2m-1, s), of values (m,) or (m, s) of the leaves."""
    m = left.shape[0] + 1
    sums = np.empty((2 * m - 1, *leaf_values.shape[1:]), dtype=leaf_values.dtype)
    sums[:m] = leaf_values
    _for_size(_add_upwards, sums.size)(left, right, sums.reshape(2 * m - 1, -1))
    return sums


class Binary:
    """What any binary tree over m leaves can say of itself from the children of its m-1 internal nodes."""

    left: np.ndarray
    right: np.ndarray

    @property
    def n_leaves(self) -> int:
        """Number of leaves m."""
        return self.left.shape[0] + 1

    @property
    def parent(self) -> np.ndarray:
        """Parent (2m-1,) of every node, -1 for the root."""
        parent = np.full(2 * self.n_leaves - 1, -1, dtype=np.int64)
        parent[self.left] = parent[self.right] = np.arange(self.n_leaves, 2 * self.n_leaves - 1)
        return parent

    @property
    def merges(self) -> np.ndarray:
        """Children (m-1, 2) of the internal nodes, in merge order."""
        return np.column_stack([self.left, self.right])

    def leaf_counts(self) -> np.ndarray:
        """Number of leaves (2m-1,) below each node."""
        return sums_below(self.left, self.right, np.ones(self.n_leaves, dtype=np.int64))

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
        """Where the nodes (2m-1,) stand: leaves at 0, no child above its parent."""
        raise NotImplementedError

    def _labels(self, accepted: np.ndarray) -> np.ndarray:
        return canonical_labels(_for_size(_highest, accepted.size)(self.left, self.right, accepted)[: self.n_leaves])

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

    def to_linkage(self) -> np.ndarray:
        """SciPy linkage matrix (m-1, 4) with heights -log r, monotone in the way that keeps cuts.

        A node more probable than its descendants pulls them down to its own height, so that
        `scipy.cluster.hierarchy.fcluster(Z, -log(threshold), "distance")` and `cut(threshold)` agree. Rows are sorted
        by height, as SciPy's `is_monotonic` demands; column 3 counts leaves, as SciPy demands too.
        """
        m = self.n_leaves
        height = self._heights()[m:]
        order = np.lexsort((np.arange(m - 1), height))
        number = np.arange(2 * m - 1)
        number[m + order] = np.arange(m, 2 * m - 1)
        children = np.sort(number[self.merges[order]], axis=1)
        return np.column_stack([children, height[order], self.leaf_counts()[m + order]]).astype(np.float64)

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


@dataclass(frozen=True, eq=False)
class Tree(Binary):
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
        left, right = np.ascontiguousarray(merges[:, 0]), np.ascontiguousarray(merges[:, 1])
        sizes = sums_below(left, right, np.asarray(size).astype(np.int64))
        log_phi_h = np.ascontiguousarray(log_phi_h, dtype=np.float64)
        return cls(left, right, sizes, log_phi_h, sum_over_partitions(left, right, log_phi_h))

    def with_potentials(self, log_phi_h: np.ndarray) -> Tree:
        """The same merges with other log phi_h (2m-1,)."""
        log_phi_t = sum_over_partitions(self.left, self.right, log_phi_h)
        return replace(self, log_phi_h=log_phi_h, log_phi_t=log_phi_t)

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

    def map_partition(self) -> np.ndarray:
        """Labels (m,) of the most probable partition among those consistent with the tree.

        Not always equal to `cut()`, contrary to what [LC15] says: r weighs a node against all partitions below it, this
        one only against the best of them.
        """
        return self._labels(_best_partition(self.left, self.right, self.log_phi_h))

    def _heights(self) -> np.ndarray:
        """-log r of each node, pushed down so that heights are monotone; leaves at 0."""
        own = np.logaddexp(0.0, np.concatenate([np.full(self.n_leaves, -np.inf), self.log_d]))
        return monotone_heights(self.left, self.right, own)

    def _repr_svg_(self) -> str:
        """A small picture, for notebooks."""
        from dtree.core.tree_svg import svg_of_tree  # which imports this module

        return svg_of_tree(self)

    def validate(self) -> None:
        """Raise ValueError naming the first broken invariant; see `_invariants` for what they are and why."""
        for holds, invariant, why in _invariants(self):
            if not holds:
                raise ValueError(f"the tree breaks the invariant '{invariant}': {why}")


def newick_name(name: str) -> str:
    """A name as Newick wants it: quoted when it holds a character with a meaning.

    >>> newick_name("Killer whale")
    "'Killer whale'"
    """
    plain = name and not set(name) & set("()[]{},;:'\" \t\n_")
    return name if plain else "'" + name.replace("'", "''") + "'"


def _invariants(tree: Tree) -> Iterator[tuple[Any, str, str]]:
    """Whether each invariant holds, its name and its reason; each may be asked for only where those before it hold."""
    m, left, right = tree.n_leaves, tree.left, tree.right
    columns = (tree.size, tree.log_phi_h, tree.log_phi_t)
    agree = right.shape == left.shape and all(column.shape == (2 * m - 1,) for column in columns)
    yield agree, "shapes agree", "m leaves need m-1 merges and 2m-1 sizes and potentials"
    first = np.all(tree.merges >= 0) and np.all(tree.merges < np.arange(m, 2 * m - 1)[:, None])
    yield first, "children before parents", "a sweep in index order must meet children first"
    once = np.array_equal(np.sort(tree.merges.ravel()), np.arange(2 * m - 2))
    yield once, "one parent each", "every node but the root is the child of exactly one merge"
    add = np.all(tree.size[:m] >= 1) and np.array_equal(tree.size[m:], tree.size[left] + tree.size[right])
    yield add, "sizes add", "a node holds the rows of its children, and a leaf at least one row"
    finite = np.all(np.isfinite(tree.log_phi_h)) and np.all(np.isfinite(tree.log_phi_t))
    yield finite, "potentials are finite", "a potential that is NaN or infinite comes from bad input"
    expected = sum_over_partitions(left, right, tree.log_phi_h)
    agree = np.allclose(tree.log_phi_t, expected, rtol=1e-9, atol=1e-9)
    yield agree, "potentials sum", "phi_t must be phi_h plus the product of the children's phi_t"
