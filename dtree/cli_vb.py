"""`dtree vb`: a variational mixture of a data file of any size, as a run that can be resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli_cluster import Cluster, cluster_options, stopped
from dtree.cli_console import err, out, say, with_exit_codes
from dtree.cli_engine import rows_in

_ROWS_WORTH_WORKERS = 200_000  # fewer rows are done sooner in this process than a cluster starts


@cluster_options
@with_exit_codes
def vb(
    data: Annotated[str, typer.Argument(help="Data file: .npy .npz .csv .parquet or .zarr.")],
    out_: Annotated[Path, typer.Option("--out", help="The run to make, by custom NAME.zarr.")],
    variant: Annotated[str, typer.Option(help="TSB, O-TSB, CTSB, O-CTSB, FSD or CFSD.")] = "O-CTSB",
    family: Annotated[
        str, typer.Option(help="What a cluster looks like: gaussian, gaussian-diag, bernoulli, multinomial or poisson.")
    ] = "gaussian",
    truncation: Annotated[
        int | None, typer.Option(help="Largest number of clusters; 40, or the number of rows if that is less.")
    ] = None,
    alpha: Annotated[float, typer.Option(help="Concentration: more means more clusters.")] = 1.0,
    learn_alpha: Annotated[
        bool, typer.Option("--learn-alpha", help="Move alpha to where the bound is highest.")
    ] = False,
    max_passes: Annotated[int, typer.Option(help="Most passes over the data.")] = 500,
    tol: Annotated[float, typer.Option(help="Stop when a pass changes the bound by less than this per row.")] = 1e-6,
    restarts: Annotated[int, typer.Option(help="Starts on a sample of the rows; the best one is carried on.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    labels_column: Annotated[
        str | None, typer.Option(help="Column (or array of an .npz) with known labels; never used as a feature.")
    ] = None,
    *,
    cluster: Cluster,
) -> None:
    """Fit a Dirichlet process mixture by variational inference, in passes over a data file of any size.

    The variants: truncated stick-breaking (TSB) or a finite symmetric Dirichlet (FSD); C has the weights integrated out,
    O keeps the clusters in the best order. A stopped run can be resumed.

    Example: `dtree vb dtree-demo.csv --labels-column kind --family gaussian-diag --out mixture.zarr` (`dtree demo` makes that file)
    """
    from dtree.store.run import check_output

    check_output(out_, overwrite=False)
    from dtree.variational.variants import variant_named

    variant_named(variant)  # a misspelt name must not wait for workers
    settings: dict[str, Any] = {"learn_alpha": learn_alpha, "max_iter": max_passes, "tol": tol, "n_init": restarts}
    started = time.monotonic()
    try:
        with _workers(data, cluster, family) as client, _pass_line() as show:
            from dtree.engine.variational import fit_variational

            notes = {"data": data, "labels_column": labels_column}
            model = fit_variational(
                _rows_of(data, labels_column, []), out_, variant, family, truncation, alpha, seed=seed, notes=notes,
                client=client, progress=show, **settings,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise _interrupted(out_) from None
    _print_result(model, out_, started)


def resume_run(run: Path, cluster: Cluster) -> None:
    """Carry a stopped run on from its last finished pass."""
    from dtree.engine.variational import resume
    from dtree.engine.variational_folder import VariationalRun

    opened = VariationalRun(run)
    started = time.monotonic()
    try:
        with _workers(opened.source.path, cluster, opened.model().family.name) as client, _pass_line() as show:
            model = resume(run, client=client, progress=show)
    except KeyboardInterrupt:
        raise _interrupted(run) from None
    _print_result(model, run, started)


def predict_run(run: Path, data: str, target: Path, cluster: Cluster, leave_out: list[str]) -> None:
    """Label rows of any number, chunk by chunk, into a zarr group of labels and log densities."""
    from dtree.engine.variational import predict_dataset
    from dtree.engine.variational_folder import VariationalRun

    opened = VariationalRun(run)
    if target.suffix != ".zarr":
        _predict_here(run, data, leave_out, target)
        return
    family = opened.model().family.name
    started = time.monotonic()
    with _workers(data, cluster, family) as client, err().status("labelling rows"):
        rows = predict_dataset(run, _rows_of(data, None, leave_out), target, client=client)
    took = time.monotonic() - started
    say(f"{rows:,} rows ({rows / took:,.0f} rows/s): {target}")


def _predict_here(run: Path, data: str, leave_out: list[str], target: Path) -> None:
    """The same for rows that fit in memory, into one file."""
    from dtree.cli_output import check_ending, check_file, write_columns

    check_ending(target, (".zarr", ".csv", ".npy", ".npz"))
    check_file(target, overwrite=False)
    from dtree.engine.variational import open_run
    from dtree.store.readers import read_rows

    model = open_run(run)
    rows = read_rows(data, leave_out=leave_out)
    labels, log_density = model.predict(rows.X), model.score_samples(rows.X)
    write_columns(target, {"label": labels, "log_density": log_density}, rows.row_names)
    say(f"{len(labels)} rows, mean log density {log_density.mean():.6g}: {target}")


def _rows_of(data: str, labels_column: str | None, leave_out: list[str]) -> Any:
    """The path itself where the engine reads it in pieces; the rows where a column or an array has to be picked first."""
    if labels_column is None and not leave_out and ":" not in Path(data).name:
        return data
    from dtree.store.readers import read_rows

    return read_rows(data, labels_column=labels_column, leave_out=leave_out).X


def describe_run(run: Path) -> None:
    """What a run holds, finished or not."""
    from dtree.engine.variational_folder import VariationalRun

    opened = VariationalRun(run)
    source, at, settings = opened.source, opened.attributes, opened.settings
    say(f"{source.shape[0]:,} rows, {source.shape[1]} features from {at.get('data') or source.path}")
    left_out = source.shape[1] - len(at["columns"])
    if left_out:
        say(f"{left_out} constant columns left out")
    say(f"variational mixture {settings['variant']}, truncation {_truncation(opened)}")
    if opened.done:
        kind = "log evidence at least" if at["elbo_is_bound"] else "approximate bound"
        converged = "" if at["converged"] else ", not yet converged"
        say(f"{at['n_clusters']} clusters after {at['passes']} passes{converged}, {kind} {at['elbo']:.6g}")
        say(f"alpha: {at['alpha']:.6g}" + (" (learned)" if settings["learn_alpha"] else ""))
    else:
        done = opened.generations()
        say(f"not finished: {done[-1] if done else 0} passes done; 'dtree resume {run}' carries on")
    say(f"family: {opened.model().family!r}")
    say(f"seed: {settings['random_state']}")
    say(f"command: {' '.join(at['command'])}")


def describe_saved(model: Any, notes: dict[str, Any]) -> None:
    """What a mixture saved from Python holds."""
    say(f"{model.labels_.shape[0]:,} rows, {model.n_features_in_} features")
    say(f"variational mixture {model.variant}, truncation {model.truncation_}")
    kind = "log evidence at least" if model.elbo_is_bound_ else "approximate bound"
    say(f"{model.n_clusters_} clusters after {model.n_iter_} iterations, {kind} {model.elbo_:.6g}")
    say(f"alpha: {model.alpha_:.6g}")
    say(f"family: {model.family_!r}")
    say(f"made: {notes.get('created')}")


def _truncation(opened: Any) -> int:
    arrays, _ = opened.read_generation(opened.generations()[-1])
    return int(arrays["statistics"].shape[0])


@contextmanager
def _workers(data: str, cluster: Cluster, family: str) -> Iterator[Any]:
    """A client when workers were asked for or there are many rows, else None."""
    large = cluster.wanted or rows_in(data) > _ROWS_WORTH_WORKERS
    with cluster.client(family) if large else nullcontext() as client:
        yield client


@contextmanager
def _pass_line() -> Iterator[Any]:
    """A callback that shows each pass: a live line for a person, one plain line a pass for a log."""
    console = err()
    with console.status("reading the data once, fitting a sample") as status:

        def show(step: Any) -> None:
            line = (
                f"iteration {step.number}: ELBO {step.elbo:.8g}, {step.n_clusters} clusters, "
                f"{step.rows_per_second:,.0f} rows/s"
            )
            if console.is_terminal:
                status.update(line)
            else:
                console.print(line, markup=False)

        yield show


def _interrupted(run: Path) -> typer.Exit:
    """Before the first checkpoint there is nothing to carry on from."""
    if any((run / "checkpoints").glob("gen-*")):
        return stopped(run)
    say("Stopped before the first pass; nothing was written.")
    return typer.Exit(130)


def _print_result(model: Any, run: Path, started: float) -> None:
    kind = "log evidence at least" if model.elbo_is_bound_ else "approximate bound"
    out().print(
        f"{model.labels_.shape[0]:,} rows: {model.n_clusters_} clusters after {model.n_iter_} passes, "
        f"{kind} {model.elbo_:.6g} ({time.monotonic() - started:.1f} s)",
        markup=False,
    )
    if not model.converged_:
        say("not converged: raise --max-passes, or --tol")
    say(f"run: {run}")
