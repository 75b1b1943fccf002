"""On every worker: what a task reads is asked for when it arrives, and one that only waits for a store stands aside."""

import threading
from typing import Any

from distributed import Worker, WorkerPlugin, secede
from distributed.threadpoolexecutor import thread_state

from dtree.storage import ahead

_MOST_ASIDE = 2  # tasks of a process that wait for a store while it computes others; a slow store holds back the rest
_aside: list[threading.Thread] = []
_lock = threading.Lock()


class Near(WorkerPlugin):
    """Sees the tasks of a worker come: besides those that run it holds one that waits (Dask's worker-saturation)."""

    name = "dtree"
    idempotent = True

    def setup(self, worker: Worker) -> None:
        self.worker = worker
        ahead.make_room(worker.state.nthreads + 1)
        ahead.waiting.stand_aside = stand_aside

    def transition(self, key: Any, start: Any, finish: Any, **_: Any) -> None:
        task: Any = self.worker.state.tasks[key].run_spec if finish == "ready" else None
        if hasattr(task, "args"):
            ahead.look_ahead(task.func, task.args)


def stand_aside() -> None:
    """Let the worker begin its next task, while this one goes on beside it; only its end counts as its result."""
    with _lock:
        _aside[:] = [thread for thread in _aside if thread.is_alive()]
        if len(_aside) == _MOST_ASIDE or not getattr(thread_state, "proceed", False):  # it is aside already, or no task
            return
        _aside.append(threading.current_thread())
    secede()
