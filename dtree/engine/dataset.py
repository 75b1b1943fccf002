"""One view of data in chunks, whatever it comes as.

`open_dataset` takes a path, a NumPy or SciPy array, a pandas frame, a Dask array or dataframe, and returns a `Source` on disk. What
is not on disk in a form that can be read by row ranges (arrays in memory, CSV, .npz, Dask collections) is written once into the run's own
folder; Dask collections by the workers, never through the client. So data survive a lost worker, and a resumed run finds them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pandas as pd
import zarr
from distributed import Client
from scipy import sparse

from dtree.engine.input_checks import check_array, check_csr, refuse_strange_members
from dtree.engine.sources import MOST_ROWS, Source, parquet_files, row_groups
from dtree.kmeans.fit import rows_per_chunk
from dtree.store.read_tables import ROW_NAME_COLUMNS, csv_options, look_at_csv, rows_of_frame
from dtree.store.readers import one_sentence, read_rows, split_array_name
from dtree.store.rows import Choice, column_index, listed

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


def open_dataset(
    data: Any,
    staging: str | os.PathLike[str],
    client: Client | None = None,
    *,
    labels_column: str | None = None,
    leave_out: Sequence[str] = (),
) -> Source:
    """The rows of `data` as a source on disk; what must be copied goes into the folder `staging`.

    labels_column : a column (its name, or a number from 0) that is not a feature; in a group of arrays also the name of another array.
    leave_out : names of further columns that are not features, if the data have them. `file.npz:name` and `folder.zarr:name` pick an array.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = open_dataset(np.arange(6.0).reshape(3, 2), folder)
    ...     source.kind, source.shape, source.read(1, 3).tolist()
    ('npy', (3, 2), [[2.0, 3.0], [4.0, 5.0]])
    """
    staging, choice = Path(staging), Choice(None, labels_column, tuple(leave_out))
    if isinstance(data, str | os.PathLike):
        path, array = split_array_name(os.fspath(data))
        return _open_path(path, staging, choice._replace(array=array))
    if isinstance(data, pd.DataFrame):
        rows = rows_of_frame(Path("the data frame"), data, True, choice, first_line=0)
        return _stage_array(rows.X, staging, rows.feature_names)
    if hasattr(data, "dask"):
        names = tuple(str(name) for name in data.columns) if hasattr(data, "columns") else ()
        source = _named(_stage_dask(data, staging, client), names)
    elif sparse.issparse(data):
        source = write_csr(staging / "rows.zarr", data.tocsr())
    else:
        source = _stage_array(np.asarray(data), staging)
    return _features(source, choice, Path("the data"))


def _open_path(path: Path, staging: Path, choice: Choice) -> Source:
    if not path.exists():
        raise ValueError(f"there is no file or folder {path}")
    if path.suffix == ".npz":
        return _stage_npz(path, staging, choice)
    if path.suffix == ".csv":
        return _stage_csv(path, staging, choice)
    if path.suffix == ".parquet" or (path.is_dir() and parquet_files(str(path))):
        return _open_parquet(path, choice)
    if path.suffix == ".npy":
        with one_sentence(path):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        source = _checked(Source("npy", str(path.resolve()), _two(mapped.shape, path), str(mapped.dtype)))
    elif path.is_dir():
        source = _open_zarr(path, choice.array)
        if choice.labels_column is not None and (path / choice.labels_column / "zarr.json").is_file():
            choice = choice._replace(labels_column=None)  # an array beside the rows
    else:
        raise ValueError(
            f"dtree reads .zarr, .npy, .npz, .parquet (a file or a folder of them) and .csv, not {path.name}"
        )
    return _features(source, choice, path)


def _features(source: Source, choice: Choice, path: Path) -> Source:
    """The source without the columns that are not features."""
    names = list(source.columns) or [str(column) for column in range(source.shape[1])]
    unwanted = {names.index(name) for name in choice.leave_out if name in names}
    counted = [name for name in choice.leave_out if name.startswith("-") and name[1:].isdigit() and not source.columns]
    unwanted |= {len(names) - int(name[1:]) for name in counted if 1 <= int(name[1:]) <= len(names)}
    if choice.labels_column is not None:
        unwanted.add(column_index(names, choice.labels_column, path))
    return source.pick([column for column in range(len(names)) if column not in unwanted]) if unwanted else source


def _named(source: Source, names: Sequence[str] | None) -> Source:
    """The source with the names of its features, unless they are none or not distinct."""
    proper = names is not None and len(names) == len(set(names)) == source.shape[1]
    return replace(source, columns=tuple(names or ())) if proper else source


def _open_zarr(path: Path, array: str | None = None) -> Source:
    try:
        node: Any = zarr.open(str(path), mode="r")
    except Exception as problem:
        raise ValueError(f"{path} is neither a zarr store nor a folder of .parquet files") from problem
    names = node.attrs.get("feature_names")
    names = [str(name) for name in names] if isinstance(names, list) else None
    if isinstance(node, zarr.Array):
        if array is not None:
            raise ValueError(f"{path} is one array, so an array cannot be chosen by name ('{array}')")
        check_array(node, path)
        step = (node.shards or node.chunks)[0]
        source = Source("zarr", str(path.resolve()), _two(node.shape, path), str(node.dtype), int(step))
        return _named(_checked(source), names)
    known = set(node.array_keys())
    if {"data", "indices", "indptr"} <= known and array is None:
        shape = node.attrs.get("shape")
        if shape is None:
            raise ValueError(f"the sparse rows in {path} have no attribute 'shape': write [rows, columns] into it")
        check_csr(node, path, shape)
        return _named(
            _checked(Source("zarr-csr", str(path.resolve()), _two(shape, path), str(node["data"].dtype))), names
        )
    members = known | set(node.group_keys())
    if (array or "X") in members:
        return _named(_open_zarr(path / (array or "X")), names)
    if array is not None:
        raise ValueError(f"{path} has no array '{array}'; it has {listed(sorted(members))}")
    raise ValueError(f"the zarr group {path} has neither an array X nor data, indices and indptr of sparse rows")


def _open_parquet(path: Path, choice: Choice) -> Source:
    import pyarrow.parquet as pq

    with one_sentence(path):
        schema = pq.ParquetFile(parquet_files(str(path))[0]).schema_arrow
    types = {}
    for name in schema.names:
        if not name.startswith("__index_level"):
            try:
                types[name] = np.dtype(schema.field(name).type.to_pandas_dtype())
            except (TypeError, NotImplementedError):
                types[name] = np.dtype(object)
    unwanted = set(choice.leave_out)
    if choice.labels_column is not None:
        names = list(types)
        unwanted.add(names[column_index(names, choice.labels_column, path)])
    text = [name for name, kind in types.items() if kind.kind not in "biuf" and name not in unwanted]
    named = next((name for name in text if name.strip().lower() in ROW_NAME_COLUMNS), None)
    if text and text != [named]:
        worst = next(name for name in text if name != named)
        raise ValueError(
            f"{path}: the column '{worst}' does not hold numbers; turn it into numbers, or leave it out "
            f"(on the command line: --labels-column '{worst}')"
        )
    columns = tuple(name for name in types if name not in unwanted and name != named)
    dtype = np.result_type(*(types[name] for name in columns)) if columns else np.dtype(float)
    row_groups.cache_clear()
    with one_sentence(path):
        groups = row_groups(str(path))
    rows = sum(count for _, _, count in groups)
    step = groups[0][2] if groups and len({count for _, _, count in groups[:-1]}) <= 1 else 1
    return _checked(Source("parquet", str(path.resolve()), (rows, len(columns)), str(dtype), max(step, 1), columns))


def _stage_npz(path: Path, staging: Path, choice: Choice) -> Source:
    refuse_strange_members(path)
    rows = read_rows(path, array=choice.array, labels_column=choice.labels_column, leave_out=choice.leave_out)
    if sparse.issparse(rows.X):
        return _named(write_csr(staging / "rows.zarr", rows.X), rows.feature_names)
    return _stage_array(rows.X, staging, rows.feature_names)


def _stage_csv(path: Path, staging: Path, choice: Choice) -> Source:
    """Parse the text once, in pieces, into a zarr array that every pass can read quickly."""
    with one_sentence(path):
        delimiter, has_header = look_at_csv(path)
        pieces: Any = pd.read_csv(path, chunksize=_CSV_ROWS, **csv_options(delimiter, has_header))
    staging.mkdir(parents=True, exist_ok=True)
    done, names = 0, list[str]()
    array: zarr.Array | None = None
    while True:
        with one_sentence(path):
            frame = next(pieces, None)
        if frame is None:
            break
        if array is not None:  # as in the first piece: labels and names of rows are no features
            frame = frame.rename(columns=str)[names]
            choice = Choice()
        rows = rows_of_frame(path, frame, True, choice, first_line=done + (2 if has_header else 1))
        if array is None:
            names = rows.feature_names or []
            array = _new_rows(staging / "rows.zarr", (0, rows.X.shape[1]), np.dtype(np.float64), _CSV_ROWS)
        array.append(rows.X, axis=0)
        done += rows.X.shape[0]
    if array is None:
        raise ValueError(f"{path} holds no rows")
    return _named(_open_zarr(staging / "rows.zarr"), names if has_header else None)


def _stage_array(values: np.ndarray, staging: Path, names: Sequence[str] | None = None) -> Source:
    shape = _two(values.shape, "the data")
    _checked(Source("npy", "", shape, str(values.dtype)))
    staging.mkdir(parents=True, exist_ok=True)
    path = staging / "rows.npy"
    np.save(path, np.ascontiguousarray(values))
    return _named(Source("npy", str(path.resolve()), shape, str(values.dtype)), names)


def _stage_dask(data: Any, staging: Path, client: Client | None) -> Source:
    """Let the workers write a Dask collection into zarr; unknown chunk sizes are found out first."""
    compute = client.compute if client is not None else None
    if hasattr(data, "to_dask_array"):
        lengths = data.map_partitions(len)
        data = data.to_dask_array(lengths=list(compute(lengths, sync=True) if compute else lengths.compute()))
    if np.isnan(data.shape[0]) or any(np.isnan(size) for size in data.chunks[0]):
        lengths = dask.array.map_blocks(lambda block: np.array([block.shape[0]]), data[:, :1], dtype=int, drop_axis=1)
        sizes = compute(lengths, sync=True) if compute else lengths.compute()
        chunks = (tuple(int(size) for size in sizes), *data.chunks[1:])
        data = dask.array.Array(data.dask, data.name, chunks, meta=data._meta)  # the caller's own array stays as it is
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
