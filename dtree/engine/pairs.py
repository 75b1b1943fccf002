"""What joining any two clusters gains in blocks on the workers, and the merge loop in one central task.

The gains of all pairs of k clusters are k^2/2 marginal likelihoods; blocks of rows of that triangle are taken by the
workers, and one task, which opens a client of its own (`worker_client`) so that its thread is given back while it
waits, runs the merge loop. Trees are grown by that task alone; `dtree.methods.bhc` says why.
"""

import concurrent.futures
from collections.abc import Callable
from typing import Any

import numpy as np
from distributed import Client, KilledWorker, worker_client
from distributed.client import FutureCancelledError

from dtree.core.model import Model
from dtree.engine.workers import Pairs
from dtree.kmeans.greedy import Merged, compile_for, log_phi_of, merge_clusters, pair_gains

_PAIRS_WORTH_SHARING = 2_000_000  # fewer are scored where they are: tasks would cost more than they save
_PAIRS_PER_BLOCK = 250_000  # at least
_MOST_BLOCKS = 64  # every task compiles the model and scores all atoms on their own before its pairs
# Clusters shared from memory are gone when their worker dies; the central task then scores the pairs itself, to the
# same bits.
_LOST = (FutureCancelledError, KilledWorker, concurrent.futures.CancelledError)


def triangle_blocks(k: int, pairs: int | None = None) -> list[tuple[int, int]]:
    """Row ranges of the upper triangle of a k x k matrix with about `pairs` entries each; by default not too many.

    >>> triangle_blocks(6, pairs=5)
    [(0, 1), (1, 3), (3, 6)]
    """
    if pairs is None:
        pairs = max(_PAIRS_PER_BLOCK, k * (k - 1) // 2 // _MOST_BLOCKS)
    blocks, start = [], 0
    while start < k:
        stop, held = start, 0
        while stop < k and held < pairs:
            held += k - 1 - stop
            stop += 1
        blocks.append((start, stop))
        start = stop
    return blocks


def gains_task(model: Model, statistics: np.ndarray, start: int, stop: int) -> np.ndarray:
    """Pair gains of a block of rows; see `pair_gains`."""
    compiled = compile_for(model, statistics)
    return pair_gains(compiled, statistics, log_phi_of(compiled, statistics), start, stop)


def merge_on_workers(client: Client, model: Model, statistics: np.ndarray) -> Merged:
    """`merge_clusters` with its pair scores taken from the workers; the same bits."""
    held = np.ascontiguousarray(statistics[statistics[:, 0] > 0])
    shared = client.scatter(held, broadcast=False, hash=False)
    blocks = triangle_blocks(held.shape[0])
    futures = [client.submit(gains_task, model, shared, *block, pure=False) for block in blocks]
    gains = np.concatenate(client.gather(futures))
    return merge_clusters(model, statistics, gains)


class SharedPairs(Pairs):
    """The same with the scores taken from other workers when there are many; the same bits."""

    threads = 1  # a worker has one thread

    def merge(self, model: Model, statistics: np.ndarray) -> Merged:
        return _shared(statistics, super().merge, merge_on_workers, model)


def _shared(rows: np.ndarray, here: Callable[..., Any], there: Callable[..., Any], model: Model) -> Any:
    k = rows.shape[0]
    if k * (k - 1) // 2 < _PAIRS_WORTH_SHARING:
        return here(model, rows)
    try:
        with worker_client() as client:  # gives its thread back while it waits
            return there(client, model, rows)
    except _LOST:
        return here(model, rows)


def central_task(task: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A central task on a worker, which may ask the other workers for scores."""
    return task(SharedPairs(), *arguments)
