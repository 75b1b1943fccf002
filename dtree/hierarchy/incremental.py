"""Incremental Bayesian hierarchical clustering (IBHC, [LC15] section 2.3): compiled kernels over a pool of nodes.

A forest of binary trees grows by one atom (or one subtree) at a time:

1. the atom goes to the tree with the smallest dissimilarity d, or opens a tree of its own when every d exceeds 1;
2. SeqInsert walks down from that tree's root: at a node with children l, r it stops on top of the node when d(l, r) is
   the smallest of d(l, r), d(l, x), d(r, x), and otherwise goes into the child with the smaller d. (The text of [LC15]
   says that x goes into t_r when d(l, x) is the smallest; that is a misprint.)
3. potentials are updated from there to the root; at the lowest node where d exceeds 1 the tree is cut, that node and
   everything above it dissolved, and the pieces are inserted again, bottom-up.

With `noisy` the atom is put on top of its tree and nothing is ever cut: the rough start of [LC15] section 4.1.

The pool is columns with a free list; a kernel that runs out of room says so and the Python side grows it. Whatever is
inserted is a node with statistics, so a point, a weighted atom and a whole subtree go the same way.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import log_phi_h
from dtree.core.tree import log_add
from dtree.core.verbs import log_kappa, log_marginal_joined, log_marginal_pair

NONE = -1
_LOG_2 = math.log(2.0)
# Entries of Pool.meta
USED, FREE, ROOTS, HEAD, WAITING, CUTS_LEFT, LEAVES = range(7)
# Columns of Pool with one entry for every node
NODE_COLUMNS = ("parent", "left", "right", "atom", "statistics", "log_phi_h", "log_phi_t", "leaves", "slot")


class Pool(NamedTuple):
    """Columns of a forest under construction; a node is a row number, NONE = -1.

    `parent` threads the free list through unused nodes. Roots are listed in slots 0..meta[ROOTS]-1 with their
    statistics as columns, so that one batched verb scores an atom against all of them.
    """

    parent: np.ndarray  # (capacity,)
    left: np.ndarray  # (capacity,) NONE for a leaf
    right: np.ndarray  # (capacity,)
    atom: np.ndarray  # (capacity,) number of the atom of a leaf, NONE for an internal node
    statistics: np.ndarray  # (capacity, s)
    log_phi_h: np.ndarray  # (capacity,)
    log_phi_t: np.ndarray  # (capacity,)
    leaves: np.ndarray  # (capacity,) number of leaves below
    slot: np.ndarray  # (capacity,) slot of a root, else NONE
    root: np.ndarray  # (root_capacity,) node of a slot
    root_statistics: np.ndarray  # (s, root_capacity)
    scores: np.ndarray  # (root_capacity,) scratch
    merged: np.ndarray  # (s,) scratch
    queue: np.ndarray  # (capacity,) scratch: nodes that wait for insertion
    meta: np.ndarray  # (7,) the numbers named above: nodes ever used, head of the free list, and so on


def empty_pool(s: int, capacity: int, root_capacity: int) -> Pool:
    """A pool without nodes for statistics of s columns."""
    names = ("parent", "left", "right", "atom", "slot", "queue")
    return Pool(
        **{name: np.full(capacity, NONE, dtype=np.int64) for name in names},
        statistics=np.zeros((capacity, s)),
        log_phi_h=np.zeros(capacity),
        log_phi_t=np.zeros(capacity),
        leaves=np.zeros(capacity, dtype=np.int64),
        root=np.full(root_capacity, NONE, dtype=np.int64),
        root_statistics=np.zeros((s, root_capacity)),
        scores=np.zeros(root_capacity),
        merged=np.zeros(s),
        meta=np.array([0, NONE, 0, 0, 0, 0, 0], dtype=np.int64),
    )


def grown_pool(pool: Pool, capacity: int, root_capacity: int) -> Pool:
    """A copy with more room; never smaller than it is."""
    old, old_roots = pool.parent.shape[0], pool.root.shape[0]
    new = empty_pool(pool.merged.shape[0], max(capacity, old), max(root_capacity, old_roots))
    for name in NODE_COLUMNS:
        getattr(new, name)[:old] = getattr(pool, name)
    new.root[:old_roots] = pool.root
    new.root_statistics[:, :old_roots] = pool.root_statistics
    new.meta[:] = pool.meta
    waiting = int(pool.meta[WAITING])
    new.queue[:waiting] = np.roll(pool.queue, -int(pool.meta[HEAD]))[:waiting]
    new.meta[HEAD] = 0
    return new


@kernel
def copy_row(source, i, target, j):
    """target[j] = source[i], as a loop: assigning slices takes numba seconds to compile, everywhere it occurs."""
    for s in range(source.shape[1]):
        target[j, s] = source[i, s]


@kernel(inline=True)
def take_node(pool):
    """A free node; the caller has made sure that there is one."""
    node = pool.meta[FREE]
    if node != NONE:
        pool.meta[FREE] = pool.parent[node]
    else:
        node = pool.meta[USED]
        pool.meta[USED] += 1
    pool.parent[node] = NONE
    pool.left[node] = NONE
    pool.right[node] = NONE
    pool.atom[node] = NONE
    pool.slot[node] = NONE
    pool.leaves[node] = 1
    return node


@kernel
def give_back(pool, node):
    """Put a node on the free list."""
    pool.slot[node] = NONE
    pool.atom[node] = NONE
    pool.left[node] = NONE
    pool.parent[node] = pool.meta[FREE]
    pool.meta[FREE] = node


@kernel
def add_leaf(model, pool, statistics, atom):
    """A leaf that belongs to no tree yet."""
    node = take_node(pool)
    pool.meta[LEAVES] += 1
    pool.atom[node] = atom
    for s in range(statistics.shape[0]):
        pool.statistics[node, s] = statistics[s]
    pool.log_phi_h[node] = log_phi_h(model, statistics)
    pool.log_phi_t[node] = pool.log_phi_h[node]
    return node


@kernel(inline=True)
def write_root(pool, slot, node):
    """Let a slot stand for this root."""
    pool.root[slot] = node
    pool.slot[node] = slot
    for s in range(pool.merged.shape[0]):
        pool.root_statistics[s, slot] = pool.statistics[node, s]


@kernel
def open_tree(pool, node):
    """Make a parentless node the root of a tree of its own."""
    slot = pool.meta[ROOTS]
    pool.meta[ROOTS] += 1
    write_root(pool, slot, node)


@kernel
def close_tree(pool, node):
    """Take a root off the list; the last slot moves into its place."""
    slot = pool.slot[node]
    last = pool.meta[ROOTS] - 1
    pool.meta[ROOTS] = last
    pool.slot[node] = NONE
    if slot != last:
        write_root(pool, slot, pool.root[last])


@kernel
def log_marginal_from(model, log_phi_h, count):
    """log p(X) of a cluster from its worth and its (coarsened) count."""
    return log_phi_h - log_kappa(model.prior, count * model.per_count)


@kernel(inline=True)
def log_d_to(model, pool, node, other):
    """log dissimilarity of two nodes: log phi_t + log phi_t - log phi_h(union)."""
    large, small = (node, other) if pool.leaves[node] >= pool.leaves[other] else (other, node)
    a, b = pool.statistics[large], pool.statistics[small]
    log_large = log_marginal_from(model, pool.log_phi_h[large], a[0])
    together = log_kappa(model.prior, (a[0] + b[0]) * model.per_count)
    together += log_marginal_pair(model.family, a, log_large, b, pool.merged)
    return pool.log_phi_t[node] + pool.log_phi_t[other] - together


@kernel(inline=True)
def log_d_to_roots(model, pool, node):
    """pool.scores[slot] = log d(node, root) for every root; returns the slot of the smallest, or NONE."""
    # arrays are taken out of the record before the loops: in them, every access would count references
    roots, root, columns, row = pool.meta[ROOTS], pool.root, pool.root_statistics, pool.statistics[node]
    worth, log_phi_t, scores = pool.log_phi_h, pool.log_phi_t, pool.scores
    for slot in range(roots):
        scores[slot] = log_marginal_from(model, worth[root[slot]], columns[0, slot])
    log_marginal_joined(model.family, columns, scores, row, 0, roots, scores)
    best = NONE
    for slot in range(roots):
        together = log_kappa(model.prior, (row[0] + columns[0, slot]) * model.per_count) + scores[slot]
        scores[slot] = log_phi_t[node] + log_phi_t[root[slot]] - together
        if best == NONE or scores[slot] < scores[best]:
            best = slot
    return best


@kernel(inline=True)
def refresh(model, pool, node):
    """Statistics and potentials of an internal node from its children; returns its log d."""
    a, b = pool.left[node], pool.right[node]
    pool.leaves[node] = pool.leaves[a] + pool.leaves[b]
    for s in range(pool.merged.shape[0]):
        pool.statistics[node, s] = pool.statistics[a, s] + pool.statistics[b, s]
    pool.log_phi_h[node] = log_phi_h(model, pool.statistics[node])
    apart = pool.log_phi_t[a] + pool.log_phi_t[b]
    pool.log_phi_t[node] = log_add(pool.log_phi_h[node], apart)
    return apart - pool.log_phi_h[node]


@kernel
def sequential_position(model, pool, node, root):
    """SeqInsert: the node below `root` (itself included) on top of which `node` belongs."""
    at = root
    while pool.left[at] != NONE:
        a, b = pool.left[at], pool.right[at]
        log_d_children = pool.log_phi_t[a] + pool.log_phi_t[b] - pool.log_phi_h[at]
        log_d_left = log_d_to(model, pool, a, node)
        log_d_right = log_d_to(model, pool, b, node)
        if log_d_children <= log_d_left and log_d_children <= log_d_right:
            break
        at = a if log_d_left <= log_d_right else b
    return at


@kernel(inline=True)
def link(pool, node, a, b):
    """Make a and b the children of a node."""
    pool.left[node] = a
    pool.right[node] = b
    pool.parent[a] = node
    pool.parent[b] = node


@kernel(inline=True)
def sibling_of(pool, node):
    """The other child of a node's parent."""
    above = pool.parent[node]
    return pool.right[above] if pool.left[above] == node else pool.left[above]


