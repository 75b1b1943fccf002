"""Who is told how far a long computation has come.

Numerical code calls `report(stage, done, total)`; nobody listens unless a caller entered `listening(...)`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock

Listener = Callable[[str, int, int], None]
_listener: ContextVar[Listener | None] = ContextVar("dtree_progress", default=None)


def report(stage: str, done: int, total: int) -> None:
    """Tell the listener, if there is one, that `done` of `total` parts of `stage` are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


def counter(stage: str, total: int) -> Callable[[int], None]:
    """Tell the listener that `stage` begins; gives a function that counts what is done, from any thread."""
    listener, lock, done = _listener.get(), Lock(), [0]

    def add(more: int) -> None:
        if listener is not None:
            with lock:
                done[0] += more
                listener(stage, done[0], total)

    add(0)
    return add


@contextmanager
def also_listening(listener: Listener) -> Iterator[None]:
    """Send reports made inside the block to `listener` too, and still to whoever listens already."""
    outer = _listener.get()

    def both(stage: str, done: int, total: int) -> None:
        listener(stage, done, total)
        if outer is not None:
            outer(stage, done, total)

    with listening(both):
        yield


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send reports made inside the block to `listener`.

    >>> with listening(lambda stage, done, total: print(stage, done, total)):
    ...     report("merging", 1, 3)
    merging 1 3
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
