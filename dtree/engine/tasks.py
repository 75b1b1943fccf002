"""What a worker is asked to do: plain functions of a run's folder, a pass number and a chunk.

Each reads what it needs from the run's folder and writes labels there; only k x s sums travel. The state of a pass comes from
its checkpoint on disk, not from another worker's memory, so that no worker's death can lose it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dtree.core.families import FAMILIES
from dtree.core.model import Model
from dtree.engine.runs import Run
from dtree.engine.sources import Source
from dtree.hierarchy.predictive import log_mixture_density
from dtree.kmeans.passes import ChunkSums, ClusterState, assign_chunk, combine_sums
from dtree.kmeans.predictive import log_weights
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.survey import Survey, check_rows, combine_surveys, survey_chunk


@lru_cache(maxsize=4)
def _open_run(path: str, run_id: str) -> tuple[Run, Model]:
    run = Run(path)
    return run, run.model()


@lru_cache(maxsize=2)
def _scorer_of(path: str, run_id: str, number: int) -> tuple[ClusterState, Scorer]:
    run, model = _open_run(path, run_id)
    state = run.state(number)
    return state, Scorer(model, state.statistics)


def _present_labels(run: Run, state: ClusterState, number: int, chunk: int) -> np.ndarray:
    """Labels of a chunk after pass `number`, from the raw ones on disk."""
    raw = run.read_labels(number, chunk)
    try:
        return state.relabel(chunk, raw)
    except IndexError:
        raise ValueError(
            f"labels of chunk {chunk} name clusters that {run.path} has not: its folder is damaged"
        ) from None


def survey_task(
    source: Source, family: str, seed: int, chunk: int, bounds: tuple[int, int], sample_rows: int
) -> Survey:
    """Check one chunk and take its moments and sample."""
    return survey_chunk(source.read(*bounds), FAMILIES[family], seed, chunk, bounds[0], sample_rows)


def combine_surveys_task(sample_rows: int, parts: Sequence[Survey]) -> Survey:
    """Join the surveys of up to eight chunks or groups of chunks."""
    return combine_surveys(parts, sample_rows)


def assign_task(path: str, run_id: str, number: int, chunk: int) -> ChunkSums:
    """One chunk's part of pass `number`: score, write raw labels, return sums."""
    run, _ = _open_run(path, run_id)
    state, scorer = _scorer_of(path, run_id, number - 1)
    X = run.source.read(*run.bounds(chunk))
    own = None if number == 1 else _present_labels(run, state, number - 1, chunk)
    labels, sums = assign_chunk(scorer, X, own, chunk, number, run.settings.seed)
    with_room(lambda: run.write_labels(number, chunk, labels), path)
    return sums


def combine_task(path: str, run_id: str, parts: Sequence[ChunkSums]) -> ChunkSums:
    """Add the sums of up to eight chunks or groups of chunks, in order."""
    return combine_sums(_open_run(path, run_id)[1], parts)


@lru_cache(maxsize=2)
def _final_scorer(path: str, run_id: str) -> tuple[np.ndarray, np.ndarray, Scorer]:
    run, model = _open_run(path, run_id)
    clusters = run.clusters()
    return run.leaf_clusters(), clusters, Scorer(model, clusters)


def first_rows_task(path: str, run_id: str, number: int, chunk: int) -> np.ndarray:
    """The first row (k,) of each cluster of pass `number` in one chunk, or the number of all rows where there is none."""
    run, _ = _open_run(path, run_id)
    state, _ = _scorer_of(path, run_id, number)
    first = np.full(state.k, run.source.shape[0])
    found, at = np.unique(_present_labels(run, state, number, chunk), return_index=True)
    first[found] = run.bounds(chunk)[0] + at
    return first


def final_labels_task(path: str, run_id: str, number: int, chunk: int, rank: np.ndarray) -> np.ndarray:
    """Write the leaves (clusters of pass `number`, numbered by `rank`) and labels of one chunk; returns the leaves' sizes."""
    run, _ = _open_run(path, run_id)
    state, _ = _scorer_of(path, run_id, number)
    leaves = rank[_present_labels(run, state, number, chunk)]
    with_room(lambda: run.write_labels("leaves", chunk, leaves), path)
    with_room(lambda: run.write_labels("labels", chunk, run.leaf_clusters()[leaves]), path)
    return np.bincount(leaves, minlength=state.k)


def predict_task(path: str, run_id: str, source: Source, bounds: tuple[int, int], out: str) -> int:
    """Write the labels and log densities of new rows; returns their number."""
    _, model = _open_run(path, run_id)
    leaf_clusters, clusters, scorer = _final_scorer(path, run_id)
    X = source.read(*bounds)
    check_rows(X, model.family, bounds[0])
    weights, new = log_weights(model, clusters)
    found = {
        "labels": leaf_clusters[scorer.assign(X).best].astype(np.int32),
        "log_density": log_mixture_density(model.family, X, clusters, weights, new),
    }

    def write() -> None:
        for name, values in found.items():
            zarr.open_array(f"{out}/{name}", mode="r+")[bounds[0] : bounds[1]] = values

    with_room(write, out)
    return bounds[1] - bounds[0]


class DiskFull(OSError):
    """A full disk, said in a sentence."""

    def __str__(self) -> str:
        return str(self.strerror)


def with_room(write: Callable[[], Any], path: str) -> Any:
    """Write, and say it plainly when the disk is full."""
    with room_on_disk(path):
        return write()


@contextmanager
def room_on_disk(path: str | Path, then: str = "resume the run, nothing is lost") -> Iterator[None]:
    """The same for a block: a full disk becomes a sentence that says what to do."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(problem.errno, f"the disk of {path} is full: free some space and {then}") from None
        raise
