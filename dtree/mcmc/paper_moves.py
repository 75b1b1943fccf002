"""Compiled global and local moves of [LC15] section 3, as printed (see `tgmcmc_paper` for why they are biased)."""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.tree import log_add
from dtree.core.verbs import log_kappa, log_marginal_joined
from dtree.hierarchy import incremental as trees
from dtree.mcmc.clusters import SPLITS_AND_MERGES
from dtree.mcmc.guide import draw_weighted
from dtree.mcmc.worth import accept, draw_index, log_sigmoid


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
        if pool.left[node] != trees.NONE:
            nodes[size] = pool.left[node]
            nodes[size + 1] = pool.right[node]
            size += 2
    return nodes


@kernel
def _sample_weights(pool, nodes, with_leaves):
    """d + max d of each node in units of max d, which may lie beyond the range of doubles.

    0 for a leaf that may not be drawn.
    """
    log_d = np.full(nodes.shape[0], -np.inf)
    largest = -np.inf
    for k in range(nodes.shape[0]):
        node = nodes[k]
        if pool.left[node] != trees.NONE:
            log_d[k] = pool.log_phi_t[pool.left[node]] + pool.log_phi_t[pool.right[node]] - pool.log_phi_h[node]
            largest = max(largest, log_d[k])
    weights = np.zeros(nodes.shape[0])
    for k in range(nodes.shape[0]):
        if pool.left[nodes[k]] != trees.NONE or with_leaves:
            weights[k] = math.exp(log_d[k] - largest) + 1.0
    return weights


@kernel
def _copy_tree(pool, root):
    """A second copy of a tree in fresh nodes; returns its root."""
    nodes = _nodes_below(pool, root)
    twin = np.empty_like(nodes)
    for k in range(nodes.shape[0]):
        old, new = nodes[k], trees.take_node(pool)
        twin[k] = new
        pool.atom[new] = pool.atom[old]
        trees.copy_row(pool.statistics, old, pool.statistics, new)
        pool.log_phi_h[new] = pool.log_phi_h[old]
        pool.log_phi_t[new] = pool.log_phi_t[old]
        pool.leaves[new] = pool.leaves[old]
    child = 1
    for k in range(nodes.shape[0]):  # children were listed in the order in which their parents are met
        if pool.left[nodes[k]] != trees.NONE:
            trees.link(pool, twin[k], twin[child], twin[child + 1])
            child += 2
    return twin[0]


@kernel
def _free_tree(pool, root):
    for node in _nodes_below(pool, root):
        trees.give_back(pool, node)


@kernel
def _seq_insert(model, pool, root, node):
    """SeqInsert of a subtree into a tree that is in no slot, without cutting; returns the new root."""
    at = trees.put_on_top(pool, trees.sequential_position(model, pool, node, root), node)
    trees.refresh(model, pool, at)
    while pool.parent[at] != trees.NONE:
        at = pool.parent[at]
        trees.refresh(model, pool, at)
    return at


@kernel
def _is_among(value, values):
    found = False
    for other in values:
        found = found or other == value
    return found


@kernel
def _log_apart(model, pool, node, skip):
    """Sum over roots outside `skip` of log d/(1+d) with a node."""
    trees.log_d_to_roots(model, pool, node)
    root, scores = pool.root, pool.scores
    total = 0.0
    for slot in range(pool.meta[trees.ROOTS]):
        if not _is_among(root[slot], skip):
            total += log_sigmoid(scores[slot])
    return total


@kernel
def _split(model, pool, root, log_forward, acceptance, rng):
    """Propose a split of one tree and accept or reject it."""
    if pool.left[root] == trees.NONE:
        return
    roots = pool.meta[trees.ROOTS]
    copy = _copy_tree(pool, root)
    nodes = _nodes_below(pool, copy)
    weights = _sample_weights(pool, nodes, False)
    drawn = draw_weighted(np.cumsum(weights), rng)
    log_forward += math.log(weights[drawn] / weights.sum())
    star = nodes[drawn]
    sides = np.empty(pool.leaves[copy], dtype=np.int64)
    sides[0], sides[1] = pool.left[star], pool.right[star]
    size = 2
    waiting = np.empty(nodes.shape[0], dtype=np.int64)
    pieces = 0
    node = star
    while node != trees.NONE:  # dissolve the path to the root
        above = pool.parent[node]
        if above != trees.NONE:
            waiting[pieces] = trees.sibling_of(pool, node)
            pool.parent[waiting[pieces]] = trees.NONE
            pieces += 1
        trees.give_back(pool, node)
        node = above
    pool.parent[sides[0]] = trees.NONE
    pool.parent[sides[1]] = trees.NONE
    for p in range(pieces):  # StocInsert
        scores, log_total = np.zeros(size + 1), -np.inf  # 0 for a cluster of its own
        for k in range(size):
            scores[k] = -trees.log_d_to(model, pool, sides[k], waiting[p])
            log_total = log_add(log_total, scores[k])
        choice = draw_index(scores.copy(), size + 1, rng)
        log_forward += scores[choice] - log_add(log_total, 0.0)
        if choice == size:
            sides[size] = waiting[p]
            size += 1
        else:
            sides[choice] = _seq_insert(model, pool, sides[choice], waiting[p])
    # Eq. 11: any of the new clusters may be picked first, all others of S then join it, nobody else does.
    gain, log_backward = -pool.log_phi_h[root], -np.inf
    for k in range(size):
        gain += pool.log_phi_h[sides[k]]
        term = _log_apart(model, pool, sides[k], np.array([root]))
        for other in range(size):
            if other != k:
                term += log_sigmoid(-trees.log_d_to(model, pool, sides[k], sides[other]))
        log_backward = log_add(log_backward, term)
    log_backward -= math.log(roots + size - 1)
    accepted = accept(acceptance, SPLITS_AND_MERGES, gain + log_backward - log_forward, math.log(rng.random()))
    if accepted:
        trees.close_tree(pool, root)
        _free_tree(pool, root)
    for k in range(size):
        if accepted:
            trees.open_tree(pool, sides[k])
        else:
            _free_tree(pool, sides[k])


