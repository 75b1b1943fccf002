"""Fit a dataset of any size into a run's folder, resume a run, label new rows."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from distributed import Client

from dtree.core.families import Family, Moments
from dtree.core.priors import Prior
from dtree.core.tree import Tree
from dtree.engine.blocks import centre_here, centre_task, tree_here, tree_task
from dtree.engine.checks import check_clusters, check_folder
from dtree.engine.cluster import worker_memory
from dtree.engine.dataset import chunk_rows_for, open_dataset
from dtree.engine.execute import Here, OnCluster, executor
from dtree.engine.folder import write_array
from dtree.engine.runs import Run, create_labels, create_rows
from dtree.engine.sources import Source
from dtree.engine.tasks import (
    assign_task,
    combine_surveys_task,
    combine_task,
    final_labels_task,
    first_rows_task,
    predict_task,
    survey_task,
    with_room,
)
from dtree.kmeans.defaults import check_prior, family_type, model_for
from dtree.kmeans.fit import chunk_bounds, sample_size
from dtree.kmeans.passes import PassSettings, Progress, Race, start_state
from dtree.kmeans.survey import Survey, share_of_sample

OnProgress = Callable[[Progress], None]


class FitResult(NamedTuple):
    """What a finished run holds; the arrays are in its folder."""

    path: Path
    n_clusters: int  # after cutting the tree
    n_leaves: int  # clusters of Bayes K-means, the leaves of the tree
    objective: float  # sum of log phi_h over clusters
    log_joint: float  # the same with the prior's normaliser: log p(data, partition)
    log_evidence_bound: float | None  # of the tree over the clusters
    trace: list[Progress]


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
    client: Client | None = None,
    progress: OnProgress | None = None,
) -> FitResult:
    """Bayes K-means by passes over `data`, then BHC over its clusters, into the new folder `out`.

    `data` is a path (.zarr .npy .npz .parquet .csv), an array, a sparse matrix, a frame or a Dask collection. With a `client` its workers do
    the work and must see `out` (and the data's path) under the same name; without one this process does it. The answer does not depend on
    which, nor on the number of workers. The starting clusters are found on a random sample of `sample_rows` rows. Clusters are the highest
    nodes of the tree with r at least `threshold`, or its leaves without a tree. If anything fails, `resume(out)` carries on from the last finished pass.

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit_dataset(X, folder + "/run", family="gaussian-diag").n_clusters
    2
    """
    out = Path(out)
    if (out / "zarr.json").exists():
        raise ValueError(f"{out} already holds a run: resume it, or choose another folder")
    kind = family_type(family)
    check_prior(prior)
    out.mkdir(parents=True, exist_ok=True)
    source = open_dataset(data, out / "staged", client)
    if source.is_sparse and not kind.accepts_sparse:
        raise ValueError(f"the {kind.name} family takes dense rows: convert the data with toarray()")
    chunk_rows = min(chunk_rows_for(source, worker_memory(client), chunk_bytes), source.shape[0])
    survey = survey_source(source, family, seed, chunk_rows, client, sample_rows)
    model = model_for(family, prior, survey.moments(kind.needs_covariance), survey.sample, seed, coarsening)
    run = Run.create(
        out,
        "bayes-kmeans",
        {
            "source": source.__dict__,
            "chunk_rows": chunk_rows,
            "settings": PassSettings(seed, max_passes, patience, tolerance)._asdict(),
            "data_fingerprint": fingerprint(source, survey),
            "versions": {name: version(name) for name in ("numpy", "numba", "zarr", "dask", "scipy")},
            "command": sys.argv,
            "tree_wanted": tree,
            "threshold": threshold,
        },
    )
    zarr.open_group(str(out / "passes"), mode="a", zarr_format=3)
    run.write_model(model)
    run.commit(start_state(model, survey.sample, seed, source.shape[0], init_clusters), Race(), [])
    return _carry_on(run, client, progress)


def survey_source(
    source: Source,
    family: str | Family,
    seed: int,
    chunk_rows: int,
    client: Client | None,
    sample_rows: int | None = None,
) -> Survey:
    """Check every row, and take the moments and a sample: the first pass over the data."""
    kind = family_type(family)
    n, d = source.shape
    blank = Moments(2.0, np.full(d, 0.5), np.ones(d), np.eye(d) if kind.needs_covariance else None)
    width = kind.defaults(blank).statistics(np.zeros((1, d))).shape[1]
    sample_rows = min(sample_rows or sample_size(d, width, n), n)
    share = share_of_sample(sample_rows, chunk_rows, n)
    arguments = [
        (source, kind.name, seed, chunk, bounds, share) for chunk, bounds in enumerate(chunk_bounds(n, chunk_rows))
    ]
    return executor(client).map_reduce(survey_task, arguments, combine_surveys_task, (sample_rows,))


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
    group = zarr.open_group(str(run.path / "statistics"), mode="w", zarr_format=3)
    write_array(group, "clusters", clusters)
    write_array(group, "log_phi", model.log_phi_h(clusters))
    leaf_clusters, bound = np.arange(state.k), None
    if run.attributes["tree_wanted"]:
        build = tree_task if isinstance(workers, OnCluster) else tree_here
        columns = workers.run(build, [(path, run.run_id)])[0]
        tree_group = zarr.open_group(str(run.path / "tree"), mode="w", zarr_format=3)
        for name, values in columns.items():
            write_array(tree_group, name, values)
        leaf_clusters = Tree(**columns).cut(float(run.attributes["threshold"]))
        bound = model.prior.log_normaliser(state.rows) + float(columns["log_phi_t"][-1])
    write_array(group, "leaf_clusters", leaf_clusters)
    run.create_labels("leaves")
    run.create_labels("labels")
    counts = sum(workers.run(final_labels_task, [(*chunk, rank) for chunk in chunks]))
    if not np.array_equal(counts, np.rint(model.counts(clusters))):
        raise RuntimeError(
            "the labels on disk do not add up to the statistics: the run's folder was changed from outside"
        )
    group = zarr.open_group(str(run.path / "trace"), mode="w", zarr_format=3)
    for name in Progress._fields:
        write_array(group, name, np.array([getattr(step, name) for step in trace]))
    run.update(
        status="done",
        best_pass=best,
        n_clusters=int(leaf_clusters.max()) + 1,
        n_leaves=state.k,
        objective=state.objective,
        log_joint=state.objective + model.prior.log_normaliser(state.rows),
        log_evidence_bound=bound,
    )
    run.sweep(best)
    return read_result(run.path)


def open_run(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a finished run."""
    from dtree.engine import estimators  # which stand on this file

    check_clusters(path)
    return estimators.open_run(path)


def read_result(path: str | os.PathLike[str]) -> FitResult:
    """What a finished run holds."""
    run = Run(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it")
    at = run.attributes
    bound = at["log_evidence_bound"]
    group: Any = zarr.open_group(str(run.path / "trace"), mode="r")
    columns = [np.asarray(group[name][...]).tolist() for name in Progress._fields]
    trace = [Progress(*step) for step in zip(*columns, strict=True)]
    n_clusters, n_leaves = int(at["n_clusters"]), int(at["n_leaves"])
    return FitResult(run.path, n_clusters, n_leaves, at["objective"], at["log_joint"], bound, trace)


def read_tree(path: str | os.PathLike[str]) -> Tree:
    """The tree over the clusters of a finished run."""
    group = zarr.open_group(str(Path(path) / "tree"), mode="r")
    return Tree(**{name: np.asarray(array[...]) for name, array in group.arrays()})


def predict_dataset(
    run: str | os.PathLike[str], data: Any, out: str | os.PathLike[str], client: Client | None = None
) -> int:
    """Write `labels` (int32) and `log_density` (float64) of every row of `data` into a new zarr group `out`.

    Labels are the clusters of the run, after the cut of its tree; densities are those of its mixture, normalised. Workers write
    their own chunks, so nothing of the size of the data comes here. Returns the number of rows.
    """
    opened = check_clusters(run)
    if not opened.done:
        raise ValueError(f"{opened.path} is not finished: resume it first")
    target = Path(out).resolve()
    if target.exists():
        raise ValueError(f"{target} exists already: choose another place for the labels")
    with tempfile.TemporaryDirectory(dir=opened.path, prefix=".predicting-") as staging:
        source = open_dataset(data, staging, client)
        if source.shape[1] != opened.source.shape[1]:
            raise ValueError(
                f"the rows have {source.shape[1]} columns but the run was fitted on {opened.source.shape[1]}"
            )
        rows = min(chunk_rows_for(source, worker_memory(client)), source.shape[0])
        zarr.create_group(str(target), zarr_format=3)
        create_labels(target / "labels", source.shape[0], rows)
        create_rows(target / "log_density", source.shape[0], rows, np.dtype(np.float64), np.nan)
        path = str(opened.path.resolve())
        arguments = [
            (path, opened.run_id, source, bounds, str(target)) for bounds in chunk_bounds(source.shape[0], rows)
        ]
        try:
            return sum(executor(client).run(predict_task, arguments))
        except Exception:
            shutil.rmtree(target, ignore_errors=True)
            raise


def fingerprint(source: Source, survey: Survey) -> str:
    """A hash of shape, type and moments: it changes when any value does, for the price of the first pass."""
    digest = hashlib.sha256(f"{source.shape} {source.dtype}".encode())
    for column in (survey.mean, survey.second, survey.low, survey.high):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
