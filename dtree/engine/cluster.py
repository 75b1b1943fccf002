"""A Dask client for this machine, or for a cluster that is already running."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster, Security
from distributed.system import MEMORY_LIMIT

_WORKER_BYTES = 1_000_000_000  # a worker process is 230 MB before it does anything
_LEAST_BYTES = 400_000_000  # with less it would be ended for its size before it does much
_PATIENCE = 60.0  # seconds in which a running scheduler must have its first worker
DASHBOARD = {"dashboard_address": ":0", "scheduler_kwargs": {}}  # what makes a local cluster serve one
_ALLOWED_DEATHS = 6  # how often a task's worker may die before the task is given up


def local_size(n_workers: int | None = None, memory_limit: int | str | None = None) -> tuple[int, int]:
    """Number of worker processes and bytes of memory for each: one per core, as far as memory goes."""
    workers = n_workers or max(1, min(CPU_COUNT, int(MEMORY_LIMIT // _WORKER_BYTES)))
    if memory_limit is None:
        return workers, int(0.9 * MEMORY_LIMIT / workers)
    try:
        size = int(dask.utils.parse_bytes(memory_limit))
    except ValueError:
        raise ValueError(f"{memory_limit!r} is not an amount of memory: write it like 1GB or 800MB") from None
    if 0 < size < _LEAST_BYTES:
        raise ValueError(f"a worker needs at least {_LEAST_BYTES // 10**6} MB of memory, and {memory_limit} is less")
    return workers, size


def security(ca: str, certificate: str, key: str) -> Security:
    """TLS with a certificate authority and one certificate for this party; every connection must then be encrypted."""
    for what, path in (("certificate authority", ca), ("certificate", certificate), ("key", key)):
        if not os.path.isfile(path):
            raise ValueError(f"the TLS {what} file {path} does not exist")
    names = {f"tls_{role}_{part}": path for role in ("client", "scheduler", "worker") for part, path in
             (("cert", certificate), ("key", key))}  # fmt: skip
    return Security(require_encryption=True, tls_ca_file=ca, **names)


def configured_security() -> Security:
    """TLS as Dask's own configuration (distributed.comm.tls.*, or its environment variables) says."""
    tls: Any = Security(require_encryption=True)
    if not tls.tls_ca_file or not tls.tls_client_cert:
        raise ValueError(
            "a tls:// scheduler needs certificates: give --tls-ca, --tls-cert and --tls-key, or set Dask's "
            "distributed.comm.tls configuration"
        )
    return tls


@contextmanager
def cluster_client(
    scheduler: str | None = None,
    n_workers: int | None = None,
    memory_limit: int | str | None = None,
    processes: bool = True,
    tls: Security | None = None,
    warm: bool = True,
    **local: Any,
) -> Iterator[Client]:
    """A client of the scheduler at an address, or of a new local cluster with one thread per worker process.

    With `warm` the kernels of fits in passes are compiled here first, so that local workers load machine code instead
    of each compiling it; `dtree.engine.warm.warm` compiles those of one method only.

    >>> with cluster_client(n_workers=1, processes=False, warm=False) as client:
    ...     client.submit(sum, [1, 2]).result()
    3
    """
    if scheduler is not None:
        with _quiet(), _connected(scheduler, tls) as client:
            yield client
        return
    if warm:
        from dtree.engine.warm import warm_all

        warm_all()
    workers, memory = local_size(n_workers, memory_limit)
    if not processes:
        memory = 0  # no limit: workers in threads would each be charged for the whole process, and pause for good
    settings = {
        "distributed.scheduler.allowed-failures": _ALLOWED_DEATHS,
        # A local cluster looks at a dead worker's name after so long, and if a new one is dead at that moment too, it
        # lets nobody take its place any more: workers that die again and again would be gone for good, and the run
        # would wait for them.
        "distributed.deploy.lost-worker-timeout": "30 days",
    }
    # Nobody is told of a dashboard here, and loading what draws it costs a second at every start.
    local = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}, **local}
    # What matters is said by the run itself, once; Dask would say it before, with a traceback of every failed task.
    local = {"silence_logs": logging.WARNING if _debugging() else logging.CRITICAL, **local}
    if processes:
        local = {"preload": ["dtree.engine.worker_start"], **local}
    with (
        _quiet(),
        dask.config.set(settings),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, memory_limit=memory, processes=processes, security=tls, **local
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def _debugging() -> bool:
    return bool(os.environ.get("DTREE_DEBUG"))


@contextmanager
def _quiet() -> Iterator[None]:
    """Let Dask and what it stands on say nothing in this process; a lost connection is told in our own sentence."""
    if _debugging():
        yield
        return
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado.application", "asyncio")]
    loggers += [
        logging.getLogger(name) for name in list(logging.Logger.manager.loggerDict) if name[:12] == "distributed."
    ]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _connected(scheduler: str, tls: Security | None) -> Client:
    """A client of a running scheduler, or one sentence when it does not answer or nobody works for it."""
    try:
        client = Client(scheduler, security=tls, set_as_default=False)
    except (OSError, TimeoutError, TypeError, ValueError) as problem:
        reason = " ".join(str(problem).split())[:120] or type(problem).__name__
        raise ValueError(
            f"no Dask scheduler answers at {scheduler}: is it running, is the address right, and is it reached with "
            f"TLS exactly if it asks for TLS (tls://, with --tls-ca, --tls-cert and --tls-key)? ({reason})"
        ) from None
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        client.close()
        raise ValueError(f"the Dask scheduler at {scheduler} has no workers: start some and run this again") from None
    return client


def dashboard_of(client: Client) -> str | None:
    """The address of the page on which the cluster of a client can be watched, where it has one."""
    # A scheduler without one tells the port of its HTTP server all the same.
    return client.dashboard_link if client.run_on_scheduler(_serves_pages) else None


def _serves_pages(dask_scheduler: Any) -> bool:
    pages = dask_scheduler.http_application.applications
    return any(kind.__module__.startswith("bokeh") for page in pages for kind in type(page).__mro__)


def worker_memory(client: Client | None) -> int | None:
    """Bytes of the smallest worker, or None when there is no client or no limit."""
    if client is None:
        return None
    limits = [worker.get("memory_limit") or 0 for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    return min((limit for limit in limits if limit > 0), default=None)
