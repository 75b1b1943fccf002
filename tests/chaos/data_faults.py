"""Data that are lost, damaged or changed while a run needs them: between two sittings, or in the middle of a pass."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dtree.engine.drive import Place, changed_data, resume
from dtree.methods.contract import Notice
from dtree.runs.run import Run, is_run
from tests.chaos.episode import (
    LATE,
    SAID,
    CountedReads,
    Episode,
    Wrong,
    ended,
    files_of_data,
    fit,
    flip_some,
    half,
    reading,
    rows_for,
    same_bits,
    tried,
    write,
)
from tests.engine.test_features import bits

Fault = Callable[[], Callable[[], Any]]  # does something to the data; gives what puts it right


def lose_a_chunk(at: Episode) -> Callable[[], Any]:
    chunk = at.chance.choice([path for path in (at.data / "c").rglob("*") if path.is_file()])
    content = chunk.read_bytes()
    chunk.unlink()
    return lambda: chunk.write_bytes(content)


def change_a_value(at: Episode) -> Callable[[], Any]:
    """One value, a row more or less, or all rows in another order."""
    table, column = rows_for(at.name, at.form), at.chance.choice(["width", "height"])
    how = at.chance.choice(["value", "row less", "order"])
    if how == "value":
        table.iloc[at.chance.randrange(120), table.columns.get_loc(column)] = at.chance.gauss(0, 5)
    table = table.iloc[:-1] if how == "row less" else table.iloc[::-1] if how == "order" else table
    write(at.data, table)
    return lambda: write(at.data, rows_for(at.name, at.form))


def cut_a_file(at: Episode) -> Callable[[], Any]:
    path = at.chance.choice([file for file in files_of_data(at.data) if file.stat().st_size > 8])
    content = path.read_bytes()
    path.write_bytes(content[: at.chance.randrange(len(content))])
    return lambda: path.write_bytes(content)


def _of_the_data(at: Episode, sentence: str) -> None:
    """A sentence about the data names them."""
    if at.data.name not in sentence and "rows.npy" not in sentence:
        raise Wrong(f"CRASH of changed data it said: {sentence}")


def between_sittings(at: Episode, fault: Callable[[Episode], Callable[[], Any]]) -> str:
    """Stopped, disturbed, resumed: refused whatever the method, and then, put right, the same bits."""
    half(at)
    if Run.open(at.run).header.done:
        return LATE
    put_right = fault(at)
    sentence = tried(lambda: resume(at.run, progress=lambda event: None))
    if sentence is None:
        raise Wrong("SILENT resumed with data that are not what they were")
    _of_the_data(at, sentence)
    if at.chance.random() < 0.3 and "start over" in sentence:
        return _started_over(at)
    put_right()
    return "sentence" if ended(at) == "bits" else "refused"


def _started_over(at: Episode) -> str:
    sentence = tried(lambda: resume(at.run, progress=lambda event: None, accept_changed_data=True))
    if sentence is not None:
        return "refused"  # what the data are now cannot be fitted, and that is said
    anew = fit(at.name, at.data, Place(at.folder / "anew"))
    if bits(Run.open(at.run)) != bits(anew):
        raise Wrong("SILENT started over to another answer than that of the data as they are")
    return "sentence"


def in_the_middle(at: Episode, fault: Callable[[Episode], Callable[[], Any]]) -> str:
    """While a process fits: before a random reading of rows after the first of all, or after a step.

    Who reads the rows no more gives the answer of those that were read, and must say that they are others now.
    """
    put_right: list[Callable[[], Any]] = []
    told: list[str] = []

    def act(event: Any = None) -> None:
        if isinstance(event, Notice):
            told.append(event.line())
        elif not put_right:
            put_right.append(fault(at))

    first, all_reads = at.reads
    if all_reads > first and at.form not in ("csv", "table.csv"):  # a csv is read once, and copied
        counted = CountedReads(at.chance.randint(first + 1, all_reads), act)
        with reading(counted):
            sentence = tried(lambda: at.fit(progress=lambda event: told.append(event.line())))
    else:
        sentence = tried(lambda: at.fit(progress=act))
    if sentence is None:
        if not same_bits(at):
            raise Wrong("SILENT another answer")
        if not put_right:
            return LATE
        if changed_data(at.run) and not any("was changed after it was read" in line for line in told):
            raise Wrong("SILENT nobody said that the data are others now")
        SAID.extend(line for line in told if "was changed" in line)
        return "bits"
    _of_the_data(at, sentence)
    for action in put_right:
        action()
    if not is_run(at.run):
        shutil.rmtree(at.run, ignore_errors=True)
    return "sentence" if ended(at) == "bits" else "refused"


# By name, so that they are counted apart -----------------------------------------------------------------------------


def chunk_lost_between(at: Episode) -> str:
    return between_sittings(at, lose_a_chunk)


def chunk_lost_in_a_pass(at: Episode) -> str:
    return in_the_middle(at, lose_a_chunk)


def data_changed_between(at: Episode) -> str:
    return between_sittings(at, change_a_value)


def data_changed_in_a_pass(at: Episode) -> str:
    return in_the_middle(at, change_a_value)


def data_cut_between(at: Episode) -> str:
    return between_sittings(at, cut_a_file)


def data_cut_in_a_pass(at: Episode) -> str:
    return in_the_middle(at, cut_a_file)


def byte_of_the_data(at: Episode) -> str:
    """Any bit of any file: one of metadata or padding may change no value at all."""
    half(at)
    return ended(at, flip_some(at.chance, [path for path in files_of_data(at.data) if _has_values(path)]))


def _has_values(path: Path) -> bool:
    return path.name != "zarr.json"


LOSES_CHUNKS = (chunk_lost_between, chunk_lost_in_a_pass)
DATA_FAULTS = {
    chunk_lost_between: 3, chunk_lost_in_a_pass: 3, data_changed_between: 4, data_changed_in_a_pass: 4,
    data_cut_between: 2, data_cut_in_a_pass: 2, byte_of_the_data: 3,
}  # fmt: skip
