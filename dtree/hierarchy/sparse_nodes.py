"""Nodes that are mostly zeros, kept as lists of what is not zero.

Leaves have a list for each value of each statistic. A merged node of word counts uses many words, a leaf few, and few
leaves use a word: going through the lists of the words that a row uses, a score needs as many steps as the words that
both use, and most pairs are with leaves. Leaves with as many of a word gain the same by it, so that is looked up once
for all of them. A merged node has one list, of its statistics.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.core.verbs import verb

_LARGEST_DENSITY = 0.3  # share of values that are not zero; with more, runs through contiguous memory are as fast


class SparseNodes(NamedTuple):
    """m leaves as rows and as r lists, and room for p merged nodes; none of all this where nodes are not sparse.

    The lists of statistic c are first[c] .. first[c + 1] - 1. Leaves for which it is value[i] are
    leaf[start[i]] .. leaf[stop[i] - 1], increasing. Leaf k is in the lists of[begin[k]] .. of[begin[k + 1] - 1].
    Merged node i has held[i] statistics which[i] of size what[i]. What a statistic of some size adds to the marginal of
    a node by itself is asked for in every score, so it is kept.
    """

    rows: np.ndarray  # (m, s) statistics of leaves
    first: np.ndarray  # (s+1,)
    value: np.ndarray  # (r,)
    adds: np.ndarray  # (r,) that value, to the marginal
    start: np.ndarray  # (r,)
    stop: np.ndarray  # (r,)
    leaf: np.ndarray  # (z,)
    begin: np.ndarray  # (m+1,)
    of: np.ndarray  # (z,) increasing for each leaf
    held: np.ndarray  # (p,)
    which: np.ndarray  # (p, s) increasing; memory that is never filled is never taken
    what: np.ndarray  # (p, s)
    what_adds: np.ndarray  # (p, s)


class SparseScratch(NamedTuple):
    """Memory that every score of one node with others uses anew."""

    own: np.ndarray  # (s, 4) what is known of each statistic of the node
    gained: np.ndarray  # (m,) what it and a leaf add together less what they add alone
    gain: np.ndarray  # (r,) the same of every list


@kernel(counted=False)
def _nothing_kept(family, sparse, nodes, log_own, row, start, stop, scratch, out):
    pass


@verb(_nothing_kept)
def log_marginal_sparse(
    family: Any, sparse: Any, nodes: Any, log_own: Any, row: Any, start: int, stop: int, scratch: Any, out: Any
) -> None:
    """`log_marginal_joined` of `row` with the nodes in slots start .. stop - 1, all leaves or all merged.

    Slots of leaves are those below m, the leaf there is nodes[slot]; merged node i is in slot m + i.
    """


@verb()
def weigh_values(family: Any, sparse: Any) -> None:
    """Fill in what the values of the leaves' lists add; for a family that has `log_marginal_sparse`."""
    raise NotImplementedError


@kernel(counted=False)
def _nothing_put(family, sparse, slot, row):
    pass


@verb(_nothing_put)
def put_sparse(family: Any, sparse: Any, slot: int, row: Any) -> None:
    """Keep row (s,) as the merged node in a slot."""


def sparse_nodes(compiled: CompiledModel, atoms: np.ndarray) -> SparseNodes:
    """The atoms (m, s) as sparse leaves, when the family can use them and they are; else nothing."""
    m, s = atoms.shape
    atoms = atoms[: m if type(compiled.family) in log_marginal_sparse.implementations else 0]
    if np.count_nonzero(atoms) > _LARGEST_DENSITY * atoms.size:
        atoms = atoms[:0]
    leaf, column = np.nonzero(atoms)
    value = atoms[leaf, column]
    order = np.lexsort((leaf, value, column))
    leaf, column, value = leaf[order].astype(np.int32), column[order], value[order]
    start = np.flatnonzero(np.diff(column, prepend=-1) | (np.diff(value, prepend=0.0) != 0.0))
    first, stop = np.searchsorted(column[start], np.arange(s + 1)), np.append(start, leaf.size)[1:]
    room = atoms.shape[0] // 2 + 1  # every merged node holds two leaves; one more before these have left
    held, which = np.zeros(room, dtype=np.int64), np.empty((room, s), dtype=np.int32)
    listed = np.repeat(np.arange(start.shape[0], dtype=np.int32), stop - start)[np.argsort(leaf, kind="stable")]
    begin = np.append(0, np.cumsum(np.bincount(leaf, minlength=atoms.shape[0])))
    lists = atoms, first, value[start], np.empty(start.shape[0]), start, stop, leaf, begin, listed
    sparse = SparseNodes(*lists, held, which, np.empty((room, s)), np.empty((room, s)))
    if atoms.shape[0]:
        weigh_values(compiled.family, sparse)
    return sparse


def sparse_scratch(sparse: SparseNodes) -> SparseScratch:
    """Scratch memory for scores of these nodes; one for every thread."""
    m, s = sparse.rows.shape
    s = s if m else 0
    return SparseScratch(np.zeros((s, 4)), np.empty(m), np.empty(sparse.value.shape[0]))


@kernel(counted=False)
def forget_merged(sparse, slot_of):
    """Take leaves that are merged, and have no slot, out of the lists."""
    for i in range(sparse.start.shape[0]):
        end = sparse.start[i]
        for at in range(sparse.start[i], sparse.stop[i]):
            if slot_of[sparse.leaf[at]] >= 0:
                sparse.leaf[end] = sparse.leaf[at]
                end += 1
        sparse.stop[i] = end


@kernel(counted=False)
def add_sparse(sparse, slot, leaf, row):
    """Add the statistics of the node in a slot, which is this leaf if it is one, to row (s,)."""
    i = slot - sparse.rows.shape[0]
    if i < 0:
        for c in range(row.shape[0]):
            row[c] += sparse.rows[leaf, c]
    else:
        for at in range(sparse.held[i]):
            row[sparse.which[i, at]] += sparse.what[i, at]


@kernel(counted=False)
def move_sparse(sparse, source, target):
    """Move a merged node to another slot; leaves stay where they are, whatever their slot."""
    i, to = source - sparse.rows.shape[0], target - sparse.rows.shape[0]
    if i >= 0:
        for at in range(sparse.held[i]):
            sparse.which[to, at], sparse.what[to, at] = sparse.which[i, at], sparse.what[i, at]
            sparse.what_adds[to, at] = sparse.what_adds[i, at]
        sparse.held[to] = sparse.held[i]
