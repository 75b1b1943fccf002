"""A pass on a cluster as discrete events: the client hands over a graph, one scheduler serves one message after the
other, every worker runs one task at a time and holds one more, sums are combined eight at a time.

It knows nothing of Dask but the costs it is given and how often a worker reports, so it can be asked about clusters
that nobody here has; `benchmarks.scaling` compares it with a real scheduler where both can be had.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from distributed.scheduler import heartbeat_interval

from dtree.kmeans.passes import combine_in_tree

_HELD = 2  # tasks a worker has at once: one running, one waiting (Dask's worker-saturation of 1.1, rounded up)


class Costs(NamedTuple):
    """Seconds, all measured by `benchmarks.scaling` except where it says otherwise."""

    client_task: float  # CPU of the client to hand over one task
    scheduler_graph: float  # CPU of the scheduler to take one task in
    scheduler_task: float  # CPU of the scheduler to send one task out and to note that it is done
    heartbeat: float  # CPU of the scheduler for one heartbeat of a worker
    worker_task: float  # CPU of a worker around one task, with sending and fetching sums
    message: float  # from one process to another
    combine: float  # to add eight sums
    centre: float  # the central task


class Outcome(NamedTuple):
    """What the model says of one pass."""

    seconds: float  # from the first call of the client to the answer
    tasks: int
    scheduler_share: float  # how much of that time the scheduler was busy


class Bucket(NamedTuple):
    """An object store: seconds until an answer begins, bytes a second for each worker, and how often it is asked."""

    latency: float
    bytes_a_second: float
    to_read: int = 2  # questions for a chunk: its rows, and its labels of the last pass
    to_write: int = 1  # for its labels of this pass
    to_commit: int = 3  # one after the other at the end of a pass: the last labels, what is in the state, its record


def chunks_from(bucket: Bucket, compute: np.ndarray, size: float, ahead: bool = True) -> np.ndarray:
    """Seconds (n,) of chunks of `size` bytes that take `compute` (n,) seconds; `ahead`: rows and labels of the next one
    are asked for together meanwhile, and the labels of the last one put.

    >>> chunks_from(Bucket(0.02, 1e8), np.array([1.0, 0.1]), 5e7).round(2).tolist()
    [1.0, 0.52]
    >>> chunks_from(Bucket(0.02, 1e8), np.array([1.0, 0.1]), 5e7, ahead=False).round(2).tolist()
    [1.56, 0.66]
    """
    sending = size / bucket.bytes_a_second
    if ahead:
        return np.maximum(compute, bucket.latency + sending)
    return compute + (bucket.to_read + bucket.to_write) * bucket.latency + sending


def model_pass(chunks: np.ndarray, workers: int, costs: Costs, hosts: int | None = None) -> Outcome:
    """One pass over chunks that take `chunks` (n,) seconds each.

    hosts : how many processes hold the workers; None for one each. (A simulation keeps many in one process, where they
        wait for each other between tasks.)

    >>> free = Costs(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    >>> model_pass(np.full(20, 2.0), 10, free)
    Outcome(seconds=4.0, tasks=25, scheduler_share=0.0)
    """
    return _Pass(np.asarray(chunks, dtype=np.float64), workers, costs, hosts or workers).run()


class _Pass:
    def __init__(self, chunks: np.ndarray, workers: int, costs: Costs, hosts: int) -> None:
        self.costs, self.workers = costs, workers
        self.seconds = chunks.tolist()
        self.waits_for: dict[int, int] = {}
        self.parent: dict[int, int] = {}
        top = combine_in_tree(range(len(self.seconds)), self._combination)
        self.last = self._task([top], costs.centre)
        self.queue = list(range(chunks.shape[0]))[::-1]
        self.events: list[tuple[float, int, str, Any]] = []
        self.order = 0
        # The scheduler is a little slower for every worker that it must listen to.
        listening = costs.heartbeat * workers / heartbeat_interval(workers)
        self.slower = 1.0 / max(1.0 - listening, 0.05)
        self.scheduler_free, self.scheduler_busy = 0.0, 0.0
        self.host_free = [0.0] * hosts
        self.running = [False] * workers
        self.ready: list[list[int]] = [[] for _ in range(workers)]
        self.place: dict[int, int] = {}

    def _task(self, needs: list[int], seconds: float) -> int:
        number = len(self.seconds)
        self.seconds.append(seconds)
        self.waits_for[number] = len(needs)
        for part in needs:
            self.parent[part] = number
        return number

    def _combination(self, group: Any) -> int:
        return self._task(list(group), self.costs.combine * len(group) / 8)

    def _at(self, time: float, what: str, task: int) -> None:
        self.order += 1
        heapq.heappush(self.events, (time, self.order, what, task))

    def _serve(self, time: float, seconds: float) -> float:
        """When the scheduler has dealt with something that reached it at `time`."""
        seconds *= self.slower
        self.scheduler_free = max(self.scheduler_free, time) + seconds
        self.scheduler_busy += seconds
        return self.scheduler_free

    def _host(self, worker: int, time: float) -> float:
        """When the worker's process has done half of its work around a task."""
        host = worker % len(self.host_free)
        self.host_free[host] = max(self.host_free[host], time) + self.costs.worker_task / 2
        return self.host_free[host]

    def _send(self, time: float, task: int, worker: int) -> None:
        self.place[task] = worker
        self._at(time + self.costs.message, "arrives", task)

    def _next_on(self, worker: int, time: float) -> None:
        if not self.running[worker] and self.ready[worker]:
            task = self.ready[worker].pop(0)
            self.running[worker] = True
            self._at(time + self.seconds[task], "ran", task)

    def run(self) -> Outcome:
        n, costs = len(self.seconds), self.costs
        began = self._serve(n * costs.client_task + costs.message, n * costs.scheduler_graph)
        for slot in range(min(_HELD * self.workers, len(self.queue))):
            began = self._serve(began, costs.scheduler_task / 2)
            self._send(began, self.queue.pop(), slot % self.workers)
        while True:
            time, _, what, task = heapq.heappop(self.events)
            worker = self.place[task]
            if what == "arrives":
                self._at(self._host(worker, time), "ready", task)
            elif what == "ready":
                self.ready[worker].append(task)
                self._next_on(worker, time)
            elif what == "ran":
                done = self._host(worker, time)
                self._at(done, "free", task)
                self._at(done + costs.message, "reported", task)
            elif what == "free":
                self.running[worker] = False
                self._next_on(worker, time)
            elif task == self.last:
                end = self._serve(time, costs.scheduler_task / 2) + costs.message
                return Outcome(end, n, self.scheduler_busy / end if end > 0 else 0.0)
            else:
                self._reported(time, task, worker)

    def _reported(self, time: float, task: int, worker: int) -> None:
        """The scheduler notes that a task is done, and sends out what can now be run."""
        time = self._serve(time, self.costs.scheduler_task / 2)
        parent = self.parent[task]
        self.waits_for[parent] -= 1
        if self.waits_for[parent] == 0:  # where its last part is; the others are fetched: two more messages
            time = self._serve(time, self.costs.scheduler_task / 2)
            self._send(time + 2 * self.costs.message, parent, worker)
        if self.queue and task not in self.waits_for:
            time = self._serve(time, self.costs.scheduler_task / 2)
            self._send(time, self.queue.pop(), worker)
