"""A run in a bucket of an object store: the same zarr group as on a disk, committed without renames.

An object appears whole or not at all, and a put may be made to succeed only if there is no such object yet, or if it
still has the version that was read. So a record is committed in two steps: its arrays are sent, to a folder of their
own that no other writer uses, and then the record's `zarr.json`, the one small object that lists them with their
hashes, if there is none yet. Until that is there, there is no record: what a writer leaves that dies before it is
ignored, and swept when the record is committed again or dropped. A twin that comes second finds a record and leaves it.

Lists of what is in a bucket may be out of date (caches, mirrors). Nothing is decided by a list alone: what it names is
asked for by name, the newest checkpoint is also named by an object beside the others, and a process remembers what it
wrote itself.

The lease is an object that is replaced only in the version that was read. It is never deleted, because that could not
be made to depend on a version: an empty one says that nobody works on the run.
"""

import errno
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import Any

import msgspec
import numpy as np

from dtree.runs.arrays import HEADER, files_of_arrays, group_document, read_metadata, sealed, side_by_side
from dtree.runs.codec import encode
from dtree.runs.commit import room_on_disk
from dtree.runs.header import Header
from dtree.runs.store import nothing
from dtree.runs.zarr_store import GROUP, LEASE, ZarrStore
from dtree.storage.ahead import begin, beside, taken, waiting
from dtree.storage.failures import StoreFailure
from dtree.storage.remote import RemotePath

_NEWEST = ".newest"  # the name of the newest record of a folder, beside it


