"""The commands' road through the engine: datasets of any size, in passes, on a local cluster or a running one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dtree.cli.cluster import Cluster, room_for, step_line, stopped
from dtree.cli.console import err, in_words, out, say
from dtree.cli.predict import ANY_SIZE, predict_here
from dtree.store.commit import take_place

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
    """Number of rows of a file if it can be told without reading it all, else 0; mistakes are left to the reader."""
    from dtree.store.readers import split_array_name

    path, array = split_array_name(data)
    try:
        if path.is_dir():
            return _rows_in_folder(path, array)
        if path.suffix == ".npy":
            import numpy as np

            return float(np.load(path, mmap_mode="r", allow_pickle=False).shape[0])
        if path.suffix == ".npz":
            return _rows_in_archive(path, array or "X")
        if path.suffix == ".csv":
            with open(path, "rb") as file:
                return float(sum(1 for line in file if line.strip()) - 1)
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return float(pq.ParquetFile(path).metadata.num_rows)
    except Exception:
        return 0.0
    return 0.0


def _rows_in_folder(path: Path, array: str | None) -> float:
    from dtree.engine.dataset import open_dataset

    return float(open_dataset(f"{path}:{array}" if array else path, path / "never-written").shape[0])


def _rows_in_archive(path: Path, array: str) -> float:
    """From the header of the array, or of the parts of a sparse matrix."""
    import zipfile

    import numpy as np

    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        name = next((name for name in (f"{array}.npy", "indptr.npy", "row.npy") if name in names), names[0])
        with archive.open(name) as member:
            version = np.lib.format.read_magic(member)
            known = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            return float(known(member)[0][0])


def _pass_line() -> Any:
    return step_line(
        "reading the data once",
        lambda step: (
            f"pass {step.number}: objective {step.objective:.6g}, {step.n_clusters} clusters, "
            f"{step.rows_per_second:,.0f} rows/s"
        ),
    )


def _print_result(result: Any, started: float) -> None:
    bound = "" if result.log_evidence_bound is None else f", log evidence at least {result.log_evidence_bound:.6g}"
    rows = result.trace[-1].rows if result.trace else 0
    took = time.monotonic() - started
    out().print(
        f"{rows:,} rows: {result.n_clusters} clusters ({result.n_leaves} leaves) after {len(result.trace)} passes{bound} "
        f"({took:.1f} s)",
        markup=False,
    )
    say(f"run: {take_place(result.path)}")


def fit_large(
    data: str,
    run: Path,
    cluster: Cluster,
    family: str,
    prior: Any,
    coarsening: float,
    seed: int | None,
    method: str = "bayes-kmeans",
    labels_column: str | None = None,
    overwrite: bool = False,
) -> None:
    """Bayes K-means by passes, then the tree over its clusters; or randomised BHC, a pass for every level of the tree.

    A run that stands there already is replaced when the new one is complete, and not before.
    """
    from dtree.engine.fit import fit_dataset
    from dtree.engine.randomized import fit_randomized

    started = time.monotonic()
    fit = fit_randomized if method == "randomized" else fit_dataset
    run = room_for(run, overwrite)
    try:
        with cluster.client_for(rows_in(data), family) as client, _pass_line() as show:
            result = fit(
                data, run, family, prior, coarsening=coarsening, seed=seed or 0, labels_column=labels_column,
                client=client, progress=show,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(result, started)


def resume_run(run: Path, cluster: Cluster) -> None:
    """Carry a stopped run on from its last finished pass."""
    from dtree.engine.methods import module_of
    from dtree.engine.runs import Run

    started, opened = time.monotonic(), Run(run)
    try:
        with cluster.client_for(opened.source.shape[0], opened.model().family.name) as client, _pass_line() as show:
            result = module_of(run).resume(run, client=client, progress=show)
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(result, started)


def predict_run(
    run: Path, data: str, target: Path, cluster: Cluster, leave_out: list[str], overwrite: bool = False
) -> None:
    """Label rows of any number, chunk by chunk, into a zarr group of labels and log densities; or into one file, in memory."""
    from dtree.engine.fit import predict_dataset
    from dtree.engine.runs import Run

    if target.suffix != ".zarr":
        from dtree.engine.methods import open_run

        predict_here(lambda: open_run(run), data, target, overwrite, leave_out=leave_out, endings=ANY_SIZE)
        return
    with cluster.client_for(rows_in(data), Run(run).model().family.name) as client, err().status("labelling rows"):
        started = time.monotonic()  # workers are there
        rows = predict_dataset(run, data, target, client=client, leave_out=leave_out, overwrite=overwrite)
        took = time.monotonic() - started
    say(f"{rows:,} rows ({rows / took:,.0f} rows/s): {target}")


def describe_run(run: Path) -> None:
    """What a run made by passes holds, finished or not."""
    from dtree.engine.runs import Run

    opened = Run(run)
    source = opened.source
    at = opened.attributes
    say(f"{source.shape[0]:,} rows, {source.shape[1]} features from {at.get('data') or source.path}")
    if at.get("labels_column"):
        say(f"column of labels, left out: {at['labels_column']}")
    if opened.done:
        say(
            f"{at['n_clusters']} clusters, {at['n_leaves']} leaves of the tree, after pass {at['best_pass']}, log joint {at['log_joint']:.6g}"
        )
        if at["log_evidence_bound"] is not None:
            say(f"log evidence at least {at['log_evidence_bound']:.6g}")
    else:
        done = opened.generations()
        say(f"not finished: {done[-1] if done else 0} passes done; 'dtree resume {run}' carries on")
    model = opened.model()
    say(f"family: {in_words(model.family)}")
    say(f"prior: {in_words(model.prior)}")
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
    data, labels = (run.with_name(f"{run.stem}-{what}.zarr") for what in ("data", "labels"))
    for path in (data, labels):
        if path.exists():
            raise ValueError(f"{path} exists already: remove it or choose another --out")
    say(f"writing {rows:,} rows to {data}")
    make_rows(data, rows, seed)
    fit_large(str(data), run, cluster, "gaussian-diag", "dp", 1.0, seed)
    predict_run(run, str(data), labels, cluster, [])
