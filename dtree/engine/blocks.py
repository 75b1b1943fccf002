"""Pair scores in blocks on the workers, and the merge loop in one central task.

The scores of all pairs of k clusters are k^2/2 marginal likelihoods; blocks of rows of that triangle are scored by the workers, and one task,
which opens a client of its own (`worker_client`) so that its thread is given back while it waits, runs the merge loop.
"""

from __future__ import annotations

import concurrent.futures
from typing import NamedTuple

import numpy as np
from distributed import Client, KilledWorker, worker_client
from distributed.client import FutureCancelledError

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.engine.runs import Run
from dtree.hierarchy.bhc import build_tree, score_leaves
from dtree.kmeans.greedy import Merged, compile_for, log_phi_of, merge_clusters, pair_gains
from dtree.kmeans.passes import ChunkSums, ClusterState, consolidate

_PAIRS_WORTH_SHARING = 2_000_000  # fewer are scored where they are: tasks would cost more than they save
_PAIRS_PER_BLOCK = 250_000
# Clusters shared from memory are gone when their worker dies; the central task then scores the pairs itself, to the same bits.
_LOST = (FutureCancelledError, KilledWorker, concurrent.futures.CancelledError)


def triangle_blocks(k: int, pairs: int = _PAIRS_PER_BLOCK) -> list[tuple[int, int]]:
    """Row ranges of the upper triangle of a k x k matrix with about `pairs` entries each.

    >>> triangle_blocks(6, pairs=5)
    [(0, 1), (1, 3), (3, 6)]
    """
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


def centre_task(path: str, run_id: str, number: int, sums: ChunkSums) -> ClusterState:
    """The central task of a pass: merge clusters and births, sharing the pair scores out when there are many."""
    model = Run(path).model()
    k = sums.statistics.shape[0] + sums.births.shape[0]
    if k * (k - 1) // 2 < _PAIRS_WORTH_SHARING:
        return consolidate(model, sums, number)
    try:
        with worker_client() as client:
            return consolidate(model, sums, number, lambda m, statistics: merge_on_workers(client, m, statistics))
    except _LOST:
        return consolidate(model, sums, number)


class Leaves(NamedTuple):
    """The best partners of a range of leaves, see `dtree.hierarchy.bhc`."""

    partners: np.ndarray
    scores: np.ndarray
    held: np.ndarray
    complete: np.ndarray


def leaves_task(model: Model, atoms: np.ndarray, start: int, stop: int, capacity: int) -> Leaves:
    """Score leaves start..stop-1 of the tree over atoms (m, s) against all leaves before them."""
    compiled = model.compile(atoms.sum(axis=0))
    m = atoms.shape[0]
    partners, scores = np.zeros((m, capacity), dtype=np.int64), np.full((m, capacity), np.inf)
    held, complete = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.bool_)
    columns = np.ascontiguousarray(atoms.T)
    log_phi_t = model.log_phi_h(atoms)
    score_leaves(compiled, columns, log_phi_t, np.arange(m), start, stop, 1, partners, scores, held, complete)
    rows = slice(start, stop)
    return Leaves(partners[rows], scores[rows], held[rows], complete[rows])


def tree_on_workers(client: Client, model: Model, atoms: np.ndarray) -> Tree:
    """`build_tree` with the scores of all pairs of leaves taken from the workers; the same bits."""
    m = atoms.shape[0]
    shared = client.scatter(atoms, hash=False)
    blocks = [(m - stop, m - start) for start, stop in triangle_blocks(m)]

    def score_pairs(compiled, columns, log_phi_t, node, partners, scores, held, complete, threads):  # type: ignore
        futures = [client.submit(leaves_task, model, shared, *block, partners.shape[1], pure=False) for block in blocks]
        for (start, stop), found in zip(blocks, client.gather(futures), strict=True):
            partners[start:stop], scores[start:stop] = found.partners, found.scores
            held[start:stop], complete[start:stop] = found.held, found.complete

    return build_tree(model, atoms, threads=1, score_pairs=score_pairs)


def tree_task(path: str, run_id: str) -> dict[str, np.ndarray]:
    """The central task of BHC: the tree over the final clusters as atoms, as columns."""
    run = Run(path)
    model, atoms = run.model(), run.clusters()
    if atoms.shape[0] * (atoms.shape[0] - 1) // 2 < _PAIRS_WORTH_SHARING:
        return tree_here(path, run_id)
    try:
        with worker_client() as client:
            return tree_columns(tree_on_workers(client, model, atoms))
    except _LOST:
        return tree_here(path, run_id)


def tree_here(path: str, run_id: str) -> dict[str, np.ndarray]:
    """The same without a cluster."""
    run = Run(path)
    return tree_columns(build_tree(run.model(), run.clusters(), threads=1))


def centre_here(path: str, run_id: str, number: int, sums: ChunkSums) -> ClusterState:
    """`centre_task` without a cluster."""
    return consolidate(Run(path).model(), sums, number)


def tree_columns(tree: Tree) -> dict[str, np.ndarray]:
    """The columns of a tree by name."""
    return {name: getattr(tree, name) for name in ("left", "right", "size", "log_phi_h", "log_phi_t")}
