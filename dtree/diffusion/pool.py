"""The tree that a search works on: columns, upward messages and running sums, changed only along one path at a time.

Detaching or attaching a subtree changes counts and messages between the place and the root, nothing else; the sums of
the joint density are updated by what the place itself contributes. Cavity messages are computed on the way down, only
where the search looks. A step therefore costs O(depth x d).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, meet, sweep_up
from dtree.diffusion.local import (
    best_time,
    curvature_term,
    squared_gaps,
    three_way,
    time_terms,
    value_at,
)
from dtree.diffusion.objective import Hyper, log_density_of_sums, prior_sums
from dtree.diffusion.prior import harmonic_table
from dtree.diffusion.tree import Columns, children_first, leaf_counts

# positions in `sums`
LOG_DET, QUAD, C_SUM, W_SUM, N_OBSERVED, N_LEAVES, CURVATURE = range(7)
# positions in `meta`
ROOT, TREE_KEY, CHANGES = range(3)
KEY_PRIME = 2147483647
BEAM = 12
REACH = 3  # ancestors whose times are refined after an attachment


class Pool(NamedTuple):
    """Working arrays of one search over n leaves in d dimensions with q variances per message; all plain NumPy.

    parent, child, rest, size: the columns (2n-1); mean, var: upward messages; down_mean, down_var: cavity messages
    where last computed; curvature (2n-1): Laplace share of each internal node; observed (n): observed entries per
    leaf; table: harmonic numbers; hyper, sums, meta: small vectors; key (2n-1): hash of the leaf set under each node;
    path, saved, shift, place, gaps, base: scratch.
    """

    parent: np.ndarray
    child: np.ndarray
    rest: np.ndarray
    size: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    down_mean: np.ndarray
    down_var: np.ndarray
    curvature: np.ndarray
    observed: np.ndarray
    table: np.ndarray
    hyper: np.ndarray
    sums: np.ndarray
    meta: np.ndarray
    key: np.ndarray
    path: np.ndarray
    saved: np.ndarray
    shift: np.ndarray
    place: np.ndarray
    gaps: np.ndarray
    base: np.ndarray


def empty_pool(leaves: Leaves, hyper: Hyper) -> Pool:
    """A pool that holds the leaves but no tree yet."""
    n, d = leaves.mean.shape
    q = leaves.var.shape[1]
    mean, var = np.zeros((2 * n - 1, d)), np.zeros((2 * n - 1, q))
    mean[:n], var[:n] = leaves.mean, leaves.var
    finite = np.isfinite(leaves.var)
    # the hash of leaf i must not depend on the search, so that searches can be compared and merged
    key = np.zeros(2 * n - 1, np.int64)
    key[:n] = np.random.Generator(np.random.PCG64(20110506)).integers(1, KEY_PRIME, size=n)
    return Pool(
        np.full(2 * n - 1, -1),
        np.full((2 * n - 1, 2), -1),
        np.zeros(2 * n - 1),
        np.ones(2 * n - 1, np.int64),
        mean,
        var,
        np.zeros_like(mean),
        np.zeros_like(var),
        np.zeros(2 * n - 1),
        finite.sum(axis=1).astype(np.float64) * (d // q),
        harmonic_table(n),
        hyper.as_array(),
        np.zeros(7),
        np.zeros(3, np.int64),
        key,
        np.zeros(2 * n, np.int64),
        np.zeros((2, 2 * n)),
        np.zeros(2 * n - 1),
        np.zeros(6),
        np.zeros((3, q)),
        np.zeros(6),
    )


@kernel
def mix(key: int) -> int:
    """Spread the hash of a leaf set, so that sums over nodes identify the structure."""
    return ((key * key) % KEY_PRIME * key) % KEY_PRIME


@kernel
def total_density(pool: Pool) -> float:
    """Joint log density at the pool's times."""
    s = pool.sums
    return log_density_of_sums(s[LOG_DET], s[QUAD], s[N_OBSERVED], s[C_SUM], s[W_SUM], s[N_LEAVES], pool.hyper)


@kernel
def score(pool: Pool) -> float:
    """Joint log density plus every node's own share of the Laplace term: the evidence that drives the search."""
    return total_density(pool) + pool.sums[CURVATURE]


