"""A run in a folder: one zarr v3 group that any zarr reader opens.

    run/                            attribute `dtree`: the header
      prepared/                     what a method found out before its first step
      checkpoints/gen-00000003      the state after step 3
      parts/0002/gen-00000007       the state of a part that moves on its own (a chain, a walk), and what it keeps
      passes/labels-00000003        raw labels that workers wrote in pass 3, -1 where not yet written
      labels, leaves                (n,) int32, the results for every row
      confidence, outlier_score     (n,) float32, how sure they are, where a method says so
      known                         (n,) int32, the labels column of the data as places in the header's `label_names`
      tree/ statistics/ trace/ ...  the arrays of the fitted record, at the end; the header lists them with their hashes

A record is written beside, flushed to disk and renamed, with the hash of every array and of everything else it says:
it is there whole or not at all, and damage is noticed when it is read. Every chunk of an array with one value for every
row ends with a checksum (zarr's crc32c), so that any zarr reader notices damage there.
"""

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from dtree.runs.arrays import HEADER, check_seal, read_arrays, read_metadata, sealed, write_arrays, write_group
from dtree.runs.codec import encode, restore
from dtree.runs.commit import file_in_place, flush_to_disk, folder_in_place, room_on_disk
from dtree.runs.header import FORMAT, Header, read_header, written_by_an_older_dtree

Kind = TypeVar("Kind")
LEASE = ".lease"  # the file that says who works on the run
_GROUP = '{"zarr_format": 3, "node_type": "group", "attributes": {}}'
_LONGEST_MOMENT = 5.0  # seconds; writing a lease takes a thousandth of one
_LABEL_CHUNKS = 16  # chunks in a shard of labels, so that a reader of few rows need not read a whole shard
_ROWS_WORTH_SPLITTING = 65_536  # shards of fewer rows are one chunk


class FolderStore:
    """Records and row arrays below a folder; see `store` for the verbs. Small enough to send to a worker."""

    in_memory = False

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.location = str(path)

    def __repr__(self) -> str:
        return self.location

    # Records --------------------------------------------------------------------------------------------------------

    def put(self, name: str, record: Any) -> None:
        arrays: dict[str, np.ndarray] = {}
        value = encode(record, "", arrays)
        final = self.path / name
        with room_on_disk(self.location):
            self._make_groups(final.parent)
            with folder_in_place(final, "keep") as partial:
                write_group(partial, arrays, {"value": value})

    def get(self, name: str, kind: type[Kind]) -> Kind:
        folder = self.path / name
        stored = read_metadata(folder, "").get("attributes", {})
        header = stored.get(HEADER) if isinstance(stored, dict) else None
        if not isinstance(header, dict) or "value" not in header:
            raise ValueError(f"{self.location} is damaged: '{name}' is missing or not a record")
        return self._restored(kind, header["value"], read_arrays(folder, header), name)

    def _restored(self, kind: type[Kind], value: Any, arrays: Any, name: str) -> Kind:
        try:
            return restore(kind, value, arrays)
        except ValueError as error:
            reason = str(error).removeprefix("the run is damaged: ")
            raise ValueError(f"{self.location} is damaged: {reason} ('{name}')") from None

    def check(self, name: str = "") -> None:
        what = f"'{name}'" if name else "its header"
        check_seal(self.path / name, f"{self.location} is damaged: {what}")

    def has(self, name: str) -> bool:
        return (self.path / name / "zarr.json").exists()

    def written(self, name: str) -> float | None:
        try:
            return (self.path / name / "zarr.json").stat().st_mtime
        except OSError:
            return None

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
        (self.path / "zarr.json").write_text(_GROUP)

    def _make_groups(self, folder: Path) -> None:
        """Every folder on the way to a record is a zarr group, so that any zarr reader finds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        while folder != self.path and not (folder / "zarr.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "zarr.json").write_text(_GROUP)
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

    # Arrays with one value for every row ----------------------------------------------------------------------------

    def create_rows(self, name: str, n: int, chunk_rows: int, dtype: Any, fill: float) -> None:
        """One shard for each chunk of rows, so that no two workers write one file.

        `fill` must be a value that no row can have: zarr writes no file where all values are `fill`, and a file that is
        missing counts as lost.
        """
        import zarr
        from zarr.codecs import Crc32cCodec, ZstdCodec

        split = chunk_rows % _LABEL_CHUNKS == 0 and chunk_rows >= _ROWS_WORTH_SPLITTING
        with room_on_disk(self.location):
            self._make_groups((self.path / name).parent)
            zarr.create_array(
                str(self.path / name), shape=(n,), chunks=(chunk_rows // _LABEL_CHUNKS if split else chunk_rows,),
                shards=(chunk_rows,), dtype=dtype, fill_value=fill, zarr_format=3, overwrite=True,
                compressors=(ZstdCodec(), Crc32cCodec()),
            )  # fmt: skip

    def write_rows(self, name: str, start: int, values: np.ndarray) -> None:
        import zarr

        with room_on_disk(self.location):
            zarr.open_array(str(self.path / name), mode="r+")[start : start + values.shape[0]] = values

    def read_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        import zarr

        try:
            return np.asarray(zarr.open_array(str(self.path / name), mode="r")[start:stop])
        except (OSError, RuntimeError, ValueError) as problem:  # of the disk, of a decompressor, of a checksum
            reason = " ".join(str(problem).split())[:200]
            raise ValueError(f"the array '{name}' of {self.location} cannot be read, it is damaged: {reason}") from None

    def flush_rows(self, name: str) -> None:
        flush_to_disk(self.path / name)

    has_rows = has

    # The header and the results -------------------------------------------------------------------------------------

    def write_header(self, header: Header) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        attributes = sealed(msgspec.to_builtins(header))
        document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        with room_on_disk(self.location), file_in_place(self.path / "zarr.json") as partial:
            partial.write_text(json.dumps(document))

    def read_header(self) -> Header:
        return header_of(self.path, self.location)

    def put_results(self, record: Any) -> tuple[Any, dict[str, Any]]:
        import zarr

        arrays: dict[str, np.ndarray] = {}
        value = encode(record, "", arrays)
        with room_on_disk(self.location):
            listing = write_arrays(zarr.open_group(str(self.path), mode="a", zarr_format=3), arrays)
            for name in {name.split("/")[0] for name in arrays}:
                flush_to_disk(self.path / name)
        return value, listing

    def get_results(self, header: Header, kind: type[Kind]) -> Kind:
        arrays = read_arrays(self.path, msgspec.to_builtins(header))
        return self._restored(kind, header.results, arrays, "results")


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


def header_of(path: Path, location: str) -> Header:
    """The header of the run in a folder, or one sentence why there is none."""
    if not path.exists():
        raise ValueError(f"there is no run {location}")
    if not path.is_dir():
        raise ValueError(f"{location} is not a run: a run is a folder in zarr format")
    metadata = read_metadata(path, "")
    attributes = metadata.get("attributes")
    if metadata.get("node_type") != "group" or not isinstance(attributes, dict):
        raise ValueError(f"{location} is not a dtree run: it is not a zarr group")
    if HEADER not in attributes:
        if isinstance(attributes.get("run_id"), str) and attributes.get("format") == FORMAT - 1:
            raise ValueError(written_by_an_older_dtree(location, attributes))
        raise ValueError(f"{location} is not a dtree run: its zarr.json has no '{HEADER}' attribute")
    return read_header(attributes[HEADER], location)
