"""One fit that is to be disturbed: its data, how it is fitted, and how it may end."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import zarr

from dtree.data.source import Source
from dtree.engine.drive import Given, Place, drive, resume
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.run import Run
from tests.engine.test_features import CHUNK_BYTES, METHODS, SEED, bits
from tests.faults.methods import Stop, frame

EXPECTED = (ValueError, RuntimeError, OSError)  # with which dtree says a sentence
FORMS = ("npy", "zarr", "csv", "parquet", "table.csv", "table.parquet")  # the last two are mixed, with holes
TABLES = ("table.csv", "table.parquet")
LATE = "late"  # the run was over before anything was disturbed
SAID: list[str] = []  # every sentence of this episode, for the log


class Episode(NamedTuple):
    """One fit to be disturbed."""

    name: str  # of the method
    form: str  # of the data
    folder: Path
    chance: random.Random
    bits: dict[str, bytes]  # of the run that nothing disturbs
    reads: tuple[int, int]  # of rows by the undisturbed run: in its first look at them, and in all
    steps: int  # of the undisturbed run
    out: Path | None = None  # where the run is made, if not in the folder

    @property
    def data(self) -> Path:
        return self.folder / f"x.{self.form}"

    @property
    def run(self) -> Path:
        return self.out or self.folder / "run"

    def fit(self, place: Place | None = None, progress: Any = None) -> Run:
        return fit(self.name, self.data, Place(self.run) if place is None else place, progress)


class Wrong(Exception):
    """An end that must not be."""


# Data -----------------------------------------------------------------------------------------------------------------


def rows_for(name: str, form: str) -> pd.DataFrame:
    """Numbers, or a table of several kinds with holes; diffusion trees know numbers only, with holes."""
    table = frame()
    if form in TABLES:
        rng = np.random.default_rng(1)
        group = (table["width"] > 5).to_numpy() * 1 + (table["height"] > 15) * 2
        table["visits"] = rng.poisson(3 + 9 * group).astype(float)
        if name != "ddt":
            table["colour"] = np.array(["red", "green", "blue"], dtype=object)[(group + rng.integers(0, 5, 120) // 4) % 3]  # fmt: skip  # noqa: E501
        for column in table.columns:
            table.loc[table.index[rng.random(120) < 0.06], column] = None
    return table


def write(data: Path, table: pd.DataFrame) -> None:
    """Rows in the form that the ending says."""
    if data.suffix == ".npy":
        np.save(data, table.to_numpy(dtype=float))
    elif data.suffix == ".zarr":
        shutil.rmtree(data, ignore_errors=True)
        values = table.to_numpy(dtype=float)
        zarr.create_array(str(data), shape=values.shape, chunks=(15, values.shape[1]), dtype=float)[:] = values
    elif data.suffix == ".csv":
        table.to_csv(data, index_label="name")
    else:
        table.to_parquet(data, row_group_size=20, index=False)


def files_of_data(data: Path) -> list[Path]:
    """The files with values; metadata that zarr would not miss is none."""
    if data.is_file():
        return [data]
    return [path for path in data.rglob("*") if path.is_file()]


# Fitting --------------------------------------------------------------------------------------------------------------


def fit(name: str, data: Any, place: Place, progress: Any = None) -> Run:
    """A method with its settings; of a mixed table the family is chosen by its columns."""
    given = {key: value for key, value in METHODS[name].items() if key != "family" or "table" not in Path(data).name}
    method = method_named(name)
    return drive(
        method, checked(method.Settings, given), Given(data, chunk_bytes=CHUNK_BYTES, random_state=3), place, SEED,
        progress,
    )  # fmt: skip


def half(at: Episode, most: int = 4) -> None:
    """Stop a run after a few steps, all of them at most: there is an end to be done still."""
    wanted, seen = at.chance.randint(1, max(1, min(most, at.steps))), []

    def stop(event: Any) -> None:
        seen.append(event)
        if len(seen) >= wanted:
            raise Stop

    try:
        at.fit(progress=stop)
    except Stop:
        return


class CountedReads:
    """How often rows are read, and what happens then."""

    def __init__(self, at: int = 0, action: Callable[[], None] = lambda: None) -> None:
        self.done, self.at, self.action = 0, at, action

    def count(self) -> None:
        self.done += 1
        if self.done == self.at:
            self.action()


@contextmanager
def reading(counted: CountedReads) -> Any:
    """Count every reading of rows in this process."""
    read = Source.read

    def counting(self: Source, start: int, stop: int) -> Any:
        counted.count()
        return read(self, start, stop)

    Source.read = counting  # type: ignore[method-assign]
    try:
        yield
    finally:
        Source.read = read  # type: ignore[method-assign]


def undisturbed(name: str, form: str, folder: Path) -> tuple[dict[str, bytes], tuple[int, int], int]:
    """The bits of a run that nothing disturbs, how often it reads rows (at first, and in all), and its steps."""
    data = folder / f"x.{form}"
    write(data, rows_for(name, form))
    counted, events = CountedReads(), []
    with reading(counted):
        run = fit(name, data, Place(folder / "undisturbed"), events.append)
    chunks = -(-run.header.n_rows // run.header.chunk_rows)
    return bits(run), (min(chunks, counted.done), counted.done), len(events)


# How an episode ends --------------------------------------------------------------------------------------------------


def same_bits(at: Episode) -> bool:
    return bits(Run.open(at.run)) == at.bits


def tried(action: Callable[[], Any]) -> str | None:
    """The sentence that an action ends with, or None when it goes through."""
    try:
        action()
    except EXPECTED as problem:
        sentence = str(problem)
        if not sentence or "\n" in sentence:
            raise Wrong(f"CRASH no sentence: {type(problem).__name__}: {sentence[:200]!r}") from problem
        SAID.append(sentence)
        return sentence
    return None


def carried_on(at: Episode) -> str:
    """Resume, or fit again where nothing had been kept: "bits", or the sentence that refuses it."""
    begun = (at.run / "zarr.json").exists()  # a header, be it damaged: before it is written there is no run
    sentence = tried(lambda: resume(at.run, progress=lambda event: None)) if begun else "nothing was kept"
    if sentence is None:
        if not same_bits(at):
            raise Wrong("SILENT another answer")
        return "bits"
    if "has no checkpoint yet" in sentence:
        shutil.rmtree(at.run)
    if not at.run.exists() or sentence == "nothing was kept":
        again = tried(at.fit)
        if again is None and same_bits(at):
            return "bits"
        raise Wrong(f"CRASH fitting again: {again}" if again else "SILENT another answer of fitting again")
    return sentence


def ended(at: Episode, put_right: Callable[[], Any] = lambda: None) -> str:
    """Carry on; if that is refused, put right what was disturbed and carry on again."""
    end = carried_on(at)
    if end == "bits":
        return "bits"
    put_right()
    again = carried_on(at)
    if again == "bits":
        return "sentence"
    return "refused"


def flip_some(chance: random.Random, files: list[Path]) -> Callable[[], None]:
    """Flip a bit of one of some files; gives what puts it right."""
    path = chance.choice([file for file in files if file.stat().st_size])
    content = path.read_bytes()
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    path.write_bytes(changed)

    def put_right() -> None:
        if path.parent.exists():
            path.write_bytes(content)

    return put_right
