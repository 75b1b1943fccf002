"""Lower bounds on the evidence that a tree gives, each above the one before.

`bhc` sums over tree-consistent partitions: log_normaliser + log phi_t(root). The others add partitions with one cluster
(cross-merge) or one per nested level (nested) that joins two disjoint nodes a, b which are not siblings:

- `alternative` [XHG09 sec. 4]: at each node, one grandchild under its first child (the second, if the first is a
  leaf) joined with the other child; `alternative_best`: the child whose relocations add more; `alternative_four`: all
  of them.
- `cross_merge`: every pair of disjoint non-siblings.
- `nested`: the same pairs, the subtrees hanging off the two paths summed with their own cross merges.

A non-tree cluster determines its pair (a, b), so no partition is counted twice. [XHG09] Eq. 12 holds only at the
root: below it the mass must be multiplied by phi_t of everything hanging off the path to the root, and Figure 4's
loop includes the root.
"""

import math
import warnings
from typing import Any

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import Model
from dtree.core.progress import report
from dtree.core.tree import Tree, log_add
from dtree.core.verbs import log_kappa, log_marginal_merged
from dtree.hierarchy.statistics import node_statistics

DEFAULT_BUDGET = 20_000_000  # pairs scored; a full evaluation of m leaves needs about 2 m^2


@kernel
def _log_phi_pairs(model, columns, row, stop, out):
    """out[j] = log phi_h(row u column j) for j < stop."""
    log_marginal_merged(model.family, columns, row, 0, stop, out)
    for j in range(stop):
        out[j] += log_kappa(model.prior, (row[0] + columns[0, j]) * model.per_count)


@kernel
def _log_phi_of_unions(model, statistics, first, second):
    """log phi_h(first[j] u second[j]) of pairs of nodes, to the bit what a sum over all pairs has for them."""
    column, one, out = np.empty((statistics.shape[1], 1)), np.empty(1), np.empty(first.shape[0])
    for j in range(first.shape[0]):
        for c in range(statistics.shape[1]):
            column[c, 0] = statistics[second[j], c]
        _log_phi_pairs(model, column, statistics[first[j]], 1, one)
        out[j] = one[0]
    return out


@kernel
def _subtree(left, right, top, limit, nodes):
    """Nodes below `top`, itself first, breadth first, at most `limit`; returns how many."""
    m = left.shape[0] + 1
    nodes[0] = top
    filled = 1
    at = 0
    while at < filled and filled < limit:
        k = nodes[at]
        at += 1
        if k >= m:
            nodes[filled] = left[k - m]
            filled += 1
            if filled < limit:
                nodes[filled] = right[k - m]
                filled += 1
    return filled


@kernel
def _cross_sum(model, statistics, left, right, node, log_inside, limit):
    """Log of the sum over pairs (a under left, b under right) of `node`, (left, right) itself left out.

    Each pair adds phi_h(a u b) times what hangs off the two paths inside `node`: log_inside[a] is the log of that
    product from a up to the child of `node`.
    """
    m = left.shape[0] + 1
    l, r = left[node - m], right[node - m]
    below_l = np.empty(min(limit, 2 * m), dtype=np.int64)
    below_r = np.empty(min(limit, 2 * m), dtype=np.int64)
    count_l = _subtree(left, right, l, below_l.shape[0], below_l)
    count_r = _subtree(left, right, r, below_r.shape[0], below_r)
    s = statistics.shape[1]
    columns = np.empty((s, count_r))
    for j in range(count_r):
        for c in range(s):
            columns[c, j] = statistics[below_r[j], c]
    out = np.empty(count_r)
    total = -np.inf
    for i in range(count_l):
        a = below_l[i]
        _log_phi_pairs(model, columns, statistics[a], count_r, out)
        for j in range(count_r):
            if i == 0 and j == 0:
                continue
            total = log_add(total, out[j] + log_inside[a] + log_inside[below_r[j]])
    return total


@kernel
def _push_inside(left, right, node, log_left, log_right, log_inside, members):
    """Extend log_inside of everything below `node` by the sibling that now hangs off its path."""
    m = left.shape[0] + 1
    for side in range(2):
        top = left[node - m] if side == 0 else right[node - m]
        gained = log_right if side == 0 else log_left
        count = _subtree(left, right, top, members.shape[0], members)
        for i in range(count):
            log_inside[members[i]] += gained


def _limit_within(tree: Tree, budget: int) -> int:
    """How many nodes of each subtree may take part so that all pairs stay within the budget.

    Nodes nearest the merge come first: that is where the missing mass sits.
    """
    limit = 2 * tree.n_leaves
    nodes = 2 * tree.leaf_counts() - 1  # below each node, itself included
    left, right = nodes[tree.left], nodes[tree.right]
    while limit > 2 and np.minimum(left, limit) @ np.minimum(right, limit) > budget:
        limit = limit // 2
    if limit < 2 * tree.n_leaves:
        warnings.warn(
            f"cross-merge bounds used the {limit} nodes nearest each merge to stay within {budget} pairs; "
            "they are valid but not as tight as with a larger budget",
            stacklevel=3,
        )
    return limit


