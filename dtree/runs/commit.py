"""Folders and files that appear complete or not at all.

Everything is written into a hidden folder beside its place, flushed to the disk, and renamed: a reader, a crash or a
full disk never meets half a run. What a killed process leaves behind is hidden, named after it, and swept by the next
writer.
"""

import ctypes
import errno
import glob
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from dtree.storage.places import Place

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_REPLACEMENT = ".replacement"


def check_place(final: Path) -> None:
    """Raise one clear sentence when nothing can be written at `final`, before hours are spent computing it."""
    if final.name in ("", ".", ".."):
        raise ValueError(f"'{final}' is not a name for an output; give a path such as run.zarr")
    parent, otherwise = final.parent, "choose another place for the output"
    if re.fullmatch("[a-z0-9]{2,}:", final.parts[0]):  # the beginning of an address, taken for a path
        raise ValueError(
            f"{final.parts[0]}//{'/'.join(final.parts[1:])} cannot be written: only runs, and labels as .zarr, go to a "
            "bucket; give a path on disk"
        )
    try:
        if not parent.exists():
            raise ValueError(f"the folder {parent} does not exist; make it first or {otherwise}")
        if not parent.is_dir():
            raise ValueError(f"{parent} is not a folder, so nothing can be written at {final}")
        probe = _partial_path(final)
        probe.mkdir()
        probe.rmdir()
    except OSError as error:
        raise ValueError(f"cannot write {final}: {error.strerror or error}; {otherwise}") from None


@contextmanager
def folder_in_place(final: Path, existing: Literal["refuse", "replace", "keep"] = "refuse") -> Iterator[Path]:
    """Yield a folder to fill; when the block ends without an error it becomes `final` in one step.

    `existing` says what happens to what stands there already: "refuse" it, "replace" it (the old one stays until the
    new one is complete), or "keep" it and drop the new one (a twin wrote the same checkpoint).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with folder_in_place(Path(folder) / "gen-00000042") as partial:
    ...         _ = (partial / "draws").write_text("1 2 3")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['gen-00000042']
    """
    sweep(final)
    partial = _partial_path(final)
    try:
        partial.mkdir()
        yield partial
        flush_to_disk(partial)
        put_in_place(partial, final, existing)
    finally:
        _delete(partial)


@contextmanager
def file_in_place(final: Path) -> Iterator[Path]:
    """Yield the path of a temporary file beside `final`; it replaces `final` when the block ends without an error."""
    sweep(final)
    partial = _partial_path(final)
    partial = partial.with_name(partial.name + final.suffix)  # NumPy and Matplotlib go by the ending
    try:
        yield partial
        _flush_one(partial)
        os.replace(partial, final)
        _flush_one(final.parent)
    finally:
        with suppress(OSError):
            partial.unlink()


def replacement_of(final: Place) -> Place:
    """Where a run is made, over many steps, that will take the place of the one at `final`; always the same, so that it
    is found again."""
    return final.with_name(f".{final.name}{_REPLACEMENT}")


def place_of(run: Place) -> Place:
    """Where a run belongs: the place that a replacement will take, or its own.

    >>> place_of(replacement_of(Path("runs/iris.zarr"))).as_posix()
    'runs/iris.zarr'
    """
    made_beside = run.name.startswith(".") and run.name.endswith(_REPLACEMENT)
    return run.with_name(run.name[1 : -len(_REPLACEMENT)]) if made_beside else run


def put_in_place(partial: Path, final: Path, existing: str) -> None:
    """Rename a complete folder to where it belongs; `existing` as for `folder_in_place`."""
    # os.rename onto an existing folder fails unless that folder is empty, so two writers cannot both win.
    if final.exists() or final.is_symlink():
        if existing == "keep":
            return
        if existing == "refuse":
            raise ValueError(f"{final} exists already; choose another name or allow it to be overwritten")
        if not _exchange(partial, final):  # after an exchange `partial` holds the old one, which the caller deletes
            _swap_in_two_steps(partial, final)
    else:
        os.rename(partial, final)
    _flush_one(final.parent)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two names in one step where the system can (Linux); False where it cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    return rename(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0


def _swap_in_two_steps(partial: Path, final: Path) -> None:
    old = _partial_path(final)
    os.rename(final, old)
    try:
        os.rename(partial, final)
    except OSError:
        os.rename(old, final)
        raise
    _delete(old)


def flush_to_disk(folder: Path) -> None:
    """fsync every file and folder below `folder`: a rename must not reach the disk before what it names."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            _flush_one(Path(place) / name)
        _flush_one(Path(place))


def _flush_one(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # a folder cannot be opened for that there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9]", "", socket.gethostname())[:24] or "host"


def _partial_path(final: Path) -> Path:
    return final.with_name(f".{final.name}.partial-{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


def sweep(final: Path) -> None:
    """Delete what writers of `final` that died on this machine left beside it."""
    with suppress(OSError):
        for leftover in final.parent.glob(f".{glob.escape(final.name)}.partial-{_host()}-*"):
            pid = leftover.name.split("-")[-2]
            if pid.isdigit() and not _is_alive(int(pid)):
                _delete(leftover)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _is_alive(pid: int) -> bool:
    if os.name == "nt":
        return True  # signal 0 would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class DiskFull(OSError):
    """A full disk, said in a sentence."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextmanager
def room_on_disk(path: str | Place, then: str = "resume the run, nothing is lost") -> Iterator[None]:
    """Turn a full disk into a sentence that says what to do."""
    try:
        yield
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):  # the outermost block knows best what to do next
            raise DiskFull(problem.errno, f"the disk of {path} is full: free some space and {then}") from None
        raise