@kernel(inline=True)
def replace_below(pool, above, old, new):
    """Let `new` stand where `old` stood below a node, or at the top when `above` is NONE."""
    pool.parent[new] = above
    if above == NONE:
        return
    if pool.left[above] == old:
        pool.left[above] = new
    else:
        pool.right[above] = new


@kernel(inline=True)
def put_on_top(pool, at, node):
    """A new parent for `at` and `node`, in the place of `at`. Potentials are left to `refresh`."""
    joint = take_node(pool)
    replace_below(pool, pool.parent[at], at, joint)
    link(pool, joint, at, node)
    slot = pool.slot[at]
    if slot != NONE:
        pool.slot[at] = NONE
        pool.root[slot] = joint
        pool.slot[joint] = slot
    return joint


@kernel
def refresh_to_root(model, pool, node, cutting):
    """Refresh a new node and all above it; returns the lowest whose d has risen above 1 when `cutting`, else NONE.

    A node that stood at d > 1 before (rebalancing may leave such nodes) is not cut for it. Above a node that will be
    cut nothing is refreshed: those nodes are about to be dissolved.
    """
    at = node
    root = node
    while at != NONE:
        was_apart = at != node and pool.log_phi_t[at] - pool.log_phi_h[at] > _LOG_2
        if refresh(model, pool, at) > 0.0 and cutting and not was_apart:
            return at
        root = at
        at = pool.parent[at]
    write_root(pool, pool.slot[root], root)
    return NONE


@kernel(inline=True)
def enqueue(pool, node):
    """Let a parentless node wait for insertion."""
    pool.queue[(pool.meta[HEAD] + pool.meta[WAITING]) % pool.queue.shape[0]] = node
    pool.meta[WAITING] += 1


@kernel
def dissolve(pool, node):
    """Dissolve a node and everything above it; its children and the subtrees off the path join the queue, bottom-up."""
    for child in (pool.left[node], pool.right[node]):
        pool.parent[child] = NONE
        enqueue(pool, child)
    while True:
        above = pool.parent[node]
        if above == NONE:
            close_tree(pool, node)
            give_back(pool, node)
            return
        other = sibling_of(pool, node)
        pool.parent[other] = NONE
        enqueue(pool, other)
        give_back(pool, node)
        node = above