def _log_up(tree: Tree, log_phi: np.ndarray) -> np.ndarray:
    """Log product (2m-1,) of phi over all subtrees hanging off the path from each node to the root."""
    m = tree.n_leaves
    up = np.zeros(2 * m - 1)
    for i in range(m - 2, -1, -1):
        a, b = tree.left[i], tree.right[i]
        up[a] = up[m + i] + log_phi[b]
        up[b] = up[m + i] + log_phi[a]
    return up


def _alternatives(tree: Tree, compiled: Any, statistics: np.ndarray) -> dict[str, float]:
    """Log of the mass added by relocating grandchildren at every node with more than two leaves."""
    m = tree.n_leaves
    up = _log_up(tree, tree.log_phi_t)
    by_child = np.full((m - 1, 2), -np.inf)  # relocating under the first and the second child
    pairs, where, scale = [], [], []
    children = np.stack([tree.merges, tree.merges[:, ::-1]], axis=1)  # (m-1, 2, 2) of each fork, in both orders
    for i in range(m - 1):
        for side, (inner, other) in enumerate(children[i]):
            for moved, stays in children[inner - m] if inner >= m else ():
                pairs.append((moved, other) if side == 0 else (other, moved))  # what is under the left child first
                where.append((i, side))
                scale.append(tree.log_phi_t[stays] + up[m + i])
    if pairs:
        log_phi = _log_phi_of_unions(compiled, statistics, *np.array(pairs).T)
        for (i, side), log_mass in zip(where, log_phi + scale, strict=True):
            by_child[i, side] = np.logaddexp(by_child[i, side], log_mass)
    first = np.where(np.isfinite(by_child[:, 0]), by_child[:, 0], by_child[:, 1])
    return {
        "alternative": float(np.logaddexp.reduce(first)),
        "alternative_best": float(np.logaddexp.reduce(by_child.max(axis=1))),
        "alternative_four": float(np.logaddexp.reduce(by_child.ravel())),
    }


def _cross_merges(
    tree: Tree, compiled: Any, statistics: np.ndarray, limit: int, nested: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Log mass (m-1,) of the pairs under each internal node, and log phi (2m-1,) of what hangs off their paths.

    That is log phi_t, or when `nested` log PHI, in which a subtree is summed with its own cross merges.
    """
    m = tree.n_leaves
    log_phi = tree.log_phi_h.copy() if nested else tree.log_phi_t
    log_cross, log_inside = np.empty(m - 1), np.zeros(2 * m - 1)
    members = np.empty(2 * m, dtype=np.int64)
    for i, (l, r) in enumerate(tree.merges):
        report("nested merges" if nested else "cross merges", i, m - 1)
        log_cross[i] = _cross_sum(compiled, statistics, tree.left, tree.right, m + i, log_inside, limit)
        if nested:
            log_phi[m + i] = np.logaddexp(np.logaddexp(log_phi[m + i], log_phi[l] + log_phi[r]), log_cross[i])
        _push_inside(tree.left, tree.right, m + i, log_phi[l], log_phi[r], log_inside, members)
    return log_cross, log_phi


def tree_bounds(tree: Tree, model: Model, atoms: np.ndarray, budget: int = DEFAULT_BUDGET) -> dict[str, float]:
    """All bounds of one tree over atoms (m, s), each a log lower bound on the evidence."""
    statistics = node_statistics(tree, atoms)
    compiled = model.compile(statistics[-1])
    normaliser = model.prior.log_normaliser(float(model.counts(statistics[-1:])[0]))
    root = float(tree.log_phi_t[-1])
    limit = _limit_within(tree, budget)
    bounds = {"bhc": root}
    for key, log_mass in _alternatives(tree, compiled, statistics).items():
        bounds[key] = float(np.logaddexp(root, log_mass))
    log_cross, _ = _cross_merges(tree, compiled, statistics, limit, nested=False)
    log_cross += _log_up(tree, tree.log_phi_t)[tree.n_leaves :]
    bounds["cross_merge"] = float(np.logaddexp(root, np.logaddexp.reduce(log_cross)))
    bounds["nested"] = float(_cross_merges(tree, compiled, statistics, limit, nested=True)[1][-1])
    if not all(math.isfinite(value) for value in bounds.values()):
        raise ValueError("a bound is not a finite number: look for values too large for this family")
    return {key: value + normaliser for key, value in bounds.items()}
