"""`dtree export`: parts of a run in formats that other programs read, for runs of every kind."""

from pathlib import Path
from typing import Annotated

import typer

from dtree.cli.arguments import OVERWRITE, RUN
from dtree.cli.console import say
from dtree.cli.output import check_ending, check_file, draw, write_columns, write_linkage


def command(
    run: RUN,
    newick: Annotated[Path | None, typer.Option(help="Write the tree as Newick text.")] = None,
    linkage: Annotated[Path | None, typer.Option(help="Write SciPy's linkage matrix (.npy or .csv).")] = None,
    labels: Annotated[Path | None, typer.Option(help="Write the cluster of each row (.csv, .npy or .npz).")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the tree (.png, .svg or .pdf).")] = None,
    overwrite: OVERWRITE = False,
) -> None:
    """Write parts of a run in formats that other programs read.

    Example: `dtree export dtree-demo.zarr --newick creatures.nwk --labels creatures.csv`
    """
    wanted = _checked(newick, linkage, labels, picture, overwrite)
    from dtree.estimators.saving import open as open_run
    from dtree.runs.commit import file_in_place

    model = open_run(run)
    tree = getattr(model, "tree_", None)
    if tree is None and (newick is not None or linkage is not None):
        raise ValueError(
            f"{run} holds a {type(model).__name__}, which has no tree of its own: give --labels, or --picture for a "
            "tree over its clusters"
        )
    row_names = model._run.header.row_names
    if row_names is not None and len(row_names) != len(model.labels_):
        row_names = None
    leaf_names = row_names if row_names is not None and tree is not None and len(row_names) == tree.n_leaves else None
    if newick is not None:
        with file_in_place(newick) as partial:
            partial.write_text(tree.to_newick(leaf_names) + "\n", encoding="utf-8")  # type: ignore[union-attr]
    if linkage is not None:
        write_linkage(linkage, tree.to_linkage())  # type: ignore[union-attr]
    if labels is not None:
        write_columns(labels, {"label": model.labels_}, row_names)
    if picture is not None:
        draw(model, leaf_names, picture)
    for path in wanted:
        say(str(path))


def _checked(
    newick: Path | None, linkage: Path | None, labels: Path | None, picture: Path | None, overwrite: bool
) -> list[Path]:
    """The files to write, or one sentence why they cannot be written."""
    wanted = [path for path in (newick, linkage, labels, picture) if path is not None]
    if not wanted:
        raise ValueError("nothing to export: give --newick, --linkage, --labels or --picture")
    if len({path.resolve() for path in wanted}) < len(wanted):
        raise ValueError("two exports have the same file name")
    for path, endings in (
        (linkage, (".npy", ".csv")),
        (labels, (".csv", ".npy", ".npz")),
        (picture, (".png", ".svg", ".pdf")),
    ):
        if path is not None:
            check_ending(path, endings)
    for path in wanted:
        check_file(path, overwrite)
    return wanted