@kernel
def _merge(model, pool, root, others, log_forward, acceptance, rng):
    """Propose to join a tree with the trees in `others`, as a cascade, and accept or reject it."""
    roots, count = pool.meta[trees.ROOTS], others.shape[0]
    gain, log_backward = -pool.log_phi_h[root], 0.0
    for k in range(count):
        gain -= pool.log_phi_h[others[k]]
        if k > 0:  # Eq. 12: it opens a cluster of its own
            log_total = log_add(0.0, -trees.log_d_to(model, pool, root, others[k]))
            for before in range(k):
                log_total = log_add(log_total, -trees.log_d_to(model, pool, others[before], others[k]))
            log_backward -= log_total
    top, first_joint = root, trees.NONE
    for k in range(count):
        joint = trees.take_node(pool)
        trees.link(pool, joint, top, others[k])
        trees.refresh(model, pool, joint)
        first_joint = joint if k == 0 else first_joint
        top = joint
    gain += pool.log_phi_h[top]
    nodes = _nodes_below(pool, top)
    weights = _sample_weights(pool, nodes, False)
    log_backward += math.log(weights[nodes == first_joint][0] / weights.sum())
    log_backward += _log_apart(model, pool, top, np.append(others, root)) - math.log(roots - count)
    if accept(acceptance, SPLITS_AND_MERGES, gain + log_backward - log_forward, math.log(rng.random())):
        trees.close_tree(pool, root)
        for other in others:
            trees.close_tree(pool, other)
        trees.open_tree(pool, top)
        return
    while top != root:
        below = pool.left[top]
        pool.parent[pool.right[top]] = trees.NONE
        pool.parent[below] = trees.NONE
        trees.give_back(pool, top)
        top = below


@kernel
def global_moves(model, pool, count, acceptance, rng):
    """Split or merge proposals."""
    for _ in range(count):
        roots = pool.meta[trees.ROOTS]
        root = pool.root[rng.integers(0, roots)]
        trees.log_d_to_roots(model, pool, root)
        log_forward = -math.log(roots)
        others = np.empty(roots, dtype=np.int64)
        size = 0
        for slot in range(roots):
            if pool.root[slot] == root:
                continue
            log_in = log_sigmoid(-pool.scores[slot])
            if math.log(rng.random()) < log_in:
                others[size] = pool.root[slot]
                size += 1
                log_forward += log_in
            else:
                log_forward += log_sigmoid(pool.scores[slot])
        if size == 0:
            _split(model, pool, root, log_forward, acceptance, rng)
        else:
            _merge(model, pool, root, others[:size], log_forward, acceptance, rng)


@kernel
def _detach(model, pool, leaf):
    """Take a leaf out of its tree; its sibling takes the place of its parent."""
    above = pool.parent[leaf]
    if above == trees.NONE:
        trees.close_tree(pool, leaf)
        return
    sibling = trees.sibling_of(pool, leaf)
    top = pool.parent[above]
    pool.parent[leaf] = trees.NONE
    trees.replace_below(pool, top, above, sibling)
    if top == trees.NONE:
        trees.write_root(pool, pool.slot[above], sibling)
    else:
        trees.refresh_to_root(model, pool, top, False)
    trees.give_back(pool, above)


@kernel
def local_moves(model, pool, depth, rng):
    """Gibbs moves of the leaves of a subtree of every tree, drawn by `depth` rounds of SampleSub."""
    leaves = np.empty(pool.meta[trees.LEAVES], dtype=np.int64)
    size = 0
    for slot in range(pool.meta[trees.ROOTS]):
        node = pool.root[slot]
        for _ in range(depth):
            if pool.left[node] != trees.NONE:
                nodes = _nodes_below(pool, node)
                node = nodes[draw_weighted(np.cumsum(_sample_weights(pool, nodes, True)), rng)]
        for below in _nodes_below(pool, node):
            if pool.left[below] == trees.NONE:
                leaves[size] = below
                size += 1
    for leaf in leaves[:size]:
        _detach(model, pool, leaf)
        roots, root, columns, worth = pool.meta[trees.ROOTS], pool.root, pool.root_statistics, pool.log_phi_h
        row = pool.statistics[leaf]
        scores = np.empty(roots + 1)
        for slot in range(roots):
            scores[slot] = trees.log_marginal_from(model, worth[root[slot]], columns[0, slot])
        log_marginal_joined(model.family, columns, scores, row, 0, roots, scores)
        for slot in range(roots):
            count = (row[0] + columns[0, slot]) * model.per_count
            scores[slot] += log_kappa(model.prior, count) - worth[root[slot]]
        scores[roots] = worth[leaf]
        choice = draw_index(scores, roots + 1, rng)
        if choice == roots:
            trees.open_tree(pool, leaf)
        else:
            at = trees.sequential_position(model, pool, leaf, pool.root[choice])
            trees.refresh_to_root(model, pool, trees.put_on_top(pool, at, leaf), False)
