"""Candidates for merges: a forest of random projections puts nodes that lie near each other into small groups.

A tree of the forest halves the nodes along the line through two of them drawn at random, and the halves again, until a
group is small; all pairs of a group are scored by log d itself. Near nodes that one tree parts stand together in
another, so a few trees find most of the best partners of every node in O(m log m) scores.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.core.progress import report
from dtree.hierarchy.partners import Partners, insert_partner
from dtree.hierarchy.scores import score_against

# Of 20,000 rows in 8 columns 2, 4 and 8 trees find the best partner for 49, 74 and 89 % (diagonal) or 60, 80 and 96 %
# (full). With four the bound of the tree is that of the exact one.
_TREES = 4
GROUP = 48  # nodes of a group at most: every node is scored with so many in every tree
_MOST_THREADS = 8
_GROUPS_PER_TASK = 64


class Nodes(NamedTuple):
    """The nodes that can still be merged, each in the slot of one of its two children; m slots."""

    statistics: np.ndarray  # (m, s)
    log_own: np.ndarray  # (m,) log marginal of the node as one cluster
    log_phi_t: np.ndarray  # (m,)
    number: np.ndarray  # (m,) of the node in the slot
    slot_of: np.ndarray  # (2m-1,) slot of every node, -1 for a node that is merged or not made yet
    into: np.ndarray  # (2m-1,) the node that a merged one is in, or one below that; itself while it is not merged


@kernel
def offer(near, slot, number, score):
    """Put a node among the partners of `slot` if it is not there and good enough."""
    for at in range(near.held[slot]):
        if near.node[slot, at] == number:
            return
    near.held[slot] = insert_partner(near.node[slot], near.score[slot], near.held[slot], number, score)


@kernel
def _halve(along, order, first, stop):
    """Arrange along and order so that the smaller half stands first (Hoare's selection); returns where they meet."""
    middle = (first + stop) // 2
    low, high = first, stop - 1
    while low < high:
        pivot = along[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while along[i] < pivot:
                i += 1
            while along[j] > pivot:
                j -= 1
            if i <= j:
                along[i], along[j] = along[j], along[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break
    return middle


@kernel
def groups(places, order, draws, largest, starts):
    """Arrange order (n,) so that groups of at most `largest` lie together; starts (n,) gets where they begin.

    Two numbers of draws (2n,) in [0, 1) choose the line of a split. Returns the number of groups.
    """
    n, q = order.shape[0], places.shape[1]
    along = np.empty(n)
    waiting = np.empty((n + 1, 2), dtype=np.int64)
    waiting[0, 0], waiting[0, 1] = 0, n
    n_waiting, n_groups, drawn = 1, 0, 0
    while n_waiting > 0:
        n_waiting -= 1
        first, stop = waiting[n_waiting, 0], waiting[n_waiting, 1]
        if stop - first <= largest:
            starts[n_groups] = first
            n_groups += 1
            continue
        one = order[first + int(draws[drawn] * (stop - first))]
        other = order[first + int(draws[drawn + 1] * (stop - first))]
        drawn += 2
        for at in range(first, stop):
            along[at] = 0.0
            for j in range(q):
                along[at] += places[order[at], j] * (places[one, j] - places[other, j])
        middle = _halve(along, order, first, stop)
        waiting[n_waiting, 0], waiting[n_waiting, 1] = middle, stop
        waiting[n_waiting + 1, 0], waiting[n_waiting + 1, 1] = first, middle
        n_waiting += 2
    return n_groups


@kernel
def _score_groups(model, nodes, near, slots, starts, first, last):
    """Score all pairs of the groups first .. last-1, group g being slots[starts[g] : starts[g + 1]]."""
    widest = 0
    for g in range(first, last):
        widest = max(widest, starts[g + 1] - starts[g])
    columns, row = np.empty((nodes.statistics.shape[1], widest)), np.empty(nodes.statistics.shape[1])
    log_own, log_phi_t, score = np.empty(widest), np.empty(widest), np.empty(widest)
    for g in range(first, last):
        size = starts[g + 1] - starts[g]
        for j in range(size):
            slot = slots[starts[g] + j]
            for s in range(row.shape[0]):
                columns[s, j] = nodes.statistics[slot, s]
            log_own[j], log_phi_t[j] = nodes.log_own[slot], nodes.log_phi_t[slot]
        for i in range(1, size):
            slot = slots[starts[g] + i]
            for s in range(row.shape[0]):
                row[s] = columns[s, i]
            score_against(model, columns, log_own, log_phi_t, row, log_phi_t[i], 0, i, score)
            for j in range(i):
                other = slots[starts[g] + j]
                offer(near, slot, nodes.number[other], score[j])
                offer(near, other, nodes.number[slot], score[j])


def places_of(statistics: np.ndarray) -> np.ndarray:
    """Where nodes lie for a forest: the means (n, q) of their statistics (n, s), each in its own standard deviation.

    They are what any family knows of a cluster: the mean of a number, the share of a category, the rate of a word.
    """
    means = statistics[:, 1:] / statistics[:, :1]
    spread = means.std(axis=0)
    return np.ascontiguousarray(means[:, spread > 0] / spread[spread > 0])


def look_around(
    compiled: CompiledModel,
    nodes: Nodes,
    near: Partners,
    live: np.ndarray,
    rng: np.random.Generator,
    largest: int = GROUP,
    threads: int | None = None,
) -> None:
    """Offer the nodes in the slots `live` (n,) those that stand in their groups, in each tree of a forest.

    Groups of one tree have no slot in common, so threads may share them and the lists are the same.
    """
    places, n = places_of(nodes.statistics[live]), live.shape[0]
    threads = min(threads or os.cpu_count() or 1, _MOST_THREADS)
    for tree in range(1 if n <= largest else _TREES):
        order, starts = np.arange(n), np.empty(n + 1, dtype=np.int64)
        n_groups = groups(places, order, rng.random(2 * n), largest, starts)
        starts[n_groups] = n
        firsts = range(0, n_groups, _GROUPS_PER_TASK)
        lasts = [min(first + _GROUPS_PER_TASK, n_groups) for first in firsts]
        score = partial(_score_groups, compiled, nodes, near, live[order], starts)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(score, firsts, lasts))
        report("looking for near pairs", tree + 1, _TREES)
