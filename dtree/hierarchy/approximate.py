"""An approximate tree for millions of atoms: greedy merges, but of near pairs only.

Every node knows its best few partners (`neighbours`). The best known pair of all merges; the new node takes over the
partners of its two parts, scored anew, and is offered to each of them. A node whose partners have merged finds those
that hold them when its turn comes. When half of the nodes are merged a new forest looks around again, and the last few
thousand nodes are merged over all pairs.

What is approximate is which pairs are known: with all of them known the tree is that of exact BHC, ties included.
Scores, potentials and the bound of the tree are exact.
"""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import Model, log_phi_h
from dtree.core.progress import report
from dtree.core.tree import Tree, log_add
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.neighbours import GROUP, Nodes, look_around, offer
from dtree.hierarchy.partners import PARTNERS, no_partners
from dtree.hierarchy.queue import drop_first, empty_queue, push, replace_first
from dtree.hierarchy.scores import log_own_marginal, log_own_marginals, score_against

_MERGES_PER_REPORT = 5000
_EXACT = 4000  # nodes that exact BHC merges in a second; where clusters are few, all of the upper tree is exact


class Scratch(NamedTuple):
    """Memory that every look at a node's partners uses anew; p partners, s statistics."""

    waiting: np.ndarray  # (2p + 1,) nodes to be scored with one, the last number how many
    others: np.ndarray  # (2p,)
    columns: np.ndarray  # (s, 2p)
    log_own: np.ndarray  # (2p,)
    log_phi_t: np.ndarray  # (2p,)
    score: np.ndarray  # (2p,)
    row: np.ndarray  # (s,)


def _scratch(s: int, most: int) -> Scratch:
    waiting, others = np.zeros(most + 1, dtype=np.int64), np.empty(most, dtype=np.int64)
    return Scratch(waiting, others, np.empty((s, most)), np.empty(most), np.empty(most), np.empty(most), np.empty(s))


@kernel
def _holder(into, node):
    """The node that now holds `node`; shortens the way there."""
    found = node
    while into[found] != found:
        found = into[found]
    while into[node] != found:
        into[node], node = found, into[node]
    return found


@kernel
def _renew(model, nodes, near, slot, scratch):
    """Score a node with those that hold its merged partners, and with the first scratch.waiting[-1] nodes that wait.

    Each is offered to the other. Afterwards all partners of the node are alive.
    """
    waiting, others, partners = scratch.waiting, scratch.others, near.node[slot]
    n_waiting, kept = waiting[-1], 0
    waiting[-1] = 0
    for at in range(near.held[slot]):
        if nodes.slot_of[partners[at]] >= 0:
            partners[kept], near.score[slot, kept] = partners[at], near.score[slot, at]
            kept += 1
        else:
            waiting[n_waiting] = partners[at]
            n_waiting += 1
    near.held[slot] = kept
    n = 0
    for w in range(n_waiting):
        other = _holder(nodes.into, waiting[w])
        known = other == nodes.number[slot]
        for seen in range(n):
            known = known or others[seen] == other
        for at in range(kept):
            known = known or partners[at] == other
        if not known:
            there = nodes.slot_of[other]
            for s in range(scratch.row.shape[0]):
                scratch.columns[s, n] = nodes.statistics[there, s]
            scratch.log_own[n], scratch.log_phi_t[n] = nodes.log_own[there], nodes.log_phi_t[there]
            others[n] = other
            n += 1
    if n == 0:
        return
    for s in range(scratch.row.shape[0]):
        scratch.row[s] = nodes.statistics[slot, s]
    log_phi_t, score = nodes.log_phi_t[slot], scratch.score
    score_against(model, scratch.columns, scratch.log_own, scratch.log_phi_t, scratch.row, log_phi_t, 0, n, score)
    for seen in range(n):
        offer(near, slot, others[seen], score[seen])
        offer(near, nodes.slot_of[others[seen]], nodes.number[slot], score[seen])


@kernel
def _renew_all(model, nodes, near, live, scratch):
    for slot in live:
        _renew(model, nodes, near, slot, scratch)


@kernel
def _best_key(nodes, near, slot):
    """Score and pair (low, high) of the best that a node knows, partners alive."""
    own, other = nodes.number[slot], near.node[slot, 0]
    return near.score[slot, 0], min(own, other), max(own, other)


@kernel
def _queue_all(queue, nodes, near, live):
    for slot in live:
        if near.held[slot] > 0:
            score, low, high = _best_key(nodes, near, slot)
            push(queue, nodes.number[slot], score, low, high)


