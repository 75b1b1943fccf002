"""`dtree levels`: other cuts of a run, without fitting again."""

from pathlib import Path
from typing import Annotated

import typer

from dtree.cli.arguments import OVERWRITE, RUN
from dtree.cli.console import progress_bar, say
from dtree.cli.output import check_ending, check_file, write_columns


def command(
    run: RUN,
    clusters: Annotated[int | None, typer.Option(min=1, help="Cut into so many clusters.")] = None,
    level: Annotated[
        str | None, typer.Option(help="Cut at this depth in nats; auto, or components where nothing is joined.")
    ] = None,
    out_: Annotated[
        Path | None, typer.Option("--out", help="Write the cluster of each row there (.csv, .npy or .npz).")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The rows, where the run is not of `dtree fit` and its own are gone.")
    ] = None,
    overwrite: OVERWRITE = False,
) -> None:
    """Show the levels of a run, and write the clusters of another cut, without fitting again.

    A level says how deep a valley of the density must be to part two clusters. The runs of other methods have levels
    too: their clusters are joined where no valley parts them.

    Example: `dtree levels dtree-demo.zarr --clusters 3 --out three.csv`
    """
    from dtree.cli.describe import print_levels
    from dtree.estimators.levels import levels

    if clusters is not None and level is not None:
        raise ValueError("give either --clusters or --level, not both")
    if out_ is not None:
        check_ending(out_, (".csv", ".npy", ".npz"))
        check_file(out_, overwrite)
    with progress_bar():
        found = levels(run, data, _depth(level))
    say(found.reason)
    columns = found.table.set_index("n_clusters")
    print_levels(zip(columns.index, *columns.to_numpy().T, strict=True), "shallowest_valley" in columns)
    labels = found.labels if clusters is None else found.at_clusters(clusters)
    if clusters is not None or level is not None:
        sizes = sorted((int((labels == cluster).sum()) for cluster in set(labels.tolist())), reverse=True)
        say(f"this cut: {len(sizes)} clusters of {', '.join(f'{size:,}' for size in sizes[:20])} rows")
    if out_ is not None:
        from dtree.runs.run import Run

        names = Run.open(run).header.row_names
        write_columns(out_, {"label": labels}, names)
        say(str(out_))


def _depth(text: str | None) -> float | str:
    if text is None or text in ("auto", "components"):
        return text or "auto"
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--level must be auto, components or a depth in nats, got '{text}'") from None
