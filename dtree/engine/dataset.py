"""One view of data in chunks, whatever it comes as.

`open_dataset` takes a path, a NumPy or SciPy array, a pandas frame, a Dask array or dataframe, and returns a `Source` on disk. What
is not on disk in a form that can be read by row ranges (arrays in memory, CSV, .npz, Dask collections) is written once into the run's own
folder; Dask collections by the workers, never through the client. So data survive a lost worker, and a resumed run finds them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import zarr
from distributed import Client
from scipy import sparse

from dtree.engine.input_checks import check_array, check_csr, one_sentence, refuse_strange_members
from dtree.engine.sources import MOST_ROWS, Source, parquet_files, row_groups
from dtree.kmeans.fit import rows_per_chunk
from dtree.store.readers import read_rows

_CSV_ROWS = 100_000


def chunk_rows_for(source: Source, worker_bytes: int | None = None, chunk_bytes: int | None = None) -> int:
    """Rows per chunk: about 32 MB as float64, less when workers are small, a multiple of the source's own chunks.

    It does not depend on the number of workers, so that neither do the results.
    """
    d = max(source.shape[1], 1)
    if source.is_sparse:
        group: Any = zarr.open_group(source.path, mode="r")
        per_row = 16 * group["data"].shape[0] // max(source.shape[0], 1) + 8
        rows = max(1024, 32_000_000 // per_row)
    else:
        per_row, rows = 8 * d, rows_per_chunk(d)
    if chunk_bytes is not None:
        rows = max(1, chunk_bytes // per_row)
    if worker_bytes is not None:
        rows = max(1, min(rows, worker_bytes // 16 // per_row))
    if source.step <= rows:
        return rows // source.step * source.step
    return rows if source.step > 4 * rows else source.step


def open_dataset(data: Any, staging: str | os.PathLike[str], client: Client | None = None) -> Source:
    """The rows of `data` as a source on disk; what must be copied goes into the folder `staging`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = open_dataset(np.arange(6.0).reshape(3, 2), folder)
    ...     source.kind, source.shape, source.read(1, 3).tolist()
    ('npy', (3, 2), [[2.0, 3.0], [4.0, 5.0]])
    """
    staging = Path(staging)
    if isinstance(data, str | os.PathLike):
        return _open_path(Path(data), staging)
    if hasattr(data, "dask"):
        return _stage_dask(data, staging, client)
    if isinstance(data, pd.DataFrame):
        data = _frame_values(data)
    if sparse.issparse(data):
        return write_csr(staging / "rows.zarr", data.tocsr())
    return _stage_array(np.asarray(data), staging)


def _open_path(path: Path, staging: Path) -> Source:
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    if path.suffix == ".npy":
        with one_sentence(path):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        return _checked(Source("npy", str(path.resolve()), _two(mapped.shape, path), str(mapped.dtype)))
    if path.suffix == ".npz":
        return _stage_npz(path, staging)
    if path.suffix == ".csv":
        return _stage_csv(path, staging)
    if path.suffix == ".parquet" or (path.is_dir() and parquet_files(str(path))):
        return _open_parquet(path)
    if path.is_dir():
        return _open_zarr(path)
    raise ValueError(f"dtree reads .zarr, .npy, .npz, .parquet (a file or a folder of them) and .csv, not {path.name}")


def _open_zarr(path: Path) -> Source:
    try:
        node: Any = zarr.open(str(path), mode="r")
    except Exception as problem:
        raise ValueError(f"{path} is neither a zarr store nor a folder of .parquet files") from problem
    if isinstance(node, zarr.Array):
        check_array(node, path)
        step = (node.shards or node.chunks)[0]
        return _checked(Source("zarr", str(path.resolve()), _two(node.shape, path), str(node.dtype), int(step)))
    names = set(node.array_keys())
    if {"data", "indices", "indptr"} <= names:
        shape = node.attrs.get("shape")
        if shape is None:
            raise ValueError(f"the sparse rows in {path} have no attribute 'shape': write [rows, columns] into it")
        check_csr(node, path, shape)
        return _checked(Source("zarr-csr", str(path.resolve()), _two(shape, path), str(node["data"].dtype)))
    if "X" in names or "X" in set(node.group_keys()):
        return _open_zarr(path / "X")
    raise ValueError(f"the zarr group {path} has neither an array X nor data, indices and indptr of sparse rows")


def _open_parquet(path: Path) -> Source:
    import pyarrow.parquet as pq

    with one_sentence(path):
        schema = pq.ParquetFile(parquet_files(str(path))[0]).schema_arrow
    columns = tuple(name for name in schema.names if not name.startswith("__index_level"))
    try:
        dtype = np.result_type(*[schema.field(name).type.to_pandas_dtype() for name in columns])
    except (TypeError, NotImplementedError):
        dtype = np.dtype(object)
    row_groups.cache_clear()
    with one_sentence(path):
        groups = row_groups(str(path))
    rows = sum(count for _, _, count in groups)
    step = groups[0][2] if groups and len({count for _, _, count in groups[:-1]}) <= 1 else 1
    return _checked(Source("parquet", str(path.resolve()), (rows, len(columns)), str(dtype), max(step, 1), columns))


def _stage_npz(path: Path, staging: Path) -> Source:
    refuse_strange_members(path)
    X = read_rows(path).X
    return write_csr(staging / "rows.zarr", X) if sparse.issparse(X) else _stage_array(X, staging)


def _stage_csv(path: Path, staging: Path) -> Source:
    """Parse the text once, in pieces, into a zarr array that every pass can read quickly."""
    staging.mkdir(parents=True, exist_ok=True)
    rows = 0
    array: zarr.Array | None = None
    for frame in _csv_frames(path):
        values = _frame_values(frame, first_row=rows)
        if array is None:
            array = _new_rows(staging / "rows.zarr", (0, values.shape[1]), np.dtype(np.float64), _CSV_ROWS)
        array.append(values.astype(np.float64), axis=0)
        rows += values.shape[0]
    if array is None:
        raise ValueError(f"{path} holds no rows")
    return _open_zarr(staging / "rows.zarr")


def _csv_frames(path: Path) -> Iterator[pd.DataFrame]:
    with one_sentence(path):
        frames = pd.read_csv(path, chunksize=_CSV_ROWS)
    while True:
        with one_sentence(path):
            frame = next(frames, None)
        if frame is None:
            return
        yield frame


def _frame_values(frame: pd.DataFrame, first_row: int = 0) -> np.ndarray:
    text = [str(name) for name in frame.columns if frame[name].dtype.kind not in "biuf"]
    if text:
        raise ValueError(
            f"column {text[0]!r} is not numeric (near row {first_row}): drop it or turn it into numbers first"
        )
    return frame.to_numpy()


def _stage_array(values: np.ndarray, staging: Path) -> Source:
    shape = _two(values.shape, "the data")
    _checked(Source("npy", "", shape, str(values.dtype)))
    staging.mkdir(parents=True, exist_ok=True)
    path = staging / "rows.npy"
    np.save(path, np.ascontiguousarray(values))
    return Source("npy", str(path.resolve()), shape, str(values.dtype))


def _stage_dask(data: Any, staging: Path, client: Client | None) -> Source:
    """Let the workers write a Dask collection into zarr; unknown chunk sizes are found out first."""
    compute = client.compute if client is not None else None
    if hasattr(data, "to_dask_array"):
        lengths = data.map_partitions(len)
        data = data.to_dask_array(lengths=list(compute(lengths, sync=True) if compute else lengths.compute()))
    if np.isnan(data.shape[0]) or any(np.isnan(size) for size in data.chunks[0]):
        lengths = dask.array.map_blocks(lambda block: np.array([block.shape[0]]), data[:, :1], dtype=int, drop_axis=1)
        sizes = compute(lengths, sync=True) if compute else lengths.compute()
        data._chunks = (tuple(int(size) for size in sizes), *data.chunks[1:])
    shape = _two(data.shape, "the Dask array")
    _checked(Source("zarr", "", shape, str(data.dtype)))
    rows = min(rows_per_chunk(shape[1]), shape[0])
    staging.mkdir(parents=True, exist_ok=True)
    target = staging / "rows.zarr"
    _new_rows(target, shape, data.dtype, rows)
    blocks = data.rechunk((rows, -1)).to_delayed().ravel()
    writes = [dask.delayed(_write_rows)(str(target), index * rows, block) for index, block in enumerate(blocks)]
    client.gather(client.compute(writes)) if client is not None else dask.compute(*writes, scheduler="synchronous")
    (target / "dtree-complete").touch()
    return _open_zarr(target)


def _write_rows(path: str, start: int, block: Any) -> int:
    values = np.asarray(block.toarray() if sparse.issparse(block) else block)
    zarr.open_array(path, mode="r+")[start : start + values.shape[0]] = values
    return values.shape[0]


def _new_rows(path: Path, shape: tuple[int, int], dtype: np.dtype, rows: int) -> zarr.Array:
    shutil.rmtree(path, ignore_errors=True)
    return zarr.create_array(
        str(path), shape=shape, chunks=(rows, max(shape[1], 1)), dtype=dtype, compressors=None,
        zarr_format=3, config={"write_empty_chunks": True},
    )  # fmt: skip


def write_csr(path: str | os.PathLike[str], rows: Any) -> Source:
    """Write CSR rows (n, d) as a zarr group: arrays `data`, `indices`, `indptr` and the attribute `shape`."""
    path = Path(path)
    rows = rows.tocsr()
    shutil.rmtree(path, ignore_errors=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    group.attrs.update({"encoding-type": "csr_matrix", "shape": [int(size) for size in rows.shape]})
    parts = {"data": rows.data, "indices": rows.indices.astype(np.int64), "indptr": rows.indptr.astype(np.int64)}
    for name, values in parts.items():
        size = min(max(values.shape[0], 1), 1_000_000)
        array = group.create_array(name, shape=values.shape, chunks=(size,), dtype=values.dtype)
        array[:] = values
    return _open_zarr(path)


def _two(shape: Any, what: Any) -> tuple[int, int]:
    if len(shape) != 2:
        raise ValueError(f"{what} must be a table of rows and columns, not an array of shape {tuple(shape)}")
    return int(shape[0]), int(shape[1])


def _checked(source: Source) -> Source:
    if source.shape[0] > MOST_ROWS or source.shape[1] > 2**31:
        raise ValueError(f"the data declare the shape {source.shape}: so many rows or columns cannot be meant")
    if source.shape[0] < 1 or source.shape[1] < 1:
        raise ValueError(f"the data have shape {source.shape}: there must be at least one row and one column")
    if np.dtype(source.dtype).kind not in "biuf":
        raise ValueError(
            f"the data have type {source.dtype}; dtree takes numbers: convert the columns to float or integer"
        )
    return source
