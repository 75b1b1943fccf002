"""Dask collections: the workers write them into a zarr array, never through this process."""

from typing import Any

import dask
import dask.array
import numpy as np
import zarr
from distributed import Client
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from dtree.core.names import Named, require_distinct
from dtree.data import Source
from dtree.data.chunks import rows_per_chunk
from dtree.data.columns import with_names
from dtree.data.formats.zarr import COMPLETE, append_csr, new_csr, new_rows, opened
from dtree.data.sentences import require_table
from dtree.data.source import Choice
from dtree.storage.places import located
from dtree.storage.zarr_places import zarr_at


def stage_collection(data: Any, folder: Any, client: Client | None) -> Source:
    """The rows of a Dask array or dataframe in `folder/rows.zarr`; unknown chunk sizes are found out first.

    Sparse blocks are written as arrays, since most families take no others; those of a `Named` array, whose giver asked
    the family, stay sparse.
    """
    if isinstance(data, Named):
        names, data = None if data.feature_names is None else [str(name) for name in data.feature_names], data.X
        if hasattr(data._meta, "tocsr"):
            return with_names(_stage_sparse(data, located(folder) / "rows.zarr", client), names)
    else:
        names = [str(name) for name in data.columns] if hasattr(data, "columns") else None
    require_distinct(names or (), "the Dask dataframe")
    for name, kind in zip(names or (), getattr(data, "dtypes", ())):
        if not (is_numeric_dtype(kind) or is_bool_dtype(kind)):
            raise ValueError(
                f"the Dask dataframe: the column '{name}' does not hold numbers; write it with to_parquet and give the "
                "folder, whose categories are known on all workers, or drop the column"
            )
    compute = client.compute if client is not None else None
    if hasattr(data, "to_dask_array"):
        lengths = data.map_partitions(len)
        data = data.to_dask_array(lengths=list(compute(lengths, sync=True) if compute else lengths.compute()))
    if np.isnan(data.shape[0]) or any(np.isnan(size) for size in data.chunks[0]):
        lengths = dask.array.map_blocks(lambda block: np.array([block.shape[0]]), data[:, :1], dtype=int, drop_axis=1)
        sizes = compute(lengths, sync=True) if compute else lengths.compute()
        chunks = (tuple(int(size) for size in sizes), *data.chunks[1:])
        data = dask.array.Array(data.dask, data.name, chunks, meta=data._meta)  # the caller's own array stays as it is
    shape = require_table(data.shape, data.dtype, "the Dask array")
    rows = min(rows_per_chunk(shape[1]), shape[0])
    target = located(folder) / "rows.zarr"
    target.parent.mkdir(parents=True, exist_ok=True)
    new_rows(target, shape, data.dtype, rows)
    blocks = data.rechunk((rows, -1)).to_delayed().ravel()
    writes = [dask.delayed(_write_rows)(target, index * rows, block) for index, block in enumerate(blocks)]
    client.gather(client.compute(writes)) if client is not None else dask.compute(*writes, scheduler="synchronous")
    (target / COMPLETE).touch()
    return with_names(opened(target, Choice()), names)


def _stage_sparse(data: Any, target: Any, client: Client | None) -> Source:
    """Sparse blocks of a Dask array as CSR rows, one after another, since two blocks may share a chunk of the copy."""
    new_csr(target, data.shape[1], data.dtype)
    done: Any = None
    for block in data.rechunk({1: -1}).to_delayed().ravel():
        done = dask.delayed(_append_rows)(target, block, done)
    client.gather(client.compute(done)) if client is not None else dask.compute(done, scheduler="synchronous")
    return opened(target, Choice())


def _append_rows(path: Any, block: Any, before: Any) -> bool:
    append_csr(path, block)
    return True


def _write_rows(path: Any, start: int, block: Any) -> int:
    values = np.asarray(block.toarray() if hasattr(block, "toarray") else block)
    zarr.open_array(zarr_at(path), mode="r+")[start : start + values.shape[0]] = values
    return values.shape[0]
