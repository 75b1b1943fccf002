"""The command line: parse, call, print. Heavy imports wait inside the commands so that --help comes at once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import DATA, LABELS_COLUMN, OVERWRITE, RUN, prior_of
from dtree.cli.bench import bench
from dtree.cli.cluster import Cluster, cluster_options, face_of, unfinished
from dtree.cli.console import in_words, out, progress_bar, say, with_exit_codes
from dtree.cli.ddt import ddt, describe_tree
from dtree.cli.demo import demo
from dtree.cli.engine import fit_large, is_large
from dtree.cli.export import export
from dtree.cli.output import print_fit, provenance_of
from dtree.cli.predict import predict_here
from dtree.cli.report import report
from dtree.cli.sample import describe_chains, sample
from dtree.cli.vb import describe_saved, vb

app = typer.Typer(
    name="dtree",
    help="Find the tree in your data: Bayesian hierarchical clustering that says how many clusters there are and how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
def fit(
    data: DATA,
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
    labels_column: LABELS_COLUMN = None,
    overwrite: OVERWRITE = False,
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
        fit_large(
            data, out_, cluster, family, prior_of(prior, alpha), coarsening, seed, method, labels_column, overwrite
        )
        return
    rows = read_rows(data, labels_column=labels_column)
    from dtree.core.names import framed
    from dtree.estimators import BHC  # only now: a mistake in a file name should not wait for it
    from dtree.hierarchy.purity import dendrogram_purity
    from dtree.runs.saving import save

    estimator = BHC(
        family=family,
        prior=prior_of(prior, alpha),
        method="exact" if method == "auto" else method,
        optimize=optimize,
        coarsening=coarsening,
        random_state=seed,
    )
    started = time.monotonic()
    with progress_bar():
        model = estimator.fit(framed(rows.X, rows.feature_names))
    notes = provenance_of(rows.X, data, seed, started)
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
    run: RUN,
    *,
    cluster: Cluster,
) -> None:
    """Carry on a run in passes that was stopped, killed or cut off; at most one pass is repeated.

    Example: `dtree resume creatures-ddt.zarr` (the example of `dtree ddt` makes that run)
    """
    from dtree.store.run import made_by_passes

    run = unfinished(run)
    if not made_by_passes(run):
        raise ValueError(f"{run} is not a run in passes, so there is nothing to resume")
    face_of(run).resume_run(run, cluster)


@app.command()
@with_exit_codes
def info(run: RUN) -> None:
    """Say what a run holds and where it came from.

    Example: `dtree info dtree-demo.zarr`
    """
    from dtree.store.run import made_by_passes

    if made_by_passes(run):
        face_of(run).describe_run(run)
        return
    from dtree.store.run import read_provenance

    notes = read_provenance(run)
    from dtree.runs.saving import open as open_run

    model = open_run(run)
    if notes["kind"] == "dp-mixture-vb":
        describe_saved(model, notes)
        return
    if notes["kind"] == "diffusion-tree":
        describe_tree(model, notes.get("row_names"))
        return
    if notes["kind"] == "chains":
        describe_chains(model)
        return
    print_fit(model, notes.get("row_names"))
    facts = {
        "kind": notes["kind"],
        "family": in_words(model.family_),
        "prior": in_words(model.prior_),
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
    run: RUN,
    data: DATA,
    out_: Annotated[
        Path, typer.Option("--out", help="labels.csv, labels.npy or labels.npz; .zarr for a run in passes")
    ],
    labels_column: LABELS_COLUMN = None,
    overwrite: OVERWRITE = False,
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
    from dtree.runs.saving import open as open_run
    from dtree.store.run import read_provenance

    remembered = read_provenance(run).get("labels_column")
    leave_out = [remembered] if remembered and labels_column is None else []
    predict_here(lambda: open_run(run), data, out_, overwrite, leave_out=leave_out, labels_column=labels_column)


app.command()(demo)
app.command()(bench)
app.command()(export)
app.command()(report)
app.command()(cluster_options(with_exit_codes(sample)))
app.command()(vb)
app.command()(cluster_options(with_exit_codes(ddt)))


# What the commands share ---------------------------------------------------------------------------------------------


def _has_a_pair(labels: Any) -> bool:
    """Whether two rows share a label, without which the purity of a tree means nothing."""
    return len(set(labels.tolist())) < len(labels)
