"""One way to name a place, on disk or in an object store, and what both kinds can be asked."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from dtree.storage.options import StorageOptions
from dtree.storage.remote import RemotePath

Place: TypeAlias = Path | RemotePath
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def is_address(text: Any) -> bool:
    """Whether this is an address such as `s3://bucket/rows.zarr`, and not a path.

    >>> is_address("s3://bucket/rows.zarr"), is_address("rows.zarr"), is_address("C:/rows.zarr")
    (True, False, False)
    """
    return isinstance(text, str) and _SCHEME.match(text) is not None


def located(name: Any, options: StorageOptions | None = None) -> Place:
    """The place with this name: a path on disk, an address, or a place, which comes back as it is.

    >>> located("memory://tests/rows.npy").suffix, located("rows.npy").suffix
    ('.npy', '.npy')
    """
    if isinstance(name, RemotePath | Path):
        return name
    text = os.fspath(name)
    if is_address(text):
        return Path(text[len("file://") :]) if text.startswith("file://") else RemotePath.named(text, options)
    return Path(text)


def is_remote(name: Any) -> bool:
    """Whether a place is in an object store."""
    return isinstance(name, RemotePath) or (is_address(name) and not name.startswith("file://"))


def file_on_disk(place: Place) -> Path:
    """A file that this process can open by name: the file itself, or a copy of a remote one."""
    return place.local_copy() if isinstance(place, RemotePath) else place


def file_to_read(place: Place) -> Any:
    """What libraries take that read a file by ranges: a path, or an open file."""
    return place.open() if isinstance(place, RemotePath) else place


def sizes_of_files(place: Place) -> Iterator[tuple[str, int]]:
    """All files below a folder: their names from there, with slashes, and their bytes."""
    if isinstance(place, RemotePath):
        yield from place.sizes()
        return
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            yield os.path.relpath(path, place).replace(os.sep, "/"), os.lstat(path).st_size


def stamp_of(place: Place) -> str:
    """What the store says of a file, or of all files of a folder: names, sizes, times of the last change, versions.

    Another stamp does not prove another content, but the same one is good evidence of the same, and costs no reading.
    """
    if isinstance(place, RemotePath):
        found: list[tuple[str, Any]] = list(place.versions())
    else:
        below = (Path(at, name) for at, _, names in os.walk(place) for name in names)
        files = below if os.path.isdir(place) else [place]
        found = []
        for path in files:
            with suppress(OSError, ValueError):  # gone since, which is a change as well, or no name of a file at all
                state = path.stat()
                found.append((path.relative_to(place).as_posix(), (state.st_size, state.st_mtime_ns, state.st_ino)))
    return hashlib.sha256(repr(sorted(found, key=lambda entry: entry[0])).encode()).hexdigest()


def remove_tree(place: Place) -> None:
    """Remove a folder and everything in it, if it is there."""
    if isinstance(place, RemotePath):
        place.remove()
    else:
        shutil.rmtree(place, ignore_errors=True)
