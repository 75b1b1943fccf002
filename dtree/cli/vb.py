"""`dtree vb`: a variational mixture of a data file of any size, as a run that can be resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import OVERWRITE
from dtree.cli.cluster import Cluster, cluster_options, room_for, step_line, stopped
from dtree.cli.console import err, in_words, out, printable, say, with_exit_codes
from dtree.cli.engine import rows_in
from dtree.cli.predict import ANY_SIZE, predict_here
from dtree.store.commit import take_place

_MOST_CLUSTERS_SHOWN = 15
_MOST_FEATURES_SHOWN = 6
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
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Fit a Dirichlet process mixture by variational inference, in passes over a data file of any size.

    The variants: truncated stick-breaking (TSB) or a finite symmetric Dirichlet (FSD); C has the weights integrated out,
    O keeps the clusters in the best order. A stopped run can be resumed.

    Example: `dtree vb dtree-demo.csv --labels-column kind --family gaussian-diag --out mixture.zarr` (`dtree demo` makes that file)
    """
    run = room_for(out_, overwrite)
    from dtree.variational.variants import variant_named

    variant_named(variant)  # a misspelt name must not wait for workers
    settings: dict[str, Any] = {"learn_alpha": learn_alpha, "max_iter": max_passes, "tol": tol, "n_init": restarts}
    started = time.monotonic()
    try:
        with _workers(data, cluster, family) as client, _pass_line() as show:
            from dtree.engine.variational import fit_variational

            model = fit_variational(
                data, run, variant, family, truncation, alpha, seed=seed, notes={"data": data},
                labels_column=labels_column, client=client, progress=show, **settings,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(model, run, started)


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
        raise stopped(run) from None
    _print_result(model, run, started)


def predict_run(
    run: Path, data: str, target: Path, cluster: Cluster, leave_out: list[str], overwrite: bool = False
) -> None:
    """Label rows of any number, chunk by chunk, into a zarr group of labels and log densities."""
    from dtree.engine.variational import predict_dataset
    from dtree.engine.variational_folder import VariationalRun

    opened = VariationalRun(run)
    if target.suffix != ".zarr":
        from dtree.engine.methods import open_run

        predict_here(lambda: open_run(run), data, target, overwrite, leave_out=leave_out, endings=ANY_SIZE)
        return
    family = opened.model().family.name
    started = time.monotonic()
    with _workers(data, cluster, family) as client, err().status("labelling rows"):
        rows = predict_dataset(run, data, target, client=client, leave_out=leave_out, overwrite=overwrite)
    took = time.monotonic() - started
    say(f"{rows:,} rows ({rows / took:,.0f} rows/s): {target}")


def describe_run(run: Path) -> None:
    """What a run holds, finished or not."""
    from dtree.engine.variational import open_run
    from dtree.engine.variational_folder import VariationalRun
    from dtree.store.rows import listed

    opened = VariationalRun(run)
    source, at, settings = opened.source, opened.attributes, opened.settings
    say(f"{source.shape[0]:,} rows, {source.shape[1]} features from {at.get('data') or source.path}")
    names = list(source.columns)
    if names:
        say(f"features: {listed(names)}")
    constant = sorted(set(range(source.shape[1])) - set(at["columns"]))
    if constant:
        which = "" if not names else ": " + listed([names[column] for column in constant])
        say(f"{len(constant)} constant column{'s' if len(constant) > 1 else ''} left out{which}")
    say(f"variational mixture {settings['variant']}, truncation {_truncation(opened)}")
    if opened.done:
        kind = "log evidence at least" if at["elbo_is_bound"] else "approximate bound"
        converged = "" if at["converged"] else ", not yet converged"
        say(f"{_clusters(at['n_clusters'])} after {_passes(at['passes'])}{converged}, {kind} {at['elbo']:.6g}")
        say(f"alpha: {at['alpha']:.6g}" + (" (learned)" if settings["learn_alpha"] else ""))
        _print_clusters(open_run(run))
    else:
        done = opened.generations()
        say(f"not finished: {_passes(done[-1] if done else 0)} done; 'dtree resume {run}' carries on")
    say(f"family: {in_words(opened.model().family)}")
    say(f"seed: {settings['random_state']}")
    say(f"command: {' '.join(at['command'])}")


def describe_saved(model: Any, notes: dict[str, Any]) -> None:
    """What a mixture saved from Python holds."""
    say(f"{model.labels_.shape[0]:,} rows, {model.n_features_in_} features")
    say(f"variational mixture {model.variant}, truncation {model.truncation_}")
    kind = "log evidence at least" if model.elbo_is_bound_ else "approximate bound"
    say(f"{_clusters(model.n_clusters_)} after {model.n_iter_} iterations, {kind} {model.elbo_:.6g}")
    say(f"alpha: {model.alpha_:.6g}")
    _print_clusters(model)
    say(f"family: {in_words(model.family_)}")
    say(f"made: {notes.get('created')}")


def _print_clusters(model: Any) -> None:
    """The largest clusters: how many rows, what weight, and where in the first few features."""
    import numpy as np
    from rich.table import Table

    frame = model.component_frame().iloc[:_MOST_CLUSTERS_SHOWN, :_MOST_FEATURES_SHOWN]
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    named = hasattr(model, "feature_names_in_")
    heads = [printable(str(name)) if named else f"feature {name}" for name in frame.columns]
    table = Table("cluster", "rows", "weight", *heads, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for cluster, values in zip(frame.index, frame.to_numpy()):
        table.add_row(
            str(cluster), f"{sizes[cluster]:,}", f"{model.weights_[cluster]:.3f}", *(f"{v:.4g}" for v in values)
        )
    out().print(table)
    if model.n_clusters_ > _MOST_CLUSTERS_SHOWN:
        say(f"and {model.n_clusters_ - _MOST_CLUSTERS_SHOWN} smaller clusters")


def _clusters(number: int) -> str:
    return f"{number} cluster{'s' if number != 1 else ''}"


def _passes(number: int) -> str:
    return f"{number} pass{'es' if number != 1 else ''}"


def _truncation(opened: Any) -> int:
    arrays, _ = opened.read_generation(opened.generations()[-1])
    return int(arrays["statistics"].shape[0])


@contextmanager
def _workers(data: str, cluster: Cluster, family: str) -> Iterator[Any]:
    """A client when workers were asked for or there are many rows, else None."""
    large = cluster.wanted or rows_in(data) > _ROWS_WORTH_WORKERS
    with cluster.client(family) if large else nullcontext() as client:
        yield client


def _pass_line() -> Any:
    return step_line(
        "reading the data once, fitting a sample",
        lambda step: (
            f"iteration {step.number}: ELBO {step.elbo:.8g}, {step.n_clusters} clusters, "
            f"{step.rows_per_second:,.0f} rows/s"
        ),
    )


def _print_result(model: Any, run: Path, started: float) -> None:
    kind = "log evidence at least" if model.elbo_is_bound_ else "approximate bound"
    out().print(
        f"{model.labels_.shape[0]:,} rows: {_clusters(model.n_clusters_)} after {_passes(model.n_iter_)}, "
        f"{kind} {model.elbo_:.6g} ({time.monotonic() - started:.1f} s)",
        markup=False,
    )
    if not model.converged_:
        say("not converged: fit again with a larger --max-passes or --tol")
    say(f"run: {take_place(run)}")
