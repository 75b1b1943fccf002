"""Rows on disk behind one verb: `read(start, stop)`.

A source is a small picklable description of where rows live; workers open it themselves, so data never pass through the client.

| kind | path | rows |
| --- | --- | --- |
| `zarr` | a zarr array, format 2 or 3 | chunks are read where they are needed |
| `zarr-csr` | a zarr group with arrays `data`, `indices`, `indptr` and attribute `shape` (as AnnData writes CSR) | sparse |
| `npy` | a NumPy file | memory-mapped |
| `parquet` | a folder of `.parquet` files or one file | by row group, in the order of the file names |
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from scipy import sparse

from dtree.store.read_arrays import refuse_pickles
from dtree.store.rows import listed

KINDS = ("zarr", "zarr-csr", "npy", "parquet")
MOST_ROWS = 10**12  # more is a mistake, damage or malice: the list of chunks alone would fill the memory


@dataclass(frozen=True)
class Source:
    """Rows of a dataset on disk.

    shape : (n, d). dtype : of the values. step : reading is cheapest in multiples of so many rows. columns : names (d,) of the
    features where the data have them. picked : (d,) the columns of the file that are the features, in order; () for all of them.
    """

    kind: str
    path: str
    shape: tuple[int, int]
    dtype: str
    step: int = 1
    columns: tuple[str, ...] = ()
    picked: tuple[int, ...] = ()

    @property
    def is_sparse(self) -> bool:
        """Whether `read` gives CSR rows."""
        return self.kind == "zarr-csr"

    def read(self, start: int, stop: int) -> Any:
        """Rows start..stop-1, dense (rows, d) or CSR."""
        try:
            rows = _READERS[self.kind](self, start, stop)
            rows = rows[:, list(self.picked)] if self.picked else rows
        except MemoryError:
            raise
        except Exception as problem:
            raise ValueError(
                f"rows {start} to {stop - 1} of {self.path} cannot be read ({type(problem).__name__}: {problem}): "
                "the file is damaged or was changed; restore it and resume the run"
            ) from problem
        if rows.shape != (stop - start, self.shape[1]):
            raise ValueError(
                f"rows {start} to {stop - 1} of {self.path} have shape {rows.shape} instead of "
                f"{(stop - start, self.shape[1])}: the data were changed since the run began; restore them and resume"
            )
        return rows

    def to_json(self) -> str:
        """The source as text, for the run's folder."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Source:
        """The inverse of `to_json`."""
        fields = json.loads(text)
        lists = {name: tuple(fields.get(name, ())) for name in ("shape", "columns", "picked")}
        return cls(**{**fields, **lists})

    def pick(self, wanted: Sequence[int]) -> Source:
        """The same rows with only the features in these places, in this order."""
        columns = tuple(self.columns[place] for place in wanted) if self.columns else ()
        shape = (self.shape[0], len(wanted))
        if self.kind == "parquet":  # which reads columns by name
            return replace(self, shape=shape, columns=columns)
        picked = tuple(int(self.picked[place] if self.picked else place) for place in wanted)
        return replace(self, shape=shape, columns=columns, picked=picked)

    def with_columns_of(self, fitted: Source) -> Source:
        """The features in the order in which a model learned them: by name where both have names, else one sentence unless as many.

        >>> new = Source("npy", "/new.npy", (9, 3), "float64", columns=("b", "kind", "a"))
        >>> new.with_columns_of(Source("npy", "/old.npy", (5, 2), "float64", columns=("a", "b"))).picked
        (2, 0)
        """
        if self.columns and fitted.columns:
            missing = [name for name in fitted.columns if name not in self.columns]
            if missing:
                raise ValueError(f"the rows lack features that the run was fitted on: {listed(missing)}")
            if self.columns == fitted.columns:
                return self
            return self.pick([self.columns.index(name) for name in fitted.columns])
        if self.shape[1] != fitted.shape[1]:
            raise ValueError(f"the rows have {self.shape[1]} columns but the run was fitted on {fitted.shape[1]}")
        return self


def _read_zarr(source: Source, start: int, stop: int) -> np.ndarray:
    array = zarr.open_array(source.path, mode="r")
    refuse_pickles(array, source.path)
    _require_chunks(source, array, start, stop)
    return np.asarray(array[start:stop])


def _require_chunks(source: Source, array: Any, start: int, stop: int) -> None:
    """A missing chunk reads as fill, so a lost file would pass as zeros: ask for it where that can be seen."""
    folder = Path(source.path)
    if not (folder / "dtree-complete").exists():
        return
    rows = (array.shards or array.chunks)[0]
    for index in range(start // rows, (stop - 1) // rows + 1):
        if not (folder / "c" / str(index) / "0").exists():
            raise OSError(f"chunk {index} is missing")


def _read_csr(source: Source, start: int, stop: int) -> sparse.csr_array:
    group: Any = zarr.open_group(source.path, mode="r")
    for name in ("data", "indices", "indptr"):
        refuse_pickles(group[name], f"{source.path}/{name}")
    indptr = np.asarray(group["indptr"][start : stop + 1]).astype(np.int64)
    first, last = int(indptr[0]), int(indptr[-1])
    data, indices = np.asarray(group["data"][first:last]), np.asarray(group["indices"][first:last])
    width = int(group.attrs["shape"][1]) if source.picked else source.shape[1]
    if np.any(np.diff(indptr) < 0) or (indices.size and not 0 <= indices.min() <= indices.max() < width):
        raise OSError("its row pointers or column numbers are out of range")
    return sparse.csr_array((data, indices, indptr - first), shape=(stop - start, width))


def _read_npy(source: Source, start: int, stop: int) -> np.ndarray:
    return np.array(np.load(source.path, mmap_mode="r", allow_pickle=False)[start:stop])


def parquet_files(path: str) -> list[Path]:
    """The .parquet files of a folder in the order of their names, or the file itself."""
    folder = Path(path)
    return [folder] if folder.is_file() else sorted(folder.rglob("*.parquet"))


@lru_cache(maxsize=8)
def row_groups(path: str) -> tuple[tuple[str, int, int], ...]:
    """(file, row group, rows) of every row group, in order."""
    import pyarrow.parquet as pq

    found = []
    for file in parquet_files(path):
        metadata = pq.ParquetFile(file).metadata
        found += [(str(file), group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]
    return tuple(found)


def _read_parquet(source: Source, start: int, stop: int) -> np.ndarray:
    import pyarrow.parquet as pq

    parts, first = [], 0
    for file, group, rows in row_groups(source.path):
        if first < stop and first + rows > start:
            table = pq.ParquetFile(file).read_row_group(group, columns=list(source.columns))
            values = np.column_stack([column.to_numpy() for column in table.columns])
            parts.append(values[max(start - first, 0) : stop - first])
        first += rows
    return np.concatenate(parts)


_READERS = {"zarr": _read_zarr, "zarr-csr": _read_csr, "npy": _read_npy, "parquet": _read_parquet}
