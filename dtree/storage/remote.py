"""`RemotePath`: a place in an object store, with those verbs of a `pathlib.Path` that dtree asks for."""

from __future__ import annotations

import errno
import io
import re
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from dtree.core.recent import Recent
from dtree.storage.failures import StoreFailure
from dtree.storage.objects import SCHEMES, Found, Objects
from dtree.storage.options import StorageOptions, current_options

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)
_WINDOW = 1 << 16  # bytes that a small read fetches: what follows is asked for next
_copies = Recent(4)  # whole files that were fetched, with the folder that holds each


class RemotePath:
    """A file or folder in an object store; made by `dtree.storage.located`.

    root : the scheme and the bucket, `s3://bucket`. key : the rest, without slashes at its ends.
    """

    def __init__(self, root: str, key: str, options: StorageOptions) -> None:
        self.root, self.key = root, key
        self.objects = Objects(root, options)

    @classmethod
    def named(cls, address: str, options: StorageOptions | None = None) -> RemotePath:
        """The place at an address, or one sentence; credentials in an address would be written into runs."""
        found = _ADDRESS.fullmatch(address)
        scheme = found.group(1).lower() if found else ""
        if found is None or scheme not in SCHEMES:
            raise ValueError(
                f"dtree knows no files at {scheme or address[:40]}://: it reads s3:// gs:// az:// https:// memory:// "
                "and paths on disk"
            )
        bucket, key = found.group(2), (found.group(3) or "").strip("/")
        if "@" in bucket and not scheme.startswith("abfs"):
            raise ValueError(f"an address must not hold a password, which runs would keep: {scheme}://***; {_OTHER}")
        if scheme in ("http", "https") and ("?" in key or "#" in key):
            raise ValueError(
                f"an address with a query may hold a credential, which runs would remember: {scheme}://{bucket}/"
                f"{key.partition('?')[0]}?***; {_OTHER}"
            )
        if not bucket:
            raise ValueError(f"{address} names no bucket: it should look like {scheme}://bucket/name")
        return cls(f"{scheme}://{bucket}", key, current_options() if options is None else options)

    # Names ----------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.root}/{self.key}" if self.key else self.root

    __repr__ = __str__

    def as_posix(self) -> str:
        """The address."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: RemotePath) -> bool:
        return str(self) < str(other)

    def _at(self, key: str) -> RemotePath:
        return RemotePath(self.root, key.strip("/"), self.objects.options)

    def __truediv__(self, name: str) -> RemotePath:
        return self._at(f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending, with its dot."""
        return Path(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        """The folder around it."""
        return self._at(self.key.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """A neighbour."""
        return self.parent / name

    def resolve(self) -> RemotePath:
        """There are no links."""
        return self

    # What is there --------------------------------------------------------------------------------------------------

    def head(self) -> Found | None:
        """What is known of the file, or None."""
        try:
            return self.objects.head(self.key) if self.key else None
        except FileNotFoundError:
            return None

    def is_file(self) -> bool:
        """Whether there is such an object."""
        return self.head() is not None

    def is_dir(self) -> bool:
        """Whether there are objects below it; nobody can tell where files cannot be listed."""
        if self.root.startswith("http"):
            return False
        folders, files = self.objects.children(self.key)
        return bool(folders or files)

    def exists(self) -> bool:
        """Whether there is anything."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """There are none."""
        return False

    def stat(self) -> Stat:
        """Size and time of the last change; FileNotFoundError."""
        found = self.objects.head(self.key)
        return Stat(found.size, found.modified)

    def iterdir(self) -> Iterator[RemotePath]:
        """What is right below."""
        folders, files = self.objects.children(self.key)
        return iter([self / name for name in sorted({*folders, *files})])

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Files below whose names look like `pattern`."""
        found = (self._at(entry.key) for entry in self.objects.below(self.key))
        return iter([path for path in found if fnmatchcase(path.name, pattern)])

    def sizes(self) -> Iterator[tuple[str, int]]:
        """All files below: their names from here, and their bytes; none where files cannot be listed."""
        start = len(self.key) + 1 if self.key else 0
        if not self.root.startswith("http"):
            yield from ((entry.key[start:], entry.size) for entry in self.objects.below(self.key))

    def versions(self) -> Iterator[tuple[str, Any]]:
        """This file, or all files below: their names from here, and what tells their versions from others."""
        found = self.head()
        entries = [found] if found is not None or self.root.startswith("http") else self.objects.below(self.key)
        yield from ((entry.key, (entry.size, entry.modified, entry.version)) for entry in entries if entry is not None)

    # Content --------------------------------------------------------------------------------------------------------

    def read_bytes(self) -> bytes:
        """The whole file."""
        return self.objects.get(self.key)[0]

    def open(self, mode: str = "rb") -> Any:
        """The file for reading by ranges."""
        return io.BufferedReader(RangeFile(self.objects, self.key, self.objects.head(self.key).size), _WINDOW)

    def local_copy(self) -> Path:
        """A copy on this machine's disk, fetched once: for formats that are read from the beginning to the end."""
        found = self.objects.head(self.key)
        folder = _copies.get((str(self), str(found.version), found.size), self._fetched)
        return Path(folder.name) / self.name

    def _fetched(self) -> Any:
        folder = tempfile.TemporaryDirectory(prefix="dtree-fetched-")
        self.objects.fetch(self.key, Path(folder.name) / self.name)
        return folder

    def write_bytes(self, content: Any) -> None:
        """Write the file: there whole or not at all."""
        self.objects.put(self.key, content)

    def write_text(self, text: str) -> None:
        """The same with text."""
        self.write_bytes(text.encode())

    def touch(self) -> None:
        """An empty file."""
        self.write_bytes(b"")

    def mkdir(self, parents: bool = True, exist_ok: bool = True) -> None:
        """Folders are made by what lies in them."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Forget the file."""
        self.objects.delete(self.key)

    def remove(self) -> None:
        """Forget the file and everything below it."""
        self.objects.delete(self.key, *(entry.key for entry in self.objects.below(self.key)))


class Stat(NamedTuple):
    """What dtree asks of a file."""

    st_size: int
    st_mtime: float


class RangeFile(io.RawIOBase):
    """A file that is read by ranges of its bytes."""

    def __init__(self, objects: Objects, key: str, size: int) -> None:
        self.objects, self.key, self.size, self.at = objects, key, size, 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        self.at = max(0, start + offset)
        return self.at

    def readinto(self, buffer: Any) -> int:
        """As many bytes as there is room for, or as are left."""
        view = memoryview(buffer).cast("B")
        stop = min(self.at + len(view), self.size)
        if stop <= self.at:
            return 0
        found = self.objects.get_range(self.key, self.at, stop)
        if len(found) != stop - self.at:
            raise StoreFailure(f"{self.objects.root}/{self.key} gave fewer bytes than it has", errno.EIO)
        view[: len(found)] = memoryview(found)
        self.at = stop
        return len(found)


_OTHER = "give credentials by environment variables or as storage options"
