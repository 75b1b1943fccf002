"""Rows of an object store are asked for before they are needed, so that a worker computes while the next chunk comes.

A worker goes through chunks in steps: one after the other when it works alone, every second one when there are two. So
the step between its last two reads tells what it will read next. One chunk is held ahead for each thread that reads; a
wrong guess costs one read for nothing and never a wrong answer.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dtree.data.source import Source

_mine = threading.local()  # what the thread that asks has asked for


class Ahead(NamedTuple):
    """What a thread read last, and what it will read next by the look of it."""

    source: Source
    start: int
    wanted: tuple[int, int] | None
    rows: Future[Any] | None


def read_ahead(source: Source, start: int, stop: int) -> Any:
    """Rows start..stop-1, from what was read ahead if they are that; then the next ones are read meanwhile."""
    before: Ahead | None = getattr(_mine, "ahead", None)
    _mine.ahead = None
    rows, step = None, stop - start
    if before is not None and before.source == source and before.source.options == source.options:
        if before.wanted == (start, stop) and before.rows is not None:
            rows = before.rows.result()
        if start > before.start:
            step = start - before.start
    if rows is None:
        rows = source.read_now(start, stop)
    first, last = start + step, min(stop + step, source.shape[0])
    ahead = _begun(source, first, last) if first < last else None
    _mine.ahead = Ahead(source, start, (first, last), ahead)
    return rows


def _begun(source: Source, start: int, stop: int) -> Future[Any]:
    future: Future[Any] = Future()

    def read() -> None:
        try:
            future.set_result(source.read_now(start, stop))
        except BaseException as problem:  # told to whoever asks for these rows
            future.set_exception(problem)

    threading.Thread(target=read, daemon=True).start()  # a thread that hangs must not keep the process from ending
    return future
