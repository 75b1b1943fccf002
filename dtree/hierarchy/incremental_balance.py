"""Keeping the trees of incremental BHC shallow.

Inside a homogeneous cluster SeqInsert as printed puts most atoms near the top, since d(l, r) of two large children is
far below d(l, x): trees grow into chains, and updating the path to the root costs as much as the cluster is large. As
in scapegoat trees, when an insertion ends too deep the lowest ancestor that is too deep for its number of leaves is
rebuilt: the subtrees hanging off its heavy path stay whole, and the path itself becomes a weight-balanced tree over
them. Nodes of the rebuilt path may have d > 1 (two outliers of the cluster side by side); such a node is not a reason
to cut the tree.
"""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.search import first_at_or_after
from dtree.hierarchy.incremental import NONE, link, refresh

# A tree of n leaves may be this much deeper than 2 log2(n), twice the depth of a balanced one, before it is rebuilt:
# small trees are left as they are, and rebuilding stays rare.
_DEPTH_PER_DOUBLING = 2.0
_FREE_DEPTH = 8


@kernel
def _scapegoat(pool, node):
    """The lowest ancestor of a new node that stands too far above it for its number of leaves, or NONE."""
    steps = 0
    at = node
    while at != NONE:
        limit = _FREE_DEPTH + _DEPTH_PER_DOUBLING * math.log2(pool.leaves[at])
        if steps > limit:
            return at
        at = pool.parent[at]
        steps += 1
    return NONE


@kernel
def _heavy_path(pool, top):
    """The internal nodes of the path from `top` that always takes the child with more leaves, `top` first."""
    path = np.empty(pool.leaves[top], dtype=np.int64)
    length = 0
    at = top
    while pool.left[at] != NONE:
        path[length] = at
        length += 1
        a, b = pool.left[at], pool.right[at]
        at = a if pool.leaves[a] >= pool.leaves[b] else b
    return path[:length]


@kernel
def _most_even_split(prefix, low, high):
    """Where to cut the pieces low..high-1 so that both sides hold about as many leaves."""
    target = 0.5 * (prefix[low] + prefix[high])
    first = first_at_or_after(prefix, low + 1, high - 1, target)
    if first > low + 1 and target - prefix[first - 1] < prefix[first] - target:
        first -= 1
    return first


@kernel
def rebalance_above(model, pool, node):
    """Rebuild one heavy path above a freshly inserted node if it is too deep; potentials up to the root follow."""
    top = _scapegoat(pool, node)
    if top == NONE:
        return
    path = _heavy_path(pool, top)
    count = path.shape[0]  # path nodes; they carry count + 1 pieces
    old_left, old_right = pool.left[path], pool.right[path]
    pieces = np.empty(count + 1, dtype=np.int64)
    for step in range(count):
        below = path[step + 1] if step + 1 < count else old_left[step]
        pieces[count - step] = old_right[step] if old_left[step] == below else old_left[step]
    pieces[0] = old_left[count - 1]
    prefix = np.zeros(count + 2)
    for piece in range(count + 1):
        prefix[piece + 1] = prefix[piece] + pool.leaves[pieces[piece]]

    # Path nodes are handed out top-down, so refreshing them in reverse meets children first.
    low, high = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    low[0], high[0] = 0, count + 1
    made = 1
    for step in range(count):
        cut = _most_even_split(prefix, low[step], high[step])
        children = (pieces[low[step]], pieces[cut])
        if cut - low[step] > 1:
            low[made], high[made] = low[step], cut
            children = (path[made], children[1])
            made += 1
        if high[step] - cut > 1:
            low[made], high[made] = cut, high[step]
            children = (children[0], path[made])
            made += 1
        link(pool, path[step], children[0], children[1])
    for step in range(count - 1, -1, -1):
        refresh(model, pool, path[step])
    at = pool.parent[top]
    while at != NONE:
        refresh(model, pool, at)
        at = pool.parent[at]
