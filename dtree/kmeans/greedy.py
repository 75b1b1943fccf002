"""The greedy moves of Bayes K-means on atoms in memory: assign one by one, sweep, merge.

All three raise the sum over clusters of log phi_h. `sequential_kmeans` is the algorithm of [XHG09] section 5 to the
letter; the distributed passes use the same kernels for their start (on a random subsample) and for births (on the
rows of a block that no cluster explains).
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel, Model, log_phi_h
from dtree.core.model import _log_phi_h_rows as log_phi_of
from dtree.core.verbs import log_kappa, log_marginal_merged
from dtree.hierarchy.statistics import add_by_label

_LARGEST_TABLED_COUNT = 50_000.0  # see `compile_for`


@kernel(inline=True)
def _wider(columns, worth, capacity):
    """Copies of the per-cluster arrays with room for `capacity` clusters."""
    more_columns = np.zeros((columns.shape[0], capacity))
    more_worth = np.zeros(capacity)
    for c in range(
        columns.shape[1]
    ):  # loops: assigning slices compiles numba's sentence about shapes, two seconds of it
        more_worth[c] = worth[c]
        for j in range(columns.shape[0]):
            more_columns[j, c] = columns[j, c]
    return more_columns, more_worth


@kernel(inline=True)
def _best_cluster(model, columns, worth, members, row, k, joined):
    """Where `row` gains most, and that gain; empty ones are skipped. joined (k,) is scratch."""
    log_marginal_merged(model.family, columns, row, 0, k, joined)
    best, best_gain = -1, -np.inf
    for c in range(k):
        if members[c] > 0:
            count = (columns[0, c] + row[0]) * model.per_count
            gain = joined[c] + log_kappa(model.prior, count) - worth[c]
            if gain > best_gain:
                best, best_gain = c, gain
    return best, best_gain


@kernel
def move_in_order(model, atoms, order, n_seeds, labels, k):
    """Atoms move one by one to where each gains most, statistics always current; returns (moved, k).

    `labels` (m,) of k clusters is changed in place and may then leave empty clusters; an atom of label -1 is in
    none yet. The first n_seeds atoms of `order` open clusters. The sum of log phi_h never falls once every atom
    is in a cluster.
    """
    m, s = atoms.shape
    capacity = min(m, max(k, 4 * n_seeds) + 64)
    columns = np.zeros((s, capacity))
    worth = np.zeros(capacity)
    joined = np.empty(capacity)
    members = np.zeros(m, dtype=np.int64)
    for i in range(m):
        if labels[i] >= 0:
            members[labels[i]] += 1
            for j in range(s):
                columns[j, labels[i]] += atoms[i, j]
    scratch = np.empty(s)
    for c in range(k):
        if members[c] > 0:
            for j in range(s):
                scratch[j] = columns[j, c]
            worth[c] = log_phi_h(model, scratch)
    moved = 0
    for position in range(order.shape[0]):
        i = order[position]
        row = atoms[i]
        own = labels[i]
        stay = -np.inf
        if own >= 0:
            members[own] -= 1
            for j in range(s):
                scratch[j] = columns[j, own] - row[j] if members[own] > 0 else 0.0
                columns[j, own] = scratch[j]
            before = worth[own]
            worth[own] = log_phi_h(model, scratch) if members[own] > 0 else 0.0
            stay = before - worth[own]
        best, best_gain = -1, -np.inf
        if position >= n_seeds:
            best, best_gain = _best_cluster(model, columns, worth, members, row, k, joined)
        alone = log_phi_h(model, row)
        if best < 0 or (alone > best_gain and (own < 0 or members[own] > 0)):
            free = 0
            while free < k and members[free] > 0:
                free += 1
            if free == k:
                if k == capacity:
                    capacity = min(m, 2 * capacity)
                    columns, worth = _wider(columns, worth, capacity)
                    joined = np.empty(capacity)
                k += 1
            best, best_gain = free, alone
        if own >= 0 and best != own and best_gain <= stay + 1e-9 * abs(stay):
            best, best_gain = own, stay
        moved += best != own
        labels[i] = best
        members[best] += 1
        worth[best] += best_gain
        for j in range(s):
            columns[j, best] += row[j]
    return moved, k


@kernel
def pair_gains(model, statistics, worth, start, stop):
    """What joining clusters i and j adds to the sum of log phi_h, rows start <= i < stop, (stop - start, k).

    Only j > i is filled; the rest is -inf.
    """
    k = statistics.shape[0]
    columns = np.ascontiguousarray(statistics.T)
    gains = np.full((stop - start, k), -np.inf)
    joined = np.empty(k)
    for i in range(start, stop):
        log_marginal_merged(model.family, columns, statistics[i], i + 1, k, joined)
        for j in range(i + 1, k):
            count = (statistics[i, 0] + statistics[j, 0]) * model.per_count
            gains[i - start, j] = joined[j] + log_kappa(model.prior, count) - worth[i] - worth[j]
    return gains


@kernel
def merge_while_rising(model, statistics, worth, gains):
    """Merge the best pair while that raises the sum of log phi_h; `gains` (k, k) from `pair_gains`.

    Changes statistics, worth and gains in place. Returns owner (k,): the lowest cluster each one ended up in. Ties go
    to the smallest indices.
    """
    k, s = statistics.shape
    columns = np.ascontiguousarray(statistics.T)
    owner, best_with = np.empty(k, dtype=np.int64), np.zeros(k, dtype=np.int64)
    alive, stale = np.empty(k, dtype=np.bool_), np.empty(k, dtype=np.bool_)
    best_gain = np.empty(k)
    for i in range(k):  # a loop, since every function of NumPy is compiled anew for the kernel that calls it
        owner[i], alive[i], stale[i], best_gain[i] = i, True, True, -np.inf
    joined = np.empty(k)
    while True:
        for i in range(k):
            if stale[i]:
                stale[i] = False
                best_gain[i] = -np.inf
                if alive[i]:
                    for j in range(i + 1, k):
                        if gains[i, j] > best_gain[i]:
                            best_gain[i], best_with[i] = gains[i, j], j
        a = 0
        for i in range(1, k):
            if best_gain[i] > best_gain[a]:
                a = i
        if k == 0 or not best_gain[a] > 0.0:
            return owner
        b = best_with[a]
        worth[a] += worth[b] + best_gain[a]
        alive[b] = False
        for j in range(s):
            statistics[a, j] += statistics[b, j]
            columns[j, a] = statistics[a, j]
        for c in range(k):
            if owner[c] == b:
                owner[c] = a
            gains[min(b, c), max(b, c)] = -np.inf
        log_marginal_merged(model.family, columns, statistics[a], 0, k, joined)
        for c in range(k):
            if alive[c] and c != a:
                count = (statistics[a, 0] + statistics[c, 0]) * model.per_count
                gain = joined[c] + log_kappa(model.prior, count) - worth[a] - worth[c]
                gains[min(a, c), max(a, c)] = gain
            if c < b and (best_with[c] == a or best_with[c] == b):
                stale[c] = True
            elif c < a and gains[c, a] > best_gain[c]:
                best_gain[c], best_with[c] = gains[c, a], a
            elif c < a and gains[c, a] == best_gain[c] and a < best_with[c]:
                best_with[c] = a
        stale[a] = True
        stale[b] = True


class Merged(NamedTuple):
    """Clusters after merging."""

    label_map: np.ndarray  # (k before,) new number of each old cluster
    statistics: np.ndarray  # (k after, s)
    log_phi: np.ndarray  # (k after,)


def merge_clusters(model: Model, statistics: np.ndarray, gains: np.ndarray | None = None) -> Merged:
    """Merge clusters (k, s) pairwise, best pair first, while the sum of log phi_h rises; empty rows are dropped.

    `gains` (k, k) may hold pair gains computed elsewhere, for statistics without empty rows. The order of the
    clusters is kept: a merged pair stands where its first member stood.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> merge_clusters(model, model.atoms([[30], [1], [28], [2]])).label_map.tolist()
    [0, 1, 0, 1]
    """
    statistics = np.ascontiguousarray(statistics, dtype=np.float64)
    held = statistics[:, 0] > 0
    label_map = np.full(statistics.shape[0], -1, dtype=np.int64)
    kept = statistics[held].copy()
    compiled = compile_for(model, kept)
    worth = log_phi_of(compiled, kept)
    gains = pair_gains(compiled, kept, worth, 0, kept.shape[0]) if gains is None else gains.copy()
    owner = merge_while_rising(compiled, kept, worth, gains)
    survivors = np.unique(owner)
    label_map[held] = np.searchsorted(survivors, owner)
    merged = kept[survivors]
    return Merged(label_map, merged, log_phi_of(compiled, merged))


def compile_for(model: Model, statistics: np.ndarray) -> CompiledModel:
    """The model compiled for clusters made of these rows (k, s).

    Tables of functions of a count stop at a moderate count: few clusters are scored here, and a table for millions of
    rows would take longer to fill than all of them; larger counts are computed directly.
    """
    total = statistics.sum(axis=0)
    return model.compile(total * min(1.0, _LARGEST_TABLED_COUNT / max(model.counts(total[None])[0], 1.0)))


def sum_by_label(atoms: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Statistics (k, s): the atoms (m, s) of each label added in row order; label -1 is left out."""
    out = np.zeros((k, atoms.shape[1]))
    add_by_label(atoms, labels, out)
    return out


