"""One level of randomised BHC: how a sample of its rows splits a node, and how one pass sends all rows to the sides.

See `randomized` for the whole. Tasks are plain functions of a job, a pass number and a chunk.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dtree.core.model import Model
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.predictive import log_cluster_weights
from dtree.hierarchy.statistics import cluster_statistics
from dtree.kmeans.passes import stream
from dtree.kmeans.scoring import Scorer
from dtree.methods.bayes_kmeans import labels_of
from dtree.methods.contract import Job
from dtree.storage.ahead import reads

_FILTER_STREAM = 16  # a number that no other use of random numbers in the same run has
_ROWS_PER_BLOCK = 4096  # rows that are held against the clusters of their node at once; bounds the memory of a task


class Frontier(NamedTuple):
    """The tree after a pass, N nodes numbered from the root 0, children after parents; and how rows go on from here."""

    left: np.ndarray  # (N,) children, -1 below a node that has none
    right: np.ndarray  # (N,)
    statistics: np.ndarray  # (N, s) of the rows that reached a node
    first: np.ndarray  # (N,) first row of a node
    final: np.ndarray  # (N,) 1 where a node will not be split
    owner: np.ndarray  # (c,) node whose rows a cluster may claim
    target: np.ndarray  # (c,) node to which a row goes that the cluster claims
    clusters: np.ndarray  # (c, s)


class NodeSums(NamedTuple):
    """What one chunk, or several together, report of the t nodes that rows came to in a pass."""

    rows: int
    statistics: np.ndarray  # (t, s)
    first: np.ndarray  # (t,)
    node: np.ndarray  # (r,) which of the t nodes a sampled row is in
    keys: np.ndarray  # (r,) random keys of the sampled rows
    sample: Any  # (r, d) dense or CSR


class Split(NamedTuple):
    """How a node is divided into parts: its clusters, or the two sides of the top split."""

    statistics: np.ndarray  # (c, s) of the clusters in the sample
    part: np.ndarray  # (c,) the part of each cluster
    merges: list[tuple[int, int]]  # the tree over p parts, p - 1 merges; the last one makes the node
    final: bool  # whether the parts are clusters, not to be split again


def split_node(model: Model, sample: Any, whole: bool) -> Split | None:
    """Exact BHC on a sample of a node's rows; None when it is one cluster. `whole`: the sample is all the node has.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> split = split_node(model, np.array([[1], [50], [2], [300], [51]]), whole=False)
    >>> split.statistics[:, [0, 2]].tolist(), split.part.tolist(), split.merges
    ([[2.0, 3.0], [2.0, 101.0], [1.0, 300.0]], [0, 0, 1], [(0, 1)])
    >>> split_node(model, np.array([[1], [50], [2], [300], [51]]), whole=True).merges
    [(1, 0), (2, 3)]
    """
    atoms = model.atoms(sample)
    tree = build_tree(model, atoms, threads=1)
    labels = tree.cut()
    c = int(labels.max()) + 1
    if c == 1:
        return None
    above = list(labels)  # the cluster of a node within one; above the cut, a number from c on
    merges: list[tuple[int, int]] = []
    for a, b in tree.merges:
        pair = (int(above[a]), int(above[b]))
        if pair[0] == pair[1]:
            above.append(pair[0])
            continue
        above.append(c + len(merges))
        merges.append(pair)
    clusters = cluster_statistics(labels, atoms)
    if whole:
        return Split(clusters, np.arange(c), merges, True)
    first = labels[tree.leaves_below(tree.left[-1])]
    part = np.where(np.isin(np.arange(c), first), 0, 1)
    return Split(clusters, part if part[0] == 0 else 1 - part, [(0, 1)], False)


# What workers do -----------------------------------------------------------------------------------------------------


@reads(lambda job, number, chunk: job.ahead(chunk, labels_of(number - 1)))
def filter_task(job: Job, number: int, chunk: int) -> NodeSums:
    """One chunk's part of pass `number`: send its rows on, write their nodes, sum up and sample these nodes."""
    model, state = job.prepared.model, job.state(number - 1).frontier
    start, stop = job.bounds(chunk)
    X = job.rows(chunk)
    nodes = np.zeros(stop - start, dtype=np.int64) if number == 1 else _nodes_of(job, number - 1, chunk)
    log_sizes = log_cluster_weights(model, model.counts(state.clusters))
    for owner in np.unique(state.owner):
        mine = np.flatnonzero(state.owner == owner)
        rows = np.flatnonzero(nodes == owner)
        for at in range(0, rows.shape[0], _ROWS_PER_BLOCK):
            block = rows[at : at + _ROWS_PER_BLOCK]
            claims = model.family.log_predictive_of(X[block], state.clusters[mine]) + log_sizes[mine]
            nodes[block] = state.target[mine[np.argmax(claims, axis=1)]]
    job.store.write_rows(labels_of(number), start, nodes.astype(np.int32))
    targets = np.unique(state.target)
    place = np.searchsorted(targets, nodes)
    place = np.where(targets[np.minimum(place, targets.shape[0] - 1)] == nodes, place, -1)
    statistics = Scorer(model, np.zeros((0, state.clusters.shape[1]))).accumulate(X, place, targets.shape[0])
    first = np.full(targets.shape[0], job.n)
    found, at_row = np.unique(place, return_index=True)
    first[found[found >= 0]] = start + at_row[found >= 0]
    keys = stream(job.seed, _FILTER_STREAM, number, chunk).random(stop - start)
    still_open = np.flatnonzero(np.isin(place, np.flatnonzero(state.final[targets] == 0)))
    sums = NodeSums(stop - start, statistics, first, place[still_open], keys[still_open], X[still_open])
    return _thin(sums, job.settings.subset)


