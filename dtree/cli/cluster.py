"""What commands say about workers, and which face of the command line belongs to a run in steps."""

from __future__ import annotations

import functools
import importlib
import inspect
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from dtree.cli.console import err, say
from dtree.store.commit import place_of, replacement_of

# Every face offers resume_run(run, cluster), describe_run(run) and predict_run(run, data, target, cluster, leave_out, overwrite),
# where leave_out names columns of the data that are not features.
FACES = {
    "bayes-kmeans": "dtree.cli.engine",
    "randomized": "dtree.cli.engine",
    "chains": "dtree.cli.sample",
    "variational": "dtree.cli.vb",
    "diffusion": "dtree.cli.ddt",
}


ROWS_WORTH_PROCESSES = 200_000  # fewer are done sooner by threads than worker processes start


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
    def client(self, family: str, warm: bool = True, processes: bool = True) -> Iterator[Any]:
        """A Dask client for as long as the block lasts; the kernels of one family are compiled before workers start.

        Without `warm` the caller has compiled what its workers will need. Without `processes` local workers are threads of this
        process, which start at once: kernels let them run side by side, and the answer has the same bits.
        """
        from dtree.core.families import FAMILIES
        from dtree.engine.cluster import cluster_client, configured_security, security
        from dtree.hierarchy.defaults import named

        kind = named(FAMILIES, family, "family")
        tls = None
        given = [self.tls_ca, self.tls_cert, self.tls_key]
        if any(given):
            if not all(given):
                raise ValueError("TLS needs all three of --tls-ca, --tls-cert and --tls-key")
            tls = security(*(str(path) for path in given))
        elif self.scheduler is not None and self.scheduler.startswith("tls://"):
            tls = configured_security()
        with cluster_client(
            self.scheduler, self.workers, self.memory_limit, processes, tls, [kind] if warm else False
        ) as client:
            yield client

    def client_for(self, rows: float, family: str) -> Any:
        """The client for so many rows: worker processes where there are many or something was said about them, else threads."""
        few = not self.wanted and rows <= ROWS_WORTH_PROCESSES
        return self.client(family, warm=not few, processes=not few)


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


def face_of(run: Path) -> Any:
    """The part of the command line that knows runs of this one's method."""
    from dtree.engine.methods import method_of

    return importlib.import_module(FACES[method_of(run)])


def stopped(run: Path) -> typer.Exit:
    """What Ctrl-C leaves behind, said to the user; before the first checkpoint there is nothing to carry on from."""
    final = place_of(run)
    kept = "" if final == run else f" Until it is done, {final} stays as it was."
    if (run / "zarr.json").exists():
        say(f"Stopped. What was done is kept: 'dtree resume {final}' carries on.{kept}")
    else:
        say(f"Stopped before the first pass; nothing was written.{kept}")
    return typer.Exit(130)


def unfinished(run: Path) -> Path:
    """The run to resume: the one that is being made to replace `run`, if there is one, else `run` itself.

    A replacement that was begun before `run` was written is forgotten: something else has taken the place since.
    """
    from dtree.store.run import made_by_passes

    beside = replacement_of(run)
    if not made_by_passes(beside):
        return run
    begun, written = ((path / "zarr.json") for path in (beside, run))
    newer = not written.exists() or begun.stat().st_mtime >= written.stat().st_mtime
    return beside if newer else run


@contextmanager
def step_line(waiting: str, describe: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
    """A callback that shows each step of a run: a live line for a person, one plain line a step for a log."""
    console = err()
    with console.status(waiting) as status:

        def show(step: Any) -> None:
            if console.is_terminal:
                status.update(describe(step))
            else:
                console.print(describe(step), markup=False)

        yield show


def room_for(out: Path, overwrite: bool) -> Path:
    """Where to make a run: at `out`, or beside the one that stands there, which stays until the new one is complete."""
    from dtree.store.run import check_output

    check_output(out, overwrite)
    if not out.exists():
        return out
    beside = replacement_of(out)
    shutil.rmtree(beside, ignore_errors=True)  # of an earlier try that did not get to its end
    return beside
