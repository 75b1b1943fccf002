"""What the data were like when a run began: a checksum of every chunk of rows, and which chunks of the file were there.

It is taken when the rows are read for the first time, and compared whenever they are read again: data that change
between two passes, or between a fit and its resuming, never mix. A chunk that zarr does not find reads as its fill
value; one that was never written is told from one that was lost by whether it was there at first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.fingerprint import checksum
from dtree.methods.facts import counted

if TYPE_CHECKING:
    from dtree.methods.contract import Job

SEEN = "data"  # the name of the record
ABSENT = "chunks that are not there"  # the name of the note in the header
CHANGED = (
    "the data were changed since the run began: restore them and resume the run, or start over with 'dtree resume "
    "--accept-changed-data'"
)


class Seen(msgspec.Struct, frozen=True):
    """The record."""

    checksums: np.ndarray  # (c,) uint32, of the values of every chunk of rows
    absent: list[str]  # chunks of the file that were not there


class Look(NamedTuple):
    """One chunk of rows."""

    chunk: int
    checksum: int
    absent: list[str]


def look(job: Job, chunk: int, rows: Any) -> Look:
    """What there is to remember of the rows of a chunk."""
    if not is_watched(job):
        return Look(chunk, 0, [])
    return Look(chunk, checksum(rows), job.source.absent(*job.bounds(chunk)))


def see(job: Job, looks: Sequence[Look]) -> None:
    """Remember what was seen of all chunks."""
    if is_watched(job):
        checksums = np.array([found.checksum for found in sorted(looks)], dtype=np.uint32)
        job.store.put(SEEN, Seen(checksums, sorted({name for found in looks for name in found.absent})))


def is_watched(job: Job) -> bool:
    """Whether the rows lie where others could change them."""
    return getattr(job.source, "kind", "memory") != "memory"


def check_rows_seen(job: Job, chunk: int, rows: Any) -> None:
    """One sentence unless the rows of a chunk are those that were there when the run began."""
    if not is_watched(job) or not job.is_seen:
        return
    seen = job.record(SEEN, Seen)
    if chunk >= seen.checksums.shape[0]:
        raise ValueError(f"{job.store.location} is damaged: it does not know chunk {chunk} of its data")
    if checksum(rows) == seen.checksums[chunk]:
        return
    (start, stop), path = job.bounds(chunk), job.source.path
    lost = sorted(set(job.source.absent(start, stop)) - set(seen.absent))
    if lost:
        raise ValueError(
            f"the chunk {lost[0]} of {path} is lost, with values of some of the rows {start} to {stop - 1}: it was "
            "there when the run began; restore it and resume the run"
        )
    raise ValueError(f"rows {start} to {stop - 1} of {path} are not what they were, {CHANGED}")


def changes(job: Job) -> Iterator[str]:
    """What is not as it was, one sentence a chunk; reads the rows as far as it is asked."""
    for chunk in job.chunks if is_watched(job) and job.is_seen else ():
        try:
            job.read(chunk)
        except ValueError as problem:
            yield str(problem)


def notes_of_absent(job: Job) -> dict[str, str]:
    """A note for the header when chunks of the file were not there."""
    if not is_watched(job) or not job.is_seen:
        return {}
    names = job.record(SEEN, Seen).absent
    if not names:
        return {}
    which = ", ".join(names[:3]) + (" ..." if len(names) > 3 else "")
    return {
        ABSENT: f"{job.source.path} has {counted(len(names), 'chunk')} fewer than its shape says ({which}), whose "
        "values read as its fill value: that is right if they were never written; if they were lost, restore them "
        "and fit again"
    }
