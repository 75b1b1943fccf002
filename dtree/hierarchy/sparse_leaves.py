"""Leaves that are mostly zeros, kept as lists of what is not zero, one list for each statistic.

A merged node of word counts uses most words, a leaf few, and few leaves use a word. Going through the lists of the
words that a row uses, a score needs as many steps as the words that both use, and most pairs are with leaves.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.core.verbs import verb

_LARGEST_DENSITY = 0.3  # share of values that are not zero; with more, runs through contiguous memory are as fast


class SparseLeaves(NamedTuple):
    """Leaves whose statistic c is not zero: leaf[start[c]] .. leaf[stop[c] - 1], increasing. Empty if none are kept."""

    start: np.ndarray  # (s,) or (0,)
    stop: np.ndarray  # the same
    leaf: np.ndarray  # (z,)
    value: np.ndarray  # (z,) of the statistic


@kernel(counted=False)
def _nothing_kept(family, leaves, nodes, columns, log_own, row, start, stop, out):
    pass


@verb(_nothing_kept)
def log_marginal_sparse(
    family: Any, leaves: Any, nodes: Any, columns: Any, log_own: Any, row: Any, start: int, stop: int, out: Any
) -> None:
    """`log_marginal_joined` of `row` with leaves: that in column j is nodes[j]. Asked only where leaves are kept."""


def sparse_leaves(compiled: CompiledModel, atoms: np.ndarray) -> SparseLeaves:
    """The atoms (m, s) as lists, when the family can use them and they are short."""
    if type(compiled.family) in log_marginal_sparse.implementations:
        held = np.count_nonzero(atoms, axis=0)
        if held.sum() <= _LARGEST_DENSITY * atoms.size:
            column, leaf = np.nonzero(atoms.T)
            stop = np.cumsum(held)
            return SparseLeaves(stop - held, stop, leaf.astype(np.int32), atoms[leaf, column])
    nothing = np.empty(0, dtype=np.int64)
    return SparseLeaves(nothing, nothing, np.empty(0, dtype=np.int32), np.empty(0))


@kernel(counted=False)
def forget_merged(leaves, slot_of):
    """Take leaves that are merged, and have no slot, out of the lists."""
    for c in range(leaves.start.shape[0]):
        end = leaves.start[c]
        for at in range(leaves.start[c], leaves.stop[c]):
            if slot_of[leaves.leaf[at]] >= 0:
                leaves.leaf[end] = leaves.leaf[at]
                leaves.value[end] = leaves.value[at]
                end += 1
        leaves.stop[c] = end
