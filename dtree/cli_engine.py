"""The commands' road through the engine: datasets of any size, in passes, on a local cluster or a running one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dtree.cli_cluster import Cluster, stopped
from dtree.cli_console import err, out, say

LARGEST_EXACT = 10_000  # rows up to which `--method auto` builds the exact tree over single rows


def is_large(data: str, method: str, cluster: Cluster) -> bool:
    """Whether a fit goes through the engine: asked for, or too many rows for the exact tree."""
    if method == "bayes-kmeans":
        return True
    if method not in ("auto", "randomized"):
        if cluster.wanted:
            raise ValueError(f"--method {method} runs in one process: leave out the options about workers")
        return False
    return cluster.wanted or rows_in(data) > LARGEST_EXACT


def rows_in(data: str) -> float:
    """Number of rows of a file if it can be told without reading it, else 0; mistakes are left to the reader."""
    path = Path(data)
    try:
        if path.suffix == ".npy":
            import numpy as np

            return float(np.load(path, mmap_mode="r", allow_pickle=False).shape[0])
        if path.suffix == ".zarr":
            import zarr

            opened = zarr.open(str(path), mode="r")
            return float(opened.shape[0]) if hasattr(opened, "shape") else math.inf
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return math.inf if path.is_dir() else float(pq.ParquetFile(path).metadata.num_rows)
    except Exception:
        return 0.0
    return 0.0


@contextmanager
def _pass_line() -> Iterator[Any]:
    """A callback that shows each pass: a live line for a person, one plain line a pass for a log."""
    console = err()
    with console.status("reading the data once") as status:

        def show(step: Any) -> None:
            line = (
                f"pass {step.number}: objective {step.objective:.6g}, {step.n_clusters} clusters, "
                f"{step.rows_per_second:,.0f} rows/s"
            )
            if console.is_terminal:
                status.update(line)
            else:
                console.print(line, markup=False)

        yield show


def _print_result(result: Any, started: float) -> None:
    bound = "" if result.log_evidence_bound is None else f", log evidence at least {result.log_evidence_bound:.6g}"
    rows = result.trace[-1].rows if result.trace else 0
    took = time.monotonic() - started
    out().print(
        f"{rows:,} rows: {result.n_clusters} clusters ({result.n_leaves} leaves) after {len(result.trace)} passes{bound} "
        f"({took:.1f} s)",
        markup=False,
    )
    say(f"run: {result.path}")


def fit_large(
    data: str,
    run: Path,
    cluster: Cluster,
    family: str,
    prior: Any,
    coarsening: float,
    seed: int | None,
    method: str = "bayes-kmeans",
) -> None:
    """Bayes K-means by passes, then the tree over its clusters; or randomised BHC, a pass for every level of the tree."""
    from dtree.engine.fit import fit_dataset
    from dtree.engine.randomized import fit_randomized

    started = time.monotonic()
    fit = fit_randomized if method == "randomized" else fit_dataset
    try:
        with cluster.client(family) as client, _pass_line() as show:
            result = fit(data, run, family, prior, coarsening=coarsening, seed=seed or 0, client=client, progress=show)
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(result, started)


def resume_run(run: Path, cluster: Cluster) -> None:
    """Carry a stopped run on from its last finished pass."""
    from dtree.engine.methods import module_of
    from dtree.engine.runs import Run

    started = time.monotonic()
    try:
        with cluster.client(Run(run).model().family.name) as client, _pass_line() as show:
            result = module_of(run).resume(run, client=client, progress=show)
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(result, started)


def predict_run(run: Path, data: str, target: Path, cluster: Cluster, leave_out: list[str]) -> None:
    """Label rows of any number, chunk by chunk, into a zarr group of labels and log densities."""
    from dtree.engine.fit import predict_dataset
    from dtree.engine.runs import Run

    if target.suffix != ".zarr":
        raise ValueError(
            f"{run} was made by passes, so its predictions are written to a .zarr folder, not {target.name}"
        )
    started = time.monotonic()
    with cluster.client(Run(run).model().family.name) as client, err().status("labelling rows"):
        rows = predict_dataset(run, rows_to_label(data, leave_out), target, client=client)
    took = time.monotonic() - started
    say(f"{rows:,} rows ({rows / took:,.0f} rows/s): {target}")


def rows_to_label(data: str, leave_out: list[str]) -> Any:
    """The path itself, which workers read; or the rows, when columns have to be left out first."""
    if not leave_out:
        return data
    from dtree.store.readers import read_rows

    return read_rows(data, leave_out=leave_out).X


def describe_run(run: Path) -> None:
    """What a run made by passes holds, finished or not."""
    from dtree.engine.runs import Run

    opened = Run(run)
    source = opened.source
    say(f"{source.shape[0]:,} rows, {source.shape[1]} features from {source.path}")
    if opened.done:
        at = opened.attributes
        say(
            f"{at['n_clusters']} clusters, {at['n_leaves']} leaves of the tree, after pass {at['best_pass']}, log joint {at['log_joint']:.6g}"
        )
        if at["log_evidence_bound"] is not None:
            say(f"log evidence at least {at['log_evidence_bound']:.6g}")
    else:
        done = opened.generations()
        say(f"not finished: {done[-1] if done else 0} passes done; 'dtree resume {run}' carries on")
    model = opened.model()
    say(f"family: {model.family!r}")
    say(f"prior: {model.prior!r}")
    say(f"command: {' '.join(opened.attributes['command'])}")


def make_rows(path: Path, rows: int, seed: int, features: int = 8, clusters: int = 12) -> None:
    """A dataset on disk of any number of rows: clusters in groups, written chunk by chunk."""
    import numpy as np
    import zarr

    chunk = 250_000
    rng = np.random.default_rng(seed)
    groups = 12.0 * rng.normal(size=(4, features))
    centres = groups[np.arange(clusters) % 4] + 4.0 * rng.normal(size=(clusters, features))
    array = zarr.create_array(
        store=str(path), shape=(rows, features), chunks=(min(chunk, rows), features), dtype="f4", compressors=None
    )
    for number, start in enumerate(range(0, rows, chunk)):
        part = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))
        n = min(chunk, rows - start)
        member = part.integers(0, clusters, n)
        array[start : start + n] = centres[member] + part.normal(size=(n, features))


def demo_large(run: Path, rows: int, seed: int, cluster: Cluster) -> None:
    """Make a dataset on disk and take it through the whole path."""
    data = run.with_name(run.stem + "-data.zarr")
    if data.exists():
        raise ValueError(f"{data} exists already: remove it or choose another --out")
    say(f"writing {rows:,} rows to {data}")
    make_rows(data, rows, seed)
    fit_large(str(data), run, cluster, "gaussian-diag", "dp", 1.0, seed)
    predict_run(run, str(data), run.with_name(run.stem + "-labels.zarr"), cluster, [])
