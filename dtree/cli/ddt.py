"""`dtree ddt`: diffusion trees from the command line, and what the other commands do with such runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import OVERWRITE
from dtree.cli.cluster import Cluster, room_for, stopped
from dtree.cli.console import err, out, say
from dtree.cli.predict import ANY_SIZE, as_fitted, predict_here
from dtree.store.commit import take_place


def ddt(
    data: Annotated[
        str,
        typer.Argument(
            help="Data file: .npy .npz .csv .parquet or .zarr (file.npz:NAME picks an array), or a run of "
            "'dtree fit --method bayes-kmeans', whose clusters become leaves."
        ),
    ],
    out_: Annotated[Path, typer.Option("--out", help="The run to make, by custom NAME.zarr.")],
    inference: Annotated[
        str, typer.Option(help="laplace, em or message-passing (how trees are ranked), or mcmc (sample trees).")
    ] = "laplace",
    likelihood: Annotated[str, typer.Option(help="gaussian, or probit for rows of 0 and 1.")] = "gaussian",
    permutations: Annotated[int, typer.Option(min=1, help="Independent searches; with mcmc, chains.")] = 3,
    init: Annotated[
        str, typer.Option(help="Where searches start: sequential, or bhc for the tree of BHC.")
    ] = "sequential",
    steps: Annotated[
        int | None, typer.Option(min=0, help="Search steps of each permutation; 100 + rows when left out.")
    ] = None,
    sweeps: Annotated[
        int | None, typer.Option(min=0, help="Sampler sweeps after each search, for the density's average.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, help="With mcmc: sweeps of each chain that are kept.")] = 100,
    warmup: Annotated[int, typer.Option(min=0, help="With mcmc: sweeps of each chain before that.")] = 100,
    clusters: Annotated[
        int | None, typer.Option(min=1, help="Cut the tree into so many clusters; else in its widest gap.")
    ] = None,
    noise: Annotated[
        float | None, typer.Option(min=0.0, help="Variance of a row around its leaf, relative to sigma2; else learned.")
    ] = None,
    scaling: Annotated[str, typer.Option(help="auto, whiten, standardize or none.")] = "auto",
    max_leaves: Annotated[int, typer.Option(min=2, help="More rows than this are summarised by atoms first.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")] = 0,
    labels_column: Annotated[
        str | None, typer.Option(help="Column (or array of an .npz) with known labels; never used as a feature.")
    ] = None,
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Fit Dirichlet diffusion trees: a density, a hierarchy with times, and clusters at a cut.

    Works in this process unless something is said about workers; with workers, permutations run side by side and the
    answer is the same. A run that was stopped goes on with `dtree resume`.

    Example: `dtree ddt dtree-demo.csv --labels-column kind --out creatures-ddt.zarr` (`dtree demo` makes that file)
    """
    from dtree.store.readers import read_rows
    from dtree.store.run import made_by_passes

    run = room_for(out_, overwrite)
    from_run = made_by_passes(data)
    rows = None if from_run else read_rows(data, labels_column=labels_column)
    from dtree.engine.diffusion import fit_diffusion

    started = time.monotonic()
    try:
        with _client(cluster) as client, _evidence_line() as show:
            fit_diffusion(
                data if rows is None else rows.X,
                run,
                seed=seed,
                client=client,
                progress=show,
                row_names=None if rows is None else rows.row_names,
                feature_names=None if rows is None else rows.feature_names,
                labels_column=labels_column,
                data_name=str(Path(data).resolve()) if Path(data).exists() else data,
                inference=inference,
                likelihood=likelihood,
                n_permutations=permutations,
                init=init,
                search_steps=steps,
                posterior_sweeps=sweeps,
                mcmc_draws=draws,
                mcmc_warmup=warmup,
                n_clusters=clusters,
                noise="auto" if noise is None else noise,
                scaling=scaling,
                max_leaves=max_leaves,
            )
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(run, started)


def resume_run(run: Path, cluster: Cluster) -> None:
    """Carry a stopped run on from the last checkpoint of every permutation."""
    from dtree.engine.diffusion import resume

    started = time.monotonic()
    try:
        with _client(cluster) as client, _evidence_line() as show:
            resume(run, client=client, progress=show)
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(run, started)


