"""A variational mixture over a dataset of any size: the E-step is a pass of the workers, everything else is T x s numbers."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from distributed import Client
from threadpoolctl import threadpool_limits

from dtree.core.families import Family, Moments
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.begin import fingerprint, nothing_half_made, survey_source
from dtree.engine.cluster import worker_memory
from dtree.engine.dataset import chunk_rows_for, open_dataset
from dtree.engine.execute import Here, executor
from dtree.engine.folder import write_array
from dtree.engine.predict import predict_into
from dtree.engine.runs import create_labels
from dtree.engine.tasks import with_room
from dtree.engine.variational_estimator import DPMixtureVB
from dtree.engine.variational_folder import METHOD, Checkpoint, PassStep, VariationalRun
from dtree.engine.variational_rows import row_names_of
from dtree.engine.variational_tasks import (
    RAW_LABELS,
    combine_sums_task,
    predict_rows_task,
    raw_labels_task,
    shown_labels_task,
    sums_task,
)
from dtree.kmeans.defaults import family_type
from dtree.kmeans.survey import Survey
from dtree.variational.estimator import DEFAULT_TRUNCATION, InMemoryDPMixtureVB
from dtree.variational.fitting import has_converged, settle
from dtree.variational.steps import Rule, Sums
from dtree.variational.threads import one_blas_thread

OnProgress = Callable[[PassStep], None]
_OCCUPIED = 0.5  # expected rows below which a component counts as empty
_ROWS_PER_COMPONENT = 50  # of the sample that a fit starts from


def fit_variational(
    data: Any,
    out: str | os.PathLike[str],
    variant: str = "O-CTSB",
    family: str | Family = "gaussian",
    truncation: int | None = None,
    alpha: float = 1.0,
    *,
    seed: int = 0,
    sample_rows: int | None = None,
    chunk_bytes: int | None = None,
    notes: Mapping[str, Any] | None = None,
    labels_column: str | None = None,
    client: Client | None = None,
    progress: OnProgress | None = None,
    **settings: Any,
) -> DPMixtureVB:
    """Fit a `DPMixtureVB` to `data` by passes into the new folder `out`; returns the fitted estimator.

    `data` is a path (.zarr .npy .npz .parquet .csv), an array, a sparse matrix, a frame or a Dask collection; `settings` are the
    other parameters of `DPMixtureVB` (`max_iter` counts passes over the data). With a `client` its workers do the work and must
    see `out` (and the data's path) under the same name; without one this process does it, to the same bits. The first pass checks
    every row; its random sample of `sample_rows` rows is fitted in memory (restarts, merges and splits happen there), and that
    fit is where the passes start. `labels_column` is not a feature, here and in predictions; `notes` are kept among the run's attributes. If anything fails, `resume(out)` carries on from the last finished pass.

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit_variational(X, folder + "/run", "FSD", truncation=6).n_clusters_
    2
    """
    out = Path(out)
    estimator = _estimator_for(variant, family, truncation, alpha, seed, settings)
    kind = family_type(family)
    with nothing_half_made(out):
        source = open_dataset(data, out / "staged", client, labels_column=labels_column)
        if source.is_sparse and not kind.accepts_sparse:
            raise ValueError(f"the {kind.name} family takes dense rows: convert the data with toarray()")
        n = source.shape[0]
        estimator._size_for(np.array([float(n)]))  # a truncation above the number of rows must not wait for the survey
        chunk_rows = min(chunk_rows_for(source, worker_memory(client), chunk_bytes), n)
        least = _ROWS_PER_COMPONENT * (truncation or DEFAULT_TRUNCATION)
        survey = survey_source(source, family, seed, chunk_rows, client, sample_rows)
        if survey.sample.shape[0] < min(n, least):
            survey = survey_source(source, family, seed, chunk_rows, client, least)
        columns = _informative(survey, family)
        with threadpool_limits(1):  # k-means too; the same bits whatever the number of cores
            sample = survey.sample.astype(np.float64)
            sample = sample if columns.shape[0] == sample.shape[1] else np.ascontiguousarray(sample[:, columns])
            start = estimator.fit_sample(sample, _of_columns(survey.moments(kind.needs_covariance), columns), n)
        parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name != "family"}
        run = VariationalRun.create(
            out,
            METHOD,
            {
                "source": source.__dict__,
                "chunk_rows": chunk_rows,
                "settings": parameters,
                "columns": columns.tolist(),
                "data_fingerprint": fingerprint(source, survey),
                "row_names": row_names_of(data, labels_column),
                "versions": {
                    name: version(name) for name in ("numpy", "numba", "zarr", "dask", "scipy", "scikit-learn")
                },
                "command": sys.argv,
                "labels_column": labels_column,
                **(notes or {}),
            },
        )
        run.write_model(Model(start.rule.family, DirichletProcess(start.rule.alpha)))
        run.commit(0, Checkpoint(start.sums, start.rule.alpha, False, []))
    return _carry_on(run, client, progress)


def _estimator_for(
    variant: str, family: Any, truncation: int | None, alpha: float, seed: int, settings: dict[str, Any]
) -> InMemoryDPMixtureVB:
    known = InMemoryDPMixtureVB().get_params(deep=False)
    for name in settings:
        if name not in known or name in ("warm_start", "random_state"):
            raise ValueError(f"a fit by passes has no setting {name!r}")
    estimator = InMemoryDPMixtureVB(variant, family, truncation, alpha, random_state=int(seed), **settings)
    estimator._check_settings()
    if not isinstance(estimator.init, str):
        raise ValueError("a fit by passes starts from a sample: give init='auto', 'kmeans' or 'random'")
    if estimator.schedule != "parallel" or estimator.expectation == "exact":
        raise ValueError("a fit by passes needs schedule='parallel' and expectation='corrected' or 'taylor'")
    estimator._family_type()
    return estimator


def _informative(survey: Survey, family: str | Family) -> np.ndarray:
    """The columns to use: a Gaussian given by name leaves out constant ones."""
    every = np.arange(survey.mean.shape[0])
    if isinstance(family, Family) or family_type(family).value_kind != "real":
        return every
    varying = survey.low < survey.high
    return every[varying] if varying.any() else every


def _of_columns(moments: Moments, columns: np.ndarray) -> Moments:
    covariance = None if moments.covariance is None else moments.covariance[np.ix_(columns, columns)]
    return Moments(moments.rows, moments.mean[columns], moments.variance[columns], covariance)


def resume(
    path: str | os.PathLike[str], client: Client | None = None, progress: OnProgress | None = None
) -> DPMixtureVB:
    """Carry a run on from its last finished pass; a finished run is opened as it is."""
    run = VariationalRun(path)
    if not run.generations():
        raise ValueError(f"{run.path} has no checkpoint yet: remove the folder and fit again")
    return _carry_on(run, client, progress)


class _ByPasses:
    """Passes of the workers over all chunks; they read the state from the last checkpoint."""

    def __init__(self, run: VariationalRun, workers: Here) -> None:
        self.run_folder, self.workers = run, workers

    def after(self, number: int) -> Sums:
        """Sums of the pass that starts from checkpoint `number`."""
        run = self.run_folder
        path = str(run.path.resolve())
        chunks = [(path, run.run_id, number, chunk) for chunk in range(run.n_chunks)]
        return self.workers.map_reduce(sums_task, chunks, combine_sums_task)

    def permute(self, order: np.ndarray) -> None:
        """Rows keep no responsibilities between passes, so there is nothing to rename."""

    def exact_log_prior(self, rule: Rule) -> float | None:
        return None


def _carry_on(run: VariationalRun, client: Client | None, progress: OnProgress | None) -> DPMixtureVB:
    if run.done:
        return open_run(run.path)
    workers, settings, path = executor(client), run.settings, str(run.path.resolve())
    passes = _ByPasses(run, workers)
    number = run.generations()[-1]
    point = run.checkpoint(number)
    rule = run.rule(point.alpha)
    while not has_converged(point.bounds, settings["tol"], point.sums.rows) and number < settings["max_iter"]:
        began = time.perf_counter()
        sums = passes.after(number)
        number += 1
        with one_blas_thread():
            settled = settle(passes, sums, rule, settings["learn_alpha"])
        rule = settled.rule
        clusters = int((settled.sums.counts > _OCCUPIED).sum())
        step = PassStep(number, settled.elbo, clusters, run.source.shape[0], time.perf_counter() - began)
        point = Checkpoint(settled.sums, rule.alpha, settled.is_bound, [*point.trace, step])
        with_room(lambda: run.commit(number, point), path)  # noqa: B023 - called at once
        if progress is not None:
            progress(step)
    return with_room(lambda: _finish(run, workers, number, point), path)


def _finish(run: VariationalRun, workers: Here, number: int, point: Checkpoint) -> DPMixtureVB:
    """Write the labels and the results; every step can be done again after a crash."""
    path, n = str(run.path.resolve()), run.source.shape[0]
    chunks = range(run.n_chunks)
    create_labels(run.path / "passes" / RAW_LABELS, n, run.chunk_rows)
    held = sum(workers.run(raw_labels_task, [(path, run.run_id, number, chunk) for chunk in chunks]))
    shown = np.lexsort([-point.sums.counts, held == 0]).tolist()  # components that hold rows first, in decreasing size
    create_labels(run.path / "labels", n, run.chunk_rows)
    counts = sum(workers.run(shown_labels_task, [(path, run.run_id, shown, chunk) for chunk in chunks]))
    if not np.array_equal(counts, held[shown]):
        raise RuntimeError("the labels on disk do not add up: the run's folder was changed from outside")
    group = zarr.open_group(str(run.path / "trace"), mode="w", zarr_format=3)
    for name in PassStep._fields:
        write_array(group, name, np.array([getattr(step, name) for step in point.trace]))
    run.update(
        status="done",
        shown=shown,
        n_clusters=int((held > 0).sum()),
        elbo=point.bounds[-1],
        elbo_is_bound=point.is_bound,
        alpha=point.alpha,
        passes=number,
        converged=has_converged(point.bounds, run.settings["tol"], point.sums.rows),
    )
    shutil.rmtree(run.path / "passes", ignore_errors=True)
    shutil.rmtree(run.path / "staged", ignore_errors=True)
    return open_run(run.path)


def open_run(path: str | os.PathLike[str]) -> DPMixtureVB:
    """The fitted `DPMixtureVB` of a finished run, which predicts the numbers that its workers would.

    Its labels are read into memory; for more rows than that allows, open the zarr array `labels` in the folder instead.
    """
    run = VariationalRun(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it")
    mixture = run.mixture()
    mixture._remember_names(run.attributes.get("row_names"), run.source.columns or None)
    mixture.labels_ = np.asarray(zarr.open_array(str(run.path / "labels"), mode="r")[...]).astype(np.int64)
    return mixture


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

    Workers write their own chunks, so nothing of the size of the data comes here. Returns the number of rows.
    """
    opened = VariationalRun(run)
    given = (opened.generations()[-1],) if opened.done else ()
    return predict_into(opened, data, out, client, predict_rows_task, given, leave_out=leave_out, overwrite=overwrite)
