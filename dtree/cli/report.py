"""`dtree report`: one HTML page about a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from dtree.cli.console import say, with_exit_codes
from dtree.cli.output import check_ending, check_file


@with_exit_codes
def report(
    run: Annotated[Path, typer.Argument(help="A finished run of any kind.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    data: Annotated[
        str | None, typer.Option(help="The rows, for their picture and names where a run keeps only summaries.")
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
    X = None if data is None else _rows(run, data, labels_column)
    from dtree.reporting.html import report as write

    page = write(run, out, X=X, image_shape=shape, title=title)
    say(f"{page} ({page.stat().st_size / 1e6:.1f} MB)")


def _rows(run: Path, data: str, labels_column: str | None) -> Any:
    """The rows of a file with their names, without the column that the run left out."""
    from dtree.store.readers import read_rows
    from dtree.store.run import made_by_passes, read_provenance

    if made_by_passes(run):
        from dtree.engine.folder import RunFolder

        remembered = RunFolder(run).attributes.get("labels_column")
    else:
        remembered = read_provenance(run).get("labels_column")
    leave_out = [remembered] if remembered and labels_column is None else []
    rows = read_rows(data, labels_column=labels_column, leave_out=leave_out)
    return SimpleNamespace(X=rows.X, obs_names=rows.row_names or (), var_names=rows.feature_names or ())


def _shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"--image-shape must look like 28x28, got '{text}'")
    return int(parts[0]), int(parts[1])
