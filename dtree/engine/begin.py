"""How a run of clusters begins: open the rows, look at every one of them once, choose the model, write the run's header."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from distributed import Client

from dtree.core.families import Family, Moments
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.engine.cluster import worker_memory
from dtree.engine.dataset import chunk_rows_for, open_dataset
from dtree.engine.execute import executor
from dtree.engine.runs import Run
from dtree.engine.sources import Source
from dtree.engine.tasks import combine_surveys_task, room_on_disk, survey_task
from dtree.kmeans.defaults import check_prior, family_type, model_for
from dtree.kmeans.fit import chunk_bounds, sample_size
from dtree.kmeans.passes import PassSettings
from dtree.kmeans.survey import Survey, share_of_sample


class Wanted(NamedTuple):
    """What a caller says about the data and the model of a run."""

    data: Any
    family: str | Family
    prior: str | Prior
    coarsening: float
    settings: PassSettings
    threshold: float
    chunk_bytes: int | None = None
    sample_rows: int | None = None
    labels_column: str | None = None  # not a feature; remembered, so that predictions leave it out too


@contextmanager
def nothing_half_made(out: Path) -> Iterator[None]:
    """Make the folder, and take it away again when the run does not get as far as its first checkpoint."""
    if (out / "zarr.json").exists():
        raise ValueError(f"{out} already holds a run: resume it, or choose another folder")
    before = out.exists()
    out.mkdir(parents=True, exist_ok=True)
    known = set(out.iterdir())
    try:
        with room_on_disk(out, "fit again, nothing was kept"):
            yield
    except BaseException:
        for made in set(out.iterdir()) - known:
            shutil.rmtree(made, ignore_errors=True) if made.is_dir() else made.unlink(missing_ok=True)
        if not before:
            shutil.rmtree(out, ignore_errors=True)
        raise


def begin_run(
    out: Path, method: str, wanted: Wanted, client: Client | None, attributes: Mapping[str, Any]
) -> tuple[Run, Model, Survey]:
    """The header and the model of a new run in the folder `out`, and the survey of its rows."""
    kind = family_type(wanted.family)
    check_prior(wanted.prior)
    source = open_dataset(wanted.data, out / "staged", client, labels_column=wanted.labels_column)
    if source.is_sparse and not kind.accepts_sparse:
        raise ValueError(f"the {kind.name} family takes dense rows: convert the data with toarray()")
    seed = wanted.settings.seed
    chunk_rows = min(chunk_rows_for(source, worker_memory(client), wanted.chunk_bytes), source.shape[0])
    survey = survey_source(source, wanted.family, seed, chunk_rows, client, wanted.sample_rows)
    moments = survey.moments(kind.needs_covariance)
    model = model_for(wanted.family, wanted.prior, moments, survey.sample, seed, wanted.coarsening)
    run = Run.create(
        out,
        method,
        {
            "source": source.__dict__,
            "chunk_rows": chunk_rows,
            "settings": wanted.settings._asdict(),
            "data": str(wanted.data) if isinstance(wanted.data, str | os.PathLike) else None,
            "labels_column": wanted.labels_column,
            "data_fingerprint": fingerprint(source, survey),
            "versions": {name: version(name) for name in ("numpy", "numba", "zarr", "dask", "scipy")},
            "command": sys.argv,
            "tree_wanted": True,
            "threshold": wanted.threshold,
            **attributes,
        },
    )
    zarr.open_group(str(out / "passes"), mode="a", zarr_format=3)
    run.write_model(model)
    return run, model, survey


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


def fingerprint(source: Source, survey: Survey) -> str:
    """A hash of shape, type and moments: it changes when any value does, for the price of the first pass."""
    digest = hashlib.sha256(f"{source.shape} {source.dtype}".encode())
    for column in (survey.mean, survey.second, survey.low, survey.high):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()
