"""Fit a dataset of any size into a run's folder, resume a run, label new rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from dtree.core.families import Family
from dtree.core.priors import Prior
from dtree.core.tree import Tree
from dtree.engine.begin import Wanted, begin_run, fingerprint, nothing_half_made, survey_source
from dtree.engine.blocks import centre_here, centre_task, tree_here, tree_task
from dtree.engine.checks import check_clusters, check_folder
from dtree.engine.execute import Here, OnCluster, executor
from dtree.engine.predict import predict_into
from dtree.engine.results import Ending, FitResult, conclude, read_result, read_tree, write_group
from dtree.engine.runs import Run
from dtree.engine.tasks import assign_task, combine_task, final_labels_task, first_rows_task, predict_task, with_room
from dtree.kmeans.passes import PassSettings, Progress, Race, start_state

__all__ = [
    "FitResult",
    "OnProgress",
    "fingerprint",
    "fit_dataset",
    "open_run",
    "predict_dataset",
    "read_result",
    "read_tree",
    "resume",
    "survey_source",
]

OnProgress = Callable[[Progress], None]


def fit_dataset(
    data: Any,
    out: str | os.PathLike[str],
    family: str | Family = "gaussian",
    prior: str | Prior = "dp",
    *,
    coarsening: float = 1.0,
    init_clusters: int | None = None,
    sample_rows: int | None = None,
    max_passes: int = 50,
    patience: int = 2,
    tolerance: float = 1e-7,
    seed: int = 0,
    chunk_bytes: int | None = None,
    tree: bool = True,
    threshold: float = 0.5,
    labels_column: str | None = None,
    client: Client | None = None,
    progress: OnProgress | None = None,
) -> FitResult:
    """Bayes K-means by passes over `data`, then BHC over its clusters, into the new folder `out`.

    `data` is a path (.zarr .npy .npz .parquet .csv), an array, a sparse matrix, a frame or a Dask collection. With a `client` its workers do
    the work and must see `out` (and the data's path) under the same name; without one this process does it. The answer does not depend on
    which, nor on the number of workers. The starting clusters are found on a random sample of `sample_rows` rows. Clusters are the highest
    nodes of the tree with r at least `threshold`, or its leaves without a tree. `labels_column` (a name, or a number from 0) is a column
    that is not a feature; the run remembers it, and predictions leave it out where the data have it. If anything fails, `resume(out)` carries on from the last finished pass.

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit_dataset(X, folder + "/run", family="gaussian-diag").n_clusters
    2
    """
    out = Path(out)
    settings = PassSettings(seed, max_passes, patience, tolerance)
    wanted = Wanted(data, family, prior, coarsening, settings, threshold, chunk_bytes, sample_rows, labels_column)
    with nothing_half_made(out):
        run, model, survey = begin_run(out, "bayes-kmeans", wanted, client, {"tree_wanted": tree})
        run.commit(start_state(model, survey.sample, seed, run.source.shape[0], init_clusters), Race(), [])
    return _carry_on(run, client, progress)


def resume(run: str | os.PathLike[str], client: Client | None = None, progress: OnProgress | None = None) -> FitResult:
    """Carry a run on from its last finished pass; a finished run is returned as it is.

    A run that ended before its first checkpoint must be fitted again: nothing had been computed but the survey of the data.
    """
    check_folder(run)
    if not Run(run).generations():
        raise ValueError(f"{run} has no checkpoint yet: remove the folder and fit again")
    return _carry_on(check_clusters(run), client, progress)


def _carry_on(run: Run, client: Client | None, progress: OnProgress | None) -> FitResult:
    if run.done:
        return read_result(run.path)
    workers, settings = executor(client), run.settings
    number = run.generations()[-1]
    state, race, trace = run.state(number), run.race(number), run.trace(number)
    path = str(run.path.resolve())
    while number == 0 or not race.over(state, settings):
        began = time.perf_counter()
        number += 1
        with_room(lambda: run.create_labels(number), path)  # noqa: B023 - called at once
        state = workers.map_reduce(
            assign_task,
            [(path, run.run_id, number, chunk) for chunk in range(run.n_chunks)],
            combine_task,
            (path, run.run_id),
            centre_task if isinstance(workers, OnCluster) else centre_here,
            (path, run.run_id, number),
        )
        race = race.after(state, settings)
        trace.append(Progress(number, state.objective, state.k, state.moved, state.rows, time.perf_counter() - began))
        with_room(lambda: run.commit(state, race, trace), path)  # noqa: B023 - called at once
        if progress is not None:
            progress(trace[-1])
    return with_room(lambda: _finish(run, workers, race.best_number, trace), path)


def _finish(run: Run, workers: Here, best: int, trace: list[Progress]) -> FitResult:
    """Write the results of the best pass; every step can be done again after a crash."""
    path = str(run.path.resolve())
    state, model = run.state(best), run.model()
    chunks = [(path, run.run_id, best, chunk) for chunk in range(run.n_chunks)]
    first = np.minimum.reduce(workers.run(first_rows_task, chunks))
    order = np.argsort(first, kind="stable")
    clusters, rank = state.statistics[order], np.argsort(order)
    tree = None
    if run.attributes["tree_wanted"]:
        write_group(run, "statistics", {"clusters": clusters})  # where the central task reads them
        build = tree_task if isinstance(workers, OnCluster) else tree_here
        tree = Tree(**workers.run(build, [(path, run.run_id)])[0])
    ending = Ending(clusters, tree, state.objective, best, trace)
    return conclude(run, model, ending, workers, final_labels_task, [(*chunk, rank) for chunk in chunks])


def open_run(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a finished run."""
    from dtree.engine import estimators  # which stand on this file

    check_clusters(path)
    return estimators.open_run(path)


def predict_dataset(
    run: str | os.PathLike[str],
    data: Any,
    out: str | os.PathLike[str],
    client: Client | None = None,
    *,
    leave_out: Sequence[str] = (),
    overwrite: bool = False,
) -> int:
    """Write `labels` (int32) and `log_density` (float64) of every row of `data` into a new zarr group `out`.

    Labels are the clusters of the run, after the cut of its tree; densities are those of its mixture, normalised. Workers write
    their own chunks, so nothing of the size of the data comes here. Columns called as in `leave_out`, or as the run's own column of
    labels, are not features. Returns the number of rows.
    """
    opened = check_clusters(run)
    return predict_into(opened, data, out, client, predict_task, leave_out=leave_out, overwrite=overwrite)
