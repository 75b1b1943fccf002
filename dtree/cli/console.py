"""How the command line speaks: one sentence for a mistake, a bar for a wait, exit codes 0, 1 and 2."""

import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import typer
from rich.console import Console

RUN_FAILED = 1
BAD_INPUT = 2
OUT_OF_TIME = 124  # as `timeout` has it
_PATIENCE = 1.0  # seconds without a bar
_SECONDS_BETWEEN_LINES = 30.0  # in a log, about one stage

Command = TypeVar("Command", bound=Callable[..., Any])


def out() -> Console:
    """Where results go. Made anew each time, because a test may have replaced the streams."""
    return Console(highlight=False, soft_wrap=True)


def err() -> Console:
    """Where bars and sentences about mistakes go."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def printable(text: object) -> str:
    """Text from a file, safe to show: control characters could redraw the terminal or hide what is there."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(str(text).split()))


def say(text: str) -> None:
    """Print one line of plain text, whatever it holds."""
    out().print(printable(text), markup=False)


def in_words(model_part: Any, names: Sequence[str] | None = None) -> str:
    """A family or prior with its hyperparameters, rounded: vectors and matrices that are long show their ends.

    names : of the features, for a family of families, each over some of the columns.
    """
    import numpy as np

    from dtree.data.sentences import listed

    def rounded(value: Any) -> str:
        if np.ndim(value) == 0:
            return f"{value:.4g}" if isinstance(value, float) else str(value)
        values = np.asarray(value)
        if values.ndim == 1 and values.size and np.all(values == values[0]):
            return f"{values[0]:.4g}"
        with np.printoptions(threshold=8, edgeitems=2, formatter={"float_kind": lambda one: f"{one:.4g}"}):
            return " ".join(str(values).split()).replace("[ ", "[")

    blocks = getattr(model_part, "blocks", None)
    if blocks is not None:
        of = names or [f"feature {column}" for column in range(model_part.n_features)]
        parts = (f"{listed([of[j] for j in block.columns], 6)} as {in_words(block.family)}" for block in blocks)
        return f"{type(model_part).__name__}: {'; '.join(parts)}"
    inside = ", ".join(f"{key} {rounded(value)}" for key, value in model_part.parameters().items() if value is not None)
    return f"{type(model_part).__name__}: {inside}"


def _complain(title: str, sentence: str) -> None:
    err().print(f"[bold red]{title}:[/bold red]", end=" ")
    err().print(printable(sentence), markup=False)


class Terminated(KeyboardInterrupt):
    """SIGTERM, which Kubernetes and Slurm send before they kill: it stops a command as Ctrl-C does."""


def code_of(stop: KeyboardInterrupt) -> int:
    """The exit code of a command that was stopped, as shells have it: 128 and the number of the signal."""
    return 128 + (signal.SIGTERM if isinstance(stop, Terminated) else signal.SIGINT)


@contextmanager
def hearing_sigterm() -> Iterator[None]:
    """Raise `Terminated` in the block when the process is asked to end; once, so that cleaning up is not disturbed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def with_exit_codes(command: Command) -> Command:
    """End a command with 2 and one sentence on bad input, 1 on any other failure; a traceback only with DTREE_DEBUG."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with hearing_sigterm():
                return command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt as stop:
            _complain("Stopped", "interrupted; nothing was written.")
            raise typer.Exit(code_of(stop)) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has gone, e.g. head
            raise typer.Exit(RUN_FAILED) from None
        except Exception as error:
            if os.environ.get("DTREE_DEBUG"):
                raise
            if isinstance(error, ValueError) and not _is_numerical_failure(error):
                _complain("Error", str(error))
                raise typer.Exit(BAD_INPUT) from None
            if isinstance(error, MemoryError):
                _complain("The run failed", "there is not enough memory; use fewer rows or a machine with more.")
            else:
                _complain("The run failed", f"{str(error) or type(error).__name__} (set DTREE_DEBUG=1 for the details)")
            raise typer.Exit(RUN_FAILED) from None

    return run  # type: ignore[return-value]


def _is_numerical_failure(error: Exception) -> bool:
    """NumPy's LinAlgError is a ValueError, but nothing that the user wrote."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(error, numpy.linalg.LinAlgError)


def in_rows(done: int, total: int | None, per_second: float | None) -> str:
    """How far a stage is, and how fast.

    >>> in_rows(1_200_000, 4_000_000, 350_000.0)
    '1,200,000 of 4,000,000, 350,000/s'
    """
    rate = f", {per_second:,.0f}/s" if per_second else ""
    return f"{done:,} of {total:,}{rate}" if total else f"{done:,}{rate}"


class Log:
    """Says now and then how far a stage is that takes long, in plain lines."""

    def __init__(self, console: Console) -> None:
        self.console, self.stage, self.began, self.said = console, "", 0.0, 0.0

    def listen(self, stage: str, done: int, total: int | None) -> None:
        """Take a report."""
        now = time.monotonic()
        if stage != self.stage:
            self.stage, self.began, self.said = stage, now, now
        if done and total and now - self.said >= _SECONDS_BETWEEN_LINES and done < total:
            self.said = now
            rate = done / (now - self.began)
            left = f"{(total - done) / rate:,.0f} s left"
            self.console.print(f"{stage} {in_rows(done, total, rate)}, {left}", markup=False)


@contextmanager
def progress_bar() -> Iterator[Callable[[Any], None]]:
    """Show how a computation goes; gives a callback for its events.

    For a person: bars of what numerical code reports inside the block, and the last event's line, once it has taken
    longer than a second. For a log: one plain line an event.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from dtree.core.progress import listening
    from dtree.methods.contract import Notice

    console = err()
    if not console.is_terminal:
        with listening(Log(console).listen):
            yield lambda event: None if event is None else console.print(event.line(), markup=False)
        return
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[amount]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    # Before the first report data are read and, on a machine that has never run dtree, kernels are compiled.
    waiting = progress.add_task("preparing (the first time also compiles, once)", total=None, amount="")
    tasks: dict[str, Any] = {}

    def listener(stage: str, done: int, total: int | None) -> None:
        progress.update(waiting, visible=False)
        if stage not in tasks:
            for old in tasks.values():  # stages follow one another: of fifty passes one bar is enough
                progress.update(old, visible=False)
            tasks[stage] = progress.add_task(stage, total=total, amount="")
        amount = in_rows(done, total, progress.tasks[tasks[stage]].speed)
        progress.update(tasks[stage], completed=done, total=total, amount=amount, visible=True)

    def show(event: Any) -> None:
        if isinstance(event, Notice):
            progress.console.print(event.line(), markup=False)
        elif event is not None:
            progress.update(waiting, description=event.line(), visible=True)

    patience = threading.Timer(_PATIENCE, progress.start)
    patience.daemon = True
    patience.start()
    try:
        with listening(listener):
            yield show
    finally:
        patience.cancel()
        patience.join()
        progress.stop()
