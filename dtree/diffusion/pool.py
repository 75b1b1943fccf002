"""The tree that a search works on: columns, upward messages and running sums, changed only along one path at a time.

Detaching or attaching a subtree changes counts and messages between the place and the root, nothing else; the sums of
the joint density are updated by what the place itself contributes. Cavity messages are computed on the way down, only
where the search looks. A step therefore costs O(depth x d).
"""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, cavity_into, message_up, sweep_up
from dtree.diffusion.local import G, best_time, curvature_term, sums_at, value_at
from dtree.diffusion.objective import (
    C_SUM,
    LOG_DET,
    N_LEAVES,
    N_OBSERVED,
    QUAD,
    W_SUM,
    Hyper,
    log_density_of_sums,
    prior_sums,
)
from dtree.diffusion.prior import harmonic_table
from dtree.diffusion.tree import Columns, children_first, depth_first, leaf_counts, rest_above

CURVATURE = 6  # position in `sums`, after those of the joint density
# positions in `meta`
ROOT, TREE_KEY, CHANGES = range(3)
KEY_PRIME = 2147483647  # a Mersenne prime: the product of two keys fits into 64 bits
REACH = 3  # ancestors whose times are refined after an attachment; further up hardly anything changes


class Pool(NamedTuple):
    """Working arrays of one search over n leaves in d dimensions with q variances per message; all plain NumPy.

    parent, child, rest, size: the columns (2n-1); mean, var: upward messages; down_mean, down_var: cavity messages
    where last computed; curvature (2n-1): Laplace share of each internal node; observed (n): observed entries per
    leaf; table: harmonic numbers; hyper, sums, meta: small vectors; key (2n-1): hash of the leaf set under each node;
    path, saved, shift: scratch; place, meeting, base: one node as `local` takes it.
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
    meeting: np.ndarray
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
        np.zeros(7),
        np.zeros((6, q)),
        np.zeros(6),
    )


@kernel
def mix(key: int) -> int:
    """The hash of a leaf set as a number whose sum over all nodes tells one structure from another."""
    return ((key * key) % KEY_PRIME * key) % KEY_PRIME


@kernel
def total_density(pool: Pool) -> float:
    """Joint log density at the pool's times."""
    return log_density_of_sums(pool.sums, pool.hyper)


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
    pool.sums[LOG_DET], pool.sums[QUAD] = sweep_up(pool, order)
    pool.sums[C_SUM], pool.sums[W_SUM] = prior_sums(pool, order, count, pool.table)
    tree_key, curvature, n_observed = 0, 0.0, 0.0
    for i in order:
        pool.key[i] = (pool.key[pool.child[i, 0]] + pool.key[pool.child[i, 1]]) % KEY_PRIME
        tree_key += mix(pool.key[i])
        curvature += pool.curvature[i]
        for k in pool.child[i]:
            if k < pool.observed.shape[0]:
                n_observed += pool.observed[k]
    pool.meta[TREE_KEY] = tree_key
    pool.sums[N_OBSERVED] = n_observed
    pool.sums[N_LEAVES] = count[root]
    pool.sums[CURVATURE] = curvature


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
def place_between(pool: Pool, top: int, left: int, right: int) -> None:
    """Fill `place` and `meeting` for a node between the cavity message of `top`, which must be known, and two
    subtrees."""
    pool.place[0] = rest_above(pool.parent, pool.rest, top)
    pool.place[1] = pool.rest[left]
    pool.place[2] = pool.rest[right]
    pool.place[3] = pool.table[pool.size[left] + pool.size[right] - 1]
    pool.place[4] = pool.table[pool.size[left] - 1]
    pool.place[5] = pool.table[pool.size[right] - 1]
    meeting, mean, var, down_mean, down_var = pool.meeting, pool.mean, pool.var, pool.down_mean, pool.down_var
    g = mean.shape[1] // var.shape[1]
    pool.place[G] = g
    for j in range(meeting.shape[1]):
        meeting[0, j], meeting[1, j], meeting[2, j] = down_var[top, j], var[left, j], var[right, j]
        up_left, up_right, left_right = 0.0, 0.0, 0.0
        for k in range(j * g, (j + 1) * g):
            to_left, to_right = down_mean[top, k] - mean[left, k], down_mean[top, k] - mean[right, k]
            across = mean[left, k] - mean[right, k]
            up_left += to_left * to_left
            up_right += to_right * to_right
            left_right += across * across
        meeting[3, j], meeting[4, j], meeting[5, j] = up_left, up_right, left_right


@kernel
def set_sums(to: np.ndarray, start: np.ndarray, sign: float, terms: tuple[float, float, float, float]) -> None:
    """Into `to` the sums `start` plus (`sign` 1) or minus (-1) what a part of the tree adds to log_det, quad, C and
    W."""
    for k in range(N_OBSERVED):
        to[k] = start[k] + sign * terms[k]
    to[N_OBSERVED], to[N_LEAVES] = start[N_OBSERVED], start[N_LEAVES]


@kernel
def look_at(pool: Pool, node: int) -> None:
    """Fill `place`, `meeting` and `base` for an internal node whose cavity message is known."""
    place_between(pool, node, pool.child[node, 0], pool.child[node, 1])
    set_sums(pool.base, pool.sums, -1.0, sums_at(pool.rest[node], pool.place, pool.meeting))


@kernel
def put_at(pool: Pool, node: int, rest: float) -> None:
    """Move an internal node that was looked at to another time: sums and its own message follow."""
    pool.rest[node] = rest
    set_sums(pool.sums, pool.base, 1.0, sums_at(rest, pool.place, pool.meeting))
    message_up(pool, node)


@kernel
def refine_time(pool: Pool, node: int) -> None:
    """Move an internal node to its best time given its neighbours; its cavity message must be known."""
    look_at(pool, node)
    place, meeting, base, hyper = pool.place, pool.meeting, pool.base, pool.hyper
    old = value_at(pool.rest[node], place, meeting, base, hyper)
    rest, value = best_time(place, meeting, base, hyper)
    if not (value > old and rest < place[0] and rest > max(place[1], place[2])):
        rest = pool.rest[node]
    put_at(pool, node, rest)
    term = curvature_term(rest, place, meeting, base, hyper)
    pool.sums[CURVATURE] += term - pool.curvature[node]
    pool.curvature[node] = term


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
    for i in depth_first(pool.child, pool.meta[ROOT]):
        if i < 0:
            refine_time(pool, -1 - i)
        elif pool.child[i, 0] >= 0:
            cavity_into(pool, i)


def columns_of(pool: Pool) -> Columns:
    """A copy of the pool's tree."""
    return Columns(pool.parent.copy(), pool.child.copy(), pool.rest.copy())


def pool_at(tree: Columns, leaves: Leaves, hyper: Hyper) -> Pool:
    """A pool holding a complete tree at its times."""
    pool = empty_pool(leaves, hyper)
    pool.parent[:], pool.child[:], pool.rest[:] = tree
    pool.meta[ROOT] = tree.root
    refresh(pool)
    return pool


def pool_of(tree: Columns, leaves: Leaves, hyper: Hyper) -> Pool:
    """A pool holding a complete tree, its curvature terms computed by one pass over the times."""
    pool = pool_at(tree, leaves, hyper)
    refine_all(pool)
    return pool
