"""Bayes K-means by passes on rows in memory: the same steps, in the same order, as on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.partition import canonical_labels
from dtree.kmeans.passes import (
    ClusterState,
    PassSettings,
    Progress,
    Race,
    assign_chunk,
    atoms_that_fit,
    combine_in_tree,
    combine_sums,
    consolidate,
)
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.survey import Survey, combine_surveys, share_of_sample, survey_chunk

_CHUNK_BYTES = 32_000_000
_MOST_SAMPLE_ROWS = 10_000
_SAMPLE_WORK = 2e10  # multiplications that scoring every sampled row against every starting cluster may take


class Fit(NamedTuple):
    """The best state that the passes met."""

    labels: np.ndarray  # (n,)
    state: ClusterState
    trace: list[Progress]


def rows_per_chunk(n_features: int) -> int:
    """Rows of a chunk of about 32 MB as float64, a multiple of 1024."""
    return max(1, _CHUNK_BYTES // (8 * n_features) // 1024) * 1024


def chunk_bounds(n: int, rows: int) -> list[tuple[int, int]]:
    """Row ranges of the chunks.

    >>> chunk_bounds(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + rows, n)) for start in range(0, n, rows)]


def sample_size(n_features: int, n_statistics: int, n: int) -> int:
    """How many rows the starting clusters are found on: enough for them to be good, few enough to take seconds."""
    rows = min(n, atoms_that_fit(n_statistics, _MOST_SAMPLE_ROWS))
    per_score = n_statistics * max(1.0, n_features / 3.0 if n_statistics > 3 * n_features + 3 else 1.0)
    while rows > 256 and rows * min(n**0.5, rows / 4.0) * per_score > _SAMPLE_WORK:
        rows = int(rows * 0.8)
    return rows


def survey_rows(X: Any, family: type[Family] | Family, seed: int, chunk_rows: int, sample_rows: int) -> Survey:
    """Survey of rows in memory, chunk by chunk."""
    bounds = chunk_bounds(X.shape[0], chunk_rows)
    share = share_of_sample(sample_rows, chunk_rows, X.shape[0])
    parts = (survey_chunk(X[a:b], family, seed, chunk, a, share) for chunk, (a, b) in enumerate(bounds))
    return combine_in_tree(parts, lambda group: combine_surveys(group, sample_rows))


def fit_passes(
    model: Model,
    X: Any,
    start: ClusterState,
    settings: PassSettings,
    chunk_rows: int | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Fit:
    """Passes over X (n, d), dense or CSR, from starting clusters until the objective stops rising.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> from dtree.kmeans.passes import start_state
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> X = np.array([[30], [1], [28], [2]])
    >>> fit = fit_passes(model, X, start_state(model, X, seed=0, n_rows=4), PassSettings())
    >>> fit.labels.tolist()
    [0, 1, 0, 1]
    """
    bounds = chunk_bounds(X.shape[0], chunk_rows or rows_per_chunk(X.shape[1]))
    state, race = start, Race()
    trace: list[Progress] = []
    own: list[np.ndarray | None] = [None] * len(bounds)
    best: tuple[ClusterState, list[Any]] = (state, own)
    while not trace or not race.over(state, settings):
        began = time.perf_counter()
        scorer = Scorer(model, state.statistics)
        number = state.number + 1
        results = [
            assign_chunk(scorer, X[a:b], own[chunk], chunk, number, settings.seed)
            for chunk, (a, b) in enumerate(bounds)
        ]
        sums = combine_in_tree([part for _, part in results], lambda group: combine_sums(model, group))
        state = consolidate(model, sums, number)
        own = [state.relabel(chunk, raw) for chunk, (raw, _) in enumerate(results)]
        race = race.after(state, settings)
        if race.best_number == number:
            best = (state, own)
        seconds = time.perf_counter() - began
        trace.append(Progress(number, state.objective, state.k, state.moved, state.rows, seconds))
        if progress is not None:
            progress(trace[-1])
    return _in_order_of_appearance(np.concatenate(best[1]), best[0], trace)


def _in_order_of_appearance(labels: np.ndarray, state: ClusterState, trace: list[Progress]) -> Fit:
    """Number the clusters by their first row, as all of dtree does."""
    canonical = canonical_labels(labels)
    order = np.empty(state.k, dtype=np.int64)
    order[canonical] = labels
    return Fit(canonical, state._replace(statistics=state.statistics[order]), trace)