def predict_run(
    run: Path, data: str, target: Path, cluster: Cluster, leave_out: list[str], overwrite: bool = False
) -> None:
    """Cluster and log density of each row, into .csv, .npy or .npz here, or chunk by chunk into .zarr."""
    if target.suffix != ".zarr":
        predict_here(lambda: _named_model(run), data, target, overwrite, leave_out=leave_out, endings=ANY_SIZE)
        return
    from dtree.engine.diffusion import predict_diffusion
    from dtree.store.readers import read_rows

    started = time.monotonic()
    X = as_fitted(read_rows(data, leave_out=leave_out), _named_model(run))
    with _client(cluster) as client, err().status("following rows down the trees"):
        count = predict_diffusion(run, X, target, client=client, overwrite=overwrite)
    say(f"{count:,} rows ({count / (time.monotonic() - started):,.0f} rows/s): {target}")


def _named_model(run: Path) -> Any:
    """The fitted trees with the names of their features, by which the columns of new rows are found."""
    import numpy as np

    from dtree.engine.diffusion import open_run
    from dtree.engine.folder import RunFolder

    model, names = open_run(run), RunFolder(run).attributes.get("feature_names")
    if isinstance(names, list) and len(set(names)) == model.n_features_in_:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def describe_run(run: Path) -> None:
    """What a run holds, finished or not."""
    from dtree.engine.diffusion import open_run, steps_done
    from dtree.engine.folder import RunFolder

    opened = RunFolder(run)
    at = opened.attributes
    source = opened.source
    say(f"{source.shape[0]:,} rows, {source.shape[1]} features from {at.get('data_name') or source.path}")
    if opened.done:
        describe_tree(open_run(run), at.get("row_names"))
    else:
        done, length = steps_done(run)
        say(f"not finished: {done} of {length or '?'} steps done; 'dtree resume {run}' carries on")
    told = {name: value for name, value in at["settings"].items() if value is not None}
    say(f"settings: {', '.join(f'{name} {value}' for name, value in told.items())}")
    say(f"seed: {at['seed']}")
    say(f"command: {' '.join(at['command'])}")


def describe_tree(model: Any, row_names: list[str] | None) -> None:
    """Evidence, hyperparameters and clusters of a fitted diffusion tree."""
    import numpy as np

    tree = model.tree_
    say(f"{tree.n_leaves} leaves, {len(model.trees_)} best trees, density over {len(model.averaged_trees_)} trees")
    if model.inference != "mcmc":
        say(f"log evidence of the best tree {model.log_evidence_:.6g} ({model.inference})")
    else:
        say(f"highest log joint density {model.log_joint_.max() - model.prepared_.log_volume:.6g} (mcmc)")
    if not model.converged_:
        bad = [message for message in model.messages_ if message != "converged"]
        say(f"not converged on {len(bad)} of {len(model.messages_)} trees: {bad[0]}")
    if model.likelihood == "probit":
        told = f"paths start at {model.prepared_.affine.offset[0]:.4g}"
    else:
        units = "each column" if model.prepared_.affine.by_column else "principal axes"
        noise = float(np.average(model.noise_, weights=model.prepared_.rows))
        told = f"noise {noise:.4g} of sigma2, scaled by {units}"
    say(f"sigma2 {model.sigma2_:.4g}, c {model.c_:.4g}, {told}")
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    say(f"{model.n_clusters_} clusters at the cut, the largest of {sizes.max()} rows")
    if row_names is not None and len(row_names) == len(model.labels_):
        for cluster in np.argsort(-sizes, kind="stable")[:15]:
            members = [row_names[i] for i in np.flatnonzero(model.labels_ == cluster)[:6]]
            say(f"{sizes[cluster]} rows: {', '.join(members)}{', ...' if sizes[cluster] > 6 else ''}")


@contextmanager
def _client(cluster: Cluster) -> Iterator[Any]:
    """Workers when something was said about them, else none; kernels are compiled here before workers start."""
    if not cluster.wanted:
        with nullcontext() as nobody:
            yield nobody
        return
    from dtree.diffusion.warm import warm_kernels

    warm_kernels()
    with cluster.client("gaussian", warm=False) as client:
        yield client


@contextmanager
def _evidence_line() -> Iterator[Any]:
    """A callback that shows how far the walks are: a live line for a person, plain lines for a log."""
    console = err()
    with console.status("preparing the rows") as status:

        def show(step: Any) -> None:
            what = "log evidence" if step.is_evidence else "search score"
            line = f"{step.done} of {step.length} steps, best {what} {step.log_score:.6g}, {step.seconds:.0f} s"
            if console.is_terminal:
                status.update(line)
            else:
                console.print(line, markup=False)

        yield show


def _print_result(run: Path, started: float) -> None:
    from dtree.engine.diffusion import open_run
    from dtree.engine.folder import RunFolder

    describe_tree(open_run(run), RunFolder(run).attributes.get("row_names"))
    out().print(f"run: {take_place(run)} ({time.monotonic() - started:.1f} s)", markup=False)
