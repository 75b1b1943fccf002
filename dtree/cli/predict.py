"""`dtree predict`: clusters and log densities of new rows, by a run of any method."""

import threading
import time
from typing import Annotated, Any

import typer

from dtree.cli.arguments import DATA, LABELS_COLUMN, OVERWRITE, RUN
from dtree.cli.cluster import Cluster, cluster_options
from dtree.cli.console import err, progress_bar, say
from dtree.cli.output import check_ending, check_file, write_columns

ENDINGS = (".csv", ".npy", ".npz", ".zarr")
_PIECE_VALUES = 4_000_000  # numbers read at once for a target that is one file


@cluster_options
def command(
    run: RUN,
    data: DATA,
    out_: Annotated[str, typer.Option("--out", help="labels.csv, labels.npy or labels.npz; .zarr for any number")],
    labels_column: LABELS_COLUMN = None,
    surprisal: Annotated[
        bool, typer.Option("--surprisal", help="Also write how surprising every value is, given the rest of its row.")
    ] = False,
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Assign new rows to the clusters of a run, with the log density of each row.

    With `--surprisal` also -log p(value | the rest of its row) for every value, in nats: which value of which row is
    odd. For runs of `dtree fit` and `dtree vb` whose columns are independent within a cluster.

    Example: `dtree predict dtree-demo.zarr dtree-demo.csv --labels-column kind --out labels.csv`
    """
    from dtree.cli.cells import columns_of, model_of_cells, odd_cells, source_for
    from dtree.data.source import dense
    from dtree.methods import method_named
    from dtree.methods.fitted_checks import checked_fitted
    from dtree.runs.run import Run
    from dtree.storage import located

    target = located(out_)
    check_ending(target, ENDINGS)
    opened = Run.open(run)
    opened.require_done()
    opened.check_rows()
    header = opened.header
    source = source_for(header, data, labels_column)
    method = method_named(header.method, opened.location)
    if surprisal and target.suffix == ".zarr":
        raise ValueError("--surprisal writes a .csv, .npy or .npz file: give another --out")
    model = model_of_cells(run, "predict with --surprisal") if surprisal else None
    if target.suffix == ".zarr":
        from dtree.engine.predict import predict_into

        settings = opened.store.get("settings", method.Settings)
        # Rows are looked at once, in threads that let each other run: processes, unless asked for, start too slowly.
        with cluster.client_for(method, settings, 0) as client, err().status("labelling rows"):
            started = time.monotonic()  # workers are there
            rows = predict_into(run, source, target, client, overwrite=overwrite)
            took = time.monotonic() - started
        say(f"{rows:,} rows ({rows / took:,.0f} rows/s): {out_}")
        return
    file = check_file(target, overwrite)
    with progress_bar():
        labels, log_density = _predict_here(method, checked_fitted(opened), source)
    columns = {"label": labels, "log_density": log_density}
    if model is not None:
        values = dense(source.load())
        found = model._surprisal(values)
        columns |= {f"surprisal of {kind.name}": found[:, j] for j, kind in enumerate(columns_of(model))}
        for line in odd_cells(model, values, found, source.row_names):
            say(line)
    write_columns(file, columns, source.row_names)
    say(f"{len(labels):,} rows, mean log density {log_density.mean():.6g}: {out_}")


def _predict_here(method: Any, fitted: Any, source: Any) -> tuple[Any, Any]:
    """Labels (n,) and log densities (n,), rows read piece by piece."""
    import numpy as np

    from dtree.data.chunks import chunk_bounds
    from dtree.engine.workers import Here
    from dtree.variational.threads import available_threads

    reading = threading.Lock()  # a text file is read from one place at a time

    def piece(start: int, stop: int) -> tuple[Any, Any]:
        with reading:
            rows = source.read(start, stop)
        return method.predict(fitted, method.checked(fitted, rows, start))

    n, d = source.shape
    pieces = Here(available_threads()).run(piece, chunk_bounds(n, max(1, _PIECE_VALUES // d)))
    labels, log_density = zip(*pieces, strict=True)
    return np.concatenate(labels), np.concatenate(log_density)
