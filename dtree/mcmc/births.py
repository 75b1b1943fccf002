"""Birth and death of clusters that are whole subtrees of the guide: what makes the number of clusters mix.

The number of clusters changes mostly by single atoms and small groups that leave a large cluster or come back. A
Gibbs sweep asks every atom in turn; here births are proposed where they are likely and deaths among the few clusters
that can die:

- birth: a node g drawn from fixed weights v; B = leaves(g) must lie inside one larger cluster c, which becomes c - B
  and B;
- death: one of the K clusters that are exactly the leaves of some node, drawn uniformly; it joins another cluster c',
  drawn in proportion to phi_h(c' u B)/phi_h(c').

With Z = the sum of those weights over the clusters other than B, the factors of c cancel: a birth is accepted with
min(1, phi_h(B) / (Z K v_g)), Z and K counted after it, and a death with the inverse, both counted before it. If v_g
is near phi_h(B)/Z, as it is when estimated from a good partition, most births are accepted.
"""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import log_phi_h
from dtree.core.tree import log_add
from dtree.mcmc.clusters import BIRTHS_AND_DEATHS, has_room, merge_slots, write_slot
from dtree.mcmc.guide import draw_weighted
from dtree.mcmc.worth import accept, draw_index, log_sum, log_worth, score_block, take_away

LARGEST_ODDS = 0.02  # so that a few nodes about which the reference partition is wrong do not take all proposals
LEAST_ODDS = 1e-4  # every node can be proposed, whatever the reference partition says of it
_REST, _BLOCK = 1, 2  # rows of Work.row in use here


@kernel
def inside_one_cluster(guide, labels, g):
    """The cluster that holds all leaves below a node, or -1."""
    c = labels[guide.order[guide.start[g]]]
    for place in range(guide.start[g] + 1, guide.stop[g]):
        if labels[guide.order[place]] != c:
            return -1
    return c


@kernel
def _gather(work, guide, g, block):
    """Statistics of the leaves below a node."""
    for s in range(block.shape[0]):
        block[s] = 0.0
    for place in range(guide.start[g], guide.stop[g]):
        atom = guide.order[place]
        for s in range(block.shape[0]):
            block[s] += work.atoms[atom, s]


@kernel
def birth_odds(work, guide, out):
    """out (2m-1,): odds that a node is a cluster of its own, by the partition that `work` holds, within two bounds."""
    block, rest = work.row[_BLOCK], work.row[_REST]
    for g in range(out.shape[0]):
        out[g] = LEAST_ODDS
        c = inside_one_cluster(guide, work.labels, g)
        if c >= 0 and guide.stop[g] - guide.start[g] < work.clusters.n_atoms[c]:
            _gather(work, guide, g, block)
            take_away(work, c, block, rest)
            log_odds = log_phi_h(work.model, block) + log_phi_h(work.model, rest) - log_worth(work, c)
            if log_odds > -50.0:
                out[g] += min(math.exp(min(log_odds, 0.0)), LARGEST_ODDS)


@kernel
def _first_place(guide, labels, c, place):
    """Where the first leaf of cluster c stands, at `place` or after it."""
    while labels[guide.order[place]] != c:
        place += 1
    return place


@kernel
def _node_of(guide, labels, c, size, low):
    """The node whose leaves are exactly cluster c of `size` atoms, the first of them at place `low`; -1 for none."""
    stop = low + size
    if stop > labels.shape[0]:
        return -1
    for place in range(stop - 1, low, -1):  # most clusters are no interval, which shows at its far end
        if labels[guide.order[place]] != c:
            return -1
    at = guide.order[low]
    while guide.stop[at] < stop:
        above = guide.parent[at]
        if above < 0 or guide.start[above] != low:
            return -1
        at = above
    return at if guide.stop[at] == stop else -1


@kernel
def node_clusters(guide, labels, n_atoms, k, low, node):
    """low[c] = the first place of cluster c, node[c] = the node whose leaves are exactly c, or -1.

    Returns how many have one: the clusters that can die.
    """
    for c in range(k):
        low[c] = -1
    missing, place = k, 0
    while missing > 0:
        c = labels[guide.order[place]]
        if low[c] < 0:
            low[c] = place
            missing -= 1
        place += 1
    mortal = 0
    for c in range(k):
        node[c] = _node_of(guide, labels, c, n_atoms[c], low[c])
        mortal += 1 if node[c] >= 0 else 0
    return mortal


