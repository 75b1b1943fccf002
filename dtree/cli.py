"""The command line: parse, call, print. Heavy imports wait inside the commands so that --help comes at once."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtree.cli_cluster import Cluster, cluster_options, face_of, unfinished
from dtree.cli_console import out, progress_bar, say, with_exit_codes
from dtree.cli_ddt import ddt, describe_tree, export_tree, is_diffusion
from dtree.cli_engine import LARGEST_EXACT, demo_large, fit_large, is_large
from dtree.cli_output import can_draw, check_ending, check_file, draw, print_fit, write_columns, write_linkage
from dtree.cli_report import report
from dtree.cli_sample import sample
from dtree.cli_vb import describe_saved, vb

if TYPE_CHECKING:
    from dtree.store.rows import Rows

app = typer.Typer(
    name="dtree",
    help="Find the tree in your data: Bayesian hierarchical clustering that says how many clusters there are and how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

DataArgument = Annotated[
    str, typer.Argument(help="Data file: .npy .npz .csv .parquet or .zarr; file.npz:NAME picks an array.")
]
RunArgument = Annotated[Path, typer.Argument(help="A run made by 'dtree fit'.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")]
LabelsColumnOption = Annotated[
    str | None, typer.Option(help="Column (or array of an .npz) with known labels; never used as a feature.")
]


def main() -> None:
    """Run the command line."""
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from dtree.store.run import versions

        found = versions()
        out().print(
            f"dtree {found['dtree']} (python {found['python']}, numpy {found['numpy']}, numba {found['numba']})"
        )
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    pass


@app.command()
@cluster_options
@with_exit_codes
def demo(
    out_: Annotated[Path, typer.Option("--out", help="Where to write the run.")] = Path("dtree-demo.zarr"),
    rows: Annotated[int, typer.Option(help="How many rows, at least 9; above 10,000 they go through the engine.")] = 54,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up data.")] = 0,
    overwrite: OverwriteOption = False,
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
    from dtree.datasets import nested_creatures
    from dtree.estimators import BHC
    from dtree.hierarchy.purity import dendrogram_purity
    from dtree.runs import save
    from dtree.store.run import check_output

    data = nested_creatures(rows, seed)
    picture, table = out_.with_suffix(".png"), out_.with_suffix(".csv")
    check_output(out_, overwrite)
    check_file(picture, overwrite)
    check_file(table, overwrite)
    started = time.monotonic()
    with progress_bar():
        model = BHC("gaussian-diag").fit(_framed(data.X, data.feature_names))
    save(
        model,
        out_,
        provenance=_provenance(data.X, "built-in creatures", seed, started),
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


@app.command()
@cluster_options
@with_exit_codes
def fit(
    data: DataArgument,
    out_: Annotated[Path, typer.Option("--out", help="The run to make, by custom NAME.zarr.")],
    family: Annotated[
        str, typer.Option(help="What a cluster looks like: gaussian, gaussian-diag, bernoulli, multinomial or poisson.")
    ] = "gaussian",
    prior: Annotated[str, typer.Option(help="Prior over partitions: dp or nggp.")] = "dp",
    alpha: Annotated[float | None, typer.Option(help="Concentration of the prior: more means more clusters.")] = None,
    method: Annotated[
        str, typer.Option(help="auto, exact, randomized or bayes-kmeans; the last two in passes when rows are many.")
    ] = "auto",
    optimize: Annotated[bool, typer.Option("--optimize", help="Learn the hyperparameters from the data.")] = False,
    coarsening: Annotated[
        float, typer.Option(help="Trust in the likelihood, above 0 and at most 1; less gives fewer, broader clusters.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the random numbers.")] = None,
    labels_column: LabelsColumnOption = None,
    overwrite: OverwriteOption = False,
    *,
    cluster: Cluster,
) -> None:
    """Fit a tree to a data file and write it as a run.

    Few rows get the exact tree over single rows in this process. Many rows (or any options about workers) go through the
    engine: Bayes K-means in passes over the file, then the exact tree over its clusters; such a run can be resumed.

    Example: `dtree fit dtree-demo.csv --labels-column kind --out creatures.zarr` (`dtree demo` makes that file)
    """
    from dtree.store.readers import read_rows
    from dtree.store.run import check_output

    check_output(out_, overwrite)
    if is_large(data, method, cluster):
        if optimize:
            raise ValueError(
                "a fit in passes does not take --optimize: it chooses the hyperparameters by the evidence of a sample; to learn "
                "all of them, fit at most 10,000 of the rows with --method exact --optimize"
            )
        fit_large(data, out_, cluster, family, _prior(prior, alpha), coarsening, seed, method, labels_column)
        return
    rows = read_rows(data, labels_column=labels_column)
    from dtree.estimators import BHC  # only now: a mistake in a file name should not wait for it
    from dtree.hierarchy.purity import dendrogram_purity
    from dtree.runs import save

    estimator = BHC(
        family=family,
        prior=_prior(prior, alpha),
        method="exact" if method == "auto" else method,
        optimize=optimize,
        coarsening=coarsening,
        random_state=seed,
    )
    started = time.monotonic()
    with progress_bar():
        model = estimator.fit(_framed(rows.X, rows.feature_names))
    notes = _provenance(rows.X, data, seed, started)
    if labels_column is not None:
        notes["labels_column"] = labels_column
    save(model, out_, provenance=notes, row_names=rows.row_names, overwrite=overwrite)
    print_fit(model, rows.row_names)
    if rows.labels is not None and _has_a_pair(rows.labels) and model.tree_.n_leaves == len(rows.labels):
        purity = dendrogram_purity(model.tree_, rows.labels)
        say(f"purity of the tree against '{labels_column}': {purity:.3f}")
    say(f"run: {out_}")


@app.command()
@cluster_options
@with_exit_codes
def resume(
    run: RunArgument,
    *,
    cluster: Cluster,
) -> None:
    """Carry on a run in passes that was stopped, killed or cut off; at most one pass is repeated.

    Example: `dtree resume run.zarr`
    """
    from dtree.store.run import made_by_passes

    run = unfinished(run)
    if not made_by_passes(run):
        raise ValueError(f"{run} is not a run in passes, so there is nothing to resume")
    face_of(run).resume_run(run, cluster)


@app.command()
@with_exit_codes
def info(run: RunArgument) -> None:
    """Say what a run holds and where it came from.

    Example: `dtree info dtree-demo.zarr`
    """
    from dtree.store.run import made_by_passes

    if made_by_passes(run):
        face_of(run).describe_run(run)
        return
    from dtree.store.run import read_provenance

    notes = read_provenance(run)
    from dtree.runs import open as open_run

    model = open_run(run)
    if notes["kind"] == "dp-mixture-vb":
        describe_saved(model, notes)
        return
    if is_diffusion(run):
        describe_tree(model, notes.get("row_names"))
        return
    print_fit(model, notes.get("row_names"))
    facts = {
        "kind": notes["kind"],
        "family": repr(model.family_),
        "prior": repr(model.prior_),
        "data": notes.get("data", "not recorded"),
        "data sha256": notes.get("data_sha256", "not recorded"),
        "command": notes.get("command", "not recorded"),
        "seed": notes.get("seed", "not recorded"),
        "made": f"{notes.get('created')} in {notes.get('seconds', '?')} s",
        "versions": ", ".join(f"{name} {notes.get(name)}" for name in ("dtree", "python", "numpy", "numba", "zarr")),
    }
    for name, value in facts.items():
        say(f"{name}: {value}")


@app.command()
@cluster_options
@with_exit_codes
def predict(
    run: RunArgument,
    data: DataArgument,
    out_: Annotated[
        Path, typer.Option("--out", help="labels.csv, labels.npy or labels.npz; .zarr for a run in passes")
    ],
    labels_column: LabelsColumnOption = None,
    overwrite: OverwriteOption = False,
    *,
    cluster: Cluster,
) -> None:
    """Assign new rows to the clusters of a run, with the log density of each row.

    Example: `dtree predict dtree-demo.zarr dtree-demo.csv --labels-column kind --out labels.csv`
    """
    from dtree.store.run import made_by_passes

    if made_by_passes(run):
        from dtree.engine.folder import RunFolder

        known = labels_column or RunFolder(run).attributes.get("labels_column")
        face_of(run).predict_run(run, data, out_, cluster, [known] if known else [], overwrite)
        return
    from dtree.store.readers import read_rows
    from dtree.store.run import read_provenance

    check_ending(out_, (".csv", ".npy", ".npz"))
    check_file(out_, overwrite)
    remembered = read_provenance(run).get("labels_column")
    leave_out = [remembered] if remembered and labels_column is None else []
    rows = read_rows(data, labels_column=labels_column, leave_out=leave_out)
    from dtree.runs import open as open_run

    model = open_run(run)
    X = _framed(*_same_features(rows, model))
    with progress_bar():
        labels, log_density = model.predict(X), model.score_samples(X)
    write_columns(out_, {"label": labels, "log_density": log_density}, rows.row_names)
    say(f"{len(labels)} rows, mean log density {log_density.mean():.6g}: {out_}")


@app.command()
@with_exit_codes
def export(
    run: RunArgument,
    newick: Annotated[Path | None, typer.Option(help="Write the tree as Newick text.")] = None,
    linkage: Annotated[Path | None, typer.Option(help="Write SciPy's linkage matrix (.npy or .csv).")] = None,
    labels: Annotated[Path | None, typer.Option(help="Write the cluster of each row (.csv, .npy or .npz).")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the tree (.png, .svg or .pdf).")] = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Write parts of a run in formats that other programs read.

    Example: `dtree export dtree-demo.zarr --newick creatures.nwk --labels creatures.csv`
    """
    from dtree.store.commit import file_in_place
    from dtree.store.run import read_provenance

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
    if is_diffusion(run):
        export_tree(run, newick, linkage, labels, picture)
        return
    row_names = read_provenance(run).get("row_names")
    from dtree.runs import open as open_run

    model = open_run(run)
    leaf_names = row_names if row_names is not None and len(row_names) == model.tree_.n_leaves else None
    if newick is not None:
        with file_in_place(newick) as partial:
            partial.write_text(model.tree_.to_newick(leaf_names) + "\n", encoding="utf-8")
    if linkage is not None:
        write_linkage(linkage, model.tree_.to_linkage())
    if labels is not None:
        write_columns(labels, {"label": model.labels_}, row_names)
    if picture is not None:
        draw(model, leaf_names, picture)
    for path in wanted:
        say(str(path))


