"""Whether the data of a run are what they were when it began: asked when it is resumed, and by `dtree verify --data`.

A method in passes compares every chunk as it reads it again. All others have what they need of the rows in the run, and
would go on without a look; so resuming looks for them. Where rows were copied into the run because their format cannot
be read by ranges, it is the file that counts, not the copy.

Within one sitting the files' sizes and times are looked at after the first reading and at the end, for every method;
only where they are others are the rows read to compare them.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from dtree.data import Source
from dtree.data.kinds import SKIP
from dtree.data.opening import is_there, split_array_name
from dtree.data.tables import NAMES_ROWS
from dtree.engine.rows import opened_like
from dtree.engine.sitting import Sitting, notice
from dtree.methods.contract import Job
from dtree.methods.seen import CHANGED, changes, is_watched
from dtree.runs.header import Header
from dtree.runs.run import Run
from dtree.storage.places import stamp_of

MEANWHILE = "changed meanwhile"  # the name of the note in the header


def changes_since(run: Run, job: Job, every_row: bool = True) -> Iterator[str]:
    """What is not as it was, one sentence a chunk of rows; without `every_row` only what the file says of its shape."""
    if not is_watched(job) or not job.is_seen:
        return
    try:
        now = _rows_now(run.header, job.source)
    except ValueError as problem:
        yield f"{origin_of(run.header)} cannot be read as it was ({problem}): {CHANGED}"
        return
    if now.shape != job.source.shape:
        shapes = [f"{n:,} rows of {d:,} features" for n, d in (now.shape, job.source.shape)]
        yield f"{now.name} has {shapes[0]} and had {shapes[1]}: {CHANGED}"
    elif every_row:
        yield from changes(replace(job, source=now))


def refuse_changed(run: Run, job: Job) -> None:
    """One sentence (ValueError) when the data of a run that is resumed are not what they were.

    Rows that the next step reads anyway are compared there, and not twice.
    """
    reads_on = job.method.in_passes and not job.method.over(job, job.state(run.checkpoints()[-1]))
    found = next(changes_since(run, job, run.header.copied_from is not None or not reads_on), None)
    if found is not None:
        raise ValueError(found)


def stamp_of_data(data: Any) -> str:
    """What the store says of the files of `data`, to notice that they change; "" where there is nothing to watch."""
    is_source = isinstance(data, Source)
    if data.kind == "memory" if is_source else not isinstance(data, str | os.PathLike):
        return ""
    try:
        return stamp_of(data.place if is_source else split_array_name(os.fspath(data))[0])
    except PermissionError:  # a store that may be read but not listed
        return ""


def refuse_torn(run: Run, job: Job, stamp: str) -> None:
    """One sentence (ValueError) when the data changed while they were read for the first time.

    What was read then are rows of before and of after, which were never together anywhere.
    """
    if _are_others(run, job, stamp):
        raise ValueError(f"{run.header.data} was changed while it was read for the first time: fit again")


def look_once_more(run: Run, job: Job, sitting: Sitting) -> None:
    """At the end: say, and keep in the header, that the data are not any more what the answer is of."""
    if not _are_others(run, job, sitting.stamp):
        return
    where = f"; 'dtree verify {run.location} --data' says where" if run.path is not None else ""
    words = f"{run.header.data} was changed after it was read: the answer is that of the rows as they were then{where}"
    run.header = msgspec.structs.replace(run.header, notes={**run.header.notes, MEANWHILE: words})
    notice(words, sitting.progress)


def _are_others(run: Run, job: Job, stamp: str) -> bool:
    """Whether the rows are others than those that were read: looked at only where the files have another stamp."""
    if not stamp or not is_watched(job):
        return False
    try:
        now = stamp_of_data(origin_of(run.header))
        return now not in ("", stamp) and next(changes_since(run, job), None) is not None
    except OSError:  # a store that does not answer now: nobody knows
        return False


def origin_of(header: Header) -> str:
    """What to open to read the data of a run anew: the file, not a copy of it that the run had made."""
    return header.copied_from or (header.source or {}).get("path", header.data)


def columns_said(header: Header) -> dict[str, str] | None:
    """The columns of a table as they were taken, so that other rows do not make them something else."""
    if not header.kinds:
        return None
    left_out = [name for name, reason in header.left_out if reason != NAMES_ROWS]
    return {column.name: column.kind for column in header.kinds} | dict.fromkeys(left_out, SKIP)


def name_of_origin(source: Any) -> str | None:
    """Where rows were copied from that a run keeps itself; None when they are read where they lie, or were nowhere."""
    original = getattr(source, "original", None)
    if original is None or original.kind == "memory":
        return None
    return original.name if "://" in original.name else os.path.abspath(original.name)


def _rows_now(header: Header, recorded: Source) -> Source:
    """The rows as they are opened today; a copy stands for a file that is gone."""
    origin = origin_of(header)
    if not is_there(origin) and is_there(recorded.path):
        return recorded
    return opened_like(origin, header)