@kernel
def _log_joining(work, block, skip):
    """scores[c] = log phi_h(c u B) - log phi_h(c) of every cluster, -inf for `skip`; returns the log of their sum."""
    score_block(work, block)
    work.clusters.scores[skip] = -np.inf
    return log_sum(-np.inf, work.clusters.scores, work.clusters.open[0])


@kernel
def _log_weight(weight, g):
    before = weight[g - 1] if g > 0 else 0.0
    return math.log((weight[g] - before) / weight[-1])


@kernel
def _relabel(work, guide, g, c):
    for place in range(guide.start[g], guide.stop[g]):
        work.labels[guide.order[place]] = c


@kernel
def _birth(work, guide, weight, low, node, mortal, rng):
    """One proposal; returns how many clusters can die after it. `low` and `node` stay as `node_clusters` has them."""
    clusters, labels, k = work.clusters, work.labels, work.clusters.open[0]
    g = draw_weighted(weight, rng)
    log_uniform = math.log(rng.random())
    c = inside_one_cluster(guide, labels, g)
    size = guide.stop[g] - guide.start[g]
    if c < 0 or size == clusters.n_atoms[c]:
        return mortal
    block, rest = work.row[_BLOCK], work.row[_REST]
    _gather(work, guide, g, block)
    take_away(work, c, block, rest)
    log_z = log_add(_log_joining(work, block, c), log_worth(work, c) - log_phi_h(work.model, rest))
    ratio = log_phi_h(work.model, block) - log_z - _log_weight(weight, g)
    if log_uniform >= ratio and not work.acceptance.wanted[0]:  # what is still unknown can only lower it
        return mortal
    _relabel(work, guide, g, k)
    first = low[c] if low[c] < guide.start[g] else _first_place(guide, labels, c, guide.stop[g])
    node_of_rest = _node_of(guide, labels, c, clusters.n_atoms[c] - size, first)
    after = mortal + 1 + (1 if node_of_rest >= 0 else 0) - (1 if node[c] >= 0 else 0)
    if not accept(work.acceptance, BIRTHS_AND_DEATHS, ratio - math.log(after), log_uniform):
        _relabel(work, guide, g, c)
        return mortal
    low[c], node[c] = first, node_of_rest
    low[k], node[k] = guide.start[g], g
    clusters.n_atoms[c] -= size
    clusters.n_atoms[k] = size
    clusters.open[0] = k + 1
    write_slot(work, k, block)
    write_slot(work, c, rest)
    return after


@kernel
def _death(work, guide, weight, low, node, mortal, rng):
    """The same for a death."""
    clusters, k = work.clusters, work.clusters.open[0]
    log_uniform = math.log(rng.random())
    if mortal == 0 or k == 1:
        return mortal
    c = np.flatnonzero(node[:k] >= 0)[rng.integers(0, mortal)]
    g, block = node[c], work.row[_BLOCK]
    _gather(work, guide, g, block)
    log_z = _log_joining(work, block, c)
    ratio = log_z + math.log(mortal) + _log_weight(weight, g) - log_phi_h(work.model, block)
    if not accept(work.acceptance, BIRTHS_AND_DEATHS, ratio, log_uniform):
        return mortal
    target = draw_index(clusters.scores, k, rng)
    for s in range(block.shape[0]):
        block[s] += clusters.columns[s, target]
    after = mortal - 1 - (1 if node[target] >= 0 else 0)
    first = min(low[c], low[target])
    merge_slots(work, target, c, block)  # the last cluster moves into slot c
    low[c], node[c] = low[k - 1], node[k - 1]
    joined = c if target == k - 1 else target
    low[joined] = first
    node[joined] = _node_of(guide, work.labels, joined, clusters.n_atoms[joined], first)
    return after + (1 if node[joined] >= 0 else 0)


@kernel
def births_and_deaths(work, guide, weight, count, begin, rng):
    """Births and deaths by a coin, nodes by cumulative weights (2m-1,); returns how many moves are done.

    Fewer than `count` when out of room.
    """
    room = work.clusters.n_atoms.shape[0]
    low, node = np.empty(room, np.int64), np.empty(room, np.int64)
    mortal = node_clusters(guide, work.labels, work.clusters.n_atoms, work.clusters.open[0], low, node)
    for done in range(begin, count):
        if not has_room(work):
            return done
        if rng.random() < 0.5:
            mortal = _birth(work, guide, weight, low, node, mortal, rng)
        else:
            mortal = _death(work, guide, weight, low, node, mortal, rng)
    return count
