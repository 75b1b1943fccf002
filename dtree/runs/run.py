"""A run: a header and what its store holds. Everything that `save`, `out=` and the commands write is one of these."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from dtree.core.memory import require_memory
from dtree.runs.arrays import HEADER, read_metadata
from dtree.runs.checks import ROW_ARRAYS, check_folder, check_row_array
from dtree.runs.commit import place_of, replacement_of
from dtree.runs.header import Header
from dtree.runs.kept import store_at, store_in_place
from dtree.runs.lease import leased, refuse_held
from dtree.runs.memory import MemoryStore
from dtree.runs.store import Store, nothing
from dtree.storage.places import Place, is_remote, located

Kind = TypeVar("Kind")
_CHECKPOINT = re.compile("checkpoints/gen-[0-9]{8}")  # what else lies there is none of ours
_ROW_BYTES = 4  # of each of them
_MOST_ROWS_CHECKED = 100_000_000  # labels of so many rows are read in a second; of more, only by who needs them
_ROWS_AT_ONCE = 4_000_000
_WORK = ("prepared", "checkpoints", "parts", "passes", "staged")  # what only an unfinished run needs


class Run:
    """One run and its place."""

    def __init__(self, store: Store, header: Header) -> None:
        self.store, self.header = store, header

    @classmethod
    def create(cls, store: Store, header: Header) -> Self:
        """Begin a run: from now on its place holds it."""
        store.write_header(header)
        return cls(store, header)

    @classmethod
    def open(cls, path: Any) -> Self:
        """The run at a place, finished or not; one sentence (ValueError) when it cannot be one."""
        store = store_at(path)
        header = store.read_header()
        check_folder(store.path)
        if header.done:
            for name in {*header.row_arrays, *(name for name in ROW_ARRAYS if store.has_rows(name))}:
                check_row_array(store.path, name, header.n_rows)
        return cls(store, header)

    @classmethod
    def glance(cls, path: Any) -> Self:
        """The run as its header says, without a look at the rest: another process may be writing it at this moment."""
        store = cls.place(path)
        return cls(store, store.read_header())

    @staticmethod
    def place(path: Any) -> Store:
        """The store of the run at a path, whether there is one or not."""
        return store_at(path)

    @classmethod
    def in_this_process(cls, header: Header, settings: Any, fitted: Any, rows: dict[str, np.ndarray]) -> Self:
        """A finished run in memory, `rows` by name with one value for every row."""
        store = MemoryStore()
        store.put("settings", settings)
        store.results, store.rows = fitted, rows
        return cls.create(store, header)

    @property
    def location(self) -> str:
        """Where the run is, for sentences."""
        return self.store.location

    @property
    def path(self) -> Place | None:
        """The place of the run, or None for one in memory."""
        return getattr(self.store, "path", None)

    def require_done(self) -> None:
        """One sentence unless the results are there."""
        if not self.header.done:
            raise ValueError(f"{self.location} is not finished: 'dtree resume {self.location}' carries on")

    # Steps ----------------------------------------------------------------------------------------------------------

    def checkpoints(self) -> list[int]:
        """The steps that have a checkpoint, in order."""
        return [int(name[-8:]) for name in self.store.names("checkpoints") if _CHECKPOINT.fullmatch(name)]

    def commit(self, number: int, state: Any, keep: Iterable[int] = (), check: Callable[[], None] = nothing) -> None:
        """Make the state after a step permanent, if `check()` raises nothing; then forget all but the newest two and
        those in `keep`."""

        def forget_others() -> None:
            for old in set(self.checkpoints()) - {number, number - 1, *keep}:
                self.forget(old)

        self.store.put(f"checkpoints/gen-{number:08d}", state, check, forget_others)

    @contextmanager
    def settling(self) -> Iterator[None]:
        """A block in which steps are committed; nothing of it is still being done when it ends."""
        try:
            yield
        except BaseException:
            with suppress(OSError):  # what ended the block says more
                self.store.settle()
            raise
        self.store.settle()

    def forget(self, number: int) -> None:
        """Drop the checkpoint after a step, and the labels that belong to it."""
        self.store.drop(f"checkpoints/gen-{number:08d}")
        self.store.drop(f"passes/labels-{number:08d}")

    # Results --------------------------------------------------------------------------------------------------------

    def finish(self, fitted: Any, seconds: float, converged: bool | None = None) -> None:
        """Write the fitted record and call the run done; every step can be done again after a crash."""
        results, arrays = self.store.put_results(fitted)
        self.header = msgspec.structs.replace(
            self.header, status="done", results=results, arrays=arrays, row_arrays=self._row_arrays(),
            seconds=self.header.seconds + seconds, converged=converged,
        )  # fmt: skip
        self.store.write_header(self.header)
        for name in _WORK:
            self.store.drop(name)

    def fitted(self, kind: type[Kind]) -> Kind:
        """The fitted record."""
        self.require_done()
        return self.store.get_results(self.header, kind)

    def _row_arrays(self) -> list[Any]:
        return [name for name in ROW_ARRAYS if self.store.has_rows(name)]

    def row_array(self, name: str) -> Any:
        """A result for every row (n,), whole, or None when the method leaves none."""
        if not self.store.has_rows(name):
            return None
        require_memory(_ROW_BYTES * self.header.n_rows, f"{self.location}/{name}")
        return self.store.read_rows(name, 0, self.header.n_rows)

    def check_rows(self) -> None:
        """One sentence unless the results for every row are what was written, where reading them takes a second."""
        if self.header.n_rows <= _MOST_ROWS_CHECKED:
            for name, start in product(self.header.row_arrays, range(0, self.header.n_rows, _ROWS_AT_ONCE)):
                self.store.read_rows(name, start, min(start + _ROWS_AT_ONCE, self.header.n_rows))

    # Copies ---------------------------------------------------------------------------------------------------------

    def in_memory(self, method: Any) -> Run:
        """A finished run without its folder, which may then go."""
        rows = {name: self.row_array(name) for name in ROW_ARRAYS if self.store.has_rows(name)}
        settings = self.store.get("settings", method.Settings)
        return Run.in_this_process(self.header, settings, self.fitted(method.Fitted), rows)

    def copy_to(self, path: Any, method: Any, overwrite: bool = False) -> None:
        """Write a finished run to a place, where it appears when it is complete."""
        final = check_output(path, overwrite)
        existing: Any = "replace" if overwrite else "refuse"
        with store_in_place(final, existing, "save again") as store:
            store.put("settings", self.store.get("settings", method.Settings))
            for name, kind in ROW_ARRAYS.items():
                values = self.row_array(name)
                if values is not None:
                    fill = -2 if kind is np.int32 else np.nan  # -1 stands for no leaf
                    store.create_rows(name, values.shape[0], max(1, values.shape[0]), kind, fill)
                    store.write_rows(name, 0, values.astype(kind))
            fitted = self.fitted(method.Fitted)
            method.also_write(fitted, store.path)
            value, arrays = store.put_results(fitted)
            rows = self._row_arrays()
            store.write_header(msgspec.structs.replace(self.header, results=value, arrays=arrays, row_arrays=rows))


def is_run(path: Any) -> bool:
    """Whether a place says it is a run, of this version or an older one; it may still be damaged."""
    try:
        attributes = read_metadata(located(path), "").get("attributes", {})
        return isinstance(attributes, dict) and (HEADER in attributes or isinstance(attributes.get("run_id"), str))
    except ValueError:
        return False


def check_output(path: Any, overwrite: bool = False) -> Place:
    """Raise one clear sentence unless a run can be written there; cheap, so call it before a long computation."""
    run = located(path)
    if run.exists() or run.is_symlink():
        if not overwrite:
            raise ValueError(
                f"{run} exists already; choose another name or overwrite it (overwrite=True, or --overwrite on the "
                "command line)"
            )
        if run.is_symlink() or not is_run(run):
            raise ValueError(f"{run} exists and is not a dtree run, so it is not replaced; choose another name")
    store_at(run).check_place()
    return run


def begin_at(out: Any, overwrite: bool) -> Place:
    """Where to make a run: at `out`, or beside the one that stands there, which stays until the new one is complete."""
    out = located(out)
    if is_remote(out):
        store_at(out).check_place()
    refuse_held(store_at(out))
    if out.is_dir() and (not any(out.iterdir()) or _is_abandoned(out)):
        return out
    if is_run(out) and not overwrite:
        raise ValueError(already_there(out))
    check_output(out, overwrite)
    if not overwrite or not out.exists():
        return out
    beside = replacement_of(out)
    if beside.exists():
        with leased(store_at(beside)):  # of an earlier try that did not get to its end; one that goes on is left
            store_at(beside).remove()
    return beside


def already_there(out: Any) -> str:
    """Why a new run is not made where there is one."""
    return (
        f"{out} already holds a run: resume it, choose another name or overwrite it (overwrite=True, or --overwrite on "
        "the command line)"
    )


def has_begun(place: Place) -> bool:
    """Whether there is anything in the place of a run that a process would go on from, or results."""
    store = store_at(place)
    begun = any(name for under in ("checkpoints", "parts") for name in store.names(under))
    return begun or (is_run(place) and store.has("labels"))


def _is_abandoned(place: Place) -> bool:
    """Whether a process of ours died in a place before its first checkpoint; its lease tells that it was one."""
    return store_at(place).read_lease() is not None and not has_begun(place)


def unfinished(run: Any) -> Place:
    """The run to resume: the one that is being made to replace `run`, if there is one, else `run` itself.

    A replacement that was begun before `run` was written is forgotten: something else has taken the place since.
    """
    run = located(run)
    beside = replacement_of(run)
    if not is_run(beside):
        return run
    begun, written = ((path / "zarr.json") for path in (beside, run))
    newer = not written.exists() or begun.stat().st_mtime >= written.stat().st_mtime
    return beside if newer else run


__all__ = ["ROW_ARRAYS", "Run", "begin_at", "check_output", "is_run", "place_of", "unfinished"]
