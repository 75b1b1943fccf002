"""Bayesian hierarchical clustering [HG05]: exact greedy agglomeration by marginal likelihood.

At every step the pair with the smallest log d over *all* pairs is merged, ties to the smallest indices. d is not reducible
(a merge can bring two clusters closer to a third), so nearest-neighbour chains would change the tree and are not used.

What makes it fast and small: the score of a pair never changes while both live, so each pair is scored once, by whichever
of the two came later (its owner). An owner keeps only its best few partners; when they have all died and the owner may
still be involved in the next merge, it scores its partners again. That is O(m^2) scores in all and O(m) memory, instead of
the O(m^2) doubles of a stored score matrix.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import Model, log_phi_h
from dtree.core.progress import report
from dtree.core.tree import Tree, log_add
from dtree.hierarchy.scores import log_own_marginal, log_own_marginals, score_against

_PARTNERS = 12  # how many of its best partners an owner remembers
_MERGES_PER_REPORT = 500


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
def _keep_best(node, start, stop, skip, score, partners, scores):
    """Fill one owner's lists from score[start:stop]; returns how many are held."""
    held = 0
    worst = np.inf
    capacity = partners.shape[0]
    for j in range(start, stop):
        if score[j] <= worst and j != skip:
            held = _insert_partner(partners, scores, held, node[j], score[j])
            if held == capacity:
                worst = scores[held - 1]
    return held


@kernel
def score_leaves(model, columns, log_phi_t, node, first, last, step, partners, scores, held, complete):
    """Each leaf first, first + step, ... below last scores all leaves before it and remembers its best partners."""
    score = np.empty(columns.shape[1])
    row = np.empty(columns.shape[0])
    log_own = log_own_marginals(model, log_phi_t, columns[0])
    for i in range(first, last, step):
        row[:] = columns[:, i]
        score_against(model, columns, log_own, log_phi_t, row, log_phi_t[i], 0, i, score)
        held[i] = _keep_best(node, 0, i, -1, score, partners[i], scores[i])
        complete[i] = i <= partners.shape[1]


@kernel
def _move_slot(source, target, columns, log_own, log_phi_t, node, partners, scores, held, complete, head, slot_of):
    columns[:, target] = columns[:, source]
    log_own[target] = log_own[source]
    log_phi_t[target] = log_phi_t[source]
    node[target] = node[source]
    partners[target] = partners[source]
    scores[target] = scores[source]
    held[target] = held[source]
    complete[target] = complete[source]
    head[target] = head[source]
    slot_of[node[target]] = target


@kernel
def _best_pair(active, node, partners, scores, held, complete, head, slot_of):
    """The slot whose best living pair comes first, and whether it must score its partners again to know."""
    best = -1
    best_score = np.inf
    best_low = 0
    best_high = 0
    best_stale = False
    for slot in range(active):
        at = head[slot]
        while at < held[slot] and slot_of[partners[slot, at]] < 0:
            at += 1
        head[slot] = at
        stale = at == held[slot]
        if stale and (complete[slot] or held[slot] == 0):
            continue  # it never owned more pairs than these
        score = scores[slot, held[slot] - 1] if stale else scores[slot, at]
        if score > best_score:
            continue
        low = 0 if stale else min(node[slot], partners[slot, at])
        high = 0 if stale else max(node[slot], partners[slot, at])
        # A stale owner knows only that its pairs are no better than the last one it held: on a tie it goes first.
        if score < best_score or (low, high) < (best_low, best_high):
            best, best_score, best_low, best_high, best_stale = slot, score, low, high, stale
    return best, best_stale


