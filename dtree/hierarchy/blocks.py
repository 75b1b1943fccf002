"""Leaves that lie together, in blocks, so that a node need not be scored with those far from it.

A node keeps its best few partners only. A block whose leaves can all be shown to score worse than the worst of those
is not looked at, and the partners are the same as if it had been. What is shown is one number for a block:

    log d(a, b) = log phi_t(a) + log phi_t(b) - log kappa(n_a + n_b) - log p(a u b)

has its last term bounded from above by the family, over all places where the leaves of the block may lie
(`log_marginal_most`), and log phi_t(b) is at least that of the worst leaf of the block. Leaves of a block have the
same count, so the rest is known. A family that does not say where its atoms lie gets one block without a bound, and
so do leaves whose count few others have.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.core.verbs import log_kappa, verb

_FEWEST_LEAVES = 400  # fewer are scored in less time than their blocks are made
_MOST_IN_BLOCK = 48  # fewer cost more calls, more are pruned less often
# Towards the direction of greatest spread, then towards two centres (2-means), so that a split goes between clusters
# and not through them: any split is right, a good one prunes more.
_POWER_STEPS, _CENTRE_STEPS = 2, 4
_SMALLEST_SHARE = 0.05  # of leaves on one side of a split at the mean; below it a few outliers would cost a split each
# A bound is lowered by more than rounding and the grid of ties can move a score, so that it stays one.
_MARGIN, _RELATIVE_MARGIN = 1e-6, 1e-11


class Blocks(NamedTuple):
    """b blocks of leaves; block i is the slots start[i] .. start[i] + live[i] - 1. Places have q coordinates."""

    start: np.ndarray  # (b,)
    live: np.ndarray  # (b,) how many are not merged yet
    counts: np.ndarray  # (b,) that of each of its leaves (coarsened)
    least: np.ndarray  # (b,) the smallest log phi_t of its leaves; -inf for a block without a bound
    low: np.ndarray  # (q, b) smallest coordinates
    high: np.ndarray  # (q, b) largest coordinates


@verb()
def places(family: Any, columns: Any) -> Any:
    """Where each atom, a column of `columns` (s, m), lies: (m, q), in coordinates that the family chooses.

    A family that has this has `log_marginal_most` too. Without it there are no bounds.
    """
    raise NotImplementedError


@kernel(counted=False)
def _anything(family, blocks, row, out):
    for b in range(out.shape[0]):
        out[b] = np.inf


@verb(_anything)
def log_marginal_most(family: Any, blocks: Any, row: Any, out: Any) -> None:
    """out[b] >= log_marginal(row + leaf) for every leaf that may be in block b."""


@kernel(counted=False)
def least_log_d(model, blocks, row, log_phi_t_row, out):
    """out[b] <= log d of `row` (s,) with every leaf of block b, on the tie grid or not."""
    if blocks.low.shape[0] == 0:  # leaves whose places were not taken
        out[: blocks.start.shape[0]] = -np.inf
        return
    log_marginal_most(model.family, blocks, row, out)
    for b in range(blocks.start.shape[0]):
        if blocks.least[b] == -np.inf:
            out[b] = -np.inf
            continue
        together = out[b] + log_kappa(model.prior, (row[0] + blocks.counts[b]) * model.per_count)
        apart = log_phi_t_row + blocks.least[b]
        out[b] = apart - together - _MARGIN - _RELATIVE_MARGIN * (abs(apart) + abs(together))


@kernel
def _spread_direction(places, chosen, mean, direction):
    """Fill mean and direction (q,): that in which the chosen places vary most, nearly."""
    q = places.shape[1]
    mean[:] = 0.0
    direction[:] = 0.0
    for i in chosen:
        for j in range(q):
            mean[j] += places[i, j]
    for j in range(q):
        mean[j] /= chosen.shape[0]
    for i in chosen:
        for j in range(q):
            direction[j] += (places[i, j] - mean[j]) ** 2
    widest = np.argmax(direction)
    direction[:] = 0.0
    direction[widest] = 1.0
    turned = np.empty(q)
    for _ in range(_POWER_STEPS):
        turned[:] = 0.0
        for i in chosen:
            along = 0.0
            for j in range(q):
                along += (places[i, j] - mean[j]) * direction[j]
            for j in range(q):
                turned[j] += along * (places[i, j] - mean[j])
        length = np.sqrt(np.sum(turned * turned))
        if length == 0.0:  # all in one place
            return
        for j in range(q):
            direction[j] = turned[j] / length


@kernel
def _sides(places, chosen, mean, direction, along):
    """Fill along (n,): how far each chosen place lies beyond the mean; returns how many lie before it."""
    below = 0
    for at in range(chosen.shape[0]):
        along[at] = 0.0
        for j in range(mean.shape[0]):
            along[at] += (places[chosen[at], j] - mean[j]) * direction[j]
        below += along[at] < 0.0
    return below


@kernel
def _between_centres(places, chosen, along, mean, direction):
    """Put mean (q,) in the middle between the centres of both sides, and direction (q,) from one to the other."""
    q = mean.shape[0]
    before, beyond, n_before = np.zeros(q), np.zeros(q), 0
    for at in range(chosen.shape[0]):
        if along[at] < 0.0:
            n_before += 1
        side = before if along[at] < 0.0 else beyond
        for j in range(q):
            side[j] += places[chosen[at], j]
    for j in range(q):
        before[j] /= n_before
        beyond[j] /= chosen.shape[0] - n_before
        mean[j] = 0.5 * (before[j] + beyond[j])
        direction[j] = beyond[j] - before[j]


@kernel
def _split(places, order, starts):
    """Arrange order (n,) so that parts of it lie together; fills starts with where they begin, returns how many."""
    n, q = order.shape[0], places.shape[1]
    mean, direction = np.empty(q), np.empty(q)
    along = np.empty(n)
    waiting = np.empty((n + 1, 2), dtype=np.int64)
    waiting[0, 0], waiting[0, 1] = 0, n
    n_waiting, n_blocks = 1, 0
    while n_waiting > 0:
        n_waiting -= 1
        first, stop = waiting[n_waiting, 0], waiting[n_waiting, 1]
        if stop - first <= _MOST_IN_BLOCK:
            starts[n_blocks] = first
            n_blocks += 1
            continue
        _spread_direction(places, order[first:stop], mean, direction)
        below = _sides(places, order[first:stop], mean, direction, along[first:stop])
        for _ in range(_CENTRE_STEPS):
            if below == 0 or below == stop - first:
                break
            _between_centres(places, order[first:stop], along[first:stop], mean, direction)
            below = _sides(places, order[first:stop], mean, direction, along[first:stop])
        kept = order[first:stop].copy()
        if min(below, stop - first - below) < max(1.0, _SMALLEST_SHARE * (stop - first)):
            by_place = np.argsort(along[first:stop])
            for at in range(first, stop):  # for slices numba would compile 37 functions of its own
                order[at] = kept[by_place[at - first]]
            below = (stop - first) // 2
        else:
            low, high = first, first + below
            for at in range(first, stop):
                if along[at] < 0.0:
                    order[low] = kept[at - first]
                    low += 1
                else:
                    order[high] = kept[at - first]
                    high += 1
        # The second half waits below the first, so that parts come out in the order of their leaves.
        waiting[n_waiting, 0], waiting[n_waiting, 1] = first + below, stop
        waiting[n_waiting + 1, 0], waiting[n_waiting + 1, 1] = first, first + below
        n_waiting += 2
    return n_blocks


@kernel
def _measure(places, order, log_phi_t, blocks):
    """Fill what is known of the places of every block that has a bound."""
    q = places.shape[1]
    for b in range(blocks.start.shape[0]):
        if blocks.least[b] == -np.inf:
            continue
        inside = order[blocks.start[b] : blocks.start[b] + blocks.live[b]]
        for j in range(q):
            blocks.low[j, b], blocks.high[j, b] = np.inf, -np.inf
            for i in inside:
                blocks.low[j, b] = min(blocks.low[j, b], places[i, j])
                blocks.high[j, b] = max(blocks.high[j, b], places[i, j])
        blocks.least[b] = np.inf
        for i in inside:
            blocks.least[b] = min(blocks.least[b], log_phi_t[i])


def _has_places(compiled: CompiledModel) -> bool:
    """Whether the family says where its atoms lie; known without a call, for which a kernel would be compiled."""
    return type(compiled.family) in places.implementations


def make_blocks(compiled: CompiledModel, columns: np.ndarray, log_phi_t: np.ndarray) -> tuple[np.ndarray, Blocks]:
    """The order (m,) in which atoms, the columns of `columns` (s, m), become slots, and the blocks of these slots."""
    m = columns.shape[1]
    found = places(compiled.family, columns) if m >= _FEWEST_LEAVES and _has_places(compiled) else np.empty((m, 0))
    q = found.shape[1]
    parts: list[np.ndarray] = []  # of atoms of one count that lie together
    rest = np.arange(m)
    if q > 0 and np.all(np.isfinite(found)) and np.all(np.isfinite(log_phi_t)):
        _, which, held = np.unique(columns[0], return_inverse=True, return_counts=True)
        for number in np.flatnonzero(held >= _MOST_IN_BLOCK):
            order, starts = np.flatnonzero(which == number), np.empty(m, dtype=np.int64)
            n_parts = _split(found, order, starts)
            parts += np.split(order, starts[1:n_parts])
        rest = np.flatnonzero((held < _MOST_IN_BLOCK)[which])
    bounded = len(parts)
    if rest.size:
        parts.append(rest)
    order, sizes = np.concatenate(parts), np.array([part.size for part in parts])
    shape = (q, len(parts))
    least = np.where(np.arange(len(parts)) < bounded, 0.0, -np.inf)
    start, first = np.cumsum(sizes) - sizes, np.array([part[0] for part in parts])
    blocks = Blocks(start, sizes, columns[0, first].copy(), least, np.zeros(shape), np.zeros(shape))
    if bounded:
        _measure(found, order, log_phi_t, blocks)
    return order, blocks