class BucketStore(ZarrStore):
    """Records and row arrays below an address; see `store` for the verbs."""

    def __init__(self, path: RemotePath) -> None:
        super().__init__(path)
        self._written: set[str] = set()  # records that this process has committed
        self._groups: set[str] = set()  # and groups that it has made for them
        self._beside: list[Future[None]] = []  # what is done meanwhile

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_written": set(), "_groups": set(), "_beside": []}

    def _room(self) -> AbstractContextManager[None]:
        return room_on_disk(self.location)

    def _put_together(self, under: RemotePath, files: dict[str, bytes]) -> None:
        objects = self.path.objects
        side_by_side(under, lambda name: objects.put((under / name).key, files[name]), files)

    # Records --------------------------------------------------------------------------------------------------------

    def put(
        self, name: str, record: Any, check: Callable[[], None] = nothing, then: Callable[[], None] = nothing
    ) -> None:
        """Send the arrays and check meanwhile, then the object that makes them a record unless there is one."""
        self.settle()
        final = self.path / name
        arrays: dict[str, np.ndarray] = {}
        value = encode(record, "", arrays)
        files, listing = files_of_arrays(arrays)
        mine = f"w_{uuid.uuid4().hex[:12]}"
        self._make_groups(final.parent)
        checked = beside(check)
        self._put_together(final / mine, {**files, "zarr.json": GROUP.encode()})
        checked.result()
        document = group_document(sealed({"value": value, "arrays": listing, "under": mine}))
        self.path.objects.put_if((final / "zarr.json").key, document, None)
        self._written.add(name)

        def rest() -> None:
            self._sweep(final)
            if final.name.startswith("gen-"):
                (final.parent / _NEWEST).write_bytes(final.name.encode())
            then()

        if then is nothing:
            rest()
        else:
            self._beside.append(beside(rest))

    def settle(self) -> None:
        done, self._beside = self._beside, []
        wait(done)
        for one in done:
            one.result()

    def _sweep(self, final: RemotePath) -> None:
        """Forget what other writers of a record sent, or we in vain, that did not become it."""
        folders, _ = self.path.objects.children(final.key)
        if len(folders) > 1:
            stored = read_metadata(final, "")["attributes"][HEADER]
            for other in folders:
                if other != stored["under"]:
                    (final / other).remove()

    def names(self, under: str) -> list[str]:
        """Records, and folders with records, right below a name."""
        folders, _ = self.path.objects.children((self.path / under).key)
        found = {f"{under}/{folder}" for folder in folders if not folder.startswith(".")}
        found |= {name for name in [*self._written] if name.rpartition("/")[0] == under} | self._newest(under)
        names = sorted(found)
        return [name for name, there in zip(names, side_by_side(self.path, self.has, names)) if there]

    def _newest(self, under: str) -> set[str]:
        """The last record of a folder that was committed and the one before it, if they are numbered."""
        try:
            last = (self.path / under / _NEWEST).read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return set()
        kind, mark, number = last.rpartition("-")
        if not (mark and number.isdigit() and len(number) == 8 and kind.isalpha()):
            return set()
        return {f"{under}/{kind}-{at:08d}" for at in (int(number) - 1, int(number)) if at >= 0}

    def drop(self, name: str) -> None:
        """Away at once, then deleted."""
        key = (self.path / name).key
        for known, gone in ((self._written, name), (self._groups, key)):  # in place: it may be done beside
            known -= {one for one in [*known] if one == gone or one.startswith(f"{gone}/")}
        (self.path / name / "zarr.json").unlink()
        (self.path / name).remove()

    def make_group(self) -> None:
        """Make the place itself a plain zarr group."""
        self.settle()
        (self.path / "zarr.json").write_text(GROUP)

    def _make_groups(self, folder: RemotePath) -> None:
        while folder != self.path:
            if folder.key not in self._groups:
                self.path.objects.put_if((folder / "zarr.json").key, GROUP.encode(), None)
                self._groups.add(folder.key)
            folder = folder.parent

    # Who works on it ------------------------------------------------------------------------------------------------

    def read_lease(self) -> bytes | None:
        """What the lease says, b"" when it was given back, None when there never was one."""
        with suppress(FileNotFoundError):
            return (self.path / LEASE).read_bytes()
        return None

    def swap_lease(self, old: bytes | None, new: bytes | None) -> bool:
        """Put `new` in the place of `old` if that is still there."""
        key, version = (self.path / LEASE).key, None
        try:
            found, version = self.path.objects.get(key)
        except FileNotFoundError:
            found = None  # type: ignore[assignment]
        if found != old:
            return False
        if old is None and new is None:
            return True
        done = self.path.objects.put_if(key, new or b"", version)
        if done and old is None:
            self._require_conditions(key, new or b"")
        return done

    def _require_conditions(self, key: str, lease: bytes) -> None:
        """Some stores take every put and say nothing about conditions: there two writers would not see each other."""
        objects, longer = self.path.objects, lease + b"\n"
        heeded = not objects.put_if(key, lease, None)
        if heeded:
            version = objects.get(key)[1]
            replaced = objects.put_if(key, longer, version) or objects.get(key)[0] == longer  # or its answer was lost
            heeded = replaced and not objects.put_if(key, lease, version)
        if not heeded:
            objects.delete(key)
            raise StoreFailure(
                f"{self.path.root} does not heed the conditions of a put (If-None-Match, If-Match), so nothing would "
                "keep two writers from one run: choose a store that does, or write the run to a disk and copy it",
                errno.ENOTSUP,
            )

    # Arrays, header, results ----------------------------------------------------------------------------------------

    def read_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        rows: np.ndarray = taken(self._marks.get(name), partial(super().read_rows, name), start, stop)
        return rows

    def ahead(self, name: str, start: int, stop: int) -> None:
        if name in self._marks:
            begin(self._marks[name], partial(super().read_rows, name), start, stop)

    def write_rows(self, name: str, start: int, values: np.ndarray) -> None:
        """While the store answers, the next task may begin; this one ends when the rows are there."""
        waiting.stand_aside()
        super().write_rows(name, start, values)

    def _make_array(self, path: RemotePath, **how: Any) -> bytes:
        """One put. What another sitting left is written anew: every file of such an array is, before it is read."""
        import zarr
        from zarr.storage import MemoryStore

        made = MemoryStore()
        zarr.create_array(made, **how)
        metadata = made._store_dict["zarr.json"].to_bytes()
        self._beside.append(beside(lambda: (path / "zarr.json").write_bytes(metadata)))
        return metadata

    def flush_rows(self, name: str) -> None:
        """What was put is kept."""
        self.settle()

    def write_header(self, header: Header) -> None:
        """Replaced in one step."""
        (self.path / "zarr.json").write_bytes(group_document(sealed(msgspec.to_builtins(header))))

    def put_results(self, record: Any) -> tuple[Any, dict[str, Any]]:
        """The arrays of a fitted record, to be listed in the header; returns JSON and listing."""
        self.settle()
        arrays: dict[str, np.ndarray] = {}
        value = encode(record, "", arrays)
        files, listing = files_of_arrays(arrays)
        self._put_together(self.path, files)
        return value, listing

    # The place ------------------------------------------------------------------------------------------------------

    def check_place(self) -> None:
        """One sentence when nothing can be written here."""
        if not self.path.key:
            raise ValueError(
                f"'{self.location}' is not a name for an output; give one such as {self.location}/run.zarr"
            )
        if self.path.root.startswith("http"):
            raise ValueError(f"{self.location} can only be read; choose another place for the output")

    def clear(self) -> None:
        """Forget everything but the lease."""
        with suppress(OSError):
            self.settle()
        (self.path / "zarr.json").unlink()
        keys = [found.key for found in self.path.objects.below(self.path.key)]
        self.path.objects.delete(*(key for key in keys if key != (self.path / LEASE).key))
        self._written.clear()
        self._groups.clear()

    def remove(self) -> None:
        """Forget everything."""
        with suppress(OSError):
            self.settle()
        (self.path / "zarr.json").unlink()
        self.path.remove()

    def remove_if_empty(self) -> None:
        """A place in a bucket is there while something lies in it; a lease that was given back is nothing."""
        left = [found.key for found in self.path.objects.below(self.path.key)]
        if left == [(self.path / LEASE).key] and self.read_lease() == b"":
            (self.path / LEASE).unlink()

    def move_to(self, final: "BucketStore") -> "BucketStore":
        """Take the place of another run: its header goes first, ours comes last; nothing passes this process.

        Whoever dies in between leaves a finished run beside a place without one, and `resume` moves on.
        """
        objects, header = self.path.objects, (self.path / "zarr.json").key
        final.clear()
        start = len(self.path.key)
        keys = [found.key for found in objects.below(self.path.key) if found.key != header]
        side_by_side(self.path, lambda key: objects.copy(key, final.path.key + key[start:]), keys)
        objects.copy(header, (final.path / "zarr.json").key)
        self.remove()
        return final


@contextmanager
def bucket_in_place(final: RemotePath, beside: RemotePath, existing: str) -> Iterator[BucketStore]:
    """A store to fill that becomes `final`, whose own `zarr.json` must be written last; what fails leaves nothing."""
    target = BucketStore(final)
    replaces = final.is_dir()
    if replaces and existing == "refuse":
        raise ValueError(f"{final} exists already; choose another name or allow it to be overwritten")
    made = BucketStore(beside) if replaces else target
    made.remove()
    try:
        yield made
        if replaces:
            made.move_to(target)
    except BaseException:
        made.remove()
        raise
