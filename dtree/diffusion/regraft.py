"""Taking a subtree out of the pool, looking for the best branches for it, and putting it back: O(depth x d) each."""

from __future__ import annotations

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.local import best_on_grid, squared_gaps, time_terms, two_way
from dtree.diffusion.pool import (
    C_SUM,
    CURVATURE,
    KEY_PRIME,
    LOG_DET,
    N_LEAVES,
    N_OBSERVED,
    QUAD,
    ROOT,
    TREE_KEY,
    W_SUM,
    Pool,
    cavities_down_to,
    cavity_into,
    look_at,
    message_up,
    mix,
    rest_above,
)


@kernel
def _walk_counts(pool: Pool, node: int, leaves: int, key: int) -> None:
    """Add `leaves` (may be negative) to the counts of `node` and its ancestors, with C, keys and messages."""
    i = node
    while i >= 0:
        log_w = math.log(pool.rest[i] / rest_above(pool, i))
        old = pool.size[i]
        pool.sums[C_SUM] += (pool.table[old + leaves - 1] - pool.table[old - 1]) * log_w
        pool.size[i] = old + leaves
        pool.meta[TREE_KEY] -= mix(pool.key[i])
        pool.key[i] = (pool.key[i] + key) % KEY_PRIME
        pool.meta[TREE_KEY] += mix(pool.key[i])
        message_up(pool, i)
        i = pool.parent[i]


@kernel
def detach(pool: Pool, b: int) -> int:
    """Take the subtree under `b` and its parent node out; returns the sibling, whose branch closes the gap.

    Sums then describe the forest of both parts, without the place between them; `b` must not be the root.
    """
    j = pool.parent[b]
    cavities_down_to(pool, j)
    _log_det, _quad = look_at(pool, j)
    above = pool.place[0]
    s = pool.child[j, 0] + pool.child[j, 1] - b
    up = pool.parent[j]
    g = pool.mean.shape[1] // pool.var.shape[1]
    gap = pool.gaps[0] if pool.child[j, 0] == s else pool.gaps[1]
    det2, quad2 = two_way(above - pool.rest[s], pool.down_var[j], pool.var[s], gap, g)
    pool.sums[LOG_DET] = pool.base[0] + det2
    pool.sums[QUAD] = pool.base[1] + quad2
    pool.sums[C_SUM] = pool.base[2]
    pool.sums[W_SUM] = pool.base[3]
    if pool.rest[s] > 0.0:
        pool.sums[C_SUM] += pool.table[pool.size[s] - 1] * math.log(pool.rest[s] / above)
        pool.sums[W_SUM] += math.log((above - pool.rest[s]) / above)
    pool.sums[CURVATURE] -= pool.curvature[j]
    pool.meta[TREE_KEY] -= mix(pool.key[j])
    pool.parent[s] = up
    if up < 0:
        pool.meta[ROOT] = s
    else:
        pool.child[up, 0 if pool.child[up, 0] == j else 1] = s
        _walk_counts(pool, up, -pool.size[b], KEY_PRIME - pool.key[b])
    pool.parent[b] = -1
    pool.parent[j] = -1
    return s


@kernel
def attach(pool: Pool, b: int, j: int, s: int, rest: float) -> None:
    """Put node `j` at time 1 - rest into the branch above `s` with the detached subtree `b` as its other child."""
    cavities_down_to(pool, s)
    above = rest_above(pool, s)
    up = pool.parent[s]
    g = pool.mean.shape[1] // pool.var.shape[1]
    squared_gaps(pool.down_mean[s], pool.mean[s], pool.gaps[0])
    det2, quad2 = two_way(above - pool.rest[s], pool.down_var[s], pool.var[s], pool.gaps[0], g)
    pool.sums[LOG_DET] -= det2
    pool.sums[QUAD] -= quad2
    if pool.rest[s] > 0.0:
        pool.sums[C_SUM] -= pool.table[pool.size[s] - 1] * math.log(pool.rest[s] / above)
        pool.sums[W_SUM] -= math.log((above - pool.rest[s]) / above)
    pool.down_mean[j] = pool.down_mean[s]
    pool.down_var[j] = pool.down_var[s]
    pool.rest[j] = rest
    pool.parent[j] = up
    pool.parent[s] = j
    pool.parent[b] = j
    pool.child[j, 0] = s
    pool.child[j, 1] = b
    pool.size[j] = pool.size[s] + pool.size[b]
    pool.key[j] = (pool.key[s] + pool.key[b]) % KEY_PRIME
    pool.meta[TREE_KEY] += mix(pool.key[j])
    pool.curvature[j] = 0.0
    log_det, quad = look_at(pool, j)
    # look_at took the node's terms away from the sums, which do not hold them yet: add them instead
    pool.sums[LOG_DET] += log_det
    pool.sums[QUAD] += quad
    c_sum, w_sum = time_terms(
        rest, pool.place[0], pool.place[1], pool.place[2], pool.place[3], pool.place[4], pool.place[5]
    )
    pool.sums[C_SUM] += c_sum
    pool.sums[W_SUM] += w_sum
    message_up(pool, j)
    if up < 0:
        pool.meta[ROOT] = j
    else:
        pool.child[up, 0 if pool.child[up, 0] == s else 1] = j
        _walk_counts(pool, up, pool.size[b], pool.key[b])


