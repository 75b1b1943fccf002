"""How far a long computation is: numerical code reports, whoever wants to draw a bar listens.

Nothing listens by default, and then `report` costs one lookup. A listener belongs to the context that set it (a thread or
a task has its own), so two fits side by side do not mix their bars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int | None], None]

_listener: ContextVar[Listener | None] = ContextVar("dtree_progress_listener", default=None)


def report(stage: str, done: int, total: int | None = None) -> None:
    """Say that `done` of `total` steps of `stage` are finished; total is None when it is not known."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


def is_heard() -> bool:
    """Whether anybody listens: a loop may run in larger blocks when nobody does."""
    return _listener.get() is not None


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hand every report made inside the `with` block to `listener(stage, done, total)`.

    >>> with listening(lambda stage, done, total: print(stage, done, total)):
    ...     report("merging", 3, 10)
    merging 3 10
    >>> report("merging", 4, 10)
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
