"""Compiled global and local moves of [LC15] section 3, as printed (see `tgmcmc_paper` for why they are biased)."""

from __future__ import annotations

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import log_add
from dtree.core.verbs import log_kappa, log_marginal_joined
from dtree.hierarchy.incremental import (
    LEAVES,
    NONE,
    ROOTS,
    close_tree,
    copy_row,
    give_back,
    log_d_to,
    log_d_to_roots,
    log_marginal_of_node,
    open_tree,
    put_on_top,
    refresh,
    sequential_position,
    take_node,
    write_root,
)
from dtree.mcmc.clusters import SPLITS_AND_MERGES, draw_index, note_proposal


@kernel
def _nodes_below(pool, root):
    """All nodes of a tree, parents before children."""
    nodes = np.empty(2 * pool.leaves[root] - 1, dtype=np.int64)
    nodes[0] = root
    size = 1
    read = 0
    while read < size:
        node = nodes[read]
        read += 1
        if pool.left[node] != NONE:
            nodes[size] = pool.left[node]
            nodes[size + 1] = pool.right[node]
            size += 2
    return nodes


@kernel
def _sample_weights(pool, nodes, with_leaves):
    """d + max d of each node in units of max d, which may lie beyond the range of doubles (0 for a leaf that may not be drawn)."""
    log_d = np.full(nodes.shape[0], -np.inf)
    largest = -np.inf
    for k in range(nodes.shape[0]):
        node = nodes[k]
        if pool.left[node] != NONE:
            log_d[k] = pool.log_phi_t[pool.left[node]] + pool.log_phi_t[pool.right[node]] - pool.log_phi_h[node]
            largest = max(largest, log_d[k])
    weights = np.zeros(nodes.shape[0])
    for k in range(nodes.shape[0]):
        if pool.left[nodes[k]] != NONE or with_leaves:
            weights[k] = math.exp(log_d[k] - largest) + 1.0
    return weights


@kernel
def _draw_weight(weights, rng):
    target = rng.random() * weights.sum()
    total = 0.0
    last = 0
    for k in range(weights.shape[0]):
        if weights[k] > 0.0:
            last = k
            total += weights[k]
            if target < total:
                return k
    return last


@kernel
def _copy_tree(pool, root):
    """A second copy of a tree in fresh nodes; returns its root."""
    nodes = _nodes_below(pool, root)
    twin = np.empty(nodes.shape[0], dtype=np.int64)
    for k in range(nodes.shape[0]):
        twin[k] = take_node(pool)
        old, new = nodes[k], twin[k]
        pool.atom[new] = pool.atom[old]
        copy_row(pool.statistics, old, pool.statistics, new)
        pool.log_phi_h[new] = pool.log_phi_h[old]
        pool.log_phi_t[new] = pool.log_phi_t[old]
        pool.leaves[new] = pool.leaves[old]
    child = 1
    for k in range(nodes.shape[0]):  # children were listed in the order in which their parents are met
        if pool.left[nodes[k]] != NONE:
            pool.left[twin[k]] = twin[child]
            pool.right[twin[k]] = twin[child + 1]
            pool.parent[twin[child]] = twin[k]
            pool.parent[twin[child + 1]] = twin[k]
            child += 2
    return twin[0]


@kernel
def _free_tree(pool, root):
    nodes = _nodes_below(pool, root)
    for k in range(nodes.shape[0]):
        give_back(pool, nodes[k])


@kernel
def _refresh_up(model, pool, node):
    """Refresh a node and all above it; returns the root."""
    while True:
        refresh(model, pool, node)
        if pool.parent[node] == NONE:
            return node
        node = pool.parent[node]


@kernel
def _seq_insert(model, pool, root, node):
    """SeqInsert of a subtree into a tree that is in no slot, without cutting; returns the new root."""
    at = sequential_position(model, pool, node, root)
    joint = take_node(pool)
    above = pool.parent[at]
    pool.left[joint] = at
    pool.right[joint] = node
    pool.parent[joint] = above
    pool.parent[at] = joint
    pool.parent[node] = joint
    if above != NONE:
        if pool.left[above] == at:
            pool.left[above] = joint
        else:
            pool.right[above] = joint
    return _refresh_up(model, pool, joint)


@kernel
def _log_sigmoid(x):
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