class Clustering(NamedTuple):
    """Atoms in memory and how they are clustered."""

    labels: np.ndarray  # (m,)
    statistics: np.ndarray  # (k, s)
    log_phi: np.ndarray  # (k,)

    @property
    def objective(self) -> float:
        """Sum over clusters of log phi_h."""
        return math.fsum(self.log_phi)


def default_seeds(m: int) -> int:
    """ceil(sqrt m), the number of points that open clusters in [XHG09]."""
    return math.isqrt(max(m - 1, 0)) + 1


def sequential_kmeans(model: Model, atoms: np.ndarray, order: np.ndarray, n_seeds: int | None = None) -> Clustering:
    """Bayes K-means of [XHG09] section 5: seed, assign every other atom once in `order`, merge while that helps.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> sequential_kmeans(model, model.atoms([[30], [1], [28], [2]]), np.arange(4)).labels.tolist()
    [0, 1, 0, 1]
    """
    return improved_kmeans(model, atoms, order, n_seeds, sweeps=0)


def improved_kmeans(
    model: Model, atoms: np.ndarray, order: np.ndarray, n_seeds: int | None = None, sweeps: int = 10
) -> Clustering:
    """The same, followed by up to `sweeps` rounds of single-atom moves and merging, until neither changes anything."""
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    order = np.ascontiguousarray(order, dtype=np.int64)
    n_seeds = default_seeds(order.shape[0]) if n_seeds is None else min(n_seeds, order.shape[0])
    compiled = compile_for(model, atoms)
    labels = np.full(atoms.shape[0], -1, dtype=np.int64)
    _, k = move_in_order(compiled, atoms, order, n_seeds, labels, 0)
    merged = merge_clusters(model, sum_by_label(atoms, labels, k))
    labels = merged.label_map[labels]
    for _ in range(sweeps):
        moved, k = move_in_order(compiled, atoms, order, 0, labels, merged.statistics.shape[0])
        if not moved:
            break
        merged = merge_clusters(model, sum_by_label(atoms, labels, k))
        labels = merged.label_map[labels]
    return Clustering(labels, merged.statistics, merged.log_phi)
