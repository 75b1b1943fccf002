"""One sitting with a run: who works, who is told, and until when."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from dtree.methods.contract import Notice
from dtree.runs.lease import Lease

OnProgress = Callable[[Any], None]


class OutOfTime(RuntimeError):
    """The time limit was reached, and there is no answer yet that could be given."""


class Sitting(NamedTuple):
    """One sitting with a run: who works, who is told, and until when."""

    client: Any = None
    progress: OnProgress | None = None
    lease: Lease | None = None
    until: float = math.inf  # by `time.monotonic`
    stamp: str = ""  # of the files of the data when it began

    @classmethod
    def of(cls, client: Any, progress: OnProgress | None, time_limit: float | None) -> "Sitting":
        """A sitting that begins now."""
        return cls(client, progress, None, math.inf if time_limit is None else time.monotonic() + time_limit)

    def go_on(self) -> None:
        """Between two steps: is the run still ours?"""
        if self.lease is not None:
            self.lease.check()

    @contextmanager
    def doing(self, stage: str, workers: Any) -> Iterator[None]:
        """One stage of the run: its name is told to who watches the run, and to who watches the workers."""
        if self.lease is not None:
            self.lease.tell(stage, 0, 0)
        with workers.named(stage):
            yield

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self.until


def notice(words: str, progress: OnProgress | None) -> None:
    """Tell what must not be missed."""
    if progress is None:
        warnings.warn(words, RuntimeWarning, stacklevel=3)
    else:
        progress(Notice(words))
