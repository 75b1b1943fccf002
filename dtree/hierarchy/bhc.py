"""Bayesian hierarchical clustering [HG05]: exact greedy agglomeration by marginal likelihood.

At every step the pair with the smallest log d over *all* pairs is merged, ties to the smallest indices. d is not
reducible (a merge can bring two clusters closer to a third), so nearest-neighbour chains would change the tree and
are not used.

What makes it fast and small: the score of a pair never changes while both live, so each pair is looked at once, by
whichever of the two came later (its owner). An owner keeps only its best few partners, and skips blocks of leaves that
cannot be among them (`blocks`); when its partners have all died and the owner may still be involved in the next merge,
it looks for partners again. A queue holds the owners by their best pair. That is O(m) memory instead of the O(m^2)
doubles of a stored score matrix, and O(m^2) scores at worst, far fewer where a family has bounds and leaves lie in
clusters.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel, Model, log_phi_h
from dtree.core.progress import report
from dtree.core.tree import Tree, log_add
from dtree.core.verbs import log_marginal_joined
from dtree.hierarchy import blocks_diagonal, sparse_multinomial  # noqa: F401  (they register their kernels)
from dtree.hierarchy.blocks import Blocks, least_log_d, make_blocks
from dtree.hierarchy.partners import Partners, insert_partner, no_partners
from dtree.hierarchy.queue import Queue, drop_first, push, replace_first, sorted_queue
from dtree.hierarchy.scores import log_own_marginal, log_own_marginals, turn_into_scores
from dtree.hierarchy.sparse_nodes import (
    SparseNodes,
    SparseScratch,
    add_sparse,
    forget_merged,
    log_marginal_sparse,
    move_sparse,
    put_sparse,
    sparse_nodes,
    sparse_scratch,
)

_MERGES_PER_REPORT = 500
_MERGES_PER_FORGETTING = 50  # of merged leaves in lists: going through all lists costs about as much as one search
_MOST_THREADS = 8  # more bring little: the merge loop, which follows, runs in one thread
_LEAVES_PER_STRIP = 500  # so that a strip takes long enough to be worth a report
_SPARE_SHARE, _LEAST_SPARE = 8, 64  # slots beyond those of the leaves, 1 in 8: room for merged nodes between packings
_BLOCKS_BY_BOUND = 8  # looked at best bound first, so that few of the others are left; then all in turn


class Slots(NamedTuple):
    """The nodes that can still be merged, each in a slot of its own; m leaves, s statistics, c slots.

    Leaves stand before merged nodes, in blocks: a family may score single rows faster than clusters when they stand
    together. Merged nodes stand in the slots rest[0] .. rest[1] - 1.
    """

    columns: np.ndarray  # (s, c) statistics, (s, 0) where `sparse` holds them
    rows: np.ndarray  # (c,) rows of the node (coarsened)
    log_own: np.ndarray  # (c,) log marginal of the node as one cluster
    log_phi_t: np.ndarray  # (c,)
    node: np.ndarray  # (c,) number of the node
    block: np.ndarray  # (c,) the block of a leaf, -1 for a merged node
    slot_of: np.ndarray  # (2m-1,) slot of every node, -1 for a node that is merged or not made yet
    rest: np.ndarray  # (2,)
    sparse: SparseNodes


class Scratch(NamedTuple):
    """Memory that every search for partners uses anew; kernels that count no references cannot make it themselves."""

    row: np.ndarray  # (s,)
    merged: np.ndarray  # (s,)
    score: np.ndarray  # (c,)
    bound: np.ndarray  # (b,)
    sparse: SparseScratch


def scratch_for(slots: Slots, blocks: Blocks) -> Scratch:
    """Scratch memory for a search among these slots; one for every thread."""
    s, c = slots.columns.shape[0], slots.node.shape[0]
    return Scratch(np.empty(s), np.empty(s), np.empty(c), np.empty(blocks.start.shape[0]), sparse_scratch(slots.sparse))


def leaf_slots(
    model: Model, compiled: CompiledModel, atoms: np.ndarray, below: np.ndarray | None = None
) -> tuple[Slots, Blocks]:
    """Every atom (m, s) as a leaf in its own slot, and the blocks of these slots; `below` (m,) is log phi_t of leaves
    that are trees themselves."""
    m, s = atoms.shape
    worth = model.log_phi_h(atoms)
    below = worth if below is None else below
    order, blocks = make_blocks(compiled, atoms.T, below)
    sparse = sparse_nodes(compiled, atoms)
    if sparse.rows.shape[0]:
        capacity, columns = m + sparse.held.shape[0], np.empty((s, 0))
    else:
        capacity = m + max(m // _SPARE_SHARE, _LEAST_SPARE)
        columns = np.empty((s, capacity))
        columns[:, :m] = (atoms if blocks.start.shape[0] == 1 else atoms[order]).T  # one block keeps the order
    count, log_own, log_phi_t = np.zeros(capacity), np.zeros(capacity), np.zeros(capacity)
    count[:m], log_phi_t[:m] = atoms[order, 0], below[order]
    log_own[:m] = log_own_marginals(compiled, worth[order], count[:m])
    node, block, slot_of = np.full(capacity, -1), np.full(capacity, -1), np.full(2 * m - 1, -1)
    node[:m], block[:m] = order, np.repeat(np.arange(blocks.start.shape[0]), blocks.live)
    slot_of[order] = np.arange(m)
    return Slots(columns, count, log_own, log_phi_t, node, block, slot_of, np.array([m, m]), sparse), blocks


@kernel(inline=True, counted=False)
def _add_statistics(slots, slot, row):
    """Add those of the node in a slot to row (s,)."""
    if slots.columns.shape[1] == 0:
        add_sparse(slots.sparse, slot, slots.node[slot], row)
    else:
        for s in range(row.shape[0]):
            row[s] += slots.columns[s, slot]


@kernel(inline=True, counted=False)
def _score_range(model, slots, partners, slot, start, stop, scratch):
    """Score a slot against those from start to stop, itself left out, and keep its best partners."""
    if start >= stop:
        return
    row, score, node = scratch.row, scratch.score, slots.node
    columns, log_own, log_phi_t = slots.columns, slots.log_own, slots.log_phi_t
    if columns.shape[1] == 0:
        log_marginal_sparse(model.family, slots.sparse, node, log_own, row, start, stop, scratch.sparse, score)
    else:
        log_marginal_joined(model.family, columns, log_own, row, start, stop, score)
    turn_into_scores(model, slots.rows, log_phi_t, row[0], log_phi_t[slot], start, stop, score)
    kept, scores = partners.node[slot], partners.score[slot]
    capacity = kept.shape[0]
    held = partners.held[slot]
    worst = scores[held - 1] if held == capacity else np.inf
    for j in range(start, stop):
        if score[j] <= worst and j != slot:
            held = insert_partner(kept, scores, held, node[j], score[j])
            if held == capacity:
                worst = scores[held - 1]
    partners.held[slot] = held


@kernel(counted=False)
def _score_slot(model, slots, blocks, partners, slot, stop, scratch):
    """Find the best partners of a slot among all others below `stop`."""
    row, bound = scratch.row, scratch.bound
    row[:] = 0.0
    _add_statistics(slots, slot, row)
    partners.held[slot] = 0
    partners.head[slot] = 0
    others = max(min(slots.rest[1], stop) - slots.rest[0], 0)
    n_blocks = 0  # those with a slot below `stop`
    while n_blocks < blocks.start.shape[0] and blocks.start[n_blocks] < stop:
        others += min(blocks.live[n_blocks], stop - blocks.start[n_blocks])
        n_blocks += 1
    least_log_d(model, blocks, row, slots.log_phi_t[slot], bound)
    capacity = partners.node.shape[1]
    for turn in range(-1, _BLOCKS_BY_BOUND + n_blocks):
        if turn < 0:  # all merged nodes; in this loop too, because every place that scores is compiled anew
            first, end = slots.rest[0], min(slots.rest[1], stop)
        else:
            b = turn - _BLOCKS_BY_BOUND
            if turn < _BLOCKS_BY_BOUND:
                b = 0
                for other in range(1, n_blocks):
                    if bound[other] < bound[b]:
                        b = other
            if b >= n_blocks or bound[b] == np.inf:  # none left, or looked at
                continue
            if partners.held[slot] == capacity and bound[b] > partners.score[slot, capacity - 1]:
                if turn < _BLOCKS_BY_BOUND:
                    break  # so are all others
                continue
            bound[b] = np.inf
            first, end = blocks.start[b], min(blocks.start[b] + blocks.live[b], stop)
        _score_range(model, slots, partners, slot, first, end, scratch)
    if (slot < stop and slots.block[slot] >= 0) or slots.rest[0] <= slot < min(slots.rest[1], stop):
        others -= 1  # itself
    partners.complete[slot] = others <= capacity


@kernel(counted=False)
def score_leaves(model, slots, blocks, partners, scratch, first, last, step):
    """Each leaf first, first + step, ... below last looks at all leaves before it and remembers its best partners."""
    for i in range(first, last, step):
        _score_slot(model, slots, blocks, partners, i, i, scratch)


@kernel(counted=False)
def _move_slot(slots, partners, source, target):
    if slots.columns.shape[1] == 0:
        move_sparse(slots.sparse, source, target)
    else:
        for s in range(slots.columns.shape[0]):
            slots.columns[s, target] = slots.columns[s, source]
    slots.rows[target] = slots.rows[source]
    slots.log_own[target] = slots.log_own[source]
    slots.log_phi_t[target] = slots.log_phi_t[source]
    slots.node[target] = slots.node[source]
    slots.block[target] = slots.block[source]
    slots.slot_of[slots.node[target]] = target
    for at in range(partners.node.shape[1]):
        partners.node[target, at] = partners.node[source, at]
        partners.score[target, at] = partners.score[source, at]
    partners.held[target] = partners.held[source]
    partners.complete[target] = partners.complete[source]
    partners.head[target] = partners.head[source]


@kernel(inline=True, counted=False)
def _leave_slot(slots, blocks, partners, slot):
    """Close the gap that a merged node leaves: the last of its block, or the last merged node, moves there."""
    b = slots.block[slot]
    if b >= 0:
        blocks.live[b] -= 1
        last = blocks.start[b] + blocks.live[b]
    else:
        slots.rest[1] -= 1
        last = slots.rest[1]
    if slot != last:
        _move_slot(slots, partners, last, slot)


@kernel(inline=True, counted=False)
def _pack(slots, blocks, partners):
    """Move all nodes up to close the gaps between blocks, so that there is room after them."""
    target = np.int64(0)  # for a plain 0 numba would compile `_move_slot` twice: for that number, and for others
    for b in range(blocks.start.shape[0]):
        start = blocks.start[b]
        blocks.start[b] = target
        for slot in range(start, start + blocks.live[b]):
            if slot != target:
                _move_slot(slots, partners, slot, target)
            target += 1
    first, stop = slots.rest[0], slots.rest[1]
    slots.rest[0] = target
    for slot in range(first, stop):
        if slot != target:
            _move_slot(slots, partners, slot, target)
        target += 1
    slots.rest[1] = target


@kernel(counted=False)
def _best_key(slots, partners, slot):
    """Score and pair (low, high) of the best that a slot may still own; infinity when it owns none.

    When all partners it remembers have died, its pairs are known to be no better than the last one it held: on a tie
    it goes first.
    """
    held = partners.held[slot]
    at = partners.head[slot]
    while at < held and slots.slot_of[partners.node[slot, at]] < 0:
        at += 1
    partners.head[slot] = at
    if at < held:
        own, other = slots.node[slot], partners.node[slot, at]
        return partners.score[slot, at], min(own, other), max(own, other)
    if held == 0 or partners.complete[slot]:
        return np.inf, -1, -1  # it never owned more pairs than these
    return partners.score[slot, held - 1], -1, -1


@kernel(inline=True, counted=False)
def _queue_slot(queue, slots, partners, slot):
    score, low, high = _best_key(slots, partners, slot)
    if score < np.inf:
        push(queue, slots.node[slot], score, low, high)


def _queue_of_leaves(slots: Slots, partners: Partners) -> Queue:
    """Every leaf by its best pair."""
    m = int(slots.rest[0])
    leaf, score = np.flatnonzero(partners.held[:m] > 0), partners.score[:m, 0]
    leaf = leaf[score[leaf] < np.inf]
    return sorted_queue(2 * m, slots.node[leaf], score[leaf], partners.node[leaf, 0])


@kernel(inline=True, counted=False)
def _next_pair(model, slots, blocks, partners, queue, scratch):
    """The slot that owns the best pair of all, -1 when there is none."""
    while queue.size[0] > 0:
        slot = slots.slot_of[queue.node[0]]
        if slot < 0:  # its owner is merged
            drop_first(queue)
            continue
        at = partners.head[slot]
        if at < partners.held[slot] and slots.slot_of[partners.node[slot, at]] >= 0:
            return slot
        if at == partners.held[slot]:
            _score_slot(model, slots, blocks, partners, slot, slots.node.shape[0], scratch)
        score, low, high = _best_key(slots, partners, slot)
        if score < np.inf:
            replace_first(queue, slots.node[slot], score, low, high)
        else:
            drop_first(queue)
    return -1


@kernel(counted=False)
def merge_some(model, slots, blocks, partners, queue, scratch, done, merges, node_log_phi_h):
    """Carry out merges done[0] .. done[1]-1 into merges (m-1, 2) and node_log_phi_h (2m-1,). Returns a status."""
    log_phi_t, node, slot_of = slots.log_phi_t, slots.node, slots.slot_of
    m = slot_of.shape[0] // 2 + 1
    row = scratch.merged
    for number in range(done[0], done[1]):
        if number % _MERGES_PER_FORGETTING == 0:
            forget_merged(slots.sparse, slot_of)
        a = _next_pair(model, slots, blocks, partners, queue, scratch)
        if a < 0:
            return -1
        drop_first(queue)
        b = slot_of[partners.node[a, partners.head[a]]]
        merged = m + number
        merges[number, 0] = min(node[a], node[b])
        merges[number, 1] = max(node[a], node[b])
        slot_of[node[a]] = -1
        slot_of[node[b]] = -1
        row[:] = 0.0
        for merging in (a, b):
            _add_statistics(slots, merging, row)
        joined = log_phi_h(model, row)
        log_apart = log_phi_t[a] + log_phi_t[b]
        for leaving in (max(a, b), min(a, b)):
            _leave_slot(slots, blocks, partners, leaving)
        if slots.rest[1] == node.shape[0]:
            _pack(slots, blocks, partners)
        slot = slots.rest[1]
        if slots.columns.shape[1] == 0:
            put_sparse(model.family, slots.sparse, slot, row)
        else:
            for s in range(row.shape[0]):
                slots.columns[s, slot] = row[s]
        slots.rows[slot] = row[0]
        slots.log_own[slot] = log_own_marginal(model, joined, row[0])
        log_phi_t[slot] = log_add(joined, log_apart)
        node_log_phi_h[merged] = joined
        node[slot] = merged
        slots.block[slot] = -1
        slot_of[merged] = slot
        _score_slot(model, slots, blocks, partners, slot, slot, scratch)
        slots.rest[1] += 1
        _queue_slot(queue, slots, partners, slot)
    return 0


def build_tree(
    model: Model,
    atoms: np.ndarray,
    threads: int | None = None,
    log_phi_t: np.ndarray | None = None,
) -> Tree:
    """The greedy tree over atoms (m, s), whatever the number of threads.

    log_phi_t (m,) is that of atoms that are trees themselves, of which the tree here is the upper part.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> build_tree(model, model.atoms([[1], [50], [2], [48]])).merges.tolist()
    [[1, 3], [0, 2], [4, 5]]
    """
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    m = atoms.shape[0]
    compiled = model.compile(atoms.sum(axis=0))
    slots, blocks = leaf_slots(model, compiled, atoms, log_phi_t)
    partners = no_partners(slots.node.shape[0])
    node_log_phi_h = np.empty(2 * m - 1)
    if log_phi_t is None:
        node_log_phi_h[slots.node[:m]] = slots.log_phi_t[:m]
    else:
        node_log_phi_h[:m] = model.log_phi_h(atoms)
    merges = np.empty((m - 1, 2), dtype=np.int64)
    _score_all_leaves(compiled, slots, blocks, partners, threads)
    queue, scratch = _queue_of_leaves(slots, partners), scratch_for(slots, blocks)
    for done in range(0, m - 1, _MERGES_PER_REPORT):
        report("merging", done, m - 1)
        stop = min(done + _MERGES_PER_REPORT, m - 1)
        if merge_some(compiled, slots, blocks, partners, queue, scratch, (done, stop), merges, node_log_phi_h) != 0:
            raise ValueError("a merge score is not a number: look for values too large or too small for this family")
    report("merging", m - 1, m - 1)
    return Tree.from_merges(merges, np.rint(model.counts(atoms)), node_log_phi_h)


def _score_all_leaves(
    compiled: CompiledModel, slots: Slots, blocks: Blocks, partners: Partners, threads: int | None
) -> None:
    """Score pairs of leaves, rows dealt out in turn so that threads have equal work and answers do not change."""
    m = int(slots.rest[0])
    threads = threads or min(os.cpu_count() or 1, _MOST_THREADS)  # the number of cores may be unknown
    strips = max(threads, m // _LEAVES_PER_STRIP)

    def score(first: int) -> None:
        score_leaves(compiled, slots, blocks, partners, scratch_for(slots, blocks), first, m, strips)

    with ThreadPoolExecutor(threads) as pool:
        scored = pool.map(score, range(strips))
        for done, _ in enumerate(scored, start=1):
            report("scoring pairs", done, strips)