@kernel
def _attachment_value(pool: Pool, b: int, s: int) -> float:
    """Best joint log density over a coarse grid of times for attaching `b` in the branch above `s`.

    Needs the cavity message of s and `shift[s]`, the change of C at the ancestors of the place.
    """
    above = rest_above(pool, s)
    if max(pool.rest[s], pool.rest[b]) >= above:
        return -np.inf
    g = pool.mean.shape[1] // pool.var.shape[1]
    squared_gaps(pool.down_mean[s], pool.mean[s], pool.gaps[0])
    squared_gaps(pool.down_mean[s], pool.mean[b], pool.gaps[1])
    squared_gaps(pool.mean[s], pool.mean[b], pool.gaps[2])
    det2, quad2 = two_way(above - pool.rest[s], pool.down_var[s], pool.var[s], pool.gaps[0], g)
    pool.base[0] = pool.sums[LOG_DET] - det2
    pool.base[1] = pool.sums[QUAD] - quad2
    pool.base[2] = pool.sums[C_SUM] + pool.shift[s]
    pool.base[3] = pool.sums[W_SUM]
    if pool.rest[s] > 0.0:
        pool.base[2] -= pool.table[pool.size[s] - 1] * math.log(pool.rest[s] / above)
        pool.base[3] -= math.log((above - pool.rest[s]) / above)
    pool.base[4] = pool.sums[N_OBSERVED]
    pool.base[5] = pool.sums[N_LEAVES]
    pool.place[0] = above
    pool.place[1] = pool.rest[s]
    pool.place[2] = pool.rest[b]
    pool.place[3] = pool.table[pool.size[s] + pool.size[b] - 1]
    pool.place[4] = pool.table[pool.size[s] - 1]
    pool.place[5] = pool.table[pool.size[b] - 1]
    value, _ = best_on_grid(
        5, pool.place, pool.down_var[s], pool.var[s], pool.var[b], pool.gaps, g, pool.base, pool.hyper
    )
    return value


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
                    values[at] = values[at - 1]
                    nodes[at] = nodes[at - 1]
                    at -= 1
                values[at] = value
                nodes[at] = s
                found = min(found + 1, wanted)
        keep = 0  # branches that can be followed further, best first
        for k in range(n_front):
            s = front[k]
            value = worth[k]
            if pool.child[s, 0] < 0 or pool.rest[b] >= pool.rest[s]:
                continue
            at = keep
            while at > 0 and worth[at - 1] < value:
                at -= 1
            # everything between `at` and `keep` has been read already, so it can move one place up
            for m in range(min(keep, n_front - 1), at, -1):
                front[m] = front[m - 1]
                worth[m] = worth[m - 1]
            front[at] = s
            worth[at] = value
            keep += 1
        keep = min(keep, beam)
        n_front = 2 * keep
        for k in range(keep - 1, -1, -1):
            s = front[k]
            old = pool.size[s]
            log_w = math.log(pool.rest[s] / rest_above(pool, s))
            shift = pool.shift[s] + (pool.table[old + pool.size[b] - 1] - pool.table[old - 1]) * log_w
            for side in range(2):
                front[2 * k + side] = pool.child[s, side]
                pool.shift[pool.child[s, side]] = shift
    return found
