"""What commands say about workers."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dtree.cli.console import say

ROWS_WORTH_PROCESSES = 200_000  # fewer are done sooner in this process than worker processes start


class Cluster(NamedTuple):
    """Which workers do the work, as given on the command line."""

    scheduler: str | None = None
    workers: int | None = None
    memory_limit: str | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    @property
    def wanted(self) -> bool:
        """Whether anything was said about workers."""
        return any(value is not None for value in self)

    @contextmanager
    def client_for(self, method: Any, settings: Any, rows: int) -> Iterator[Any]:
        """A Dask client for as long as the block lasts, or None where this process is enough.

        Worker processes are started where something was said about them, or when a method in passes has many rows; the
        kernels are compiled before they start, so that they load machine code instead of each compiling it.
        """
        if not self.wanted and not (method.in_passes and rows > ROWS_WORTH_PROCESSES):
            yield None
            return
        from dtree.engine.cluster import cluster_client, configured_security, security
        from dtree.engine.warm import warm

        tls = None
        given = [self.tls_ca, self.tls_cert, self.tls_key]
        if any(given):
            if not all(given):
                raise ValueError("TLS needs all three of --tls-ca, --tls-cert and --tls-key")
            tls = security(*(str(path) for path in given))
        elif self.scheduler is not None and self.scheduler.startswith("tls://"):
            tls = configured_security()
        if self.scheduler is None:
            warm(method, settings)
        with cluster_client(self.scheduler, self.workers, self.memory_limit, True, tls, False) as client:
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
    if (run / "zarr.json").is_file() and not _is_done(run):
        say(f"Stopped. What was done is kept: 'dtree resume {final}' carries on.{kept}")
    else:
        say(f"Stopped before the first pass; nothing was written.{kept}")
    return typer.Exit(code)


def _is_done(run: Any) -> bool:
    from dtree.runs.run import Run

    return Run.open(run).header.done
