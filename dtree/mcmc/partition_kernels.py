"""Compiled steps of the search over partitions, and tables of two partitions.

A partition of b items with weights is compared with many draws at once. What one draw adds to the expected loss of a
partition with clusters T follows from its table against the draw's clusters S (Dahl, Johnson & Mueller 2022):

    joint * sum_T g(|T|) - 2 * sum_ST g(|S & T|)  + what does not depend on the partition

g(x) = x log x gives the variation of information, g(x) = x^2 Binder's loss; joint is 1, and other values between 0 and
2 make larger clusters cheaper or dearer. The tables of all draws stand below each other in `cells` (r, k): a row for
every cluster of every draw, a column for every cluster of the partition.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel


class Draws(NamedTuple):
    """What a partition of b items is compared with."""

    row: np.ndarray  # (b, draws) int32: the row of `cells` that belongs to the item's cluster in each draw
    times: np.ndarray  # (draws,) how often each was drawn
    weight: np.ndarray  # (b,) int64, rows behind each item
    of_row: np.ndarray  # (r,) the draw that each row of `cells` belongs to


class Loss(NamedTuple):
    """A loss as a function of counts."""

    is_vi: bool
    joint: float
    value: np.ndarray  # g(0), g(1), ...: as many as are worth a table; none: each is computed
    step: np.ndarray  # g(x + 1) - g(x) likewise


@kernel
def _g(x, is_vi):
    if not is_vi:
        return float(x) * x
    return x * math.log(x) if x > 0 else 0.0


@kernel
def _gain(loss, x, weight):
    """g(x + weight) - g(x)."""
    if loss.step.shape[0] > 0:
        return loss.step[x] if weight == 1 else loss.value[x + weight] - loss.value[x]
    return _g(x + weight, loss.is_vi) - _g(x, loss.is_vi)


@kernel
def table_of(draws, rows, k, labels):
    """The cells (rows, k) and sizes (k,) of a partition (b,); an item labelled -1 is nowhere."""
    cells = np.zeros((rows, k), dtype=np.int64)
    size = np.zeros(k, dtype=np.int64)
    for item in range(labels.shape[0]):
        if labels[item] >= 0:
            _move(draws, cells, size, item, labels[item], 1)
    return cells, size


@kernel
def _move(draws, cells, size, item, cluster, sign):
    weight = sign * draws.weight[item]
    size[cluster] += weight
    for draw in range(draws.row.shape[1]):
        cells[draws.row[item, draw], cluster] += weight


@kernel
def expected_loss(draws, loss, cells, size):
    """What of the loss summed over all draws depends on the partition."""
    total = 0.0
    for cluster in range(size.shape[0]):
        total += _g(size[cluster], loss.is_vi)
    total *= loss.joint * draws.times.sum()
    for row in range(cells.shape[0]):
        inner = 0.0
        for cluster in range(cells.shape[1]):
            inner += _gain(loss, 0, cells[row, cluster])
        total -= 2.0 * draws.times[draws.of_row[row]] * inner
    return total


@kernel
def _cost_of_places(draws, loss, cells, size, item, cost):
    """What it costs (k,) to put the item, which is nowhere, into each cluster."""
    weight = draws.weight[item]
    cost[:] = 0.0
    for draw in range(draws.row.shape[1]):
        row, times = cells[draws.row[item, draw]], draws.times[draw]
        if loss.step.shape[0] > 0 and weight == 1:  # the usual case, worth a loop of its own
            for cluster in range(cost.shape[0]):
                cost[cluster] -= times * loss.step[row[cluster]]
        else:
            for cluster in range(cost.shape[0]):
                cost[cluster] -= times * _gain(loss, row[cluster], weight)
    total = draws.times.sum()
    for cluster in range(cost.shape[0]):
        cost[cluster] = 2.0 * cost[cluster] + loss.joint * total * _gain(loss, size[cluster], weight)


@kernel
def place(draws, loss, cells, size, labels, items):
    """Put the items, one after the other, where each costs least; how many changed their cluster.

    An item that stays as cheap where it is stays there, so that repeated sweeps come to an end.
    """
    changed = 0
    cost = np.empty(size.shape[0])
    for item in items:
        old = labels[item]
        if old >= 0:
            _move(draws, cells, size, item, old, -1)
        _cost_of_places(draws, loss, cells, size, item, cost)
        best = int(np.argmin(cost))
        if old >= 0 and cost[old] <= cost[best] + 1e-9 * abs(cost[best]):
            best = old
        changed += best != old
        labels[item] = best
        _move(draws, cells, size, item, best, 1)
    return changed


@kernel
def best_merge(draws, loss, cells, size):
    """The two clusters whose union lowers the loss most, and by how much (not above 0)."""
    k = size.shape[0]
    first, second, best = -1, -1, 0.0
    change = np.zeros((k, k))
    for row in range(cells.shape[0]):
        times = draws.times[draws.of_row[row]]
        for a in range(k):
            if cells[row, a] == 0:
                continue
            for b in range(a + 1, k):
                if cells[row, b] > 0:
                    change[a, b] -= times * (_gain(loss, cells[row, a], cells[row, b]) - _gain(loss, 0, cells[row, b]))
    total = draws.times.sum()
    for a in range(k):
        for b in range(a + 1, k):
            if size[a] > 0 and size[b] > 0:
                alone = _gain(loss, size[a], size[b]) - _gain(loss, 0, size[b])
                found = 2.0 * change[a, b] + loss.joint * total * alone
                if found < best:
                    first, second, best = a, b, found
    return first, second, best


@kernel
def pair_tables(first, second, weight):
    """Of every two partitions first (a, n) and second (c, n): the sums of g over their table, and rows shared by row.

    Sums (a, c) of x log x and of x^2, and for each row (n,) the weight that its two clusters share, added over pairs.
    """
    n = weight.shape[0]
    logs, squares = np.zeros((first.shape[0], second.shape[0])), np.zeros((first.shape[0], second.shape[0]))
    shared = np.zeros(n)
    for i in range(first.shape[0]):
        for j in range(second.shape[0]):
            width = second[j].max() + 1
            cells = np.zeros((first[i].max() + 1) * width)
            for row in range(n):
                cells[first[i, row] * width + second[j, row]] += weight[row]
            for cell in cells:
                squares[i, j] += cell * cell
                if cell > 0.0:
                    logs[i, j] += cell * math.log(cell)
            for row in range(n):
                shared[row] += cells[first[i, row] * width + second[j, row]]
    return logs, squares, shared


@kernel
def agreement(labels, estimate, weight):
    """How the clusters of an estimate (n,) fare in draws (draws, n).

    For each row (n,) means over the draws of its part of the variation of information, and of the overlap of its two
    clusters (weight in both over weight in either); for each cluster (k,) the mean overlap with the cluster of the draw
    that is most like it, and the share of draws that have it exactly.
    """
    n, k = estimate.shape[0], estimate.max() + 1
    size = np.zeros(k)
    for row in range(n):
        size[estimate[row]] += weight[row]
    part, overlap, again, exact = np.zeros(n), np.zeros(n), np.zeros(k), np.zeros(k)
    for draw in range(labels.shape[0]):
        width = labels[draw].max() + 1
        cells, other, best = np.zeros((k, width)), np.zeros(width), np.zeros(k)
        for row in range(n):
            cells[estimate[row], labels[draw, row]] += weight[row]
            other[labels[draw, row]] += weight[row]
        for row in range(n):
            ours, theirs = estimate[row], labels[draw, row]
            both = cells[ours, theirs]
            part[row] += math.log(size[ours] / both) + math.log(other[theirs] / both)
            alike = both / (size[ours] + other[theirs] - both)
            overlap[row] += alike
            best[ours] = max(best[ours], alike)
        again += best
        exact += best >= 1.0
    m = labels.shape[0]
    return part / m, overlap / m, again / m, exact / m
