"""Label new rows with a finished run of any method: workers write labels and log densities, chunk by chunk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from distributed import Client

from dtree.engine.cluster import worker_memory
from dtree.engine.dataset import chunk_rows_for, open_dataset
from dtree.engine.execute import executor
from dtree.engine.folder import RunFolder
from dtree.engine.runs import create_labels, create_rows
from dtree.engine.tasks import room_on_disk
from dtree.kmeans.fit import chunk_bounds
from dtree.store.commit import folder_in_place

ARRAYS = ("labels", "log_density")


def predict_into(
    run: RunFolder,
    data: Any,
    out: str | os.PathLike[str],
    client: Client | None,
    task: Callable[..., int],
    given: tuple[Any, ...] = (),
    *,
    leave_out: Sequence[str] = (),
    most_rows: int | None = None,
    overwrite: bool = False,
) -> int:
    """Make a zarr group `out` with the arrays `labels` (n,) int32 and `log_density` (n,) float64; returns n.

    task : called as task(path of the run, run_id, *given, source, bounds, folder) for every chunk of rows; writes both arrays there
    and returns the number of rows. leave_out : columns that are not features, where the data have them, besides the run's own column of labels. most_rows : in a chunk.

    The group appears when it is complete; nothing of the size of the data comes to this process.
    """
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it first")
    remembered = run.attributes.get("labels_column")
    names = [*leave_out, remembered] if isinstance(remembered, str) else leave_out
    target = Path(out).resolve()
    check_target(target, overwrite)
    with tempfile.TemporaryDirectory(dir=run.path, prefix=".predicting-") as staging:
        source = open_dataset(data, staging, client, leave_out=names)
        numbered = [name for name in names if name.lstrip("-").isdigit()]
        if numbered and not source.columns and source.shape[1] < run.source.shape[1]:
            # A column known only by its number, and the new rows have as many columns without it: they hold no labels.
            source = open_dataset(data, staging, client, leave_out=[name for name in names if name not in numbered])
        source = source.with_columns_of(run.source)
        n = source.shape[0]
        rows = min(chunk_rows_for(source, worker_memory(client)), n, most_rows or n)

        with (
            room_on_disk(target, "predict again"),
            folder_in_place(target, "replace" if overwrite else "refuse") as partial,
        ):
            zarr.open_group(str(partial), mode="a", zarr_format=3)
            create_labels(partial / "labels", n, rows)
            create_rows(partial / "log_density", n, rows, np.dtype(np.float64), np.nan)
            path = str(run.path.resolve())
            arguments = [(path, run.run_id, *given, source, bounds, str(partial)) for bounds in chunk_bounds(n, rows)]
            return sum(executor(client).run(task, arguments))


def check_target(target: Path, overwrite: bool) -> None:
    """Raise one sentence unless predictions can be written there; only earlier predictions are ever replaced."""
    if not target.exists():
        return
    if not overwrite:
        raise ValueError(f"{target} exists already: choose another place for the labels, or give --overwrite")
    if {path.name for path in target.iterdir()} != {"zarr.json", *ARRAYS} if target.is_dir() else True:
        raise ValueError(f"{target} exists and does not hold predictions, so it is not replaced; choose another name")
