"""Bayes K-means by passes over chunks: what one chunk does, how chunks are combined, and what the centre decides.

A pass scores every row against frozen statistics (its own cluster taken without the row), lets each chunk propose
clusters for the rows that none explains (births), and adds up the statistics by label in a fixed tree of chunks. The
centre merges clusters and births while that raises the sum of log phi_h. The objective after a pass is exact, because
statistics are rebuilt from labels. Nothing here knows where chunks live or who runs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtree.core.model import Model
from dtree.core.streams import stream as stream
from dtree.kmeans.greedy import Merged, default_seeds, improved_kmeans, merge_clusters
from dtree.kmeans.scoring import Scorer

GROUP = 8  # chunks are combined eight at a time, in order: the same sums whatever runs them
SAMPLE_STREAM, START_STREAM, BIRTH_STREAM = 0, 1, 2
_ATOM_BYTES = 96_000_000  # memory that dense atoms of a start or of births may take
_MOST_BIRTH_ROWS = 4096  # of a chunk in one pass; the others stay in their best cluster until the next


def atoms_that_fit(s: int, most: int) -> int:
    """How many dense rows of s statistics may be held at once, at most `most`."""
    return max(2, min(most, _ATOM_BYTES // (8 * s)))


class ChunkSums(NamedTuple):
    """What one chunk, or several chunks together, report to the centre."""

    rows: int
    moved: int  # rows whose label changed
    statistics: np.ndarray  # (k, s) rows assigned to existing clusters
    births: np.ndarray  # (b, s) proposed clusters
    birth_maps: dict[int, np.ndarray]  # chunk -> index into `births` of each cluster that the chunk proposed


class ClusterState(NamedTuple):
    """Clusters between two passes."""

    number: int  # passes done
    statistics: np.ndarray  # (k, s)
    objective: float  # sum of log phi_h over the clusters of all rows; -inf before the first pass
    label_map: np.ndarray  # new number of every cluster and every birth of the pass that led here
    birth_maps: dict[int, np.ndarray]
    moved: int
    rows: int

    @property
    def k(self) -> int:
        """Number of clusters."""
        return self.statistics.shape[0]

    def relabel(self, chunk: int, raw: np.ndarray) -> np.ndarray:
        """Present labels of a chunk from the raw ones it wrote in the pass that led here."""
        births = self.birth_maps.get(chunk, np.empty(0, dtype=np.int64))
        existing = self.label_map.shape[0] - self._n_births
        table = np.concatenate([self.label_map[:existing], self.label_map[existing + births]])
        return table[raw]

    @property
    def _n_births(self) -> int:
        return max((int(ids.max(initial=-1)) for ids in self.birth_maps.values()), default=-1) + 1


class PassSettings(NamedTuple):
    """How passes are made and when they stop."""

    seed: int = 0
    max_passes: int = 50
    patience: int = 2  # passes in a row that may fail to raise the objective
    tolerance: float = 1e-7  # relative rise that counts


def start_state(model: Model, sample: Any, seed: int, n_rows: int, n_seeds: int | None = None) -> ClusterState:
    """Clusters of a random subsample, found greedily in memory: what the first pass scores against."""
    atoms = model.atoms(sample)
    rng = stream(seed, START_STREAM, 0, 0)
    seeds = default_seeds(n_rows) if n_seeds is None else n_seeds
    seeds = min(seeds, max(atoms.shape[0] // 4, 1)) if n_seeds is None else min(seeds, atoms.shape[0])
    found = improved_kmeans(model, atoms, rng.permutation(atoms.shape[0]), seeds)
    nothing = np.empty(0, dtype=np.int64)
    return ClusterState(0, found.statistics, -math.inf, nothing, {}, n_rows, n_rows)


def assign_chunk(
    scorer: Scorer, X: Any, own: np.ndarray | None, chunk: int, number: int, seed: int
) -> tuple[np.ndarray, ChunkSums]:
    """One chunk's part of a pass: raw labels (n,) and the chunk's sums. Raw labels from k on are the chunk's births."""
    model, k = scorer.model, scorer.k
    labels, unexplained = scorer.assign(X, own)
    births = np.zeros((0, scorer.s))
    born = np.flatnonzero(unexplained)
    if born.size:
        rng = stream(seed, BIRTH_STREAM, number, chunk)
        limit = atoms_that_fit(scorer.s, _MOST_BIRTH_ROWS)
        if born.size > limit and k > 0:
            born = np.sort(rng.choice(born, limit, replace=False))
        found = improved_kmeans(model, model.atoms(X[born]), rng.permutation(born.size), sweeps=2)
        labels[born] = k + found.labels
        births = found.statistics
    moved = X.shape[0] if own is None else int(np.count_nonzero(labels != own))
    existing = np.where(labels < k, labels, -1)
    births_map = {chunk: np.arange(births.shape[0])} if births.shape[0] else {}
    return labels, ChunkSums(X.shape[0], moved, scorer.accumulate(X, existing, k), births, births_map)


