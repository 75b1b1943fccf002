"""`dtree predict`: clusters and log densities of new rows, by a run of any method."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import DATA, LABELS_COLUMN, OVERWRITE, RUN
from dtree.cli.cluster import Cluster, cluster_options
from dtree.cli.console import err, progress_bar, say, with_exit_codes
from dtree.cli.output import check_ending, check_file, write_columns

ENDINGS = (".csv", ".npy", ".npz", ".zarr")
_PIECE_VALUES = 4_000_000  # numbers read at once for a target that is one file


@cluster_options
@with_exit_codes
def command(
    run: RUN,
    data: DATA,
    out_: Annotated[Path, typer.Option("--out", help="labels.csv, labels.npy or labels.npz; .zarr for any number")],
    labels_column: LABELS_COLUMN = None,
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Assign new rows to the clusters of a run, with the log density of each row.

    Example: `dtree predict dtree-demo.zarr dtree-demo.csv --labels-column kind --out labels.csv`
    """
    from dtree.data import open_source
    from dtree.methods import method_named
    from dtree.methods.fitted_checks import checked_fitted
    from dtree.runs.run import Run

    check_ending(out_, ENDINGS)
    opened = Run.open(run)
    opened.require_done()
    opened.check_rows()
    header = opened.header
    leave_out = [name for name in (labels_column, header.labels_column) if name]
    source = open_source(data, leave_out=leave_out, known=header.kinds).with_columns_of(*header.features)
    method = method_named(header.method, opened.location)
    if out_.suffix == ".zarr":
        from dtree.engine.predict import predict_into

        settings = opened.store.get("settings", method.Settings)
        with cluster.client_for(method, settings, source.shape[0]) as client, err().status("labelling rows"):
            started = time.monotonic()  # workers are there
            rows = predict_into(run, source, out_, client, overwrite=overwrite)
            took = time.monotonic() - started
        say(f"{rows:,} rows ({rows / took:,.0f} rows/s): {out_}")
        return
    check_file(out_, overwrite)
    with progress_bar():
        labels, log_density = _predict_here(method, checked_fitted(opened), source)
    write_columns(out_, {"label": labels, "log_density": log_density}, source.row_names)
    say(f"{len(labels)} rows, mean log density {log_density.mean():.6g}: {out_}")


def _predict_here(method: Any, fitted: Any, source: Any) -> tuple[Any, Any]:
    """Labels (n,) and log densities (n,), rows read piece by piece."""
    import numpy as np

    n, d = source.shape
    step = max(1, _PIECE_VALUES // d)
    pieces = [
        method.predict(fitted, method.checked(fitted, source.read(start, min(start + step, n)), start))
        for start in range(0, n, step)
    ]
    labels, log_density = zip(*pieces, strict=True)
    return np.concatenate(labels), np.concatenate(log_density)
