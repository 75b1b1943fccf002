"""Diffusion trees on workers: every permutation is a walk of its own, in pieces that end in a checkpoint.

A walk is the same to the last bit however it is cut into pieces, so neither the number of workers nor a death or a
restart changes the answer; it equals that of `DiffusionTree(random_state=seed).fit` in one process.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from distributed import Client

from dtree.diffusion.posterior import posterior_of
from dtree.diffusion.prepare import prepare
from dtree.diffusion.records import posterior_to_pieces, prepared_to_pieces
from dtree.diffusion.settings import Settings
from dtree.diffusion.walk import advance, arrays_of_walk, plan_of, start_walk
from dtree.engine.dataset import open_dataset
from dtree.engine.diffusion_atoms import is_clustering, open_clustering, prepare_clustering
from dtree.engine.diffusion_folder import (
    DiffusionResult,
    commit_walk,
    finished_walk,
    model_of,
    open_run,
    opened_model,
    opened_run,
    read_posterior,
    read_prepared,
    read_result,
    read_walk,
    settings_of,
    steps_done,
)
from dtree.engine.execute import executor
from dtree.engine.folder import RunFolder, write_in_place
from dtree.engine.predict import predict_into
from dtree.engine.tasks import with_room

PREDICT_ROWS = 5_000  # rows of one task: a row meets every branch of every averaged tree
LARGEST_READ = 4_000_000_000  # bytes of rows that one worker reads at once


class DiffusionProgress(NamedTuple):
    """How far all walks together are, and the best score any has seen.

    Gaussian leaves: the local Laplace evidence of the search, in the original units. Probit: the same of the Gaussian
    sites that stand in for the bits, good for comparing trees and not an evidence of the bits.
    """

    done: int
    length: int
    log_score: float
    seconds: float
    is_evidence: bool


OnProgress = Callable[[DiffusionProgress], None]


def fit_diffusion(
    data: Any,
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    client: Client | None = None,
    progress: OnProgress | None = None,
    checkpoint_seconds: float = 10.0,
    row_names: Sequence[str] | None = None,
    feature_names: Sequence[str] | None = None,
    labels_column: str | None = None,
    data_name: str | None = None,
    **settings: Any,
) -> DiffusionResult:
    """Diffusion trees over `data` into the new folder `out`; `settings` are those of `DiffusionTree`.

    `data` is a path (.zarr .npy .npz .parquet .csv), an array or a frame, NaN where missing; or the folder of a finished
    Bayes-K-means run, whose clusters then become the leaves (and `labels_` are those of clusters). With a `client` its
    workers must see `out` (and the data's path) under the same name. `row_names` and `feature_names` are kept for whoever draws the tree, `labels_column` for
    whoever predicts, `data_name` for whoever asks where the rows came from. If anything fails, `resume(out)` carries on.

    >>> import tempfile
    >>> rows = np.array([[-2.0], [2.0], [-2.1], [2.1], [-1.9]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = fit_diffusion(rows, folder + "/run", n_permutations=1, search_steps=5)
    ...     open_run(folder + "/run").labels_
    array([0, 1, 0, 1, 0])
    """
    out = Path(out)
    if (out / "zarr.json").exists():
        raise ValueError(f"{out} already holds a run: resume it, or choose another folder")
    unknown = set(settings) - set(Settings._fields)
    if unknown:
        raise ValueError(f"a diffusion tree has no setting {min(unknown)!r}")
    given = Settings(**settings)
    given.check()
    fresh = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        clustering = str(Path(data).resolve()) if is_clustering(data) else None
        source = open_clustering(data).source if clustering else open_dataset(data, out / "staged", client)
        if clustering is None and 8 * math.prod(source.shape) > LARGEST_READ:
            raise ValueError(
                f"{source.shape[0]:,} rows of {source.shape[1]} columns are too many to read at once: fit them by "
                "'dtree fit --method bayes-kmeans' and give that run as the data"
            )
        run = RunFolder.create(
            out,
            "diffusion",
            {
                "source": source.__dict__,
                "clustering": clustering,
                "settings": given._asdict(),
                "seed": int(seed),
                "checkpoint_seconds": float(checkpoint_seconds),
                "versions": {name: version(name) for name in ("numpy", "numba", "zarr", "dask", "scipy")},
                "command": sys.argv,
                "labels_column": labels_column,
                "data_name": str(data) if isinstance(data, str | os.PathLike) else data_name,
                "row_names": None if row_names is None else [str(name) for name in row_names],
                "feature_names": None if feature_names is None else [str(name) for name in feature_names],
            },
        )
        zarr.open_group(str(out / "walks"), mode="a", zarr_format=3)
        _prepare_now(run, client)
    except ValueError:
        if fresh:  # bad input leaves nothing behind
            shutil.rmtree(out, ignore_errors=True)
        raise
    return _carry_on(run, client, progress)


def resume(
    run: str | os.PathLike[str], client: Client | None = None, progress: OnProgress | None = None
) -> DiffusionResult:
    """Carry a run on from the last checkpoint of every walk; a finished run is returned as it is."""
    opened = RunFolder(run)
    if not opened.done:
        _prepare_now(opened, client)
    return _carry_on(opened, client, progress)


def predict_diffusion(
    run: str | os.PathLike[str],
    data: Any,
    out: str | os.PathLike[str],
    client: Client | None = None,
    *,
    leave_out: Sequence[str] = (),
    overwrite: bool = False,
) -> int:
    """Write `labels` (int32) and `log_density` (float64) of every row of `data` into a zarr group `out`.

    Labels are the clusters at the run's cut of its best tree; workers write their own chunks. Earlier predictions at `out` are
    replaced only with `overwrite`, and only when the new ones are complete. Returns the number of rows.
    """
    return predict_into(
        RunFolder(run),
        data,
        out,
        client,
        predict_task,
        leave_out=leave_out,
        most_rows=PREDICT_ROWS,
        overwrite=overwrite,
    )


# What workers do -----------------------------------------------------------------------------------------------------


def prepare_task(path: str, run_id: str) -> int:
    """Read the rows, find units, leaves and noise, and write them down; returns the number of leaves."""
    run = RunFolder(path)
    target, settings, seed = run.path / "prepared", settings_of(run), model_of(run).seeds()[0]
    if not target.exists():
        if run.attributes["clustering"] is not None:
            prepared = prepare_clustering(run.attributes["clustering"], settings.hyper(), seed)
        else:
            prepared = prepare(_dense(run.source.read(0, run.source.shape[0])), settings, seed)
        settings.check_cut(prepared.leaves.mean.shape[0])
        with_room(lambda: write_in_place(target, *prepared_to_pieces(prepared)), path)
    return int(read_prepared(run).leaves.mean.shape[0])


def walk_task(path: str, run_id: str, number: int) -> tuple[int, float]:
    """Carry one walk on until it is finished or a checkpoint is due; returns what is done and its best score."""
    run, prepared = opened_run(path, run_id)
    settings, leaves, hyper = settings_of(run), prepared.leaves, prepared.hyper
    plan = plan_of(settings, leaves.mean.shape[0])
    until = time.monotonic() + float(run.attributes["checkpoint_seconds"])
    walk = read_walk(run, number)
    before = -1 if walk is None else walk.done
    if walk is None:
        walk = start_walk(leaves, hyper, model_of(run).seeds()[1 + number], plan, prepared.bits)
    while walk.done < plan.length:
        walk = advance(walk, leaves, hyper, plan, 1, prepared.bits)
        if time.monotonic() > until:
            break
    if walk.done > before:
        pieces = arrays_of_walk(walk)
        with_room(lambda: commit_walk(run, number, walk.done, pieces), path)
    return walk.done, walk.log_score


def posterior_task(path: str, run_id: str) -> int:
    """Join the finished walks and write the result; returns the number of trees."""
    run, prepared = opened_run(path, run_id)
    target = run.path / "posterior"
    settings = settings_of(run)
    walks = [finished_walk(run, number) for number in range(settings.n_permutations)]
    posterior = posterior_of(walks, prepared, settings)
    if not target.exists():
        with_room(lambda: write_in_place(target, *posterior_to_pieces(posterior)), path)
    return len(posterior.best)


def predict_task(path: str, run_id: str, source: Any, bounds: tuple[int, int], out: str) -> int:
    """Write the labels and log densities of new rows; returns their number."""
    model = opened_model(path, run_id)
    rows = _dense(source.read(*bounds))
    found = {"labels": model.predict(rows).astype(np.int32), "log_density": model.score_samples(rows)}

    def write() -> None:
        for name, values in found.items():
            zarr.open_array(f"{out}/{name}", mode="r+")[bounds[0] : bounds[1]] = values

    with_room(write, out)
    return bounds[1] - bounds[0]


# The run -------------------------------------------------------------------------------------------------------------


def _prepare_now(run: RunFolder, client: Client | None) -> None:
    executor(client).run(prepare_task, [(str(run.path.resolve()), run.run_id)])


def _carry_on(run: RunFolder, client: Client | None, progress: OnProgress | None) -> DiffusionResult:
    if run.done:
        return read_result(run.path)
    workers, settings, path = executor(client), settings_of(run), str(run.path.resolve())
    prepared = read_prepared(run)
    length = plan_of(settings, prepared.leaves.mean.shape[0]).length
    done = np.zeros(settings.n_permutations, dtype=np.int64)
    scores = np.full(settings.n_permutations, -np.inf)
    began = time.monotonic()
    unfinished = list(range(settings.n_permutations))
    while unfinished:
        found = workers.run(walk_task, [(path, run.run_id, number) for number in unfinished])
        for number, (steps, score) in zip(unfinished, found, strict=True):
            done[number], scores[number] = steps, score
        unfinished = [number for number in unfinished if done[number] < length]
        if progress is not None:
            best = float(scores.max()) - prepared.log_volume
            total = length * settings.n_permutations
            gaussian = settings.likelihood == "gaussian"
            progress(DiffusionProgress(int(done.sum()), total, best, time.monotonic() - began, gaussian))
    workers.run(posterior_task, [(path, run.run_id)])
    posterior = read_posterior(run, prepared)
    values = posterior.log_joint if settings.inference == "mcmc" else np.array([f.log_evidence for f in posterior.best])
    run.update(
        status="done",
        log_evidence=float(values.max()) - prepared.log_volume,
        n_trees=len(posterior.best),
        n_leaves=int(prepared.leaves.mean.shape[0]),
        converged=all(fit.converged for fit in posterior.best),
    )
    shutil.rmtree(run.path / "walks", ignore_errors=True)
    shutil.rmtree(run.path / "staged", ignore_errors=True)
    return read_result(run.path)


def _dense(rows: Any) -> np.ndarray:
    rows = np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    if np.isinf(rows).any():
        raise ValueError(f"row {int(np.flatnonzero(np.isinf(rows).any(axis=1))[0])} holds an infinite value")
    return rows


__all__ = [
    "DiffusionProgress",
    "DiffusionResult",
    "fit_diffusion",
    "open_run",
    "predict_diffusion",
    "read_result",
    "resume",
    "steps_done",
]