@kernel
def _merge_near(model, nodes, near, queue, scratch, done, merges, node_log_phi_h):
    """Carry out merges done[0] .. done[1]-1, fewer when no pair is known any more; returns the next one's number."""
    m = nodes.number.shape[0]
    number = done[0]
    while number < done[1] and queue.size[0] > 0:
        a = nodes.slot_of[queue.node[0]]
        if a < 0:  # it is merged
            drop_first(queue)
            continue
        _renew(model, nodes, near, a, scratch)
        if near.held[a] == 0:
            drop_first(queue)
            continue
        score, low, high = _best_key(nodes, near, a)
        if score != queue.score[0] or low != queue.low[0] or high != queue.high[0]:
            replace_first(queue, nodes.number[a], score, low, high)
            continue
        drop_first(queue)
        b, merged = nodes.slot_of[near.node[a, 0]], m + number
        merges[number, 0], merges[number, 1] = low, high
        for s in range(nodes.statistics.shape[1]):
            nodes.statistics[a, s] += nodes.statistics[b, s]
        joined = log_phi_h(model, nodes.statistics[a])
        nodes.log_phi_t[a] = log_add(joined, nodes.log_phi_t[a] + nodes.log_phi_t[b])
        nodes.log_own[a] = log_own_marginal(model, joined, nodes.statistics[a, 0])
        node_log_phi_h[merged] = joined
        for part in (a, b):
            nodes.slot_of[nodes.number[part]], nodes.into[nodes.number[part]] = -1, merged
            for at in range(near.held[part]):
                scratch.waiting[scratch.waiting[-1]] = near.node[part, at]
                scratch.waiting[-1] += 1
            near.held[part] = 0
        nodes.number[a], nodes.number[b], nodes.slot_of[merged] = merged, -1, a
        number += 1
        _renew(model, nodes, near, a, scratch)
        if near.held[a] > 0:
            score, low, high = _best_key(nodes, near, a)
            push(queue, merged, score, low, high)
    return number


def build_approximate_tree(
    model: Model,
    atoms: np.ndarray,
    rng: np.random.Generator,
    *,
    exact: int = _EXACT,
    partners: int = PARTNERS,
    group: int = GROUP,
    threads: int | None = None,
) -> Tree:
    """A tree over atoms (m, s) in O(m log m) scores; at most `exact` nodes are left to greedy merges over all pairs.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> rows = np.array([[1], [50], [2], [48], [0], [52]])
    >>> tree = build_approximate_tree(model, model.atoms(rows), np.random.default_rng(0), exact=2)
    >>> tree.cut(n_clusters=2).tolist()
    [0, 1, 0, 1, 0, 1]
    """
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    m = atoms.shape[0]
    if m <= max(exact, 2):
        return build_tree(model, atoms, threads)
    compiled = model.compile(atoms.sum(axis=0))
    node_log_phi_h, merges = np.empty(2 * m - 1), np.empty((m - 1, 2), dtype=np.int64)
    node_log_phi_h[:m] = model.log_phi_h(atoms)
    own = log_own_marginals(compiled, node_log_phi_h[:m], np.ascontiguousarray(atoms[:, 0]))
    slot_of = np.concatenate([np.arange(m), np.full(m - 1, -1)])
    nodes = Nodes(atoms.copy(), own, node_log_phi_h[:m].copy(), np.arange(m), slot_of, np.arange(2 * m - 1))
    near, scratch = no_partners(m, partners), _scratch(atoms.shape[1], 2 * partners)
    live, done = np.arange(m), 0
    while live.shape[0] > max(exact, 2):
        n = live.shape[0]
        _renew_all(compiled, nodes, near, live, scratch)
        look_around(compiled, nodes, near, live, rng, group, threads)
        queue = empty_queue(2 * n)
        _queue_all(queue, nodes, near, live)
        stop = done + min(n - exact, (n + 1) // 2)
        first = done
        while done < stop and queue.size[0] > 0:
            report("merging near pairs", done, m - 1)
            some = done, min(done + _MERGES_PER_REPORT, stop)
            done = _merge_near(compiled, nodes, near, queue, scratch, some, merges, node_log_phi_h)
        if done == first:
            raise ValueError("a merge score is not a number: look for values too large or too small for this family")
        live = live[nodes.number[live] >= 0]
    if live.shape[0] > 1:
        _finish(model, nodes, live, done, merges, node_log_phi_h, threads)
    return Tree.from_merges(merges, np.rint(model.counts(atoms)), node_log_phi_h)


def _finish(
    model: Model,
    nodes: Nodes,
    live: np.ndarray,
    done: int,
    merges: np.ndarray,
    node_log_phi_h: np.ndarray,
    threads: int | None,
) -> None:
    """Merge the nodes in the slots `live` (n,) by exact greedy BHC, and number what comes out after what is done."""
    m, n = nodes.number.shape[0], live.shape[0]
    top = build_tree(model, nodes.statistics[live], threads, log_phi_t=nodes.log_phi_t[live])
    number = np.concatenate([nodes.number[live], m + done + np.arange(n - 1)])
    merges[done:] = np.sort(number[top.merges], axis=1)
    node_log_phi_h[m + done :] = top.log_phi_h[n:]
