"""What is read from an object store is asked for before it is needed, and what is written is waited for beside.

Whoever runs tasks knows the next one before it begins: the worker of a cluster holds one that waits, a process that
works alone has the list. So a task says what it will read (`reads`), and whoever runs it lets that begin (`look_ahead`)
while the task before it computes. What nobody asked for beforehand is read when it is needed: no answer depends on it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

_PIECES_OF_A_TASK = 3  # rows, and at most two arrays that an earlier pass wrote for each row
_AHEAD = "ahead"  # the attribute of a task that says what it reads
_pieces: OrderedDict[Hashable, Future[Any]] = OrderedDict()
_room = 2 * _PIECES_OF_A_TASK  # more pieces than that are not held; so much for this process when it works alone
_lock = threading.Lock()


def reads(ahead: Callable[..., None]) -> Callable[[Any], Any]:
    """Say of a task what it reads: `ahead` gets the task's arguments and calls what begins to read it."""

    def marked(task: Any) -> Any:
        setattr(task, _AHEAD, ahead)
        return task

    return marked


def look_ahead(task: Any, arguments: Any) -> None:
    """Begin to read what a task will ask for, which is about to be run."""
    if hasattr(task, _AHEAD):
        getattr(task, _AHEAD)(*arguments)


def make_room(tasks: int) -> None:
    """From now on this process holds so many tasks more, whose pieces may be read ahead."""
    global _room
    with _lock:
        _room += tasks * _PIECES_OF_A_TASK


def begin(what: Hashable, read: Callable[[int, int], Any], start: int, stop: int) -> None:
    """Begin to read(start, stop); `what` names the thing that is read, and this version of it."""
    key = (what, start, stop)
    with _lock:
        if key in _pieces:
            return
        piece = _pieces[key] = Future()
        while len(_pieces) > _room:  # of tasks that went to another worker
            _pieces.popitem(last=False)
    beside(lambda: read(start, stop), piece)


def taken(what: Hashable, read: Callable[[int, int], Any], start: int, stop: int) -> Any:
    """read(start, stop), from what was begun if it was."""
    with _lock:
        piece = _pieces.pop((what, start, stop), None)
    return read(start, stop) if piece is None else piece.result()


def beside(work: Callable[[], Any], future: Future[Any] | None = None) -> Future[Any]:
    """The future result of work() in a thread of its own: one that hangs must not keep the process from ending."""
    found: Future[Any] = Future() if future is None else future

    def do() -> None:
        try:
            found.set_result(work())
        except BaseException as problem:  # told to whoever asks for the result
            found.set_exception(problem)

    threading.Thread(target=do, daemon=True).start()
    return found


class Waiting:
    """How a task that has computed, and only waits for a store, lets others compute; whoever runs tasks says how."""

    def __init__(self) -> None:
        self.stand_aside: Callable[[], None] = lambda: None


waiting = Waiting()
