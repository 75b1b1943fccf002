"""A run in a folder on disk; what lies where is told in `zarr_store`.

A record is written beside, flushed to disk and renamed.
"""

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dtree.runs.arrays import group_document, sealed, write_arrays, write_group
from dtree.runs.codec import encode
from dtree.runs.commit import (
    check_place,
    file_in_place,
    flush_to_disk,
    folder_in_place,
    put_in_place,
    room_on_disk,
)
from dtree.runs.header import Header
from dtree.runs.store import nothing
from dtree.runs.zarr_store import GROUP, LEASE, ZarrStore
from dtree.storage.places import remove_tree

_LONGEST_MOMENT = 5.0  # seconds; writing a lease takes a thousandth of one


class FolderStore(ZarrStore):
    """Records and row arrays below a folder; see `store` for the verbs."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(Path(path).resolve())
        self.location = str(path)

    def _room(self) -> AbstractContextManager[None]:
        return room_on_disk(self.location)

    # Records --------------------------------------------------------------------------------------------------------

    def put(
        self, name: str, record: Any, check: Callable[[], None] = nothing, then: Callable[[], None] = nothing
    ) -> None:
        check()
        arrays: dict[str, np.ndarray] = {}
        value = encode(record, "", arrays)
        final = self.path / name
        with room_on_disk(self.location):
            self._make_groups(final.parent)
            with folder_in_place(final, "keep") as partial:
                write_group(partial, arrays, {"value": value})
        then()

    def names(self, under: str) -> list[str]:
        folder = self.path / under
        found = [] if not folder.is_dir() else [path.name for path in folder.iterdir() if path.is_dir()]
        return sorted(f"{under}/{name}" for name in found if not name.startswith("."))

    def drop(self, name: str) -> None:
        """Away at once, then deleted: a process that dies in between leaves no half of a record under its name."""
        folder = self.path / name
        hidden = folder.with_name(f".dropped-{uuid.uuid4().hex}")
        with contextlib.suppress(FileNotFoundError):  # a twin of this task was first
            folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def make_group(self) -> None:
        """Make the folder itself a plain zarr group."""
        _mark_group(self.path)

    def _make_groups(self, folder: Path) -> None:
        """Every folder on the way to a record is a zarr group, so that any zarr reader finds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        while folder != self.path and not (folder / "zarr.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _mark_group(folder)
            folder = folder.parent

    # Who works on it ------------------------------------------------------------------------------------------------

    def read_lease(self) -> bytes | None:
        try:
            return (self.path / LEASE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def swap_lease(self, old: bytes | None, new: bytes | None) -> bool:
        """A folder that exists for the moment of the swap keeps others out: making one succeeds for one who tries."""
        place, fresh = self.path / LEASE, self.path / f"{LEASE}-new"
        with _alone(self.path / f"{LEASE}-lock"):
            if self.read_lease() != old:
                return False
            try:
                if new is not None:
                    fresh.write_bytes(new)
                    os.replace(fresh, place)
                elif old is not None:
                    place.unlink()
            finally:
                fresh.unlink(missing_ok=True)
            return True

    # Arrays, header, results ----------------------------------------------------------------------------------------

    def flush_rows(self, name: str) -> None:
        flush_to_disk(self.path / name)

    def write_header(self, header: Header) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        with room_on_disk(self.location), file_in_place(self.path / "zarr.json") as partial:
            partial.write_bytes(group_document(sealed(msgspec.to_builtins(header))))

    def put_results(self, record: Any) -> tuple[Any, dict[str, Any]]:
        arrays: dict[str, np.ndarray] = {}
        value = encode(record, "", arrays)
        with room_on_disk(self.location):
            listing = write_arrays(self.path, arrays)
            for name in {name.split("/")[0] for name in arrays}:
                flush_to_disk(self.path / name)
        return value, listing

    # The place ------------------------------------------------------------------------------------------------------

    def check_place(self) -> None:
        """One sentence when nothing can be written here."""
        check_place(Path(self.location))

    def clear(self) -> None:
        """Remove everything but the lease, which stays until it is released."""
        for path in self.path.iterdir():
            if not path.name.startswith(LEASE):
                is_folder = path.is_dir() and not path.is_symlink()
                remove_tree(path) if is_folder else path.unlink(missing_ok=True)

    def remove(self) -> None:
        """Remove the folder."""
        remove_tree(self.path)

    def remove_if_empty(self) -> None:
        """Remove a folder where nothing was made."""
        with suppress(OSError):
            self.path.rmdir()

    def move_to(self, final: "FolderStore") -> "FolderStore":
        """Take the place of another run in one step; only then is that one deleted."""
        flush_to_disk(self.path)
        put_in_place(self.path, final.path, "replace")
        self.remove()
        return final


def _mark_group(folder: Path) -> None:
    """Whole or not at all: an empty mark, which a full disk would leave, makes a run that cannot be opened again."""
    with file_in_place(folder / "zarr.json") as partial:
        partial.write_text(GROUP)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold a lock for a moment; one that stands for longer was left by somebody who died in that moment."""
    limit = time.monotonic() + _LONGEST_MOMENT
    while True:
        try:
            lock.mkdir(parents=True)
            break
        except FileExistsError:
            if time.monotonic() > limit:
                with suppress(OSError):
                    lock.rmdir()
            time.sleep(0.001)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.rmdir()
