"""`--log-file FILE`: what happens in a fit, one line of JSON for each event, for programs that watch many of them.

    {"time": "2026-05-01T12:00:03.120+00:00", "event": "step", "number": 3, "objective": -1234.5, "n_clusters": 7, ...}

| event | when |
| --- | --- |
| `begin` | before anything is read: command, method, data, run, settings |
| `stage` | a stage begins: "pass 3: rows" |
| `position` | now and then within a stage: done, total |
| `step` | a pass, a block of a chain or a step was committed, with its numbers |
| `notice` | what must not be missed, as on the screen |
| `done` | the run is finished |
| `stopped` | by Ctrl-C, SIGTERM or a time limit: exit code |
| `failed` | the sentence, and the traceback that the screen does not show |

Lines are added to what the file has, so that a fit and its resuming make one log.
"""

import os
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import typer

from dtree.methods.contract import Notice, Told

_SECONDS_BETWEEN_POSITIONS = 5.0


class LogFile:
    """A log that is open; without a file nothing is written."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self._file, self._stage, self._said = file, "", 0.0

    def write(self, event: str, **fields: Any) -> None:
        """Add a line."""
        if self._file is not None:
            line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **fields}
            self._file.write(msgspec.json.encode(line, enc_hook=_plain) + b"\n")

    def done(self, run: Any) -> None:
        """The end of a fit that came to its end."""
        header = run.header
        self.write("done", run=run.location, seconds=header.seconds, converged=header.converged)

    def take(self, event: Any) -> None:
        """An event of a fit, as a progress callback gets it."""
        if isinstance(event, Told):
            self.write("notice" if isinstance(event, Notice) else "step", words=event.words)
        elif event is not None:
            self.write("step", **event._asdict())

    def also(self, show: Callable[[Any], None]) -> Callable[[Any], None]:
        """A progress callback that writes events down before it shows them."""

        def both(event: Any) -> None:
            self.take(event)
            show(event)

        return both

    def listen(self, stage: str, done: int, total: int | None) -> None:
        """A report of where a stage is."""
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._said = stage, now
            self.write("stage", stage=stage, total=total)
        elif now - self._said >= _SECONDS_BETWEEN_POSITIONS:
            self._said = now
            self.write("position", stage=stage, done=done, total=total)


def _plain(value: Any) -> Any:
    """What JSON does not know: arrays and numbers of NumPy."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(path, "ab", buffering=0)  # a line is there at once, whatever happens next
    except OSError as problem:
        raise ValueError(f"the log file {path} cannot be written: {os.strerror(problem.errno or 0)}") from None


@contextmanager
def logged(path: Path | None, **begin: Any) -> Iterator[LogFile]:
    """A log for as long as the block lasts; how it ends is written too."""
    if path is None:
        yield LogFile()
        return
    with _opened(path) as file:
        log = LogFile(file)
        log.write("begin", **begin)
        try:
            yield log
        except typer.Exit as stop:
            log.write("stopped", code=stop.exit_code)
            raise
        except KeyboardInterrupt:
            log.write("stopped")
            raise
        except BaseException as problem:
            words = str(problem) or type(problem).__name__
            log.write("failed", kind=type(problem).__name__, words=words, traceback=traceback.format_exc())
            raise