@kernel
def refresh(pool: Pool) -> None:
    """Recompute messages, counts, keys and sums of the whole tree (start, and now and then against rounding)."""
    root = pool.meta[ROOT]
    order = children_first(pool.child, root)
    count = leaf_counts(pool.child, order)
    pool.size[:] = count
    log_det, quad = sweep_up(order, pool.child, pool.rest, root, pool.mean, pool.var)
    c_sum, w_sum = prior_sums(order, pool.parent, pool.rest, count, pool.table)
    tree_key = 0
    curvature = 0.0
    n_observed = 0.0
    for i in order:
        pool.key[i] = (pool.key[pool.child[i, 0]] + pool.key[pool.child[i, 1]]) % KEY_PRIME
        tree_key += mix(pool.key[i])
        curvature += pool.curvature[i]
        for side in range(2):
            if pool.child[i, side] < pool.observed.shape[0]:
                n_observed += pool.observed[pool.child[i, side]]
    pool.meta[TREE_KEY] = tree_key
    pool.sums[LOG_DET] = log_det
    pool.sums[QUAD] = quad
    pool.sums[C_SUM] = c_sum
    pool.sums[W_SUM] = w_sum
    pool.sums[N_OBSERVED] = n_observed
    pool.sums[N_LEAVES] = count[root]
    pool.sums[CURVATURE] = curvature


@kernel
def rest_above(pool: Pool, node: int) -> float:
    return pool.rest[pool.parent[node]] if pool.parent[node] >= 0 else 1.0


@kernel
def cavity_into(pool: Pool, node: int) -> None:
    """Cavity message at the top of the branch to `node` from that of its parent and its sibling's message."""
    p = pool.parent[node]
    if p < 0:
        pool.down_mean[node] = 0.0
        pool.down_var[node] = 0.0
        return
    sibling = pool.child[p, 0] + pool.child[p, 1] - node
    meet(
        pool.down_mean[p],
        pool.down_var[p],
        rest_above(pool, p) - pool.rest[p],
        pool.mean[sibling],
        pool.var[sibling],
        pool.rest[p] - pool.rest[sibling],
        pool.down_mean[node],
        pool.down_var[node],
    )


@kernel
def cavities_down_to(pool: Pool, node: int) -> int:
    """Cavity messages along the path from the root to `node`; fills `path` (node first) and returns its length."""
    length = 0
    i = node
    while i >= 0:
        pool.path[length] = i
        length += 1
        i = pool.parent[i]
    for k in range(length - 1, -1, -1):
        cavity_into(pool, pool.path[k])
    return length


@kernel
def message_up(pool: Pool, i: int) -> None:
    l = pool.child[i, 0]
    r = pool.child[i, 1]
    meet(
        pool.mean[l],
        pool.var[l],
        pool.rest[i] - pool.rest[l],
        pool.mean[r],
        pool.var[r],
        pool.rest[i] - pool.rest[r],
        pool.mean[i],
        pool.var[i],
    )


@kernel
def look_at(pool: Pool, node: int) -> tuple[float, float]:
    """Fill place, gaps and base for an internal node whose cavity message is known; returns its own log_det, quad."""
    l = pool.child[node, 0]
    r = pool.child[node, 1]
    pool.place[0] = rest_above(pool, node)
    pool.place[1] = pool.rest[l]
    pool.place[2] = pool.rest[r]
    pool.place[3] = pool.table[pool.size[node] - 1]
    pool.place[4] = pool.table[pool.size[l] - 1]
    pool.place[5] = pool.table[pool.size[r] - 1]
    squared_gaps(pool.down_mean[node], pool.mean[l], pool.gaps[0])
    squared_gaps(pool.down_mean[node], pool.mean[r], pool.gaps[1])
    squared_gaps(pool.mean[l], pool.mean[r], pool.gaps[2])
    g = pool.mean.shape[1] // pool.var.shape[1]
    log_det, quad = three_way(
        pool.rest[node],
        pool.place[0],
        pool.place[1],
        pool.place[2],
        pool.down_var[node],
        pool.var[l],
        pool.var[r],
        pool.gaps,
        g,
    )
    c_sum, w_sum = time_terms(
        pool.rest[node], pool.place[0], pool.place[1], pool.place[2], pool.place[3], pool.place[4], pool.place[5]
    )
    pool.base[0] = pool.sums[LOG_DET] - log_det
    pool.base[1] = pool.sums[QUAD] - quad
    pool.base[2] = pool.sums[C_SUM] - c_sum
    pool.base[3] = pool.sums[W_SUM] - w_sum
    pool.base[4] = pool.sums[N_OBSERVED]
    pool.base[5] = pool.sums[N_LEAVES]
    return log_det, quad


