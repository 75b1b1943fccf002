"""What a worker is asked to do for a variational mixture: plain functions of a run's folder, a pass number and a chunk.

Products of matrices depend in their last bits on the number of BLAS threads, so every task takes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import add

import numpy as np
import zarr

from dtree.engine.sources import Source
from dtree.engine.tasks import with_room
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.engine.variational_folder import VariationalRun
from dtree.kmeans.survey import check_rows
from dtree.variational.steps import State, Sums, e_step, m_step, make_block
from dtree.variational.threads import one_blas_thread

RAW_LABELS = "raw-labels"  # components in the order of the checkpoint, until the order users see is known


@lru_cache(maxsize=2)
def _state_of(path: str, run_id: str, number: int) -> tuple[VariationalRun, State]:
    run = VariationalRun(path)
    point = run.checkpoint(number)
    return run, m_step(point.sums, run.rule(point.alpha))


@lru_cache(maxsize=2)
def _mixture_of(path: str, run_id: str, number: int, done: bool) -> tuple[VariationalRun, DPMixtureVB]:
    run = VariationalRun(path)
    return run, run.mixture(number)


def sums_task(path: str, run_id: str, number: int, chunk: int) -> Sums:
    """One chunk's part of the pass that starts from checkpoint `number`: the E-step's sums."""
    with one_blas_thread():
        run, state = _state_of(path, run_id, number)
        return e_step(make_block(state.family, run.rows(chunk)), state)


def combine_sums_task(parts: Sequence[Sums]) -> Sums:
    """Add the sums of up to eight chunks or groups of chunks, in order."""
    return reduce(add, parts)


def raw_labels_task(path: str, run_id: str, number: int, chunk: int) -> np.ndarray:
    """Write the most probable component of each row of a chunk; returns how many rows each component has (T,)."""
    with one_blas_thread():
        run, mixture = _mixture_of(path, run_id, number, False)
        best = mixture._best_components(run.rows(chunk))
    start, stop = run.bounds(chunk)
    target = str(run.path / "passes" / RAW_LABELS)
    with_room(lambda: zarr.open_array(target, mode="r+").__setitem__(slice(start, stop), best.astype(np.int32)), path)
    return np.bincount(best, minlength=mixture.truncation_)


def shown_labels_task(path: str, run_id: str, shown: Sequence[int], chunk: int) -> np.ndarray:
    """Write the final labels of a chunk, components renamed to the order users see; returns their counts (T,)."""
    run = VariationalRun(path)
    start, stop = run.bounds(chunk)
    raw = np.asarray(zarr.open_array(str(run.path / "passes" / RAW_LABELS), mode="r")[start:stop])
    if raw.min(initial=0) < 0:
        raise ValueError(f"labels of rows {start} to {stop - 1} are missing in {path}: the run's folder is damaged")
    rank = np.empty(len(shown), dtype=np.int32)
    rank[list(shown)] = np.arange(len(shown))
    labels = rank[raw]
    target = str(run.path / "labels")
    with_room(lambda: zarr.open_array(target, mode="r+").__setitem__(slice(start, stop), labels), path)
    return np.bincount(labels, minlength=len(shown))


def predict_rows_task(path: str, run_id: str, number: int, source: Source, bounds: tuple[int, int], out: str) -> int:
    """Write the labels and log densities of new rows; returns their number."""
    with one_blas_thread():
        _, mixture = _mixture_of(path, run_id, number, True)
        X = source.read(*bounds)
        check_rows(X, mixture.family_, bounds[0])
        X = X.astype(np.float64)
        found = {"labels": mixture.predict(X).astype(np.int32), "log_density": mixture.score_samples(X)}

    def write() -> None:
        for name, values in found.items():
            zarr.open_array(f"{out}/{name}", mode="r+")[bounds[0] : bounds[1]] = values

    with_room(write, out)
    return bounds[1] - bounds[0]
