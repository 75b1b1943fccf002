"""`dtree demo`: a first look without any data of one's own."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import OVERWRITE
from dtree.cli.cluster import Cluster, cluster_options
from dtree.cli.console import out, progress_bar, say
from dtree.cli.output import can_draw, check_file, draw, write_columns

_MANY = 10_000  # rows above which the demo shows how a dataset on disk is fitted


@cluster_options
def command(
    out_: Annotated[Path, typer.Option("--out", help="Where to write the run.")] = Path("dtree-demo.zarr"),
    rows: Annotated[int, typer.Option(help="How many rows, at least 9; above 10,000 they are written to disk.")] = 180,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up data.")] = 0,
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Cluster a small built-in dataset: nine kinds of creature in three orders.

    Writes the run, a picture of the tree (.png) and the data (.csv) to try the other commands on. With many rows it
    makes a dataset on disk instead and takes it through the whole engine: `dtree demo --rows 5000000 --out large.zarr`.

    Example: `dtree demo --out dtree-demo.zarr`
    """
    from dtree.runs.run import check_output

    check_output(out_, overwrite)
    if rows > _MANY:
        demo_large(out_, rows, seed, overwrite, cluster)
        return
    from dtree.cli.describe import describe
    from dtree.core.names import framed
    from dtree.datasets import nested_creatures
    from dtree.estimators.saving import save
    from dtree.estimators.tree_clustering import TreeClustering
    from dtree.runs.run import Run

    data = nested_creatures(rows, seed)
    picture, table = out_.with_suffix(".png"), out_.with_suffix(".csv")
    check_file(picture, overwrite)
    check_file(table, overwrite)
    with progress_bar():
        model = TreeClustering(random_state=seed).fit(framed(data.X, data.feature_names))
    notes = {"data": "built-in creatures", "seed of the data": seed}
    save(model, out_, provenance=notes, row_names=data.row_names, overwrite=overwrite)
    describe(Run.open(out_))
    say(f"why this level: {model.level_reason_}")
    orders = model.at_clusters(min(3, model.n_components_))
    out().print(
        f"adjusted Rand index: {_agreement(data.kind, model.labels_):.3f} for the nine kinds, "
        f"{_agreement(data.order, orders):.3f} for the three orders at the level of three clusters"
    )
    if can_draw():
        draw(model, None, picture)
    measurements = dict(zip(data.feature_names, data.X.T))
    write_columns(table, {**measurements, "kind": data.kind}, data.row_names)
    for what, path in (("run", out_), ("picture", picture), ("data", table)):
        say(f"{what}: {path if path.exists() else 'not drawn, Matplotlib is not installed'}")


def _agreement(known: Any, found: Any) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(known, found))


def demo_large(run: Path, rows: int, seed: int, overwrite: bool, cluster: Cluster) -> None:
    """Make a dataset on disk and take it through the whole path."""
    from dtree.cli.command import Words, fit
    from dtree.engine.predict import predict_into

    data, labels = (run.with_name(f"{run.stem}-{what}.zarr") for what in ("data", "labels"))
    for path in (data, labels):
        if path.exists():
            raise ValueError(f"{path} exists already: remove it or choose another --out")
    say(f"writing {rows:,} rows to {data}")
    make_rows(data, rows, seed)
    words = Words(str(data), str(run), seed, None, overwrite, None, cluster)
    fit(["tree-clustering"], None, {}, words)
    say(f"{predict_into(run, data, labels):,} rows labelled: {labels}")


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
