"""The guide tree of tree-guided MCMC: a fixed tree over all atoms, its leaves in depth-first order.

In that order the leaves below a node are an interval, so "the members of a cluster below a node" is a range. Node
weights say where a proposal is worth trying: sqrt(r (1 - r)) + (1 - r) / 10 + 1e-3, largest where the tree is least
sure whether a node is one cluster, and not too small above, where a state that is still far off has joined what does
not belong together.
"""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import Tree

LEAST_WEIGHT = 1e-3  # every node can be drawn: without it the chain could not reach every partition
APART_WEIGHT = 0.1  # what a node that is surely apart weighs; the least sure one weighs about 0.5


class Guide(NamedTuple):
    """Columns over the 2m-1 nodes of the tree (numbered as in `Tree`), and the leaves in depth-first order."""

    left: np.ndarray  # (2m-1,) -1 for a leaf
    right: np.ndarray  # (2m-1,)
    parent: np.ndarray  # (2m-1,) -1 for the root
    start: np.ndarray  # (2m-1,) leaves below a node stand at start..stop-1 of `order`
    stop: np.ndarray  # (2m-1,)
    order: np.ndarray  # (m,) leaf at each place
    place: np.ndarray  # (m,) place of each leaf
    inner_weight: np.ndarray  # (m-1,) cumulative weights of the internal nodes
    node_weight: np.ndarray  # (2m-1,) cumulative weights of all nodes


@kernel
def _intervals(left, right):
    """Where the leaves below each of the 2m-1 nodes begin in depth-first order, and how many they are."""
    m = left.shape[0] + 1
    start, size = np.zeros(2 * m - 1, dtype=np.int64), np.ones(2 * m - 1, dtype=np.int64)
    for k in range(m - 1):
        size[m + k] = size[left[k]] + size[right[k]]
    for k in range(m - 2, -1, -1):
        start[left[k]] = start[m + k]
        start[right[k]] = start[m + k] + size[left[k]]
    return start, size


def make_guide(left: np.ndarray, right: np.ndarray, weight: np.ndarray) -> Guide:
    """A guide from the columns of a tree (m-1,) and positive node weights (2m-1,).

    >>> guide = make_guide(np.array([0, 2]), np.array([1, 3]), np.ones(5))
    >>> guide.order.tolist(), guide.start.tolist(), guide.stop.tolist()
    ([2, 0, 1], [1, 2, 0, 1, 0], [2, 3, 1, 3, 3])
    """
    m = left.shape[0] + 1
    nodes = 2 * m - 1
    all_left, all_right, parent = np.full((3, nodes), -1, dtype=np.int64)
    all_left[m:], all_right[m:] = left, right
    parent[left] = parent[right] = np.arange(m, nodes)
    start, size = _intervals(left, right)
    order = np.empty(m, dtype=np.int64)
    order[start[:m]] = np.arange(m)
    inner, every = np.cumsum(weight[m:]), np.cumsum(weight)
    return Guide(all_left, all_right, parent, start, start + size, order, start[:m].copy(), inner, every)


def uncertainty_weights(tree: Tree) -> np.ndarray:
    """sqrt(r (1 - r)) + APART_WEIGHT (1 - r) + LEAST_WEIGHT for every node (2m-1,)."""
    r = tree.r
    return np.sqrt(r * (1.0 - r)) + APART_WEIGHT * (1.0 - r) + LEAST_WEIGHT


@kernel
def draw_weighted(cumulative, rng):
    """An index drawn in proportion to weights given by their cumulative sums."""
    target = rng.random() * cumulative[-1]
    return min(np.searchsorted(cumulative, target, side="right"), cumulative.shape[0] - 1)


@kernel
def draw_leaf(guide, node, rng):
    """A leaf drawn uniformly from those below a node."""
    return guide.order[rng.integers(guide.start[node], guide.stop[node])]
