"""A diffusion tree as columns: parents, children and the time that is left at each node.

Leaves are nodes `0..n-1`, internal nodes `n..2n-2`. In a canonical tree children come before parents, so that the root
is node `2n-2` and sweeps are plain loops; the search works on the same columns in any order. The origin (time 0,
location 0) is written as parent `-1`. Times are stored as `rest = 1 - t`: near t = 1 only the rest has precision left.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import newick_name


class Columns(NamedTuple):
    """A binary tree over n leaves.

    parent (2n-1,) int64, -1 at the root; child (2n-1, 2) int64, -1 at leaves; rest (2n-1,) float64, `1 - t`, 0 at
    leaves.
    """

    parent: np.ndarray
    child: np.ndarray
    rest: np.ndarray

    @property
    def n_leaves(self) -> int:
        return (self.parent.shape[0] + 1) // 2

    @property
    def root(self) -> int:
        return int(np.flatnonzero(self.parent < 0)[0])

    @property
    def above(self) -> np.ndarray:
        """`rest` (2n-1,) at the top of the branch above each node: that of its parent, 1 at the origin."""
        return np.where(self.parent >= 0, self.rest[self.parent], 1.0)

    def to_newick(self, names: Sequence[str] | None = None) -> str:
        """The tree in Newick format, branch lengths in units of diffusion time.

        >>> from_nested([[0, 1], 2], [0.25, 0.75]).to_newick(["a", "b", "c"])
        '((a:0.25,b:0.25):0.5,c:0.75):0.25;'
        """
        n, root = self.n_leaves, self.root
        labels = [str(i) for i in range(n)] if names is None else [newick_name(str(name)) for name in names]
        text = labels + [""] * (n - 1)
        for i in children_first(self.child, root):
            parts = [f"{text[k]}:{self.rest[i] - self.rest[k]:.9g}" for k in self.child[i]]
            text[i] = f"({','.join(parts)})"
        return f"{text[root]}:{1.0 - self.rest[root]:.9g};"

    def to_linkage(self) -> np.ndarray:
        """SciPy's linkage matrix (n-1, 4); the height of a node is `rest`, the time left after it.

        >>> from_nested([[0, 1], 2], [0.3, 0.7]).to_linkage()
        array([[0. , 1. , 0.3, 2. ],
               [2. , 3. , 0.7, 3. ]])
        """
        tree, n = canonical(self), self.n_leaves
        count = leaf_counts(tree.child, np.arange(n, 2 * n - 1))
        pair = np.sort(tree.child[n:], axis=1)
        return np.column_stack([pair, np.maximum.accumulate(tree.rest[n:]), count[n:]]).astype(np.float64)


@kernel
def rest_above(parent: np.ndarray, rest: np.ndarray, node: int) -> float:
    """`rest` at the top of the branch above `node`."""
    # two columns and not their record: a record that is handed on counts the references of all its arrays, and that
    # would take longer than everything else here
    return rest[parent[node]] if parent[node] >= 0 else 1.0


@kernel
def children_first(child: np.ndarray, root: int) -> np.ndarray:
    """Internal nodes below and including `root`, children before parents."""
    n_nodes = child.shape[0]
    order = np.empty(n_nodes, np.int64)
    stack = np.empty(n_nodes, np.int64)
    stack[0] = root
    depth = 1
    k = n_nodes
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if child[node, 0] >= 0:
            k -= 1
            order[k] = node
            stack[depth] = child[node, 0]
            stack[depth + 1] = child[node, 1]
            depth += 2
    return order[k:].copy()


@kernel
def depth_first(child: np.ndarray, top: int) -> np.ndarray:
    """The walk through the subtree of `top` from left to right: `i` where it arrives at node i, and `-1 - i` where it
    leaves an internal node i after both of its children."""
    n_nodes = child.shape[0]
    walk = np.empty(2 * n_nodes, np.int64)
    stack = np.empty(2 * n_nodes, np.int64)
    stack[0] = top
    depth = 1
    length = 0
    while depth > 0:
        depth -= 1
        i = stack[depth]
        walk[length] = i
        length += 1
        if i >= 0 and child[i, 0] >= 0:
            stack[depth] = -1 - i
            stack[depth + 1] = child[i, 1]
            stack[depth + 2] = child[i, 0]
            depth += 3
    return walk[:length]


@kernel
def leaf_counts(child: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Number of leaves under each node; `order` lists internal nodes children first."""
    count = np.ones(child.shape[0], np.int64)
    for i in order:
        count[i] = count[child[i, 0]] + count[child[i, 1]]
    return count


