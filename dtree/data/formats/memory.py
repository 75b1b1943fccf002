"""Rows in memory: arrays, sparse matrices, data frames and AnnData-like objects, also with rows on disk (HDF5)."""

from dataclasses import replace
from typing import Any

import numpy as np

from dtree.core.names import take_names
from dtree.data.arrays import array_column
from dtree.data.cells import cells_of
from dtree.data.chunks import chunk_bounds, rows_per_chunk
from dtree.data.columns import features_only, with_names
from dtree.data.formats import npy, zarr
from dtree.data.frames import as_pandas, is_frame
from dtree.data.on_disk import RowsOnDisk, is_on_disk
from dtree.data.sentences import require_table
from dtree.data.source import Beside, Choice, Source, plain_labels
from dtree.data.summary import Summary
from dtree.data.tables import Table, coded_frame, understood
from dtree.storage.places import Place

BY_RANGES = True
NAME = "an array"
_WHAT = "the data"  # in sentences
_FRAME = "the data frame"
column, row_names = array_column, npy.row_names


def opened(data: Any, choice: Choice) -> Source:
    """The rows of an object in memory; a Dask collection is computed."""
    if hasattr(data, "dask"):
        data = data.compute()
    if is_frame(data):
        return _of_frame(as_pandas(data), choice)
    X, names_of_rows, names_of_features = take_names(data)
    if is_on_disk(X) and not isinstance(X, RowsOnDisk):
        X = RowsOnDisk(X)
    is_sparse = X.is_sparse if isinstance(X, RowsOnDisk) else hasattr(X, "tocsr")
    if not isinstance(X, RowsOnDisk):
        X = X.tocsr() if is_sparse else np.asarray(X)
    shape = require_table(X.shape, X.dtype, _WHAT)
    kept = {} if names_of_rows is None else {"row_names": [str(name) for name in names_of_rows]}
    source = Source(
        "memory", "", shape, str(X.dtype), name=NAME, is_sparse=is_sparse, beside=Beside(details=X), kept=kept
    )
    names = None if names_of_features is None else [str(name) for name in names_of_features]
    return features_only(with_names(source, names), choice, _WHAT)


def _of_frame(frame: Any, choice: Choice) -> Source:
    """The rows of a pandas frame, coded by the kinds of its columns."""
    frame, names_of_rows, _ = take_names(frame)
    summaries: dict[int, Summary] = {}

    def summary(place: int) -> Summary:
        if place not in summaries:
            summaries[place] = Summary()
            summaries[place].add(cells_of(frame.iloc[:, place]))
        return summaries[place]

    found = understood(Table([str(name) for name in frame.columns], summary, _FRAME), choice)
    X = coded_frame(frame.iloc[:, found.features], found.kinds, _FRAME)
    shape = require_table(X.shape, X.dtype, _FRAME)
    kept: dict[str, Any] = {}
    if found.labels is not None:
        kept["labels"] = plain_labels(frame.iloc[:, found.labels].to_numpy())
    if names_of_rows is None and found.row_names is not None:
        names_of_rows = frame.iloc[:, found.row_names]
    if names_of_rows is not None:
        kept["row_names"] = [str(name) for name in names_of_rows]
    return Source(
        "memory", "", shape, "float64", columns=tuple(kind.name for kind in found.kinds), kinds=found.kinds, name=NAME,
        beside=Beside(details=X, table=frame, is_coded=found.is_coded), kept=kept, left_out=found.left_out,
    )  # fmt: skip


def read(source: Source, start: int, stop: int) -> Any:
    """Rows start..stop-1, a view where that is possible."""
    return source.beside.details[start:stop]


def stage(source: Source, folder: Place) -> Source:
    """All columns as `rows.npy`, or CSR rows as `rows.zarr`; what is on disk is copied piece by piece."""
    X = source.beside.details
    if isinstance(X, RowsOnDisk):
        copy = _copied(X, folder / "rows.zarr")
    elif source.is_sparse:
        copy = zarr.write_csr(folder / "rows.zarr", X)
    else:
        npy.write(folder / "rows.npy", np.ascontiguousarray(X))
        copy = npy.described(folder / "rows.npy", X.shape, X.dtype)
    return replace(copy, shape=source.shape, columns=source.columns, picked=source.picked)


def _copied(X: RowsOnDisk, path: Place) -> Source:
    """Rows on disk as `rows.zarr`."""
    rows = min(rows_per_chunk(X.shape[1]), X.shape[0])
    if not X.is_sparse:
        array = zarr.new_rows(path, (X.shape[0], X.shape[1]), X.dtype, rows)
    else:
        zarr.new_csr(path, X.shape[1], X.dtype)
    for start, stop in chunk_bounds(X.shape[0], rows):
        if X.is_sparse:
            zarr.append_csr(path, X[start:stop])
        else:
            array[start:stop] = X[start:stop]
    if not X.is_sparse:
        (path / zarr.COMPLETE).touch()
    return zarr.opened(path, Choice())


def n_stored(source: Source) -> int:
    """Values that a sparse matrix stores."""
    return int(source.beside.details.nnz)