app.command()(report)
app.command()(cluster_options(with_exit_codes(sample)))
app.command()(vb)
app.command()(cluster_options(with_exit_codes(ddt)))


# What the commands share ---------------------------------------------------------------------------------------------


def _prior(name: str, alpha: float | None) -> Any:
    from dtree.core.priors import PRIORS

    if name not in PRIORS:
        raise ValueError(f"there is no prior '{name}'; the known ones are {', '.join(PRIORS)}")
    return name if alpha is None else PRIORS[name](alpha=alpha)  # type: ignore[call-arg]


def _has_a_pair(labels: Any) -> bool:
    """Whether two rows share a label, without which the purity of a tree means nothing."""
    return len(set(labels.tolist())) < len(labels)


def _framed(X: Any, feature_names: list[str] | None) -> Any:
    """Dense rows with distinct names as a data frame, which scikit-learn estimators take the names from."""
    if feature_names is None or hasattr(X, "tocsr") or len(set(feature_names)) < len(feature_names):
        return X
    import pandas

    return pandas.DataFrame(X, columns=feature_names, copy=False)


def _same_features(rows: Rows, model: Any) -> tuple[Any, list[str] | None]:
    """The columns of the rows in the order in which the model learned them."""
    fitted = getattr(model, "feature_names_in_", None)
    if fitted is None or rows.feature_names is None:
        if rows.X.shape[1] != model.n_features_in_:
            raise ValueError(
                f"{rows.source} has {rows.X.shape[1]} features but the run was fitted to {model.n_features_in_}"
            )
        return rows.X, None if fitted is None else list(fitted)
    missing = [str(name) for name in fitted if name not in rows.feature_names]
    if missing:
        from dtree.store.rows import listed

        raise ValueError(f"{rows.source} lacks features that the run was fitted to: {listed(missing)}")
    return rows.X[:, [rows.feature_names.index(name) for name in fitted]], list(fitted)


def _provenance(X: Any, source: str, seed: int | None, started: float) -> dict[str, Any]:
    from dtree.store.run import fingerprint

    return {
        "command": " ".join(["dtree", *sys.argv[1:]]),
        "data": str(source),
        "data_sha256": fingerprint(X),
        "data_shape": [int(size) for size in X.shape],
        "seed": seed,
        "seconds": round(time.monotonic() - started, 3),
    }


if __name__ == "__main__":
    main()
