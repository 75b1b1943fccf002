"""`dtree report`: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dtree.cli_console import say, with_exit_codes
from dtree.cli_output import check_ending, check_file


@with_exit_codes
def report(
    run: Annotated[Path, typer.Argument(help="A finished run of any kind.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    data: Annotated[
        str | None, typer.Option(help="The rows, for the picture in two dimensions where a run keeps only summaries.")
    ] = None,
    labels_column: Annotated[str | None, typer.Option(help="Column of --data that is not a feature.")] = None,
    image_shape: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH when a row is a picture, e.g. 28x28.")] = None,
    title: Annotated[str | None, typer.Option(help="What to write on top; the name of the run if not given.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")] = False,
) -> None:
    """Write one HTML page about a run: its tree to walk through, clusters, evidence and provenance.

    The page holds everything it shows: open it in any browser, without a network, or send it to someone.

    Example: `dtree report dtree-demo.zarr -o report.html`
    """
    check_ending(out, (".html", ".htm"))
    check_file(out, overwrite)
    shape = _shape(image_shape)
    X = None
    row_names = feature_names = None
    if data is not None:
        from dtree.store.readers import read_rows
        from dtree.store.run import made_by_passes, read_provenance

        remembered = None if made_by_passes(run) else read_provenance(run).get("labels_column")
        leave_out = [remembered] if remembered and labels_column is None else []
        rows = read_rows(data, labels_column=labels_column, leave_out=leave_out)
        X, row_names, feature_names = rows.X, rows.row_names, rows.feature_names
    from dtree.reporting.html import report as write

    page = write(run, out, row_names, feature_names=feature_names, X=X, image_shape=shape, title=title)
    say(f"{page} ({page.stat().st_size / 1e6:.1f} MB)")


def _shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"--image-shape must look like 28x28, got '{text}'")
    return int(parts[0]), int(parts[1])
