"""What commands say about workers."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dtree.cli.console import err, say

ROWS_WORTH_PROCESSES = 200_000  # fewer are done sooner in this process than worker processes start


def processes_for(cluster: "Cluster", method: Any, rows: int) -> tuple[int, int | None]:
    """How many worker processes a fit would have, and bytes of each; 0 for this process, None where nobody says."""
    if not cluster.wants_processes(method, rows):
        return 0, None
    from dtree.engine.cluster import cluster_client, local_size, worker_memory

    if cluster.scheduler is None:
        return local_size(cluster.workers, cluster.memory_limit)
    with cluster_client(cluster.scheduler, tls=cluster.tls()) as client:
        return len(client.scheduler_info(n_workers=-1)["workers"]), worker_memory(client)


class Cluster(NamedTuple):
    """Which workers do the work, as given on the command line."""

    scheduler: str | None = None
    workers: int | None = None
    memory_limit: str | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    dashboard: bool | None = None

    @property
    def wanted(self) -> bool:
        """Whether anything was said about workers."""
        return any(value is not None for value in self)

    def wants_processes(self, method: Any, rows: int) -> bool:
        """Whether something was said about workers, or a method in passes has many rows."""
        return self.wanted or (method.in_passes and rows > ROWS_WORTH_PROCESSES)

    def tls(self) -> Any:
        """Encryption, as the options or the scheduler's address ask for it."""
        from dtree.engine.cluster import configured_security, security

        given = [self.tls_ca, self.tls_cert, self.tls_key]
        if any(given):
            if not all(given):
                raise ValueError("TLS needs all three of --tls-ca, --tls-cert and --tls-key")
            return security(*(str(path) for path in given))
        is_encrypted = self.scheduler is not None and self.scheduler.startswith("tls://")
        return configured_security() if is_encrypted else None

    @contextmanager
    def client_for(self, method: Any, settings: Any, rows: int) -> Iterator[Any]:
        """A Dask client for as long as the block lasts, or None where this process is enough.

        Worker processes are started where something was said about them, or when a method in passes has many rows; the
        kernels are compiled before they start, so that they load machine code instead of each compiling it.
        """
        if not self.wants_processes(method, rows):
            yield None
            return
        from dtree.engine.cluster import DASHBOARD, cluster_client, dashboard_of
        from dtree.engine.warm import warm

        tls, local = self.tls(), dict(DASHBOARD) if self.dashboard else {}
        if self.dashboard and self.scheduler is None and find_spec("bokeh") is None:
            raise ValueError("Dask's dashboard is drawn by bokeh, which is not installed: pip install bokeh")
        if self.scheduler is None:
            warm(method, settings)
        with cluster_client(self.scheduler, self.workers, self.memory_limit, True, tls, False, **local) as client:
            address = dashboard_of(client) if self.scheduler is not None or self.dashboard else None
            if address is not None:
                err().print(f"Dask's dashboard: {address}", markup=False)
            yield client


_OPTIONS: dict[str, Any] = {
    "scheduler": Annotated[
        str | None,
        typer.Option(help="Address of a running Dask scheduler, e.g. tls://host:8786; else a local cluster."),
    ],
    "workers": Annotated[int | None, typer.Option(min=1, help="Worker processes of the local cluster.")],
    "memory_limit": Annotated[str | None, typer.Option(help="Memory of each local worker, e.g. 1GB.")],
    "tls_ca": Annotated[Path | None, typer.Option(help="Certificate authority of a TLS scheduler.")],
    "tls_cert": Annotated[Path | None, typer.Option(help="Certificate of this client.")],
    "tls_key": Annotated[Path | None, typer.Option(help="Key of this client.")],
    "dashboard": Annotated[
        bool | None, typer.Option("--dashboard", help="Serve Dask's dashboard of the local cluster; needs bokeh.")
    ],
}


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about workers; it gets them as one last argument, `cluster: Cluster`."""
    inner = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in inner.parameters.items() if name != "cluster"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]

    @functools.wraps(command)
    def run(*args: Any, **given: Any) -> Any:
        cluster = Cluster(**{name: given.pop(name) for name in _OPTIONS})
        return command(*args, **given, cluster=cluster)

    run.__signature__ = inner.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    return run


def stopped(out: str, code: int) -> typer.Exit:
    """What a stop leaves behind, said to the user; before the first checkpoint there is nothing to carry on from."""
    from dtree.runs.commit import place_of
    from dtree.runs.run import unfinished
    from dtree.storage import located

    final = place_of(located(out))
    run = unfinished(final)
    kept = "" if final == run else f" Until it is done, {final} stays as it was."
    if (run / "zarr.json").is_file():
        if run == final and _is_done(run):  # by this process, at the last moment, or by one before it
            say(f"Stopped. {final} holds a finished run: 'dtree info {final}' says which.")
        else:
            say(f"Stopped. What was done is kept: 'dtree resume {final}' carries on.{kept}")
    else:
        say(f"Stopped before the first pass; nothing was written.{kept}")
    return typer.Exit(code)


def _is_done(run: Any) -> bool:
    from dtree.runs.run import Run

    return Run.open(run).header.done
