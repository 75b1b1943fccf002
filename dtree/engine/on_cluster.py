"""Tasks on the workers of a Dask client, and what becomes of them when workers, scheduler or network fail."""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client, KilledWorker, as_completed, span
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError

from dtree.core.progress import counter
from dtree.engine.near import Near
from dtree.engine.pairs import central_task
from dtree.engine.workers import Here
from dtree.kmeans.passes import combine_in_tree
from dtree.methods.contract import NO_STAGE, Arguments, Stage, Task

_LOOK_EVERY = 10.0  # seconds between looks at whether anybody works
_ALONE = 300.0  # seconds without any worker after which a run gives up; supervisors have started new ones by then


class OnCluster(Here):
    """Run tasks on the workers of a client; only the final result comes back."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        with _plain_failures():
            client.register_plugin(Near())

    def named(self, *names: str) -> Any:
        return span(*names)

    def map_reduce(
        self,
        task: Task,
        arguments: Arguments,
        combine: Task,
        combine_with: tuple[Any, ...] = (),
        stage: Stage = NO_STAGE,
    ) -> Any:
        with _plain_failures():
            futures = self.client.map(task, *zip(*arguments, strict=True), pure=False)
            if stage.rows:
                add = counter(stage.name, sum(stage.rows))
                for future, rows in zip(futures, stage.rows, strict=True):
                    future.add_done_callback(lambda done, rows=rows: add(rows) if done.status == "finished" else None)
            total = combine_in_tree(
                futures, lambda group: self.client.submit(combine, *combine_with, list(group), pure=False)
            )
            with _somebody_works(self.client, lambda: [total]):
                return total.result()

    def central(self, task: Task, *arguments: Any) -> Any:
        with _plain_failures():
            future = self.client.submit(central_task, task, arguments, pure=False)
            with _somebody_works(self.client, lambda: [future]):
                return future.result()

    def run(self, task: Task, arguments: Arguments) -> list[Any]:
        with _plain_failures():
            futures = self.client.map(task, *zip(*arguments, strict=True), pure=False)
            with _somebody_works(self.client, lambda: futures):
                return self.client.gather(futures)

    def streams(self, task: Task, arguments: Arguments, more: Callable[[Any], bool]) -> Iterator[Any]:
        futures = {self.client.submit(task, *args, pure=False): args for args in arguments}
        with _plain_failures(), _somebody_works(self.client, lambda: list(futures)):
            running = as_completed(list(futures), loop=self.client.loop)
            for future in running:
                args, result = futures.pop(future), future.result()
                yield result
                if more(result):
                    again = self.client.submit(task, *args, pure=False)
                    futures[again] = args
                    running.add(again)


@contextmanager
def _somebody_works(client: Client, futures: Callable[[], list[Any]]) -> Iterator[None]:
    """Give the futures up when there have been no workers for long: some come back, but not all do, and nobody should
    wait for ever."""
    over, given_up = threading.Event(), threading.Event()

    def watch() -> None:
        seen = time.monotonic()
        while not over.wait(_LOOK_EVERY):
            if client.status != "running" or client.scheduler_info(n_workers=1)["workers"]:
                seen = time.monotonic()
            elif time.monotonic() - seen > _ALONE:
                given_up.set()
                client.cancel(futures(), force=True)
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except (FutureCancelledError, concurrent.futures.CancelledError, asyncio.CancelledError) as problem:
        if not given_up.is_set():
            raise
        raise RuntimeError(
            f"there have been no workers for {_ALONE / 60:.0f} minutes: start some and resume the run"
        ) from problem
    finally:
        over.set()


@contextmanager
def _plain_failures() -> Iterator[None]:
    """Turn the ways in which a cluster can fail into one sentence each; errors of the task itself pass through."""
    try:
        yield
    except KilledWorker as problem:
        raise RuntimeError(
            "workers died again and again on the same task, most likely for lack of memory: give each worker more "
            "memory or make chunks smaller (chunk_bytes), and resume the run"
        ) from problem
    except (
        FutureCancelledError,
        CommClosedError,
        concurrent.futures.CancelledError,
        asyncio.CancelledError,
        TimeoutError,
    ) as problem:
        raise RuntimeError(
            "the connection to the Dask scheduler was lost: start a scheduler and workers again and resume the run"
        ) from problem
