"""The place of a new run, claimed before anything is written there: of two who want it, one wins and the other is told.

What is cleared away is what a process of ours left that died before its first checkpoint; its lease is the proof.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dtree.runs.commit import place_of, room_on_disk
from dtree.runs.folder import LEASE, FolderStore
from dtree.runs.lease import Lease, leased, refuse_held
from dtree.runs.run import already_there, begin_at, has_begun, is_run


@contextmanager
def claimed(out: str | os.PathLike[str], overwrite: bool) -> Iterator[tuple[Path, Lease]]:
    """The folder in which a new run is made for `out`, and the lease on it."""
    folder = begin_at(out, overwrite)
    existed = folder.exists()
    try:
        with leased(FolderStore(folder), "fit again, nothing was kept") as lease:
            if folder == Path(out) and has_begun(folder):  # somebody was quicker, and is done
                raise ValueError(already_there(out))
            clear(folder)
            yield folder, lease
    finally:
        if not existed:
            with suppress(OSError):
                folder.rmdir()  # where nothing was made


@contextmanager
def nothing_half_made(folder: Path) -> Iterator[None]:
    """Take away what was made in a claimed folder when the run does not get as far as its first checkpoint."""
    try:
        with room_on_disk(folder, "fit again, nothing was kept"):
            yield
    except BaseException:
        clear(folder)
        raise


def clear(folder: Path) -> None:
    """Empty a folder that is ours; the lease on it stays until it is released."""
    for path in folder.iterdir():
        if not path.name.startswith(LEASE):
            _remove(path)


def check_replaceable(folder: Path) -> None:
    """Before a finished run takes its place: nobody must be working on the one that stands there."""
    final = place_of(folder)
    if final != folder and is_run(final):
        refuse_held(FolderStore(final))


def _remove(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
