"""Bayesian hierarchical clustering [HG05]: exact greedy agglomeration by marginal likelihood.

At every step the pair with the smallest log d over *all* pairs is merged, ties to the smallest indices. d is not
reducible (a merge can bring two clusters closer to a third), so nearest-neighbour chains would change the tree and
are not used.

What makes it fast and small: the score of a pair never changes while both live, so each pair is scored once, by
whichever of the two came later (its owner). An owner keeps only its best few partners; when they have all died and
the owner may still be involved in the next merge, it scores its partners again. That is O(m^2) scores in all and O(m)
memory, instead of the O(m^2) doubles of a stored score matrix.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel, Model, log_phi_h
from dtree.core.progress import report
from dtree.core.tree import Tree, log_add
from dtree.hierarchy.scores import log_own_marginal, log_own_marginals, score_against

_PARTNERS = 12  # how many of its best partners an owner remembers; it decides speed and memory, never the tree
_MERGES_PER_REPORT = 500
_MOST_THREADS = 8  # more bring little: the merge loop, which follows, runs in one thread
_LEAVES_PER_STRIP = 500  # so that a strip takes long enough to be worth a report


class Slots(NamedTuple):
    """The nodes that can still be merged, one in each of the slots 0, 1, ...; m leaves, s statistics.

    Leaves stand before merged nodes: a family may score single rows faster than clusters when they stand together.
    """

    columns: np.ndarray  # (s, m) statistics
    log_own: np.ndarray  # (m,) log marginal of the node as one cluster
    log_phi_t: np.ndarray  # (m,)
    node: np.ndarray  # (m,) number of the node
    slot_of: np.ndarray  # (2m-1,) slot of every node, -1 for a node that is merged or not made yet


class Partners(NamedTuple):
    """The best partners of every slot, best first."""

    node: np.ndarray  # (m, partners)
    score: np.ndarray  # (m, partners) log d with each of them
    held: np.ndarray  # (m,) how many are held
    complete: np.ndarray  # (m,) whether these are all it ever had
    head: np.ndarray  # (m,) the first that may still be alive


def leaf_slots(model: Model, compiled: CompiledModel, atoms: np.ndarray) -> Slots:
    """Every atom (m, s) as a leaf in its own slot."""
    m = atoms.shape[0]
    columns = np.ascontiguousarray(atoms.T)
    log_phi_t = model.log_phi_h(atoms)
    slot_of = np.full(2 * m - 1, -1)
    slot_of[:m] = np.arange(m)
    return Slots(columns, log_own_marginals(compiled, log_phi_t, columns[0]), log_phi_t, np.arange(m), slot_of)


def no_partners(m: int, capacity: int = _PARTNERS) -> Partners:
    """Empty lists of partners for m slots."""
    nodes, scores = np.zeros((m, capacity), dtype=np.int64), np.full((m, capacity), np.inf)
    held, head = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    return Partners(nodes, scores, held, np.zeros(m, dtype=np.bool_), head)


@kernel
def _insert_partner(partners, scores, held, partner, score):
    """Insert into the sorted lists (score, then partner), dropping the worst when full; returns the new length."""
    capacity = partners.shape[0]
    if held == capacity:
        worst = scores[held - 1]
        if score > worst or (score == worst and partner > partners[held - 1]):
            return held
        held -= 1
    at = held
    while at > 0 and (scores[at - 1] > score or (scores[at - 1] == score and partners[at - 1] > partner)):
        scores[at] = scores[at - 1]
        partners[at] = partners[at - 1]
        at -= 1
    scores[at] = score
    partners[at] = partner
    return held + 1


@kernel
def _keep_best(node, stop, skip, score, partners, scores):
    """Fill one owner's lists from score[:stop]; returns how many are held."""
    held = 0
    worst = np.inf
    capacity = partners.shape[0]
    for j in range(stop):
        if score[j] <= worst and j != skip:
            held = _insert_partner(partners, scores, held, node[j], score[j])
            if held == capacity:
                worst = scores[held - 1]
    return held


@kernel
def _score_slot(model, slots, partners, slot, stop, row, score):
    """Score a slot against all others below `stop` and keep its best partners; row (s,) and score (m,) are scratch."""
    columns = slots.columns
    for s in range(row.shape[0]):
        row[s] = columns[s, slot]
    score_against(model, columns, slots.log_own, slots.log_phi_t, row, slots.log_phi_t[slot], 0, stop, score)
    partners.held[slot] = _keep_best(slots.node, stop, slot, score, partners.node[slot], partners.score[slot])
    others = stop - 1 if slot < stop else stop
    partners.complete[slot] = others <= partners.node.shape[1]
    partners.head[slot] = 0


@kernel
def score_leaves(model, slots, partners, first, last, step):
    """Each leaf first, first + step, ... below last scores all leaves before it and remembers its best partners."""
    score = np.empty(slots.columns.shape[1])
    row = np.empty(slots.columns.shape[0])
    for i in range(first, last, step):
        _score_slot(model, slots, partners, i, i, row, score)


@kernel
def _move_slot(slots, partners, source, target):
    for s in range(slots.columns.shape[0]):
        slots.columns[s, target] = slots.columns[s, source]
    slots.log_own[target] = slots.log_own[source]
    slots.log_phi_t[target] = slots.log_phi_t[source]
    slots.node[target] = slots.node[source]
    slots.slot_of[slots.node[target]] = target
    for at in range(partners.node.shape[1]):
        partners.node[target, at] = partners.node[source, at]
        partners.score[target, at] = partners.score[source, at]
    partners.held[target] = partners.held[source]
    partners.complete[target] = partners.complete[source]
    partners.head[target] = partners.head[source]


