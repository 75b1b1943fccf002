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
def node_clusters(guide, labels, n_atoms, k, low, node):
    """node[c] = the node whose leaves are exactly cluster c, or -1; returns how many have one. low is scratch."""
    for c in range(k):
        low[c] = -1
        node[c] = 0  # for now the last place of the cluster
    for place in range(labels.shape[0]):
        c = labels[guide.order[place]]
        if low[c] < 0:
            low[c] = place
        node[c] = place
    count = 0
    for c in range(k):
        stop = node[c] + 1
        node[c] = -1
        if stop - low[c] != n_atoms[c]:
            continue
        at = guide.order[low[c]]
        while guide.stop[at] < stop:
            above = guide.parent[at]
            if above < 0 or guide.start[above] != low[c]:
                break
            at = above
        if guide.stop[at] == stop:
            node[c] = at
            count += 1
    return count


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
def _birth(work, guide, weight, low, node, rng):
    clusters, k = work.clusters, work.clusters.open[0]
    g = draw_weighted(weight, rng)
    log_uniform = math.log(rng.random())
    c = inside_one_cluster(guide, work.labels, g)
    size = guide.stop[g] - guide.start[g]
    if c < 0 or size == clusters.n_atoms[c]:
        return False
    block, rest = work.row[_BLOCK], work.row[_REST]
    _gather(work, guide, g, block)
    take_away(work, c, block, rest)
    log_z = log_add(_log_joining(work, block, c), log_worth(work, c) - log_phi_h(work.model, rest))
    ratio = log_phi_h(work.model, block) - log_z - _log_weight(weight, g)
    if log_uniform >= ratio and not work.acceptance.wanted[0]:  # what is still unknown can only lower it
        return False
    _relabel(work, guide, g, k)
    clusters.n_atoms[c] -= size
    clusters.n_atoms[k] = size
    ratio -= math.log(node_clusters(guide, work.labels, clusters.n_atoms, k + 1, low, node))
    if not accept(work.acceptance, BIRTHS_AND_DEATHS, ratio, log_uniform):
        _relabel(work, guide, g, c)
        clusters.n_atoms[c] += size
        return False
    clusters.open[0] = k + 1
    write_slot(work, k, block)
    write_slot(work, c, rest)
    return True


@kernel
def _death(work, guide, weight, mortal, node, rng):
    """`mortal` of the clusters are nodes, as `node` says."""
    clusters, k = work.clusters, work.clusters.open[0]
    log_uniform = math.log(rng.random())
    if mortal == 0 or k == 1:
        return False
    c = np.flatnonzero(node[:k] >= 0)[rng.integers(0, mortal)]
    g, block = node[c], work.row[_BLOCK]
    _gather(work, guide, g, block)
    log_z = _log_joining(work, block, c)
    ratio = log_z + math.log(mortal) + _log_weight(weight, g) - log_phi_h(work.model, block)
    if not accept(work.acceptance, BIRTHS_AND_DEATHS, ratio, log_uniform):
        return False
    target = draw_index(clusters.scores, k, rng)
    for s in range(block.shape[0]):
        block[s] += clusters.columns[s, target]
    merge_slots(work, target, c, block)
    return True


@kernel
def births_and_deaths(work, guide, weight, count, begin, rng):
    """Births and deaths by a coin, nodes by cumulative weights (2m-1,); returns how many moves are done.

    Fewer than `count` when out of room.
    """
    clusters = work.clusters
    room = clusters.n_atoms.shape[0]
    low, node, scratch = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    mortal = node_clusters(guide, work.labels, clusters.n_atoms, clusters.open[0], low, node)
    for done in range(begin, count):
        if not has_room(work):
            return done
        if rng.random() < 0.5:
            changed = _birth(work, guide, weight, low, scratch, rng)
        else:
            changed = _death(work, guide, weight, mortal, node, rng)
        if changed:
            mortal = node_clusters(guide, work.labels, clusters.n_atoms, clusters.open[0], low, node)
    return count
