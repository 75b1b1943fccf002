"""Damage of the run itself: bytes of stopped, running and finished runs, and a disk that is full."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dtree
import dtree.runs.folder as folder
from dtree.runs.verify import damages
from tests.chaos.episode import LATE, Episode, Wrong, ended, flip_some, half, same_bits, tried
from tests.faults.conftest import fill_disk


def files_of(run: Path, with_values: bool = False) -> list[Path]:
    """Files of a run but for copies of data, which are data; with values only, or all."""
    found = [path for path in run.rglob("*") if path.is_file() and "staged" not in path.parts]
    values = [path for path in found if "c" in path.parts]
    return values if with_values and values else found


def byte_of_a_stopped_run(at: Episode) -> str:
    half(at)
    return ended(at, flip_some(at.chance, files_of(at.run, at.chance.random() < 0.7)))


def byte_of_a_running_run(at: Episode) -> str:
    """Labels, checkpoints or draws that were just written, after a step of a process that goes on."""
    put_right: list[Callable[[], None]] = []

    def act(event: Any) -> None:
        if not put_right and at.chance.random() < 0.6:
            fresh = [path for path in files_of(at.run, True) if {"passes", "checkpoints", "parts"} & {*path.parts}]
            newest = max((path.stat().st_mtime for path in fresh), default=0.0)
            put_right.append(flip_some(at.chance, [path for path in fresh if path.stat().st_mtime > newest - 0.1]))

    sentence = tried(lambda: at.fit(progress=act))
    if sentence is None and same_bits_or_refused(at):
        return "bits" if put_right else LATE
    return ended(at, lambda: [action() for action in put_right])


def same_bits_or_refused(at: Episode) -> bool:
    """Whether a finished run has the bits; one that is damaged must be refused."""
    same: list[bool] = []
    refused = tried(lambda: same.append(same_bits(at)))
    if refused is None and not same[0]:
        raise Wrong("SILENT another answer")
    return refused is None


def byte_of_a_finished_run(at: Episode) -> str:
    at.fit()
    flip_some(at.chance, files_of(at.run, at.chance.random() < 0.7))
    sentence = tried(lambda: (dtree.open(at.run), same_bits(at) or _silent()))
    verified: list[str] = []
    found = tried(lambda: verified.extend(damages(at.run)))
    if sentence is not None and found is None and not verified:
        raise Wrong(f"SILENT refused ({sentence}), but verify finds nothing")
    return "bits" if sentence is None else "refused"


def _silent() -> None:
    raise Wrong("SILENT another answer")


def write_fails(at: Episode) -> str:
    """The disk is full at one moment or another, for records and results."""
    real, after = {name: getattr(folder, name) for name in ("write_group", "write_arrays")}, at.chance.randint(0, 8)
    calls = [0]

    def full(name: str) -> Callable[..., Any]:
        def write(*arguments: Any) -> Any:
            calls[0] += 1
            if calls[0] > after:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real[name](*arguments)

        return write

    try:
        for name in real:
            setattr(folder, name, full(name))
        sentence = tried(at.fit)
    finally:
        for name, function in real.items():
            setattr(folder, name, function)
    _of_a_full_disk(sentence)
    return LATE if sentence is None and same_bits(at) else ended(at)


def full_disk(at: Episode) -> str:
    """A small disk of its own that another fills, at the start or after some steps; without one, failing writes."""
    disk = at.folder / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)], capture_output=True, check=False
    ).returncode:
        return write_fails(at)
    try:
        here, steps, seen = at._replace(out=disk / "run"), at.chance.randint(0, min(4, at.steps)), []

        def fill(event: Any = None) -> None:
            seen.append(event)
            if len(seen) > steps:
                fill_disk(disk / "filler")

        fill()
        sentence = tried(lambda: here.fit(progress=fill))
        _of_a_full_disk(sentence)
        (disk / "filler").unlink(missing_ok=True)
        return LATE if sentence is None and same_bits(here) else ended(here)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _of_a_full_disk(sentence: str | None) -> None:
    if sentence is not None and "is full: free some space" not in sentence:
        raise Wrong(f"CRASH of a full disk it said: {sentence}")


RUN_FAULTS = {
    byte_of_a_stopped_run: 6, byte_of_a_running_run: 4, byte_of_a_finished_run: 5, write_fails: 2, full_disk: 3,
}  # fmt: skip
