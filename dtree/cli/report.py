"""`dtree report`: one HTML page about a run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import OVERWRITE, RUN
from dtree.cli.console import say
from dtree.cli.output import check_ending, check_file

_MOST_READ = 200_000  # rows that are read for the sake of a picture


def command(
    run: RUN,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page to write.")] = Path("report.html"),
    data: Annotated[
        str | None, typer.Option(help="The rows, for their picture and names where a run keeps only summaries.")
    ] = None,
    labels_column: Annotated[str | None, typer.Option(help="Column of --data that is not a feature.")] = None,
    image_shape: Annotated[str | None, typer.Option(help="HEIGHTxWIDTH when a row is a picture, e.g. 28x28.")] = None,
    title: Annotated[str | None, typer.Option(help="What to write on top; the name of the run if not given.")] = None,
    overwrite: OVERWRITE = False,
) -> None:
    """Write one HTML page about a run: its tree to walk through, clusters, evidence and provenance.

    The page holds everything it shows: open it in any browser, without a network, or send it to someone.

    Example: `dtree report dtree-demo.zarr -o report.html`
    """
    check_ending(out, (".html", ".htm"))
    check_file(out, overwrite)
    shape = _shape(image_shape)
    X = _own_rows(run) if data is None else _rows(run, data, labels_column)
    from dtree.reporting.html import report as write

    page = write(run, out, X=X, image_shape=shape, title=title)
    say(f"{page} ({page.stat().st_size / 1e6:.1f} MB)")


def _rows(run: str, data: str, labels_column: str | None) -> Any:
    """The rows of a file with their names, as the run knows them."""
    from dtree.cli.cells import source_for
    from dtree.data import in_memory
    from dtree.runs.run import Run

    return in_memory(source_for(Run.open(run).header, data, labels_column))


def _own_rows(run: str) -> Any:
    """The rows of a run whose leaves are components, for their picture, where they are at hand and not too many."""
    from dtree.data import in_memory
    from dtree.engine.rows import source_of_run
    from dtree.runs.run import Run

    header = Run.open(run).header
    if header.method != "tree-clustering" or header.n_rows > _MOST_READ:
        return None
    try:
        return in_memory(source_of_run(header))
    except ValueError:
        return None  # the components are drawn instead


def _shape(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise ValueError(f"--image-shape must look like 28x28, got '{text}'")
    return int(parts[0]), int(parts[1])
