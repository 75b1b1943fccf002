"""The reference sampler: subtrees are detached and reattached by the prior, times are slice sampled.

Locations, sigma2 and c are integrated out (unless fixed), so the chain moves over structures and times only. A proposal
follows a new path down the remaining tree; because a subtree with more than one leaf is not a single new path, the
Metropolis ratio uses the full prior of both trees and the density of the path, not the likelihood ratio alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves
from dtree.diffusion.local import three_way, time_terms, value_at
from dtree.diffusion.objective import Hyper, effective_c, log_joint_in_logit
from dtree.diffusion.pool import (
    C_SUM,
    CURVATURE,
    LOG_DET,
    N_LEAVES,
    QUAD,
    ROOT,
    W_SUM,
    Pool,
    cavity_into,
    empty_pool,
    look_at,
    message_up,
    refresh,
    rest_above,
    total_density,
)
from dtree.diffusion.regraft import attach, detach
from dtree.diffusion.tree import Columns, canonical


class State(NamedTuple):
    """The chain: a tree with its messages, and (proposed, accepted) structure moves."""

    pool: Pool
    counts: np.ndarray


@kernel
def propose_place(pool: Pool, rng: np.random.Generator, c: float, latest: float) -> tuple[int, float]:
    """Follow new paths down the tree until one leaves before rest `latest`; returns (node below, rest)."""
    while True:
        node = pool.meta[ROOT]
        above = 1.0
        while True:
            rest = above * rng.random() ** (pool.size[node] / c)
            if rest > pool.rest[node]:
                break
            above = pool.rest[node]
            left = pool.child[node, 0]
            right = pool.child[node, 1]
            take_left = rng.random() * (pool.size[left] + pool.size[right]) < pool.size[left]
            node = left if take_left else right
        if rest > latest and rest < above:
            return node, rest


@kernel
def log_place_density(pool: Pool, c: float, node: int, rest: float) -> float:
    """Log density over rests of a new path leaving in the branch above `node`."""
    m = pool.size[node]
    value = math.log(c / (m * rest)) + c / m * math.log(rest / rest_above(pool, node))
    i = node
    while pool.parent[i] >= 0:
        p = pool.parent[i]
        value += math.log(pool.size[i] / pool.size[p])
        value += c / pool.size[p] * math.log(pool.rest[p] / rest_above(pool, p))
        i = p
    return value


@kernel
def move_subtree(pool: Pool, rng: np.random.Generator) -> bool:
    """One Metropolis-Hastings step on the structure; True if accepted."""
    n_nodes = pool.parent.shape[0]
    b = int(rng.integers(0, n_nodes))
    if b == pool.meta[ROOT]:
        return False
    j = pool.parent[b]
    old_rest = pool.rest[j]
    # the density over rests: take the logit Jacobian of W out again, other rests cancel
    old_target = total_density(pool) - pool.sums[W_SUM] - math.log(old_rest)
    s = detach(pool, b)
    c = effective_c(pool.sums[C_SUM], pool.sums[N_LEAVES] - 1.0, pool.hyper)
    old_place = log_place_density(pool, c, s, old_rest)
    to, new_rest = propose_place(pool, rng, c, pool.rest[b])
    new_place = log_place_density(pool, c, to, new_rest)
    attach(pool, b, j, to, new_rest)
    new_target = total_density(pool) - pool.sums[W_SUM] - math.log(new_rest)
    if math.log(rng.random()) < new_target - old_target + old_place - new_place:
        return True
    detach(pool, b)
    attach(pool, b, j, s, old_rest)
    return False


@kernel
def _log_time_density(pool: Pool, node: int, rest: float) -> float:
    """Joint log density over the node's rest, given `look_at`; minus infinity outside the bounds."""
    l = pool.child[node, 0]
    r = pool.child[node, 1]
    g = pool.mean.shape[1] // pool.var.shape[1]
    value = value_at(
        rest, pool.place, pool.down_var[node], pool.var[l], pool.var[r], pool.gaps, g, pool.base, pool.hyper
    )
    if value == -np.inf:
        return value
    _, w_sum = time_terms(rest, pool.place[0], pool.place[1], pool.place[2], 0.0, 0.0, 0.0)
    return value - w_sum - math.log(rest)


