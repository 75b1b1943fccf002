"""`dtree demo`: a first look without any data of one's own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from dtree.cli.arguments import OVERWRITE
from dtree.cli.cluster import Cluster, cluster_options
from dtree.cli.console import out, progress_bar, say, with_exit_codes
from dtree.cli.engine import LARGEST_EXACT, demo_large
from dtree.cli.output import can_draw, check_file, draw, print_fit, provenance_of, write_columns


@cluster_options
@with_exit_codes
def demo(
    out_: Annotated[Path, typer.Option("--out", help="Where to write the run.")] = Path("dtree-demo.zarr"),
    rows: Annotated[int, typer.Option(help="How many rows, at least 9; above 10,000 they go through the engine.")] = 54,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up data.")] = 0,
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Cluster a small built-in dataset: nine kinds of creature in three orders.

    Writes the run, a picture of the tree (.png) and the data (.csv) to try the other commands on. With many rows it makes
    a dataset on disk instead and takes it through the whole engine: `dtree demo --rows 5000000 --out large.zarr`.

    Example: `dtree demo --out dtree-demo.zarr`
    """
    if rows > LARGEST_EXACT:
        from dtree.store.run import check_output

        check_output(out_, overwrite=False)
        demo_large(out_, rows, seed, cluster)
        return
    from dtree.core.names import framed
    from dtree.datasets import nested_creatures
    from dtree.estimators import BHC
    from dtree.hierarchy.purity import dendrogram_purity
    from dtree.runs.saving import save
    from dtree.store.run import check_output

    data = nested_creatures(rows, seed)
    picture, table = out_.with_suffix(".png"), out_.with_suffix(".csv")
    check_output(out_, overwrite)
    check_file(picture, overwrite)
    check_file(table, overwrite)
    started = time.monotonic()
    with progress_bar():
        model = BHC("gaussian-diag").fit(framed(data.X, data.feature_names))
    save(
        model,
        out_,
        provenance=provenance_of(data.X, "built-in creatures", seed, started),
        row_names=data.row_names,
        overwrite=overwrite,
    )
    print_fit(model, data.row_names)
    out().print(
        f"purity of the tree: {dendrogram_purity(model.tree_, data.kind):.3f} for the nine kinds, "
        f"{dendrogram_purity(model.tree_, data.order):.3f} for the three orders"
    )
    if can_draw():
        draw(model, data.row_names, picture)
    measurements = dict(zip(data.feature_names, data.X.T))
    write_columns(table, {**measurements, "kind": data.kind}, data.row_names)
    for what, path in (("run", out_), ("picture", picture), ("data", table)):
        say(f"{what}: {path if path.exists() else 'not drawn, Matplotlib is not installed'}")
