"""ALLOC and PLACE of the guided split-merge move: dividing a cluster in two along the guide tree.

The two sides start as {i} and {j}. The subtrees of the guide hanging off i -> left(g), j -> right(g) and g -> root,
nearest first, each cut down to the members of the cluster, are placed one after the other: whole on one side, or
opened, their two children then placed in turn. After a first child went whole to a side its sibling may not go whole
to the same side, so every division has exactly one derivation and its probability can be replayed.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import log_phi_h
from dtree.core.search import first_at_or_after
from dtree.core.tree import log_add
from dtree.core.verbs import log_kappa, log_marginal_pair

# Opening a block is never less likely than this share of placing it whole: so every division can be reached, and a
# block that looks like one piece still has a chance to be looked into.
OPEN_FLOOR = 1e-3
_LOG_OPEN_FLOOR = math.log(OPEN_FLOOR)
# Rows of Work.row in use here
_SIDE, _BLOCK, _FIRST, _UNION = 0, 2, 3, 5  # two sides, the block, its two children, a union


class Division(NamedTuple):
    """A cluster of `size` atoms that is divided in two, or whose division is replayed."""

    members: np.ndarray  # (size,) in the guide's depth-first order
    side: np.ndarray  # (size,) receives 0 or 1 for every member
    target: np.ndarray  # (size,) the division to replay
    forced: bool  # whether it is replayed
    log_sides: np.ndarray  # (2,) receives log phi_h of the sides


class _Members(NamedTuple):
    """Sums along the members of a division, so that any range of them is a difference."""

    places: np.ndarray  # (size,) where each stands in the guide's order
    prefix: np.ndarray  # (size + 1, s) statistics of the first ones
    ones: np.ndarray  # (size + 1,) how many of the first ones are on side 1 of the division to replay


@kernel
def division_of(guide, labels, a, b, members):
    """The division of the union of clusters a and b: to be found when they are one cluster, else replayed.

    members (m,) is scratch, of which the division keeps a part.
    """
    size = 0
    for place in range(guide.order.shape[0]):
        label = labels[guide.order[place]]
        if label == a or label == b:  # noqa: SIM109  (numba compiles two comparisons better than a tuple)
            members[size] = guide.order[place]
            size += 1
    side, target = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    for position in range(size):
        target[position] = 1 if labels[members[position]] == b else 0
    return Division(members[:size], side, target, a != b, np.empty(2))


@kernel
def _log_union(model, row, side, log_side, block):
    """log phi_h of the rows `side` and `block` of scratch together; log_side is that of the side."""
    alone, together = row[side, 0] * model.per_count, (row[side, 0] + row[block, 0]) * model.per_count
    log_marginal_side = log_side - log_kappa(model.prior, alone)
    log_marginal = log_marginal_pair(model.family, row[side], log_marginal_side, row[block], row[_UNION])
    return log_kappa(model.prior, together) + log_marginal


@kernel
def _sum_range(row, prefix, low, high, target):
    """Statistics of members low..high-1 into a scratch row."""
    for s in range(row.shape[1]):
        row[target, s] = prefix[high, s] - prefix[low, s]


@kernel
def _split_of(guide, places, node, low, high):
    """Go down from `node` while only one child has members; returns the node and where its members divide."""
    while True:
        a, b = guide.left[node], guide.right[node]
        middle = first_at_or_after(places, 0, places.shape[0], guide.start[b])  # left children stand first
        if middle <= low:
            node = b
        elif middle >= high:
            node = a
        else:
            return node, middle


@kernel
def allocate(model, atoms, row, guide, division, g, i, j, rng):
    """Divide the members, i (side 0) and j (side 1) among them; returns log q of the division.

    The statistics of the sides are left in row[0] and row[1] (scratch).
    """
    s_count, size = atoms.shape[1], division.members.shape[0]
    places, ones = np.empty(size, dtype=np.int64), np.zeros(size + 1, dtype=np.int64)
    members = _Members(places, np.empty((size + 1, s_count)), ones)
    prefix = members.prefix
    for s in range(s_count):
        prefix[0, s] = 0.0
        row[_SIDE, s] = atoms[i, s]
        row[_SIDE + 1, s] = atoms[j, s]
    for position in range(size):
        atom = division.members[position]
        places[position] = guide.place[atom]
        for s in range(s_count):
            prefix[position + 1, s] = prefix[position, s] + atoms[atom, s]
        ones[position + 1] = ones[position] + division.target[position]
    division.side[first_at_or_after(places, 0, size, guide.place[i])] = 0
    division.side[first_at_or_after(places, 0, size, guide.place[j])] = 1
    division.log_sides[0] = log_phi_h(model, row[_SIDE])
    division.log_sides[1] = log_phi_h(model, row[_SIDE + 1])
    # Blocks that wait: node, range of members, forbidden side (-1 none), whether the next one down is its sibling.
    stack = np.empty((2 * size + 4, 5), dtype=np.int64)
    log_q = 0.0
    for leg in range(3):
        at = i if leg == 0 else (j if leg == 1 else g)
        end = guide.left[g] if leg == 0 else (guide.right[g] if leg == 1 else -1)
        while at != end and guide.parent[at] >= 0:
            above = guide.parent[at]
            sibling = guide.right[above] if guide.left[above] == at else guide.left[above]
            at = above
            low = first_at_or_after(places, 0, size, guide.start[sibling])
            high = first_at_or_after(places, 0, size, guide.stop[sibling])
            if low < high:
                _push(stack, 0, sibling, low, high, -1, 0)
                log_q += _place_all(model, row, guide, division, members, stack, rng)
    return log_q


@kernel
def _push(stack, height, node, low, high, forbidden, has_sibling):
    stack[height, 0] = node
    stack[height, 1] = low
    stack[height, 2] = high
    stack[height, 3] = forbidden
    stack[height, 4] = has_sibling


@kernel
def _place_all(model, row, guide, division, members, stack, rng):
    """Place the block on the stack and all that opening it brings; returns the log probability of the choices."""
    prefix, ones, log_sides = members.prefix, members.ones, division.log_sides
    log_q = 0.0
    height = 1
    while height > 0:
        height -= 1
        node, low, high = stack[height, 0], stack[height, 1], stack[height, 2]
        forbidden, has_sibling = stack[height, 3], stack[height, 4]
        _sum_range(row, prefix, low, high, _BLOCK)
        log_0, log_1 = log_sides[0], log_sides[1]
        whole_0 = _log_union(model, row, _SIDE, log_0, _BLOCK) - log_0
        whole_1 = _log_union(model, row, _SIDE + 1, log_1, _BLOCK) - log_1
        opened = -np.inf
        middle = low
        if high - low > 1:
            node, middle = _split_of(guide, members.places, node, low, high)
            _sum_range(row, prefix, low, middle, _FIRST)
            _sum_range(row, prefix, middle, high, _FIRST + 1)
            straight = _log_union(model, row, _SIDE, log_0, _FIRST)
            straight += _log_union(model, row, _SIDE + 1, log_1, _FIRST + 1)
            crossed = _log_union(model, row, _SIDE, log_0, _FIRST + 1)
            crossed += _log_union(model, row, _SIDE + 1, log_1, _FIRST)
            opened = log_add(straight, crossed) - log_0 - log_1
            opened = max(opened, _LOG_OPEN_FLOOR + max(whole_0, whole_1))
        weight_0 = -np.inf if forbidden == 0 else whole_0
        weight_1 = -np.inf if forbidden == 1 else whole_1
        log_total = log_add(log_add(weight_0, weight_1), opened)
        if division.forced:
            in_1 = ones[high] - ones[low]
            choice = 0 if in_1 == 0 else (1 if in_1 == high - low else 2)
        else:
            uniform = rng.random()
            p_0 = math.exp(weight_0 - log_total)
            p_1 = math.exp(weight_1 - log_total)
            choice = 0 if uniform < p_0 else (1 if uniform < p_0 + p_1 else 2)
            if choice == 2 and opened == -np.inf:  # rounding at the upper end
                choice = 1 if forbidden == 0 or (forbidden == -1 and p_1 > 0.0) else 0
        if choice == 2:
            log_q += opened - log_total
            _push(stack, height, guide.right[node], middle, high, -1, 0)
            _push(stack, height + 1, guide.left[node], low, middle, -1, 1)
            height += 2
            continue
        log_q += (weight_0 if choice == 0 else weight_1) - log_total
        for position in range(low, high):
            division.side[position] = choice
        for s in range(row.shape[1]):
            row[_SIDE + choice, s] += row[_BLOCK, s]
        log_sides[choice] += whole_0 if choice == 0 else whole_1
        if has_sibling == 1:
            stack[height - 1, 3] = choice
    return log_q