@kernel
def _slice_time(pool: Pool, rng: np.random.Generator, node: int) -> None:
    """Slice sample the node's time between its neighbours, shrinking from the whole interval."""
    look_at(pool, node)
    level = _log_time_density(pool, node, pool.rest[node]) + math.log(1.0 - rng.random())
    low = max(pool.place[1], pool.place[2])
    high = pool.place[0]
    rest = pool.rest[node]
    for _ in range(200):
        trial = low + (high - low) * rng.random()
        if _log_time_density(pool, node, trial) >= level:
            rest = trial
            break
        if trial < pool.rest[node]:
            low = trial
        else:
            high = trial
    pool.rest[node] = rest
    l = pool.child[node, 0]
    r = pool.child[node, 1]
    g = pool.mean.shape[1] // pool.var.shape[1]
    place = pool.place
    log_det, quad = three_way(
        rest, place[0], place[1], place[2], pool.down_var[node], pool.var[l], pool.var[r], pool.gaps, g
    )
    c_sum, w_sum = time_terms(rest, place[0], place[1], place[2], place[3], place[4], place[5])
    pool.sums[LOG_DET] = pool.base[0] + log_det
    pool.sums[QUAD] = pool.base[1] + quad
    pool.sums[C_SUM] = pool.base[2] + c_sum
    pool.sums[W_SUM] = pool.base[3] + w_sum
    message_up(pool, node)


@kernel
def slice_all_times(pool: Pool, rng: np.random.Generator) -> None:
    stack = np.empty(pool.parent.shape[0], np.int64)
    visits = np.zeros(pool.parent.shape[0], np.int64)
    stack[0] = pool.meta[ROOT]
    depth = 1
    while depth > 0:
        i = stack[depth - 1]
        if visits[i] == 0:
            cavity_into(pool, i)
        if visits[i] < 2:
            k = pool.child[i, visits[i]]
            visits[i] += 1
            if pool.child[k, 0] >= 0:
                stack[depth] = k
                depth += 1
        else:
            depth -= 1
            _slice_time(pool, rng, i)


@kernel
def _sweep(pool: Pool, rng: np.random.Generator, moves: int, counts: np.ndarray) -> None:
    for _ in range(moves):
        counts[0] += 1
        if move_subtree(pool, rng):
            counts[1] += 1
    slice_all_times(pool, rng)
    refresh(pool)


def init(tree: Columns, leaves: Leaves, hyper: Hyper) -> State:
    """A chain that starts at `tree`."""
    pool = empty_pool(leaves, hyper)
    pool.parent[:], pool.child[:], pool.rest[:] = tree
    pool.meta[ROOT] = tree.root
    refresh(pool)
    pool.sums[CURVATURE] = 0.0
    return State(pool, np.zeros(2, np.int64))


def step(state: State, rng: np.random.Generator, *, moves: int | None = None) -> State:
    """One sweep: a structure move per node (or `moves`), then every time. Changes `state` in place and returns it."""
    _sweep(state.pool, rng, state.pool.parent.shape[0] if moves is None else moves, state.counts)
    return state


def tree_of(state: State) -> Columns:
    """The chain's current tree, canonical."""
    return canonical(Columns(state.pool.parent.copy(), state.pool.child.copy(), state.pool.rest.copy()))


def log_joint(tree: Columns, leaves: Leaves, hyper: Hyper) -> float:
    """Log density (over rests) of data, structure and times: what the chain samples from."""
    n = tree.n_leaves
    above = np.where(tree.parent[n:] >= 0, tree.rest[tree.parent[n:]], 1.0)
    slope = tree.rest[n:] * (above - tree.rest[n:]) / above
    return log_joint_in_logit(tree, leaves, hyper) - float(np.log(slope).sum())