@kernel
def _log_apart(model, pool, node, skip, skip_count):
    """Sum over roots outside `skip` of log d/(1+d) with a node."""
    log_d_to_roots(model, pool, node)
    total = 0.0
    for slot in range(pool.meta[ROOTS]):
        skipped = False
        for k in range(skip_count):
            if pool.root[slot] == skip[k]:
                skipped = True
        if not skipped:
            total += _log_sigmoid(pool.scores[slot])
    return total


@kernel
def _split(model, pool, root, log_forward, acceptance, rng):
    """Propose a split of one tree and accept or reject it."""
    if pool.left[root] == NONE:
        return False
    roots = pool.meta[ROOTS]
    copy = _copy_tree(pool, root)
    nodes = _nodes_below(pool, copy)
    weights = _sample_weights(pool, nodes, False)
    drawn = _draw_weight(weights, rng)
    log_forward += math.log(weights[drawn] / weights.sum())
    star = nodes[drawn]
    sides = np.empty(pool.leaves[copy], dtype=np.int64)
    sides[0], sides[1] = pool.left[star], pool.right[star]
    size = 2
    waiting = np.empty(nodes.shape[0], dtype=np.int64)
    pieces = 0
    node = star
    while node != NONE:  # dissolve the path to the root
        above = pool.parent[node]
        if above != NONE:
            waiting[pieces] = pool.right[above] if pool.left[above] == node else pool.left[above]
            pool.parent[waiting[pieces]] = NONE
            pieces += 1
        give_back(pool, node)
        node = above
    pool.parent[sides[0]] = NONE
    pool.parent[sides[1]] = NONE
    for p in range(pieces):  # StocInsert
        scores = np.empty(size + 1)
        for k in range(size):
            scores[k] = -log_d_to(model, pool, sides[k], waiting[p])
        scores[size] = 0.0
        raw = scores.copy()
        choice = draw_index(scores, size + 1, rng)
        log_total = -np.inf
        for k in range(size + 1):
            log_total = log_add(log_total, raw[k])
        log_forward += raw[choice] - log_total
        if choice == size:
            sides[size] = waiting[p]
            size += 1
        else:
            sides[choice] = _seq_insert(model, pool, sides[choice], waiting[p])
    # Eq. 11: any of the new clusters may be picked first, all others of S then join it, nobody else does.
    gain = -pool.log_phi_h[root]
    skip = np.empty(1, dtype=np.int64)
    skip[0] = root
    log_backward = -np.inf
    for k in range(size):
        gain += pool.log_phi_h[sides[k]]
        term = _log_apart(model, pool, sides[k], skip, 1)
        for other in range(size):
            if other != k:
                term += _log_sigmoid(-log_d_to(model, pool, sides[k], sides[other]))
        log_backward = log_add(log_backward, term)
    log_backward -= math.log(roots + size - 1)
    ratio = gain + log_backward - log_forward
    accepted = math.log(rng.random()) < ratio
    note_proposal(acceptance, SPLITS_AND_MERGES, ratio, accepted)
    if accepted:
        close_tree(pool, root)
        _free_tree(pool, root)
        for k in range(size):
            open_tree(pool, sides[k])
        return True
    for k in range(size):
        _free_tree(pool, sides[k])
    return False


@kernel
def _merge(model, pool, root, others, count, log_forward, acceptance, rng):
    """Propose to join a tree with the trees in `others`, as a cascade, and accept or reject it."""
    roots = pool.meta[ROOTS]
    gain = -pool.log_phi_h[root]
    log_backward = 0.0
    skip = np.empty(count + 1, dtype=np.int64)
    skip[count] = root
    for k in range(count):
        gain -= pool.log_phi_h[others[k]]
        skip[k] = others[k]
        if k > 0:  # Eq. 12: it opens a cluster of its own
            log_total = log_add(0.0, -log_d_to(model, pool, root, others[k]))
            for before in range(k):
                log_total = log_add(log_total, -log_d_to(model, pool, others[before], others[k]))
            log_backward -= log_total
    top = root
    first_joint = NONE
    for k in range(count):
        joint = take_node(pool)
        pool.left[joint] = top
        pool.right[joint] = others[k]
        pool.parent[top] = joint
        pool.parent[others[k]] = joint
        refresh(model, pool, joint)
        first_joint = joint if k == 0 else first_joint
        top = joint
    gain += pool.log_phi_h[top]
    nodes = _nodes_below(pool, top)
    weights = _sample_weights(pool, nodes, False)
    for k in range(nodes.shape[0]):
        if nodes[k] == first_joint:
            log_backward += math.log(weights[k] / weights.sum())
    log_backward += _log_apart(model, pool, top, skip, count + 1) - math.log(roots - count)
    ratio = gain + log_backward - log_forward
    accepted = math.log(rng.random()) < ratio
    note_proposal(acceptance, SPLITS_AND_MERGES, ratio, accepted)
    if accepted:
        close_tree(pool, root)
        for k in range(count):
            close_tree(pool, others[k])
        open_tree(pool, top)
        return True
    while top != root:
        below = pool.left[top]
        pool.parent[pool.right[top]] = NONE
        pool.parent[below] = NONE
        give_back(pool, top)
        top = below
    return False


