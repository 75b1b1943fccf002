"""A small finished run of every method, to be spoiled."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from dtree.engine.drive import Place
from tests.engine.test_features import IN_PASSES, METHODS, bits, fit, frame

__all__ = ["IN_PASSES", "METHODS", "Place", "bits", "fit", "flip", "frame", "half_done", "largest_chunk", "save_rows"]


class Stop(Exception):
    """Raised by a progress callback to end a run in the middle."""


def save_rows(folder: Path) -> Path:
    np.save(folder / "x.npy", frame().to_numpy())
    return folder / "x.npy"


def half_done(name: str, data: Path, out: Path, steps: int = 1) -> None:
    """A run that was stopped after some steps, or blocks."""
    seen = []

    def stop(event: Any) -> None:
        seen.append(event)
        if len(seen) >= steps:
            raise Stop

    try:
        fit(name, data, Place(out), stop)
    except Stop:
        return
    raise AssertionError("the run was over before it was stopped")


def copied(run: Path, to: Path) -> Path:
    shutil.copytree(run, to)
    return to


def largest_chunk(array: Path) -> Path:
    """The largest file with values of an array."""
    return max((path for path in (array / "c").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def flip(path: Path, at: float = 0.5, bit: int = 6) -> None:
    """Flip one bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(at * (len(content) - 1))] ^= 1 << bit
    path.write_bytes(content)
