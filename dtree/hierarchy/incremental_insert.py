"""The insertion loop of incremental BHC: atoms and cut-off pieces enter the forest through one queue."""

from dtree.core.jit import kernel
from dtree.hierarchy.incremental import (
    CUTS_LEFT,
    HEAD,
    LEAVES,
    NONE,
    ROOTS,
    WAITING,
    add_leaf,
    dissolve,
    enqueue,
    log_d_to_roots,
    open_tree,
    put_on_top,
    refresh_to_root,
    sequential_position,
)
from dtree.hierarchy.incremental_balance import rebalance_above


@kernel
def insert_waiting(model, pool, noisy, balanced):
    """Insert the nodes (leaves or subtrees) of the queue; False when there is no room for one more root.

    Every cut could in principle lead to another; pool.meta[CUTS_LEFT] bounds the work for one atom.
    """
    while pool.meta[WAITING] > 0:
        if pool.meta[ROOTS] == pool.root.shape[0]:
            return False
        node = pool.queue[pool.meta[HEAD]]
        pool.meta[HEAD] = (pool.meta[HEAD] + 1) % pool.queue.shape[0]
        pool.meta[WAITING] -= 1
        best = log_d_to_roots(model, pool, node)
        if best == NONE or pool.scores[best] > 0.0:
            open_tree(pool, node)
            continue
        root = pool.root[best]
        at = root if noisy else sequential_position(model, pool, node, root)
        joint = put_on_top(pool, at, node)
        cut = refresh_to_root(model, pool, joint, not noisy and pool.meta[CUTS_LEFT] > 0)
        if cut != NONE:
            pool.meta[CUTS_LEFT] -= 1
            dissolve(pool, cut)
        elif balanced and not noisy:
            rebalance_above(model, pool, joint)
    return True


@kernel
def insert_atoms(model, pool, atoms, order, first_atom, begin, noisy, balanced, max_cuts):
    """Insert atoms[order[begin:]]; returns how many of `order` have entered, fewer than all when the pool is full.

    Call it again with a grown pool until it returns order.shape[0] and nothing waits.
    """
    if not insert_waiting(model, pool, noisy, balanced):
        return begin
    for position in range(begin, order.shape[0]):
        if 2 * (pool.meta[LEAVES] + 1) > pool.parent.shape[0]:  # a forest of m leaves has at most 2m - 1 nodes
            return position
        row = order[position]
        pool.meta[CUTS_LEFT] = max_cuts
        enqueue(pool, add_leaf(model, pool, atoms[row], first_atom + row))
        if not insert_waiting(model, pool, noisy, balanced):
            return position + 1
    return order.shape[0]