@kernel
def global_moves(model, pool, count, acceptance, rng):
    """Split or merge proposals."""
    for _ in range(count):
        roots = pool.meta[ROOTS]
        root = pool.root[rng.integers(0, roots)]
        log_d_to_roots(model, pool, root)
        log_forward = -math.log(roots)
        others = np.empty(roots, dtype=np.int64)
        size = 0
        for slot in range(roots):
            if pool.root[slot] == root:
                continue
            log_in = _log_sigmoid(-pool.scores[slot])
            if math.log(rng.random()) < log_in:
                others[size] = pool.root[slot]
                size += 1
                log_forward += log_in
            else:
                log_forward += _log_sigmoid(pool.scores[slot])
        if size == 0:
            _split(model, pool, root, log_forward, acceptance, rng)
        else:
            _merge(model, pool, root, others, size, log_forward, acceptance, rng)


@kernel
def _detach(model, pool, leaf):
    """Take a leaf out of its tree; its sibling takes the place of its parent."""
    above = pool.parent[leaf]
    if above == NONE:
        close_tree(pool, leaf)
        return
    sibling = pool.right[above] if pool.left[above] == leaf else pool.left[above]
    top = pool.parent[above]
    pool.parent[leaf] = NONE
    pool.parent[sibling] = top
    if top == NONE:
        slot = pool.slot[above]
        pool.slot[above] = NONE
        write_root(pool, slot, sibling)
    else:
        if pool.left[top] == above:
            pool.left[top] = sibling
        else:
            pool.right[top] = sibling
        root = _refresh_up(model, pool, top)
        write_root(pool, pool.slot[root], root)
    give_back(pool, above)


@kernel
def local_moves(model, pool, depth, rng):
    """Gibbs moves of the leaves of a subtree of every tree, drawn by `depth` rounds of SampleSub."""
    leaves = np.empty(pool.meta[LEAVES], dtype=np.int64)
    size = 0
    for slot in range(pool.meta[ROOTS]):
        node = pool.root[slot]
        for _ in range(depth):
            if pool.left[node] != NONE:
                nodes = _nodes_below(pool, node)
                node = nodes[_draw_weight(_sample_weights(pool, nodes, True), rng)]
        nodes = _nodes_below(pool, node)
        for k in range(nodes.shape[0]):
            if pool.left[nodes[k]] == NONE:
                leaves[size] = nodes[k]
                size += 1
    for position in range(size):
        leaf = leaves[position]
        _detach(model, pool, leaf)
        roots = pool.meta[ROOTS]
        row = pool.statistics[leaf]
        scores = np.empty(roots + 1)
        for slot in range(roots):
            scores[slot] = log_marginal_of_node(model, pool, pool.root[slot])
        log_marginal_joined(model.family, pool.root_statistics, scores, row, 0, roots, scores)
        for slot in range(roots):
            count = (row[0] + pool.root_statistics[0, slot]) * model.per_count
            scores[slot] += log_kappa(model.prior, count) - pool.log_phi_h[pool.root[slot]]
        scores[roots] = pool.log_phi_h[leaf]
        choice = draw_index(scores, roots + 1, rng)
        if choice == roots:
            open_tree(pool, leaf)
        else:
            root = pool.root[choice]
            joint = put_on_top(pool, sequential_position(model, pool, leaf, root), leaf)
            root = _refresh_up(model, pool, joint)
            write_root(pool, pool.slot[root], root)
