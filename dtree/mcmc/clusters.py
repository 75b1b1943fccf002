"""The clusters of a chain as columns of statistics, and the moves that keep them consistent.

`Work` is everything a compiled sampler step touches. It holds no state of the chain between sweeps: every sweep starts by
`load_partition`, which rebuilds the statistics from the labels, so rounding never accumulates and a chain resumed from its
labels, hyperparameters and generator goes on bit for bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.core.verbs import log_kappa
from dtree.mcmc.scores import join_gains, leave_gain, make_cache, put_atom, refresh_slot, refresh_slots, shift_atom

NEGLIGIBLE = 45.0  # a weight exp(-45) of the largest is below the rounding of their sum
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
    clusters = Clusters(
        np.zeros(1, dtype=np.int64),
        np.zeros((s, capacity)),
        np.zeros(capacity),
        np.zeros(capacity, dtype=np.int64),
        np.zeros(capacity + 1),
    )
    cache = make_cache(model.family, atoms, capacity)
    integers = np.zeros(m, dtype=np.int64)
    return Work(model, cache, clusters, atoms, log_alone, integers, integers.copy(), np.zeros((8, s)), acceptance)


@kernel
def note_proposal(acceptance, kind, log_ratio, accepted):
    """Count a proposal, if that is wanted and it was possible at all."""
    if acceptance.wanted[0] and math.isfinite(log_ratio):
        acceptance.tally[kind, 0] += 1.0
        acceptance.tally[kind, 1] += 1.0 if accepted else 0.0
        acceptance.tally[kind, 2] += log_ratio


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
        shift_atom(work.cache, clusters, work.atoms, i, labels[i], 1.0)
    clusters.open[0] = k
    refresh_slots(work.cache, work.model.family, clusters, 0, k)


@kernel
def refresh_all(work):
    """Recompute what is cached about every cluster."""
    refresh_slots(work.cache, work.model.family, work.clusters, 0, work.clusters.open[0])


@kernel
def canonical(labels):
    """Labels renumbered by first appearance."""
    number = np.full(labels.shape[0] + 2, -1, dtype=np.int64)
    out = np.empty(labels.shape[0], dtype=np.int64)
    next_number = 0
    for i in range(labels.shape[0]):
        if number[labels[i]] < 0:
            number[labels[i]] = next_number
            next_number += 1
        out[i] = number[labels[i]]
    return out


@kernel
def true_count(work, k):
    """Number of rows in cluster k."""
    return work.clusters.columns[0, k] * work.model.per_count


@kernel
def log_worth(work, k):
    """log phi_h of cluster k."""
    return log_kappa(work.model.prior, true_count(work, k)) + work.clusters.log_marginal[k]


@kernel
def log_worth_of_all(work):
    """Sum of log phi_h over clusters."""
    total = 0.0
    for k in range(work.clusters.open[0]):
        total += log_worth(work, k)
    return total


@kernel
def room_for_one_more(work):
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
    refresh_slot(work.cache, work.model.family, clusters, target)


@kernel
def close_slot(work, k):
    """Remove the empty cluster k; the last one moves into its slot."""
    last = work.clusters.open[0] - 1
    work.clusters.open[0] = last
    if k == last:
        return
    copy_slot(work, last, k)
    for i in range(work.labels.shape[0]):
        if work.labels[i] == last:
            work.labels[i] = k


@kernel
def draw_index(scores, size, rng):
    """An index drawn in proportion to exp(scores[:size]); scores are overwritten."""
    best = -np.inf
    for k in range(size):
        best = max(best, scores[k])
    total = 0.0
    for k in range(size):
        gap = scores[k] - best
        if gap > -NEGLIGIBLE:
            total += math.exp(gap)
        scores[k] = total  # now cumulative
    target = rng.random() * total
    for k in range(size):
        if target < scores[k]:
            return k
    return size - 1


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


@kernel
def gibbs_sweep(work, order, begin, rng):
    """Gibbs moves of the atoms order[begin:]; returns how many of `order` are done, fewer than all when out of room.

    The cluster of each atom is drawn given all others. Weights are gains of joining; for its own cluster the gain of
    having joined, so an atom that stays leaves no trace in the statistics.
    """
    model, cache, clusters, atoms, labels = work.model, work.cache, work.clusters, work.atoms, work.labels
    family, prior, per_count = model.family, model.prior, model.per_count
    columns, scores, n_atoms = clusters.columns, clusters.scores, clusters.n_atoms
    for position in range(begin, order.shape[0]):
        k = clusters.open[0]
        if k + 3 > columns.shape[1]:
            return position
        i = order[position]
        own = labels[i]
        weight = atoms[i, 0] * per_count
        join_gains(cache, family, clusters, atoms, i, 0, k, NEGLIGIBLE + 15.0, scores)
        for slot in range(k):
            if scores[slot] > -np.inf:
                count = columns[0, slot] * per_count
                scores[slot] += log_kappa(prior, count + weight) - log_kappa(prior, count)
        alone = log_kappa(prior, weight) + work.log_alone[i]
        size = k
        if n_atoms[own] == 1:
            scores[own] = alone
        else:
            count = columns[0, own] * per_count
            gain = leave_gain(cache, family, clusters, atoms, i, own)
            scores[own] = gain + log_kappa(prior, count) - log_kappa(prior, count - weight)
            scores[k] = alone
            size = k + 1
        chosen = draw_index(scores, size, rng)
        if chosen != own:
            move_atom(work, i, chosen)
    return order.shape[0]
