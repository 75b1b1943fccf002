"""The reference sampler: subtrees are detached and reattached by the prior, times are slice sampled.

Locations, sigma2 and c are integrated out (unless fixed), so the chain moves over structures and times only. A proposal
follows a new path down the remaining tree; because a subtree with more than one leaf is not a single new path, the
Metropolis ratio uses the full prior of both trees and the density of the path, not the likelihood ratio alone.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, cavity_into
from dtree.diffusion.local import time_terms, value_at
from dtree.diffusion.objective import C_SUM, N_LEAVES, W_SUM, Hyper, effective_c, log_joint_in_logit
from dtree.diffusion.pool import ROOT, Pool, columns_of, look_at, pool_at, put_at, refresh, total_density
from dtree.diffusion.regraft import attach, detach
from dtree.diffusion.tree import Columns, canonical, depth_first, rest_above


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
    value = math.log(c / (m * rest)) + c / m * math.log(rest / rest_above(pool.parent, pool.rest, node))
    i = node
    while pool.parent[i] >= 0:
        p = pool.parent[i]
        value += math.log(pool.size[i] / pool.size[p])
        value += c / pool.size[p] * math.log(pool.rest[p] / rest_above(pool.parent, pool.rest, p))
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
def _log_time_density(pool: Pool, rest: float) -> float:
    """Joint log density over the rest of the node that was looked at; minus infinity outside the bounds."""
    value = value_at(rest, pool.place, pool.meeting, pool.base, pool.hyper)
    if value == -np.inf:
        return value
    return value - time_terms(rest, pool.place)[1] - math.log(rest)


@kernel
def _slice_time(pool: Pool, rng: np.random.Generator, node: int) -> None:
    """Slice sample the node's time between its neighbours, shrinking from the whole interval."""
    look_at(pool, node)
    level = _log_time_density(pool, pool.rest[node]) + math.log(1.0 - rng.random())
    low = max(pool.place[1], pool.place[2])
    high = pool.place[0]
    rest = pool.rest[node]
    for _ in range(200):  # halved on average every time: by then the interval is one point
        trial = low + (high - low) * rng.random()
        if _log_time_density(pool, trial) >= level:
            rest = trial
            break
        if trial < pool.rest[node]:
            low = trial
        else:
            high = trial
    put_at(pool, node, rest)


@kernel
def slice_all_times(pool: Pool, rng: np.random.Generator) -> None:
    """Every time in turn: down with fresh cavity messages, up with fresh times."""
    for i in depth_first(pool.child, pool.meta[ROOT]):
        if i < 0:
            _slice_time(pool, rng, -1 - i)
        elif pool.child[i, 0] >= 0:
            cavity_into(pool, i)


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
    return State(pool_at(tree, leaves, hyper), np.zeros(2, np.int64))


def step(state: State, rng: np.random.Generator, *, moves: int | None = None) -> State:
    """One sweep: a structure move per node (or `moves`), then every time. Changes `state` in place and returns it."""
    _sweep(state.pool, rng, state.pool.parent.shape[0] if moves is None else moves, state.counts)
    return state


def tree_of(pool: Pool) -> Columns:
    """The tree in which a chain stands, canonical."""
    return canonical(columns_of(pool))


def log_joint(tree: Columns, leaves: Leaves, hyper: Hyper) -> float:
    """Log density (over rests) of data, structure and times: what the chain samples from."""
    rest, above = tree.rest[tree.n_leaves :], tree.above[tree.n_leaves :]
    slope = rest * (above - rest) / above
    return log_joint_in_logit(tree, leaves, hyper) - float(np.log(slope).sum())
