"""`dtree sample`: Markov chains over partitions, watched as a table, stopped and carried on as you like."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from dtree.cli.arguments import OVERWRITE, prior_of
from dtree.cli.cluster import Cluster, room_for, stopped
from dtree.cli.console import err, in_words, out, say
from dtree.cli.predict import predict_here
from dtree.store.commit import take_place

_SECONDS_BETWEEN_LINES = 5.0


def sample(
    data_or_run: Annotated[
        str, typer.Argument(help="Data file (.npy .npz .csv .parquet .zarr), or a run that 'dtree fit' made in passes.")
    ],
    out_: Annotated[Path, typer.Option("--out", help="The run to make, by custom NAME.zarr.")],
    sampler: Annotated[
        str,
        typer.Option(
            help="tgmcmc, gibbs, split-merge, slice, gibbs-subset, split-merge-subset, or tgmcmc-paper (biased)."
        ),
    ] = "tgmcmc",
    chains: Annotated[int, typer.Option(help="How many chains.")] = 4,
    draws: Annotated[int, typer.Option(help="Draws to keep of each chain.")] = 1000,
    warmup: Annotated[
        int | None, typer.Option(help="Sweeps before the first draw; by default half of --draws.")
    ] = None,
    thin: Annotated[int, typer.Option(help="Sweeps per draw.")] = 1,
    family: Annotated[
        str | None,
        typer.Option(
            help="What a cluster looks like: gaussian (default), gaussian-diag, bernoulli, multinomial, poisson."
        ),
    ] = None,
    prior: Annotated[str | None, typer.Option(help="Prior over partitions: dp (default) or nggp.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Concentration of the prior at the start.")] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Keep alpha (and sigma) as they are instead of sampling them.")
    ] = False,
    coarsening: Annotated[
        float | None, typer.Option(help="Trust in the likelihood, above 0 and at most 1; less gives broader clusters.")
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed; the same seed gives the same draws on any number of workers.")
    ] = 0,
    labels_column: Annotated[
        str | None, typer.Option(help="Column with known labels; never used as a feature.")
    ] = None,
    overwrite: OVERWRITE = False,
    *,
    cluster: Cluster,
) -> None:
    """Sample partitions from their posterior with several chains, into a run that can be stopped and resumed.

    The chains start from different partitions. Over the clusters of a run that was fitted in passes they sample partitions
    of any number of rows.

    Example: `dtree sample dtree-demo.csv --labels-column kind --chains 2 --draws 100 --out chains.zarr` (`dtree demo` makes that file)
    """
    if out_.exists() and not overwrite:
        raise ValueError(
            f"{out_} exists already: choose another name, carry on with 'dtree resume {out_}' if it was stopped, or give --overwrite"
        )
    run = room_for(out_, overwrite)
    from dtree.engine.chains import sample_dataset

    started = time.monotonic()
    try:
        with (
            _client(cluster, chains, _family_of(data_or_run, family), sampler) as client,
            _chain_table(sampler) as show,
        ):
            sample_dataset(
                data_or_run, run, sampler, chains, draws, warmup=warmup, thin=thin, family=family,
                prior=prior_of(prior, alpha), resample_hyperparameters=not fixed, coarsening=coarsening, seed=seed,
                labels_column=labels_column, client=client, progress=show,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise stopped(run) from None
    _print_result(run, started)


def _family_of(data_or_run: str, family: str | None) -> str:
    from dtree.store.run import made_by_passes

    if made_by_passes(data_or_run):
        from dtree.engine.folder import RunFolder

        return RunFolder(data_or_run).model().family.name
    return family or "gaussian"


@contextmanager
def _client(cluster: Cluster, chains: int, family: str, sampler: str) -> Iterator[Any]:
    """Workers, unless one chain and no word about workers make this process enough; threads where nothing was said about them."""
    from dtree.core.families import FAMILIES
    from dtree.hierarchy.defaults import named
    from dtree.mcmc.run import sampler_named

    sampler_named(sampler)
    kind = named(FAMILIES, family, "family")
    if chains <= 1 and not cluster.wanted:
        yield None
        return
    processes = cluster.wanted
    if cluster.scheduler is None:
        from dtree.engine.warm import warm_chain_kernels

        with err().status("compiling the sampler, once"):
            warm_chain_kernels(kind, sampler)
        if cluster.workers is None:
            cluster = cluster._replace(workers=min(chains, os.cpu_count() or 1))
    with cluster.client(family, warm=False, processes=processes) as client:
        yield client


@contextmanager
def _chain_table(sampler: str, run: Path | None = None) -> Iterator[Any]:
    """A callback that shows where every chain is: a live table for a person, now and then a plain line for a log."""
    from dtree.engine.chain_watch import Watch

    console, watch = err(), Watch()
    if run is not None:
        watch.remember(run)
    if not console.is_terminal:
        last = [time.monotonic()]

        def line(status: Any) -> None:
            watch.take(status)
            if time.monotonic() - last[0] >= _SECONDS_BETWEEN_LINES:
                last[0] = time.monotonic()
                console.print(watch.line(), markup=False)

        yield line
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def show(status: Any) -> None:
            watch.take(status)
            live.update(_table(watch, sampler))

        yield show


def _table(watch: Any, sampler: str) -> Any:
    from rich.table import Table

    table = Table("chain", "sweep", "draw", "clusters", "log joint", title=sampler, box=None, header_style="dim")
    for row in watch.rows():
        table.add_row(*row)
    table.caption = watch.agreement()
    return table


def _print_result(run: Path, started: float) -> None:
    from dtree.engine.chains import open_run

    with err().status("summing up"):
        model = open_run(run)
    describe_chains(model, f" ({time.monotonic() - started:.1f} s)")
    say(f"run: {take_place(run)}")


def describe_chains(model: Any, ending: str = "") -> None:
    """What fitted chains found, and how well they agree."""
    out().print(
        f"{model.partitions_.shape[2]:,} leaves: [bold]{several(model.n_clusters_, 'cluster')}[/bold] in the point estimate of "
        f"{several(model.chains, 'chain')} of {several(model.draws, 'draw')}{ending}"
    )
    _print_summary(model)


def several(count: int, what: str) -> str:
    """A number of things in words.

    >>> several(1, "chain"), several(4, "chain")
    ('1 chain', '4 chains')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _print_summary(model: Any) -> None:
    """Means, deviations, R-hat and effective sample sizes as a table."""
    from rich.table import Table

    found = model.summary()
    names = [name for name in ("mean", "sd", "ess_bulk", "ess_tail", "r_hat") if name in found.columns]
    table = Table("", *names, box=None, header_style="dim", padding=(0, 2, 0, 0))
    for quantity, row in found.iterrows():
        table.add_row(str(quantity), *(f"{float(row[name]):.4g}" for name in names))
    out().print(table)


