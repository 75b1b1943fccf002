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
from dtree.hierarchy.neighbours import _GROUP, Nodes, look_around, nobody_near, offer
from dtree.hierarchy.queue import drop_first, empty_queue, push, replace_first
from dtree.hierarchy.scores import log_own_marginal, log_own_marginals, score_against

_PARTNERS = 12  # of 20,000 rows: with 6, 12 and 20 bounds differ by a thousandth, either way
_MERGES_PER_REPORT = 5000
_EXACT = 4000  # nodes that exact BHC merges in a second; where clusters are few, all of the upper tree is exact


class Scratch(NamedTuple):
    """Memory that every look at a node's partners uses anew; p partners, s statistics."""

    waiting: np.ndarray  # (2p + 1,) slots to be scored with a node, the last number how many
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
def _holder(into, slot):
    """The slot whose node now holds what once was in `slot`; shortens the way there."""
    found = slot
    while into[found] != found:
        found = into[found]
    while into[slot] != found:
        into[slot], slot = found, into[slot]
    return found


@kernel
def _renew(model, nodes, near, slot, scratch):
    """Score a node with those that hold its merged partners, and with the first scratch.waiting[-1] slots that wait.

    Each is offered to the other. Afterwards all partners of the node are alive.
    """
    waiting, others = scratch.waiting, scratch.others
    n_waiting, kept = waiting[-1], 0
    waiting[-1] = 0
    for p in range(near.held[slot]):
        other = near.slot[slot, p]
        if nodes.number[other] == near.number[slot, p] and nodes.into[other] == other:
            near.slot[slot, kept] = other
            near.number[slot, kept] = near.number[slot, p]
            near.score[slot, kept] = near.score[slot, p]
            kept += 1
        else:
            waiting[n_waiting] = other
            n_waiting += 1
    near.held[slot] = kept
    n = 0
    for w in range(n_waiting):
        other = _holder(nodes.into, waiting[w])
        known = other == slot
        for seen in range(n):
            known = known or others[seen] == other
        for p in range(kept):
            known = known or near.slot[slot, p] == other
        if not known:
            for s in range(scratch.row.shape[0]):
                scratch.columns[s, n] = nodes.statistics[other, s]
            scratch.log_own[n], scratch.log_phi_t[n] = nodes.log_own[other], nodes.log_phi_t[other]
            others[n] = other
            n += 1
    if n == 0:
        return
    for s in range(scratch.row.shape[0]):
        scratch.row[s] = nodes.statistics[slot, s]
    log_phi_t, score = nodes.log_phi_t[slot], scratch.score
    score_against(model, scratch.columns, scratch.log_own, scratch.log_phi_t, scratch.row, log_phi_t, 0, n, score)
    for seen in range(n):
        offer(near, slot, others[seen], nodes.number[others[seen]], score[seen])
        offer(near, others[seen], slot, nodes.number[slot], score[seen])


@kernel
def _renew_all(model, nodes, near, live, scratch):
    for slot in live:
        _renew(model, nodes, near, slot, scratch)


@kernel
def _best_key(nodes, near, slot):
    """Score and pair (low, high) of the best that a node knows, partners alive."""
    own, other = nodes.number[slot], near.number[slot, 0]
    return near.score[slot, 0], min(own, other), max(own, other)


@kernel
def _queue_all(queue, nodes, near, live):
    for slot in live:
        if near.held[slot] > 0:
            score, low, high = _best_key(nodes, near, slot)
            push(queue, slot, score, low, high)


@kernel
def _merge_near(model, nodes, near, queue, scratch, done, merges, node_log_phi_h):
    """Carry out merges done[0] .. done[1]-1, fewer when no pair is known any more; returns the next one's number."""
    m = nodes.number.shape[0]
    number = done[0]
    while number < done[1] and queue.size[0] > 0:
        a = queue.node[0]
        if nodes.into[a] != a:  # it is merged
            drop_first(queue)
            continue
        _renew(model, nodes, near, a, scratch)
        if near.held[a] == 0:
            drop_first(queue)
            continue
        score, low, high = _best_key(nodes, near, a)
        if score != queue.score[0] or low != queue.low[0] or high != queue.high[0]:
            replace_first(queue, a, score, low, high)
            continue
        drop_first(queue)
        b = np.int64(near.slot[a, 0])
        merges[number, 0], merges[number, 1] = low, high
        for s in range(nodes.statistics.shape[1]):
            nodes.statistics[a, s] += nodes.statistics[b, s]
        joined = log_phi_h(model, nodes.statistics[a])
        nodes.log_phi_t[a] = log_add(joined, nodes.log_phi_t[a] + nodes.log_phi_t[b])
        nodes.log_own[a] = log_own_marginal(model, joined, nodes.statistics[a, 0])
        node_log_phi_h[m + number] = joined
        nodes.number[a] = m + number
        nodes.into[b] = a
        number += 1
        for part in (a, b):
            for p in range(near.held[part]):
                scratch.waiting[scratch.waiting[-1]] = near.slot[part, p]
                scratch.waiting[-1] += 1
            near.held[part] = 0
        _renew(model, nodes, near, a, scratch)
        if near.held[a] > 0:
            score, low, high = _best_key(nodes, near, a)
            push(queue, a, score, low, high)
    return number


def build_approximate_tree(
    model: Model,
    atoms: np.ndarray,
    rng: np.random.Generator,
    *,
    exact: int = _EXACT,
    partners: int = _PARTNERS,
    group: int = _GROUP,
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
    nodes = Nodes(atoms.copy(), own, node_log_phi_h[:m].copy(), np.arange(m), np.arange(m))
    near, scratch = nobody_near(m, partners), _scratch(atoms.shape[1], 2 * partners)
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
        live = live[nodes.into[live] == live]
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
