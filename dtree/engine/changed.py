"""Whether the data of a run are what they were when it began: asked when it is resumed, and by `dtree verify --data`.

A method in passes compares every chunk as it reads it again. All others have what they need of the rows in the run, and
would go on without a look; so resuming looks for them. Where rows were copied into the run because their format cannot
be read by ranges, it is the file that counts, not the copy.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dtree.data import Source
from dtree.data.kinds import SKIP
from dtree.data.opening import is_there
from dtree.data.tables import NAMES_ROWS
from dtree.engine.rows import opened_like
from dtree.methods.contract import Job
from dtree.methods.seen import CHANGED, changes, is_watched
from dtree.runs.header import Header
from dtree.runs.run import Run


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