def resume_run(run: Path, cluster: Cluster) -> None:
    """Carry the chains on from their last blocks."""
    from dtree.engine.chain_folder import ChainRun
    from dtree.engine.chains import resume

    opened, started = ChainRun(run), time.monotonic()
    if not opened.done:
        sampler, chains = opened.settings["sampler"], opened.settings["chains"]
        family = opened.model().family.name if opened.attributes.get("prepared") else "gaussian"
        try:
            with _client(cluster, chains, family, sampler) as client, _chain_table(sampler, run) as show:
                resume(run, client=client, progress=show)
        except KeyboardInterrupt:
            raise stopped(run) from None
    _print_result(run, started)


def describe_run(run: Path) -> None:
    """What a run of chains holds, finished or not."""
    from dtree.engine.chain_folder import ChainRun
    from dtree.engine.chain_watch import Watch
    from dtree.engine.chains import open_run

    opened = ChainRun(run)
    at, settings = opened.attributes, opened.settings
    say(
        f"{several(settings['chains'], 'chain')} of {several(settings['draws'], 'draw')} after {at['warmup']} sweeps, "
        f"sampler {settings['sampler']}"
    )
    if opened.done:
        model = open_run(run)
        say(
            f"{model.partitions_.shape[2]:,} leaves ({at['leaves']}), {several(model.n_clusters_, 'cluster')} in the point estimate"
        )
        _print_summary(model)
    else:
        watch = Watch()
        watch.remember(run)
        for row in watch.rows():
            say("chain {}: sweep {}, {} draws, {} clusters, log joint {}".format(*row))
        say(f"not finished: 'dtree resume {run}' carries on")
    if at.get("prepared"):
        say(f"family: {in_words(opened.model().family)}")
        say(f"prior: {in_words(opened.model().prior)}")
    say(f"data: {at['data']}")
    say(f"command: {' '.join(at['command'])}")


def predict_run(
    run: Path, data: str, target: Path, cluster: Cluster, leave_out: list[str], overwrite: bool = False
) -> None:
    """Labels by the point-estimate partition, log densities averaged over draws."""
    from dtree.engine.chains import open_run

    predict_here(lambda: open_run(run), data, target, overwrite, leave_out=leave_out)
