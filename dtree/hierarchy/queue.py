"""A queue of nodes by their best pair: the smallest score first, ties to the smallest pair (low, high)."""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel


class Queue(NamedTuple):
    """A binary heap over the first size[0] entries."""

    node: np.ndarray  # (capacity,) whose pair it is
    score: np.ndarray  # (capacity,)
    low: np.ndarray  # (capacity,)
    high: np.ndarray  # (capacity,)
    size: np.ndarray  # (1,)


def empty_queue(capacity: int) -> Queue:
    """A queue for so many nodes."""
    node, low, high = (np.empty(capacity, dtype=np.int64) for _ in range(3))
    return Queue(node, np.empty(capacity), low, high, np.zeros(1, dtype=np.int64))


def sorted_queue(capacity: int, node: np.ndarray, score: np.ndarray, other: np.ndarray) -> Queue:
    """A queue that holds nodes with their best partners; sorted, which is one of the orders that a heap may have."""
    low, high, queue = np.minimum(node, other), np.maximum(node, other), empty_queue(capacity)
    order = np.lexsort((high, low, score))
    for column, values in zip(queue[:4], (node, score, low, high), strict=True):
        column[: order.shape[0]] = values[order]
    queue.size[0] = order.shape[0]
    return queue


@kernel(inline=True, counted=False)
def _before(queue, at, score, low, high):
    """Whether entry `at` comes before a pair (low, high) of that score."""
    if queue.score[at] != score:
        return queue.score[at] < score
    if queue.low[at] != low:
        return queue.low[at] < low
    return queue.high[at] < high


@kernel(inline=True, counted=False)
def _set(queue, at, node, score, low, high):
    queue.node[at], queue.score[at], queue.low[at], queue.high[at] = node, score, low, high


@kernel(inline=True, counted=False)
def _copy(queue, source, target):
    _set(queue, target, queue.node[source], queue.score[source], queue.low[source], queue.high[source])


@kernel(inline=True, counted=False)
def push(queue, node, score, low, high):
    """Add an entry."""
    at = queue.size[0]
    queue.size[0] += 1
    while at > 0 and not _before(queue, (at - 1) // 2, score, low, high):
        _copy(queue, (at - 1) // 2, at)
        at = (at - 1) // 2
    _set(queue, at, node, score, low, high)


@kernel(counted=False)
def replace_first(queue, node, score, low, high):
    """Put an entry in the place of the first and let it find its own."""
    size = queue.size[0]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size:
            other = child + 1
            if _before(queue, other, queue.score[child], queue.low[child], queue.high[child]):
                child = other
        if not _before(queue, child, score, low, high):
            break
        _copy(queue, child, at)
        at = child
    _set(queue, at, node, score, low, high)


@kernel(counted=False)
def drop_first(queue):
    """Take the first entry away."""
    queue.size[0] -= 1
    last = queue.size[0]
    if last > 0:
        replace_first(queue, queue.node[last], queue.score[last], queue.low[last], queue.high[last])