@kernel
def _leave_slot(slots, partners, slot, leaves, active):
    """Close the gap that a merged node leaves: the last leaf before merged nodes, then the last node, move up."""
    if slot < leaves:
        if slot != leaves - 1:
            _move_slot(slots, partners, leaves - 1, slot)
        slot = leaves - 1
    if slot != active - 1:
        _move_slot(slots, partners, active - 1, slot)


@kernel
def _best_pair(slots, partners, active):
    """The slot whose best living pair comes first, and whether it must score its partners again to know."""
    node, slot_of = slots.node, slots.slot_of
    partner, scores, held, head = partners.node, partners.score, partners.held, partners.head
    best = -1
    best_score = np.inf
    best_low = 0
    best_high = 0
    best_stale = False
    for slot in range(active):
        at = head[slot]
        while at < held[slot] and slot_of[partner[slot, at]] < 0:
            at += 1
        head[slot] = at
        stale = at == held[slot]
        if stale and (partners.complete[slot] or held[slot] == 0):
            continue  # it never owned more pairs than these
        score = scores[slot, held[slot] - 1] if stale else scores[slot, at]
        if score > best_score:
            continue
        low = 0 if stale else min(node[slot], partner[slot, at])
        high = 0 if stale else max(node[slot], partner[slot, at])
        # A stale owner knows only that its pairs are no better than the last one it held: on a tie it goes first.
        if score < best_score or (low, high) < (best_low, best_high):
            best, best_score, best_low, best_high, best_stale = slot, score, low, high, stale
    return best, best_stale


@kernel
def merge_some(model, slots, partners, done, stop, merges, node_log_phi_h):
    """Carry out merges done..stop-1; merges (m-1, 2) and node_log_phi_h (2m-1,) receive them. Returns a status."""
    columns, log_phi_t, node, slot_of = slots.columns, slots.log_phi_t, slots.node, slots.slot_of
    m = slot_of.shape[0] // 2 + 1
    score = np.empty(columns.shape[1])
    row = np.empty(columns.shape[0])
    leaves = 0
    while leaves < m - done and node[leaves] < m:
        leaves += 1
    while done < stop:
        active = m - done
        a, stale = _best_pair(slots, partners, active)
        if a < 0:
            return -1
        if stale:
            _score_slot(model, slots, partners, a, active, row, score)
            continue
        b = slot_of[partners.node[a, partners.head[a]]]
        merged = m + done
        merges[done, 0] = min(node[a], node[b])
        merges[done, 1] = max(node[a], node[b])
        slot_of[node[a]] = -1
        slot_of[node[b]] = -1
        for s in range(columns.shape[0]):
            row[s] = columns[s, a] + columns[s, b]
        joined = log_phi_h(model, row)
        log_apart = log_phi_t[a] + log_phi_t[b]
        for slot in (max(a, b), min(a, b)):
            _leave_slot(slots, partners, slot, leaves, active)
            leaves -= slot < leaves
            active -= 1
        for s in range(columns.shape[0]):
            columns[s, active] = row[s]
        slots.log_own[active] = log_own_marginal(model, joined, row[0])
        log_phi_t[active] = log_add(joined, log_apart)
        node_log_phi_h[merged] = joined
        node[active] = merged
        slot_of[merged] = active
        _score_slot(model, slots, partners, active, active, row, score)
        done += 1
    return 0


def build_tree(
    model: Model,
    atoms: np.ndarray,
    threads: int | None = None,
    score_pairs: Callable[[CompiledModel, Slots, Partners], None] | None = None,
) -> Tree:
    """The greedy tree over atoms (m, s), whatever the number of threads.

    `score_pairs` may fill the leaves' lists of best partners elsewhere.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> build_tree(model, model.atoms([[1], [50], [2], [48]])).merges.tolist()
    [[1, 3], [0, 2], [4, 5]]
    """
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    m = atoms.shape[0]
    compiled = model.compile(atoms.sum(axis=0))
    slots, partners = leaf_slots(model, compiled, atoms), no_partners(m)
    node_log_phi_h = np.empty(2 * m - 1)
    node_log_phi_h[:m] = slots.log_phi_t
    merges = np.empty((m - 1, 2), dtype=np.int64)
    if score_pairs is None:
        _score_all_leaves(compiled, slots, partners, threads)
    else:
        score_pairs(compiled, slots, partners)
    for done in range(0, m - 1, _MERGES_PER_REPORT):
        report("merging", done, m - 1)
        stop = min(done + _MERGES_PER_REPORT, m - 1)
        if merge_some(compiled, slots, partners, done, stop, merges, node_log_phi_h) != 0:
            raise ValueError("a merge score is not a number: look for values too large or too small for this family")
    report("merging", m - 1, m - 1)
    return Tree.from_merges(merges, np.rint(model.counts(atoms)), node_log_phi_h)


def _score_all_leaves(compiled: CompiledModel, slots: Slots, partners: Partners, threads: int | None) -> None:
    """Score all pairs of leaves, rows dealt out in turn so that threads have equal work and answers do not change."""
    m = slots.node.shape[0]
    if threads is None:
        threads = min(os.cpu_count() or 1, _MOST_THREADS)  # the number of cores may be unknown
    strips = max(threads, m // _LEAVES_PER_STRIP)
    with ThreadPoolExecutor(threads) as pool:
        scored = pool.map(lambda first: score_leaves(compiled, slots, partners, first, m, strips), range(strips))
        for done, _ in enumerate(scored, start=1):
            report("scoring pairs", done, strips)