def _nodes_of(job: Job, number: int, chunk: int) -> np.ndarray:
    """The nodes of the rows of a chunk after a pass."""
    start, stop = job.bounds(chunk)
    nodes = job.store.read_rows(labels_of(number), start, stop).astype(np.int64)
    if nodes.min() < 0 or nodes.max() >= job.state(number).frontier.left.shape[0]:  # never written reads as -1
        raise ValueError(f"the nodes of rows {start} to {stop - 1} in {job.store.location} are none: it is damaged")
    return nodes


def _thin(sums: NodeSums, subset: int) -> NodeSums:
    """Keep, of every node, the rows with the smallest keys."""
    order = np.lexsort((sums.keys, sums.node))
    node = sums.node[order]
    begins = np.searchsorted(node, node)  # where the rows of the same node begin
    order = order[np.arange(node.shape[0]) - begins < subset]
    return sums._replace(node=sums.node[order], keys=sums.keys[order], sample=sums.sample[order])


def combine_task(subset: int, parts: Sequence[NodeSums]) -> NodeSums:
    """Add the sums of up to eight chunks or groups of chunks, in order."""
    sample: Any = [part.sample for part in parts]
    joined = NodeSums(
        sum(part.rows for part in parts),
        reduce(np.add, [part.statistics for part in parts]),
        np.minimum.reduce([part.first for part in parts]),
        np.concatenate([part.node for part in parts]),
        np.concatenate([part.keys for part in parts]),
        sparse.vstack(sample).tocsr() if sparse.issparse(sample[0]) else np.concatenate(sample),
    )
    return _thin(joined, subset)


def split_task(job: Job, sample: Any, whole: bool) -> Split | None:
    """`split_node` with the model of a job."""
    return split_node(job.prepared.model, sample, whole)


@reads(lambda job, number, chunk, *_: job.ahead(chunk, labels_of(number), rows=False))
def final_nodes_task(job: Job, number: int, chunk: int, leaf_of: np.ndarray, leaf_clusters: np.ndarray) -> np.ndarray:
    """Write leaves and labels of one chunk from the nodes of its rows; returns the sizes of the leaves."""
    start, leaves = job.bounds(chunk)[0], leaf_of[_nodes_of(job, number, chunk)]
    if leaves.min() < 0:
        raise ValueError(f"rows of chunk {chunk} are at no leaf in {job.store.location}: it is damaged")
    job.store.write_rows("leaves", start, leaves.astype(np.int32))
    job.store.write_rows("labels", start, leaf_clusters[leaves].astype(np.int32))
    return np.bincount(leaves, minlength=leaf_clusters.shape[0])


