"""A run as one zarr v3 group that any zarr reader opens: what a folder on disk and a place in a bucket have in common.

    run/                            attribute `dtree`: the header
      prepared/                     what a method found out before its first step
      checkpoints/gen-00000003      the state after step 3
      parts/0002/gen-00000007       the state of a part that moves on its own (a chain, a walk), and what it keeps
      passes/labels-00000003        raw labels that workers wrote in pass 3, -1 where not yet written
      labels, leaves                (n,) int32, the results for every row
      confidence, outlier_score     (n,) float32, how sure they are, where a method says so
      known                         (n,) int32, the labels column of the data as places in the header's `label_names`
      tree/ statistics/ trace/ ...  the arrays of the fitted record, at the end; the header lists them with their hashes

A record carries the hash of every array and of everything else it says: it is there whole or not at all, and damage is
noticed when it is read. Every chunk of an array with one value for every row ends with a checksum (zarr's crc32c), so
that any zarr reader notices damage there.
"""

import uuid
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from dtree.core.recent import Recent
from dtree.runs.arrays import HEADER, check_seal, read_arrays, read_metadata
from dtree.runs.codec import restore
from dtree.runs.header import FORMAT, Header, read_header, written_by_an_older_dtree
from dtree.storage.failures import StoreFailure
from dtree.storage.places import Place
from dtree.storage.zarr_places import until_no_chunk_is_left, zarr_at

Kind = TypeVar("Kind")
LEASE = ".lease"  # the file that says who works on the run
GROUP = '{"zarr_format": 3, "node_type": "group", "attributes": {}}'
_LABEL_CHUNKS = 16  # chunks in a shard of labels, so that a reader of few rows need not read a whole shard
_ROWS_WORTH_SPLITTING = 65_536  # shards of fewer rows are one chunk
_MOST_MARKS = 8  # row arrays that tasks of one kind read and write together are fewer
_arrays = Recent(16)  # open row arrays, by mark


class Mark(NamedTuple):
    """What tells a row array from every other."""

    name: str = ""
    metadata: bytes | None = None  # its zarr.json, which others need then not ask for


class ZarrStore:
    """Reading records and row arrays below a place; see `store` for the verbs. Small enough to send to a worker."""

    in_memory = False
    path: Any
    location: str

    def __init__(self, path: Any) -> None:
        self.path, self.location = path, str(path)
        # Row arrays that this store has made last, each with a mark of its own: with it goes, to workers too, what a
        # process may remember of the array, and of no other that had the name before.
        self._marks: dict[str, Mark] = {}

    def __repr__(self) -> str:
        return self.location

    def _room(self) -> AbstractContextManager[None]:
        """A block in which things are written."""
        raise NotImplementedError

    def _make_groups(self, folder: Any) -> None:
        """Every folder on the way to a record is a zarr group, so that any zarr reader finds it."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for what is done beside, and say what went wrong with it."""

    # Records --------------------------------------------------------------------------------------------------------

    def get(self, name: str, kind: type[Kind]) -> Kind:
        """The record, checked against its declared type."""
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
        """ValueError unless the record (without a name: the header) is to the last bit what was written."""
        what = f"'{name}'" if name else "its header"
        check_seal(self.path / name, f"{self.location} is damaged: {what}")

    def has(self, name: str) -> bool:
        """Whether the record is there."""
        return (self.path / name / "zarr.json").is_file()

    has_rows = has

    def written(self, name: str) -> float | None:
        """When the record was put, in seconds since 1970, or None."""
        try:
            return (self.path / name / "zarr.json").stat().st_mtime
        except OSError:
            return None

    # Arrays with one value for every row ----------------------------------------------------------------------------

    def create_rows(self, name: str, n: int, chunk_rows: int, dtype: Any, fill: float) -> None:
        """One shard for each chunk of rows, so that no two workers write one file.

        `fill` must be a value that no row can have: zarr writes no file where all values are `fill`, and a file that is
        missing counts as lost.
        """
        from zarr.codecs import Crc32cCodec, ZstdCodec

        split = chunk_rows % _LABEL_CHUNKS == 0 and chunk_rows >= _ROWS_WORTH_SPLITTING
        with self._room():
            self._make_groups((self.path / name).parent)
            metadata = self._make_array(
                self.path / name, shape=(n,), chunks=(chunk_rows // _LABEL_CHUNKS if split else chunk_rows,),
                shards=(chunk_rows,), dtype=dtype, fill_value=fill, zarr_format=3, overwrite=True,
                compressors=(ZstdCodec(), Crc32cCodec()),
            )  # fmt: skip
        self._marks = {**dict([*self._marks.items()][-_MOST_MARKS:]), name: Mark(uuid.uuid4().hex, metadata)}

    def _make_array(self, path: Any, **how: Any) -> bytes | None:
        """An array as zarr makes it; its zarr.json, where it is worth sending to others."""
        import zarr

        zarr.create_array(zarr_at(path), **how)
        return None

    def write_rows(self, name: str, start: int, values: np.ndarray) -> None:
        """Write rows from `start` on: whole shards, so that what a file holds besides need not be asked for."""
        stop = start + values.shape[0]
        with self._room():
            array = self._opened(name, "r+")
            shard = array.shards[0]
            if start % shard or (stop % shard and stop != array.shape[0]):
                raise ValueError(f"rows {start} to {stop - 1} of '{name}' are not whole shards of {shard} rows")
            array[start:stop] = values

    def _opened(self, name: str, mode: Any) -> Any:
        """An array; one that this store has made is opened once by every process."""
        import zarr

        mark = self._marks.get(name, Mark())

        def opened() -> Any:
            store = zarr_at(self.path / name, mode == "r", mode != "r", mark.metadata)
            return zarr.open_array(store, mode=mode, zarr_format=3)

        return _arrays.get((mark.name, mode), opened) if mark.name else opened()

    def read_rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows start..stop-1."""
        try:
            with until_no_chunk_is_left():
                return np.asarray(self._opened(name, "r")[start:stop])
        except StoreFailure:
            raise
        except (OSError, RuntimeError, ValueError) as problem:  # of the disk, of a decompressor, of a checksum
            reason = " ".join(str(problem).split())[:200]
            raise ValueError(f"the array '{name}' of {self.location} cannot be read, it is damaged: {reason}") from None

    def ahead(self, name: str, start: int, stop: int) -> None:
        """Begin to read rows that will be asked for, where an answer takes its time."""

    # The header and the results -------------------------------------------------------------------------------------

    def read_header(self) -> Header:
        """What the run says of itself, or one sentence why there is nothing."""
        return header_of(self.path, self.location)

    def get_results(self, header: Header, kind: type[Kind]) -> Kind:
        """The fitted record."""
        arrays = read_arrays(self.path, msgspec.to_builtins(header))
        return self._restored(kind, header.results, arrays, "results")


def header_of(path: Place, location: str) -> Header:
    """The header of the run at a place, or one sentence why there is none."""
    if not (path / "zarr.json").is_file():
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
