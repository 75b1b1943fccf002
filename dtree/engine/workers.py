"""Who runs the tasks: this process, or the workers of a Dask client. Both run the same tasks, added in the same order.

A fit in this process loads no dask: what needs it is in `on_cluster` and `pairs`.
"""

import concurrent.futures
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import zip_longest
from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.core.progress import counter
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.kmeans.greedy import Merged, merge_clusters
from dtree.kmeans.passes import combine_in_tree
from dtree.methods.contract import NO_STAGE, Arguments, Stage, Task
from dtree.storage.ahead import look_ahead


class Pairs:
    """Merging clusters and growing trees in one process; a central task gets it as its first argument."""

    threads: int | None = None  # as many as the machine has

    def merge(self, model: Model, statistics: np.ndarray) -> Merged:
        """`merge_clusters`."""
        return merge_clusters(model, statistics)

    def tree(self, model: Model, atoms: np.ndarray) -> Tree:
        """`build_tree`."""
        return build_tree(model, atoms, threads=self.threads)


class Here:
    """Run tasks in this process: independent ones and parts that move on their own in several threads, if asked to."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads

    def named(self, *names: str) -> Any:
        """A block in which tasks are known by a name to who watches the workers."""
        return nullcontext()

    def map_reduce(
        self,
        task: Task,
        arguments: Arguments,
        combine: Task,
        combine_with: tuple[Any, ...] = (),
        stage: Stage = NO_STAGE,
    ) -> Any:
        """combine(*combine_with, group) over the results of task(*args), in a fixed tree; `stage` is told meanwhile."""

        def results() -> Iterator[Any]:
            add = counter(stage.name, sum(stage.rows)) if stage.rows else None
            for number, result in enumerate(_one_by_one(task, arguments)):
                yield result
                if add is not None:
                    add(stage.rows[number])

        return combine_in_tree(results(), lambda group: combine(*combine_with, group))

    def central(self, task: Task, *arguments: Any) -> Any:
        """task(pairs, *arguments), where `pairs` scores many pairs of clusters at once."""
        return task(Pairs(), *arguments)

    def run(self, task: Task, arguments: Arguments) -> list[Any]:
        """Results of independent tasks, in order."""
        if self.threads == 1 or len(arguments) == 1:
            return list(_one_by_one(task, arguments))
        pool = concurrent.futures.ThreadPoolExecutor(self.threads)
        try:
            return list(pool.map(lambda args: task(*args), arguments))
        finally:
            pool.shutdown(cancel_futures=True)

    def streams(self, task: Task, arguments: Arguments, more: Callable[[Any], bool]) -> Iterator[Any]:
        """Results as they come; a task is run again with the same arguments while `more(result)` says so."""
        if self.threads > 1:
            yield from self._streams_in_threads(task, arguments, more)
            return
        waiting = list(arguments)
        while waiting:
            again = []
            for args in waiting:
                result = task(*args)
                yield result
                if more(result):
                    again.append(args)
            waiting = again

    def _streams_in_threads(self, task: Task, arguments: Arguments, more: Callable[[Any], bool]) -> Iterator[Any]:
        pool = concurrent.futures.ThreadPoolExecutor(self.threads)
        running = {pool.submit(task, *args): args for args in arguments}
        try:
            while running:
                done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    args, result = running.pop(future), future.result()
                    yield result
                    if more(result):
                        running[pool.submit(task, *args)] = args
        finally:
            pool.shutdown(cancel_futures=True)


def _one_by_one(task: Task, arguments: Arguments) -> Iterator[Any]:
    """Results of tasks; what the next one reads is asked for before one begins."""
    for args, following in zip_longest(arguments, arguments[1:]):
        if following is not None:
            look_ahead(task, following)
        yield task(*args)


def workers_of(client: Any, threads: int = 1) -> Here:
    """Who runs tasks: the workers of a `distributed.Client`, or this process."""
    if client is None:
        return Here(threads)
    from dtree.engine.on_cluster import OnCluster

    return OnCluster(client)