@kernel
def merge_some(
    model,
    columns,
    log_own,
    log_phi_t,
    node,
    partners,
    scores,
    held,
    complete,
    head,
    slot_of,
    done,
    stop,
    merges,
    node_log_phi,
):
    """Carry out merges done..stop-1; node_log_phi (2m-1, 2) receives log phi_h and log phi_t. Returns a status."""
    m = slot_of.shape[0] // 2 + 1
    score = np.empty(columns.shape[1])
    row = np.empty(columns.shape[0])
    while done < stop:
        active = m - done
        a, stale = _best_pair(active, node, partners, scores, held, complete, head, slot_of)
        if a < 0:
            return -1
        if stale:
            row[:] = columns[:, a]
            score_against(model, columns, log_own, log_phi_t, row, log_phi_t[a], 0, active, score)
            held[a] = _keep_best(node, 0, active, a, score, partners[a], scores[a])
            complete[a] = active - 1 <= partners.shape[1]
            head[a] = 0
            continue
        b = slot_of[partners[a, head[a]]]
        merged = m + done
        merges[done, 0] = min(node[a], node[b])
        merges[done, 1] = max(node[a], node[b])
        slot_of[node[a]] = -1
        slot_of[node[b]] = -1
        for s in range(columns.shape[0]):
            columns[s, a] += columns[s, b]
            row[s] = columns[s, a]
        joined = log_phi_h(model, row)
        log_own[a] = log_own_marginal(model, joined, row[0])
        log_phi_t[a] = log_add(joined, log_phi_t[a] + log_phi_t[b])
        node_log_phi[merged, 0] = joined
        node_log_phi[merged, 1] = log_phi_t[a]
        node[a] = merged
        slot_of[merged] = a
        if b != active - 1:
            _move_slot(
                active - 1, b, columns, log_own, log_phi_t, node, partners, scores, held, complete, head, slot_of
            )
        active -= 1
        a = slot_of[merged]
        score_against(model, columns, log_own, log_phi_t, row, log_phi_t[a], 0, active, score)
        held[a] = _keep_best(node, 0, active, a, score, partners[a], scores[a])
        complete[a] = active - 1 <= partners.shape[1]
        head[a] = 0
        done += 1
    return 0


def build_tree(
    model: Model, atoms: np.ndarray, threads: int | None = None, score_pairs: Callable[..., None] | None = None
) -> Tree:
    """The greedy tree over atoms (m, s), whatever the number of threads.

    `score_pairs` may fill the leaves' lists of best partners elsewhere; it takes what `_score_all_leaves` takes.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> build_tree(model, model.atoms([[1], [50], [2], [48]])).merges.tolist()
    [[1, 3], [0, 2], [4, 5]]
    """
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    m = atoms.shape[0]
    compiled = model.compile(atoms.sum(axis=0))
    node_log_phi = np.empty((2 * m - 1, 2))
    node_log_phi[:m] = model.log_phi_h(atoms)[:, None]
    columns = np.ascontiguousarray(atoms.T)
    log_phi_t = node_log_phi[:m, 1].copy()
    log_own = log_own_marginals(compiled, log_phi_t, columns[0])
    node = np.arange(m)
    slot_of = np.full(2 * m - 1, -1)
    slot_of[:m] = np.arange(m)
    partners = np.zeros((m, _PARTNERS), dtype=np.int64)
    scores = np.full((m, _PARTNERS), np.inf)
    held, head = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.int64)
    complete = np.zeros(m, dtype=np.bool_)
    merges = np.empty((m - 1, 2), dtype=np.int64)

    score_pairs = score_pairs or _score_all_leaves
    score_pairs(compiled, columns, log_phi_t, node, partners, scores, held, complete, threads)
    for done in range(0, m - 1, _MERGES_PER_REPORT):
        report("merging", done, m - 1)
        stop = min(done + _MERGES_PER_REPORT, m - 1)
        status = merge_some(
            compiled, columns, log_own, log_phi_t, node, partners, scores, held, complete, head, slot_of,
            done, stop, merges, node_log_phi,
        )  # fmt: skip
        if status != 0:
            raise ValueError("a merge score is not a number: look for values too large or too small for this family")
    report("merging", m - 1, m - 1)
    return Tree.from_merges(merges, np.rint(model.counts(atoms)), node_log_phi[:, 0])


def _score_all_leaves(compiled, columns, log_phi_t, node, partners, scores, held, complete, threads):  # type: ignore
    """Score all pairs of leaves, rows dealt out in turn so that threads have equal work and answers do not change."""
    m = columns.shape[1]
    threads = threads or min(os.cpu_count() or 1, 8)
    strips = max(threads, m // 500)
    arguments = (partners, scores, held, complete)
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        strip = lambda first: score_leaves(compiled, columns, log_phi_t, node, first, m, strips, *arguments)  # noqa: E731
        for _ in pool.map(strip, range(strips)):
            done += 1
            report("scoring pairs", done, strips)