# The centre ----------------------------------------------------------------------------------------------------------


def root_of(model: Model, sample: Any, whole: bool) -> Frontier:
    """The tree before the first pass: one node, split by a sample of all rows."""
    # Where the sample is one cluster, every row takes the first of two sides, and the other stays empty.
    everything = model.atoms(sample).sum(axis=0, keepdims=True)
    split = split_node(model, sample, whole) or Split(everything, np.zeros(1, np.int64), [(0, 1)], True)
    zero, empty = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    blank = np.zeros_like(everything)
    return grow(Frontier(zero - 1, zero - 1, blank, zero, zero, empty, empty, everything[:0]), {0: split})


def grow(state: Frontier, splits: dict[int, Split]) -> Frontier:
    """The tree with some nodes divided, and nothing but their clusters to filter by."""
    left, right = state.left.tolist(), state.right.tolist()
    final = state.final.tolist()
    owner: list[int] = []
    target: list[int] = []
    for node, split in splits.items():
        # The node is the last merge; numbers are given from the top down, so that children stand after parents.
        parts = len(split.merges) + 1
        number = {2 * parts - 2: node}
        for i in range(parts - 2, -1, -1):
            for child, side in zip(split.merges[i], (left, right), strict=True):
                number[child] = side[number[parts + i]] = len(left)
                left.append(-1)
                right.append(-1)
                final.append(int(split.final))
        owner += [node] * split.part.shape[0]
        target += [number[int(part)] for part in split.part]
    fresh = len(left) - state.left.shape[0]
    width = state.statistics.shape[1]
    return Frontier(
        np.array(left), np.array(right),
        np.concatenate([state.statistics, np.zeros((fresh, width))]),
        np.concatenate([state.first, np.zeros(fresh, dtype=np.int64)]),
        np.array(final), np.array(owner, dtype=np.int64), np.array(target, dtype=np.int64),
        np.concatenate([split.statistics for split in splits.values()]) if splits else np.zeros((0, width)),
    )  # fmt: skip


def arrive(state: Frontier, model: Model, sums: NodeSums, subset: int) -> tuple[Frontier, list[tuple[int, Any, bool]]]:
    """The tree with what came to its new nodes; and nodes still to be split: number, sample, whether that is all."""
    targets = np.unique(state.target)
    statistics, first, final = state.statistics.copy(), state.first.copy(), state.final.copy()
    statistics[targets], first[targets] = sums.statistics, sums.first
    counts = np.rint(model.counts(statistics))
    counts[0] = sums.rows
    from_node = dict(zip(state.target.tolist(), state.owner.tolist(), strict=True))
    still_open = []
    for i, node in enumerate(targets.tolist()):
        if final[node] or counts[node] < 2 or counts[node] == counts[from_node[node]]:
            final[node] = 1
        else:
            still_open.append((node, sums.sample[sums.node == i], bool(counts[node] <= subset)))
    return state._replace(statistics=statistics, first=first, final=final), still_open


def leaves_of(state: Frontier, model: Model) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """The leaf (N,) that each node is, numbered by first row, -1 for others; and the merges of leaves up to the root.

    A side that no row took is no leaf, and its sibling takes the place of both.
    """
    held = np.flatnonzero((state.left < 0) & (np.rint(model.counts(state.statistics)) > 0))
    held = held[np.argsort(state.first[held], kind="stable")]
    leaf_of = np.full(state.left.shape[0], -1)
    leaf_of[held] = np.arange(held.shape[0])
    top = leaf_of.tolist()
    merges: list[tuple[int, int]] = []
    for node in range(state.left.shape[0] - 1, -1, -1):
        if state.left[node] < 0:
            continue
        pair = sorted((top[state.left[node]], top[state.right[node]]))
        if pair[0] < 0:
            top[node] = pair[1]
            continue
        top[node] = held.shape[0] + len(merges)
        merges.append((pair[0], pair[1]))
    return leaf_of, merges