def canonical(tree: Columns) -> Columns:
    """The same tree with internal nodes renumbered so that children come before parents.

    Among the possible orders the earliest divergence comes last, so the columns do not depend on how the tree was
    found.
    """
    n = tree.n_leaves
    order = children_first(tree.child, tree.root)
    # sort by rest, ties (only by rounding) broken by the children-first order, which is always valid
    order = order[np.argsort(tree.rest[order], kind="stable")]
    new = np.arange(2 * n - 1)
    new[order] = np.arange(n, 2 * n - 1)
    old = np.argsort(new)
    parent = np.where(tree.parent[old] >= 0, new[tree.parent[old]], -1)
    child = np.where(tree.child[old] >= 0, new[tree.child[old]], -1)
    smallest = smallest_leaf(Columns(parent, child, tree.rest[old]))
    swap = np.flatnonzero(child[:, 0] >= 0)
    swap = swap[smallest[child[swap, 0]] > smallest[child[swap, 1]]]
    child[swap] = child[swap][:, ::-1]
    return Columns(parent, np.ascontiguousarray(child), tree.rest[old].copy())


def smallest_leaf(tree: Columns) -> np.ndarray:
    """The smallest leaf number under each node."""
    smallest = np.arange(tree.parent.shape[0])
    for i in children_first(tree.child, tree.root):
        smallest[i] = min(smallest[tree.child[i, 0]], smallest[tree.child[i, 1]])
    return smallest


def unlinked(*shape: int) -> Columns:
    """Columns of so many nodes without parents or children, each at time 1."""
    return Columns(np.full(shape, -1), np.full((*shape, 2), -1), np.zeros(shape))


def from_nested(structure: Any, times_preorder: Sequence[float]) -> Columns:
    """A tree from nested pairs of leaf numbers and the divergence times of its internal nodes in preorder.

    >>> tree = from_nested([[0, 1], 2], [0.3, 0.7])
    >>> tree.parent
    array([ 3,  3,  4,  4, -1])
    >>> 1 - tree.rest[[4, 3]]
    array([0.3, 0.7])
    """
    n = len(times_preorder) + 1
    parent, child, rest = unlinked(2 * n - 1)
    stack = [(structure, -1, 0)]
    k = 0
    while stack:
        node, above, side = stack.pop()
        if isinstance(node, (list, tuple)):
            i = 2 * n - 2 - k
            rest[i] = 1.0 - times_preorder[k]
            k += 1
            stack.append((node[1], i, 1))
            stack.append((node[0], i, 0))
        else:
            i = int(node)
        parent[i] = above
        if above >= 0:
            child[above, side] = i
    return Columns(parent, child, rest)


def to_nested(tree: Columns) -> Any:
    """Nested lists of leaf numbers, the inverse of `from_nested` (without the times).

    >>> to_nested(from_nested([[0, 1], 2], [0.3, 0.7]))
    [[0, 1], 2]
    """
    nested: list[Any] = list(range(tree.parent.shape[0]))
    for i in children_first(tree.child, tree.root):
        nested[i] = [nested[tree.child[i, 0]], nested[tree.child[i, 1]]]
    return nested[tree.root]


def validate(tree: Columns) -> None:
    """Raise ValueError, naming the broken requirement, unless `tree` is a binary tree with times that increase
    downwards.

    >>> validate(from_nested([[0, 1], 2], [0.3, 0.7]))
    """
    n = tree.n_leaves
    if tree.parent.shape != (2 * n - 1,) or tree.child.shape != (2 * n - 1, 2) or tree.rest.shape != (2 * n - 1,):
        raise ValueError("A diffusion tree over n leaves has columns of 2n - 1 rows; build it with `from_nested`.")
    if np.count_nonzero(tree.parent < 0) != 1:
        raise ValueError("A diffusion tree has exactly one root, the node whose parent is -1.")
    internal = np.arange(n, 2 * n - 1)
    if np.any(tree.child[:n] != -1) or np.any(tree.child[internal] < 0):
        raise ValueError("Leaves have children -1, -1 and every internal node has two children.")
    if not np.array_equal(tree.parent[tree.child[internal]], np.column_stack([internal, internal])):
        raise ValueError("`parent` and `child` disagree: each child must name its parent.")
    if children_first(tree.child, tree.root).shape[0] != n - 1:
        raise ValueError("Some internal nodes cannot be reached from the root.")
    if np.any(tree.rest[:n] != 0.0):
        raise ValueError("Leaves end at time 1: their `rest` must be 0.")
    if not np.all(tree.rest < tree.above):  # which NaN is not
        raise ValueError(
            "Times must increase from parent to child: `rest` of a child must be smaller than its parent's."
        )


def structure_key(tree: Columns) -> frozenset[frozenset[int]]:
    """The set of leaf sets under internal nodes: equal for equal structures, whatever the numbering."""
    members: list[frozenset[int]] = [frozenset([i]) for i in range(tree.parent.shape[0])]
    clades = []
    for i in children_first(tree.child, tree.root):
        members[i] = members[tree.child[i, 0]] | members[tree.child[i, 1]]
        clades.append(members[i])
    return frozenset(clades)
