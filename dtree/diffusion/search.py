"""Search over tree structures: sequential building, detach and reattach, and the K best trees seen.

A search is a `SearchState` of plain arrays and a Generator; `build` makes one for one permutation of the rows (run
several, in parallel if you like), `search_step` moves one random subtree, and `best_columns` hands out the distinct
trees found. Steps change the arrays in place.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, message_up
from dtree.diffusion.objective import N_LEAVES, N_OBSERVED, Hyper
from dtree.diffusion.pool import (
    CHANGES,
    REACH,
    ROOT,
    TREE_KEY,
    Pool,
    empty_pool,
    pool_of,
    refine_all,
    refine_path,
    refresh,
    score,
)
from dtree.diffusion.regraft import attach, best_places, detach
from dtree.diffusion.tree import Columns, canonical, rest_above, unlinked

BEAM = 12  # branches followed at once: more find hardly better places, fewer miss some


class BestTrees(NamedTuple):
    """The K best distinct trees of a search: columns (k, ...), search scores (k,), -inf where empty, and structure
    keys."""

    parent: np.ndarray
    child: np.ndarray
    rest: np.ndarray
    score: np.ndarray
    key: np.ndarray


class SearchState(NamedTuple):
    """The current tree (the best seen) as a pool, and the list of best trees."""

    pool: Pool
    best: BestTrees


@kernel
def remember(pool: Pool, best: BestTrees) -> None:
    """Keep the pool's tree if it is among the K best distinct ones."""
    value = score(pool)
    key = pool.meta[TREE_KEY]
    slot = -1
    worst = 0
    for k in range(best.score.shape[0]):
        if best.score[k] > -np.inf and best.key[k] == key:
            slot = k
        if best.score[k] < best.score[worst]:
            worst = k
    if slot < 0:
        slot = worst
    if value <= best.score[slot]:
        return
    best.parent[slot], best.child[slot], best.rest[slot] = pool.parent, pool.child, pool.rest
    best.score[slot], best.key[slot] = value, key


@kernel
def _try_place(pool: Pool, b: int, j: int, s: int) -> None:
    """Attach, then find the best times nearby."""
    above = rest_above(pool.parent, pool.rest, s)
    low = max(pool.rest[s], pool.rest[b])
    attach(pool, b, j, s, 0.5 * (above + low))
    refine_path(pool, j, REACH)


@kernel
def _try_places(pool: Pool, best: BestTrees, b: int, j: int, places: np.ndarray, keep: bool) -> None:
    """Try each place for the detached subtree `b`, undo, and attach it at the best one.

    Undoing restores the times along the path and recomputes the messages there; sums are restored from a copy.
    """
    winner = -1
    top = -np.inf
    sums = pool.sums.copy()
    meta = pool.meta.copy()
    for s in places:
        length = 0
        i = pool.parent[s]
        while i >= 0:
            pool.saved[0, length] = pool.rest[i]
            pool.saved[1, length] = pool.curvature[i]
            length += 1
            i = pool.parent[i]
        rest_s, rest_b = pool.rest[s], pool.rest[b]
        curvature_s, curvature_b = pool.curvature[s], pool.curvature[b]
        _try_place(pool, b, j, s)
        value = score(pool)
        if keep:
            remember(pool, best)
        if value > top:
            top = value
            winner = s
        detach(pool, b)
        # back to the times before the trial
        pool.rest[s], pool.rest[b] = rest_s, rest_b
        pool.curvature[s], pool.curvature[b] = curvature_s, curvature_b
        if pool.child[s, 0] >= 0:
            message_up(pool, s)
        if pool.child[b, 0] >= 0:
            message_up(pool, b)
        i = pool.parent[s]
        length = 0
        while i >= 0:
            pool.rest[i] = pool.saved[0, length]
            pool.curvature[i] = pool.saved[1, length]
            message_up(pool, i)
            length += 1
            i = pool.parent[i]
        pool.sums[:] = sums
        pool.meta[:] = meta
    _try_place(pool, b, j, winner)


@kernel
def _build(pool: Pool, best: BestTrees, permutation: np.ndarray, attachments: int, beam: int) -> None:
    n = permutation.shape[0]
    first, second = permutation[0], permutation[1]
    root = n
    pool.child[root, 0], pool.child[root, 1] = first, second
    pool.parent[first] = pool.parent[second] = root
    pool.parent[root] = -1
    pool.rest[root] = 0.5
    pool.meta[ROOT] = root
    refresh(pool)
    refine_path(pool, root, REACH)
    nodes = np.empty(attachments, np.int64)
    values = np.empty(attachments)
    for k in range(2, n):
        b = permutation[k]
        pool.sums[N_OBSERVED] += pool.observed[b]
        pool.sums[N_LEAVES] += 1.0
        found = best_places(pool, b, beam, nodes, values)
        _try_places(pool, best, b, n + k - 1, nodes[:found], False)