def combine_sums(model: Model, parts: Sequence[ChunkSums]) -> ChunkSums:
    """Add the sums of several chunks in the given order; their births are merged among themselves."""
    if len(parts) == 1:
        return parts[0]
    statistics = parts[0].statistics.copy()
    for part in parts[1:]:
        statistics += part.statistics
    births = np.concatenate([part.births for part in parts])
    merged = merge_clusters(model, births) if births.shape[0] else Merged(np.empty(0, np.int64), births, np.empty(0))
    maps: dict[int, np.ndarray] = {}
    offset = 0
    for part in parts:
        for chunk, ids in part.birth_maps.items():
            maps[chunk] = merged.label_map[offset + ids]
        offset += part.births.shape[0]
    rows, moved = sum(part.rows for part in parts), sum(part.moved for part in parts)
    return ChunkSums(rows, moved, statistics, merged.statistics, maps)


def combine_in_tree(parts: Iterable[Any], combine: Callable[[Sequence[Any]], Any]) -> Any:
    """Combine parts eight at a time, level by level, holding at most seven of each level.

    >>> combine_in_tree("abcdefghij", lambda group: "(" + "".join(group) + ")")
    '((abcdefgh)(ij))'
    """
    levels: list[list[Any]] = [[]]

    def push(level: int, part: Any) -> None:
        if level == len(levels):
            levels.append([])
        levels[level].append(part)
        if len(levels[level]) == GROUP:
            push(level + 1, combine(levels[level]))
            levels[level] = []

    for part in parts:
        push(0, part)
    level = 0
    while sum(len(waiting) for waiting in levels) > 1 or not levels[-1]:
        if levels[level]:
            waiting, levels[level] = levels[level], []
            push(level + 1, combine(waiting))
        level += 1
    return levels[-1][0]


MergeClusters = Callable[[Model, np.ndarray], Merged]


def consolidate(model: Model, sums: ChunkSums, number: int, merge: MergeClusters = merge_clusters) -> ClusterState:
    """The centre's part of a pass: drop empty clusters, merge clusters and births while that raises the objective."""
    merged = merge(model, np.concatenate([sums.statistics, sums.births]))
    objective = math.fsum(merged.log_phi)
    return ClusterState(number, merged.statistics, objective, merged.label_map, sums.birth_maps, sums.moved, sums.rows)


class Progress(NamedTuple):
    """What a progress callback is told after every pass."""

    number: int
    objective: float
    n_clusters: int
    moved: int
    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """Rows assigned per second in this pass."""
        return self.rows / self.seconds if self.seconds > 0 else math.inf

    def line(self) -> str:
        """The pass in words."""
        return (
            f"pass {self.number}: objective {self.objective:.6g}, {self.n_clusters} clusters, "
            f"{self.rows_per_second:,.0f} rows/s"
        )


class Race(NamedTuple):
    """How the best state so far is kept and when passes stop."""

    best_number: int = 0
    best_objective: float = -math.inf
    stalled: int = 0

    def after(self, state: ClusterState, settings: PassSettings) -> Race:
        """The race after one more pass."""
        needed = self.best_objective + settings.tolerance * abs(self.best_objective)
        if not math.isfinite(self.best_objective) or state.objective > needed:
            return Race(state.number, state.objective, 0)
        if state.objective > self.best_objective:
            return Race(state.number, state.objective, self.stalled + 1)
        return Race(self.best_number, self.best_objective, self.stalled + 1)

    def over(self, state: ClusterState, settings: PassSettings) -> bool:
        """Whether to stop: nothing moved, no rise for too long, or too many passes."""
        settled = state.moved == 0 and state.label_map.shape[0] == state.k
        return settled or self.stalled >= settings.patience or state.number >= settings.max_passes
