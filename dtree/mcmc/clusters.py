"""The clusters of a chain as columns of statistics, and the moves that keep them consistent.

`Work` is everything a compiled sampler step touches. It holds no state of the chain between sweeps: every sweep
starts by `load_partition`, which rebuilds the statistics from the labels, so rounding never accumulates and a chain
resumed from its labels, hyperparameters and generator goes on bit for bit.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.mcmc import scores_gaussian, scores_multinomial  # noqa: F401  (they register their caches)
from dtree.mcmc.scores import add_atoms, make_cache, put_atom, refresh_slots

SPLITS_AND_MERGES, BIRTHS_AND_DEATHS, GROWTH_AND_LOSS = 0, 1, 2  # rows of Acceptance.tally


class Clusters(NamedTuple):
    """Clusters in slots 0..k-1; `open[0]` is k. Two slots beyond k are free for proposals at any time."""

    open: np.ndarray  # (1,)
    columns: np.ndarray  # (s, capacity)
    log_marginal: np.ndarray  # (capacity,)
    n_atoms: np.ndarray  # (capacity,)
    scores: np.ndarray  # (capacity + 1,) scratch


class Acceptance(NamedTuple):
    """How proposals fare. Asked for, their ratios are computed to the end even where they are sure to be rejected."""

    wanted: np.ndarray  # (1,) bool
    tally: np.ndarray  # (3, 3) by kind of proposal: how many, how many accepted, their summed log acceptance ratios


class Work(NamedTuple):
    """One argument for all kernels."""

    model: Any
    cache: Any
    clusters: Clusters
    atoms: np.ndarray  # (m, s)
    log_alone: np.ndarray  # (m,) log marginal of each atom alone
    labels: np.ndarray  # (m,) slot of each atom
    members: np.ndarray  # (m,) scratch
    row: np.ndarray  # (8, s) scratch
    acceptance: Acceptance


def make_work(
    model: CompiledModel, atoms: np.ndarray, log_alone: np.ndarray, capacity: int, acceptance: Acceptance
) -> Work:
    """Room for `capacity` clusters."""
    m, s = atoms.shape
    opened, n_atoms = np.zeros(1, dtype=np.int64), np.zeros(capacity, dtype=np.int64)
    clusters = Clusters(opened, np.zeros((s, capacity)), np.zeros(capacity), n_atoms, np.zeros(capacity + 1))
    cache = make_cache(model.family, atoms, capacity)
    labels, members = np.zeros((2, m), dtype=np.int64)
    return Work(model, cache, clusters, atoms, log_alone, labels, members, np.zeros((8, s)), acceptance)


@kernel
def load_partition(work, labels):
    """Rebuild all clusters from canonical labels (m,)."""
    clusters = work.clusters
    k = labels.max() + 1
    for slot in range(clusters.n_atoms.shape[0]):
        clusters.n_atoms[slot] = 0
    for s in range(clusters.columns.shape[0]):
        for slot in range(k):
            clusters.columns[s, slot] = 0.0
    for i in range(labels.shape[0]):
        work.labels[i] = labels[i]
        clusters.n_atoms[labels[i]] += 1
    add_atoms(work.cache, clusters, work.atoms, labels)
    clusters.open[0] = k
    refresh_slots(work.cache, work.model.family, clusters, 0, k)


@kernel
def renumber(labels, out):
    """out (m,) = the labels (m,) renumbered by first appearance."""
    number = np.full(labels.max() + 1, -1, dtype=np.int64)
    next_number = 0
    for i in range(labels.shape[0]):
        if number[labels[i]] < 0:
            number[labels[i]] = next_number
            next_number += 1
        out[i] = number[labels[i]]


@kernel
def canonical(labels):
    """Labels renumbered by first appearance."""
    out = np.empty(labels.shape[0], dtype=np.int64)
    renumber(labels, out)
    return out


@kernel
def has_room(work):
    """Whether a cluster can be opened and two slots stay free."""
    return work.clusters.open[0] + 3 <= work.clusters.columns.shape[1]


@kernel
def clear_slot(work, k):
    """Make slot k an empty cluster."""
    columns = work.clusters.columns
    for s in range(columns.shape[0]):  # a loop: assigning slices takes numba seconds to compile
        columns[s, k] = 0.0
    work.clusters.n_atoms[k] = 0
    work.clusters.log_marginal[k] = 0.0


@kernel
def copy_slot(work, source, target):
    """Copy statistics, not labels."""
    clusters = work.clusters
    for s in range(clusters.columns.shape[0]):
        clusters.columns[s, target] = clusters.columns[s, source]
    clusters.n_atoms[target] = clusters.n_atoms[source]
    refresh_slots(work.cache, work.model.family, clusters, target, target + 1)


@kernel
def write_slot(work, k, row):
    """Let row (s,) be the statistics of cluster k."""
    for s in range(row.shape[0]):
        work.clusters.columns[s, k] = row[s]
    refresh_slots(work.cache, work.model.family, work.clusters, k, k + 1)


@kernel
def _relabel(labels, old, new):
    """Every label `old` becomes `new`; all are written, since a loop without a branch vectorises."""
    for i in range(labels.shape[0]):
        labels[i] = new if labels[i] == old else labels[i]


@kernel
def merge_slots(work, a, b, union):
    """Cluster a takes in all of cluster b, which is closed; `union` (s,) are their statistics together."""
    _relabel(work.labels, b, a)
    work.clusters.n_atoms[a] += work.clusters.n_atoms[b]
    write_slot(work, a, union)
    close_slot(work, b)


@kernel
def close_slot(work, k):
    """Remove the empty cluster k; the last one moves into its slot."""
    last = work.clusters.open[0] - 1
    work.clusters.open[0] = last
    if k == last:
        return
    copy_slot(work, last, k)
    _relabel(work.labels, last, k)


@kernel
def move_atom(work, i, target):
    """Move atom i to another slot (slot k opens a cluster) and close its old cluster when nothing is left there."""
    clusters, family = work.clusters, work.model.family
    own = work.labels[i]
    if target == clusters.open[0]:
        clear_slot(work, target)
        clusters.open[0] += 1
    put_atom(work.cache, family, clusters, work.atoms, i, target, 1.0)
    clusters.n_atoms[target] += 1
    work.labels[i] = target
    clusters.n_atoms[own] -= 1
    if clusters.n_atoms[own] == 0:
        close_slot(work, own)
    else:
        put_atom(work.cache, family, clusters, work.atoms, i, own, -1.0)
