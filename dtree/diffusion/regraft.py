"""Taking a subtree out of the pool, looking for the best branches for it, and putting it back: O(depth x d) each."""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import cavity_into, message_up
from dtree.diffusion.local import best_on_grid, sums_at, sums_without
from dtree.diffusion.objective import C_SUM
from dtree.diffusion.pool import (
    CURVATURE,
    KEY_PRIME,
    ROOT,
    TREE_KEY,
    Pool,
    cavities_down_to,
    look_at,
    mix,
    place_between,
    set_sums,
)
from dtree.diffusion.tree import rest_above

COARSE_GRID = 5  # times tried in every branch that a search looks at; the few best branches are tried exactly


@kernel
def _walk_counts(pool: Pool, node: int, leaves: int, key: int) -> None:
    """Add `leaves` (may be negative) to the counts of `node` and its ancestors, with C, keys and messages."""
    i = node
    while i >= 0:
        log_w = math.log(pool.rest[i] / rest_above(pool.parent, pool.rest, i))
        old = pool.size[i]
        pool.sums[C_SUM] += (pool.table[old + leaves - 1] - pool.table[old - 1]) * log_w
        pool.size[i] = old + leaves
        pool.meta[TREE_KEY] -= mix(pool.key[i])
        pool.key[i] = (pool.key[i] + key) % KEY_PRIME
        pool.meta[TREE_KEY] += mix(pool.key[i])
        message_up(pool, i)
        i = pool.parent[i]


@kernel
def _replace_child(pool: Pool, up: int, old: int, new: int) -> None:
    """Let `new` stand where `old` stood below `up` (-1: as the root)."""
    if up < 0:
        pool.meta[ROOT] = new
    else:
        pool.child[up, 0 if pool.child[up, 0] == old else 1] = new


@kernel
def detach(pool: Pool, b: int) -> int:
    """Take the subtree under `b` and its parent node out; returns the sibling, whose branch closes the gap.

    Sums then describe the forest of both parts, without the place between them; `b` must not be the root.
    """
    j = pool.parent[b]
    cavities_down_to(pool, j)
    look_at(pool, j)
    s = pool.child[j, 0] + pool.child[j, 1] - b
    up = pool.parent[j]
    side = 0 if pool.child[j, 0] == s else 1
    set_sums(pool.sums, pool.base, 1.0, sums_without(side, pool.place, pool.meeting))
    pool.sums[CURVATURE] -= pool.curvature[j]
    pool.meta[TREE_KEY] -= mix(pool.key[j])
    pool.parent[s] = up
    _replace_child(pool, up, j, s)
    _walk_counts(pool, up, -pool.size[b], KEY_PRIME - pool.key[b])
    pool.parent[b] = -1
    pool.parent[j] = -1
    return s


@kernel
def attach(pool: Pool, b: int, j: int, s: int, rest: float) -> None:
    """Put node `j` at time 1 - rest into the branch above `s` with the detached subtree `b` as its other child."""
    cavities_down_to(pool, s)
    up = pool.parent[s]
    place_between(pool, s, s, b)
    set_sums(pool.sums, pool.sums, -1.0, sums_without(0, pool.place, pool.meeting))
    set_sums(pool.sums, pool.sums, 1.0, sums_at(rest, pool.place, pool.meeting))
    pool.down_mean[j], pool.down_var[j], pool.rest[j] = pool.down_mean[s], pool.down_var[s], rest
    pool.parent[j], pool.parent[s], pool.parent[b] = up, j, j
    pool.child[j, 0], pool.child[j, 1] = s, b
    pool.size[j] = pool.size[s] + pool.size[b]
    pool.key[j] = (pool.key[s] + pool.key[b]) % KEY_PRIME
    pool.meta[TREE_KEY] += mix(pool.key[j])
    pool.curvature[j] = 0.0
    message_up(pool, j)
    _replace_child(pool, up, s, j)
    _walk_counts(pool, up, pool.size[b], pool.key[b])


@kernel
def _attachment_value(pool: Pool, b: int, s: int) -> float:
    """Best joint log density over a coarse grid of times for attaching `b` in the branch above `s`.

    Needs the cavity message of s and `shift[s]`, the change of C at the ancestors of the place.
    """
    above = rest_above(pool.parent, pool.rest, s)
    if max(pool.rest[s], pool.rest[b]) >= above:
        return -np.inf
    place_between(pool, s, s, b)
    place, meeting, base, sums = pool.place, pool.meeting, pool.base, pool.sums
    without = sums_without(0, place, meeting)
    set_sums(base, sums, -1.0, without)
    base[C_SUM] = sums[C_SUM] + pool.shift[s] - without[C_SUM]
    return best_on_grid(COARSE_GRID, place, meeting, base, pool.hyper)[0]


@kernel
def best_places(pool: Pool, b: int, beam: int, nodes: np.ndarray, values: np.ndarray) -> int:
    """The best branches (named by the node below) for the detached subtree `b`, best first; returns how many.

    Walks down from the root level by level and follows the `beam` most promising branches, so the cost grows with the
    depth of the tree; a tree with few branches is searched completely.
    """
    front = np.empty(2 * beam, np.int64)
    worth = np.empty(2 * beam)
    n_front = 1
    front[0] = pool.meta[ROOT]
    pool.shift[front[0]] = 0.0
    wanted = nodes.shape[0]
    found = 0
    while n_front > 0:
        for k in range(n_front):
            s = front[k]
            cavity_into(pool, s)
            value = _attachment_value(pool, b, s)
            worth[k] = value
            if value > -np.inf and (found < wanted or value > values[found - 1]):
                at = min(found, wanted - 1)
                while at > 0 and values[at - 1] < value:
                    values[at], nodes[at] = values[at - 1], nodes[at - 1]
                    at -= 1
                values[at], nodes[at] = value, s
                found = min(found + 1, wanted)
        keep = 0  # branches that can be followed further, best first
        for k in range(n_front):
            s, value = front[k], worth[k]
            if pool.child[s, 0] < 0 or pool.rest[b] >= pool.rest[s]:
                continue
            at = keep
            while at > 0 and worth[at - 1] < value:
                at -= 1
            # everything between `at` and `keep` has been read already, so it can move one place up
            for m in range(min(keep, n_front - 1), at, -1):
                front[m], worth[m] = front[m - 1], worth[m - 1]
            front[at], worth[at] = s, value
            keep += 1
        keep = min(keep, beam)
        n_front = 2 * keep
        for k in range(keep - 1, -1, -1):
            s = front[k]
            old = pool.size[s]
            log_w = math.log(pool.rest[s] / rest_above(pool.parent, pool.rest, s))
            shift = pool.shift[s] + (pool.table[old + pool.size[b] - 1] - pool.table[old - 1]) * log_w
            for side in range(2):
                front[2 * k + side] = pool.child[s, side]
                pool.shift[pool.child[s, side]] = shift
    return found