@kernel
def _step(
    pool: Pool, best: BestTrees, rng: np.random.Generator, attachments: int, beam: int, only_leaves: bool
) -> None:
    """Detach a random subtree and attach it at the best of a few places."""
    n = pool.observed.shape[0]
    b = int(rng.integers(0, n if only_leaves else 2 * n - 1))
    if b == pool.meta[ROOT]:
        return
    before = pool.meta[TREE_KEY]
    j = pool.parent[b]
    s = detach(pool, b)
    nodes = np.empty(attachments + 1, np.int64)
    values = np.empty(attachments)
    found = best_places(pool, b, beam, nodes[:attachments], values)
    if not (nodes[:found] == s).any():  # staying must always be possible
        nodes[found] = s
        found += 1
    _try_places(pool, best, b, j, nodes[:found], True)
    remember(pool, best)
    if pool.meta[TREE_KEY] != before:
        pool.meta[CHANGES] += 1
        if pool.meta[CHANGES] % n == 0:
            refresh(pool)  # sums are kept by differences: start afresh before rounding can matter


def build(
    leaves: Leaves, hyper: Hyper, rng: np.random.Generator, *, keep: int = 10, attachments: int = 3, beam: int = BEAM
) -> SearchState:
    """Build a tree by inserting the rows one by one in random order, each at the best of `attachments` places.

    >>> from dtree.diffusion.belief import leaves_from_data
    >>> from dtree.diffusion.tree import to_nested
    >>> y = leaves_from_data(np.array([[-2.0], [2.0], [-2.1], [2.1]]))
    >>> state = build(y, Hyper(), np.random.default_rng(0))
    >>> to_nested(best_columns([state])[0][1])
    [[0, 2], [1, 3]]
    """
    n = leaves.mean.shape[0]
    if n < 2:
        raise ValueError(f"A diffusion tree needs at least two rows, got {n}.")
    state = SearchState(empty_pool(leaves, hyper), empty_best(n, keep))
    _build(state.pool, state.best, rng.permutation(n), attachments, beam)
    refine_all(state.pool)  # times moved while leaves were inserted; `settle` passes over them again
    return settle(state)


def start_from(tree: Columns, leaves: Leaves, hyper: Hyper, *, keep: int = 10) -> SearchState:
    """A search state at a given tree."""
    state = SearchState(pool_of(tree, leaves, hyper), empty_best(tree.n_leaves, keep))
    remember(state.pool, state.best)
    return state


def empty_best(n: int, keep: int) -> BestTrees:
    """Room for so many trees over n leaves."""
    return BestTrees(*unlinked(keep, 2 * n - 1), np.full(keep, -np.inf), np.zeros(keep, np.int64))


def search_step(
    state: SearchState, rng: np.random.Generator, *, attachments: int = 3, beam: int = BEAM, only_leaves: bool = False
) -> SearchState:
    """Move one random subtree to the best of a few places; the tree never gets worse. Changes `state` in place."""
    _step(state.pool, state.best, rng, attachments, beam, only_leaves)
    return state


def search(state: SearchState, rng: np.random.Generator, steps: int) -> SearchState:
    """Several search steps, then one pass over all times. Changes `state` in place."""
    for _ in range(steps):
        search_step(state, rng)
    return settle(state)


def settle(state: SearchState) -> SearchState:
    """One pass over all times, at the end of a search. Changes `state` in place."""
    refine_all(state.pool)
    refresh(state.pool)
    remember(state.pool, state.best)
    return state


def best_columns(states: Iterable[SearchState], keep: int = 10) -> list[tuple[float, Columns]]:
    """The best distinct trees of one or several searches as (search score, canonical columns), best first."""
    seen: dict[int, tuple[float, Columns]] = {}
    for state in states:
        best = state.best
        for k in np.flatnonzero(np.isfinite(best.score)):
            key, value = int(best.key[k]), float(best.score[k])
            if key not in seen or seen[key][0] < value:
                seen[key] = value, Columns(best.parent[k].copy(), best.child[k].copy(), best.rest[k].copy())
    ranked = sorted(seen.values(), key=lambda pair: -pair[0])[:keep]
    return [(value, canonical(columns)) for value, columns in ranked]