@kernel
def refine_time(pool: Pool, node: int) -> None:
    """Move an internal node to its best time given its neighbours; its cavity message must be known."""
    look_at(pool, node)
    l = pool.child[node, 0]
    r = pool.child[node, 1]
    g = pool.mean.shape[1] // pool.var.shape[1]
    up, vl, vr = pool.down_var[node], pool.var[l], pool.var[r]
    old = value_at(pool.rest[node], pool.place, up, vl, vr, pool.gaps, g, pool.base, pool.hyper)
    rest, value = best_time(pool.place, up, vl, vr, pool.gaps, g, pool.base, pool.hyper)
    if value > old and rest < pool.place[0] and rest > max(pool.place[1], pool.place[2]):
        pool.rest[node] = rest
    rest = pool.rest[node]
    log_det, quad = three_way(rest, pool.place[0], pool.place[1], pool.place[2], up, vl, vr, pool.gaps, g)
    c_sum, w_sum = time_terms(
        rest, pool.place[0], pool.place[1], pool.place[2], pool.place[3], pool.place[4], pool.place[5]
    )
    pool.sums[LOG_DET] = pool.base[0] + log_det
    pool.sums[QUAD] = pool.base[1] + quad
    pool.sums[C_SUM] = pool.base[2] + c_sum
    pool.sums[W_SUM] = pool.base[3] + w_sum
    term = curvature_term(rest, pool.place, up, vl, vr, pool.gaps, g, pool.base, pool.hyper)
    pool.sums[CURVATURE] += term - pool.curvature[node]
    pool.curvature[node] = term
    message_up(pool, node)


@kernel
def refine_path(pool: Pool, node: int, reach: int) -> None:
    """Best times for the two children of `node`, the node itself and `reach` ancestors, bottom up in one walk.

    Ancestors further up keep their times and get new messages.
    """
    length = cavities_down_to(pool, node)
    for side in range(2):
        k = pool.child[node, side]
        if pool.child[k, 0] >= 0:
            cavity_into(pool, k)
            refine_time(pool, k)
    for step in range(length):
        if step <= reach:
            refine_time(pool, pool.path[step])
        else:
            message_up(pool, pool.path[step])


@kernel
def refine_all(pool: Pool) -> None:
    """Best time of every node in turn (coordinate ascent): down with fresh cavity messages, up with fresh times."""
    stack = np.empty(pool.parent.shape[0], np.int64)
    state = np.zeros(pool.parent.shape[0], np.int64)
    stack[0] = pool.meta[ROOT]
    depth = 1
    while depth > 0:
        i = stack[depth - 1]
        if state[i] == 0:
            cavity_into(pool, i)
        if state[i] < 2:
            k = pool.child[i, state[i]]
            state[i] += 1
            if pool.child[k, 0] >= 0:
                stack[depth] = k
                depth += 1
        else:
            depth -= 1
            refine_time(pool, i)


def columns_of(pool: Pool) -> Columns:
    """A copy of the pool's tree."""
    return Columns(pool.parent.copy(), pool.child.copy(), pool.rest.copy())


def pool_of(tree: Columns, leaves: Leaves, hyper: Hyper) -> Pool:
    """A pool holding a complete tree, its curvature terms computed by one pass over the times."""
    pool = empty_pool(leaves, hyper)
    pool.parent[:], pool.child[:], pool.rest[:] = tree
    pool.meta[ROOT] = tree.root
    refresh(pool)
    refine_all(pool)
    return pool
