"""What is read piece by piece from an object store is asked for before it is needed: a worker computes meanwhile.

A worker goes through chunks in steps: one after the other when it works alone, every second one when there are two. So
the step between its last two reads tells what it will read next. One piece is held ahead for each thread that reads and
each thing that is read (rows of the data, labels of the last pass); a wrong guess costs one read for nothing and never
a wrong answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, NamedTuple

_MOST = 3  # things that one task reads: rows, and at most two arrays that an earlier pass wrote for each row
_mine = threading.local()  # what the thread that asks has asked for


class Ahead(NamedTuple):
    """Where a thread read last, and what it will read next by the look of it."""

    start: int
    wanted: tuple[int, int]
    piece: Future[Any] | None


def read_ahead(what: Hashable, read: Callable[[int, int], Any], start: int, stop: int, end: int) -> Any:
    """read(start, stop), from what was read ahead if that is it; then the next piece before `end` is read meanwhile.

    what : names the thing that is read, and this version of it: what was read ahead of another is not taken for it.
    """
    held: OrderedDict[Hashable, Ahead] = _mine.__dict__.setdefault("held", OrderedDict())
    before = held.pop(what, None)
    step = start - before.start if before is not None and start > before.start else stop - start
    if before is not None and before.wanted == (start, stop) and before.piece is not None:
        piece = before.piece.result()
    else:
        piece = read(start, stop)
    wanted = start + step, min(stop + step, end)
    held[what] = Ahead(start, wanted, _begun(read, *wanted) if wanted[0] < wanted[1] else None)
    while len(held) > _MOST:
        held.popitem(last=False)
    return piece


def _begun(read: Callable[[int, int], Any], start: int, stop: int) -> Future[Any]:
    future: Future[Any] = Future()

    def read_now() -> None:
        try:
            future.set_result(read(start, stop))
        except BaseException as problem:  # told to whoever asks for this piece
            future.set_exception(problem)

    threading.Thread(target=read_now, daemon=True).start()  # one that hangs must not keep the process from ending
    return future
