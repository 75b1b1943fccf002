"""Rows in memory: arrays, sparse matrices, data frames and AnnData-like objects."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dtree.core.names import take_names
from dtree.data.arrays import array_column
from dtree.data.columns import features_only, numbers_in_frame, roles_in_frame, with_names
from dtree.data.formats import npy, zarr
from dtree.data.sentences import require_table
from dtree.data.source import Beside, Choice, Source, plain_labels

BY_RANGES = True
NAME = "an array"
_WHAT = "the data"  # in sentences
_FRAME = "the data frame"
column, row_names = array_column, npy.row_names


def opened(data: Any, choice: Choice) -> Source:
    """The rows of an object in memory; a Dask collection is computed."""
    if hasattr(data, "dask"):
        data = data.compute()
    X, names_of_rows, names_of_features = take_names(data)
    kept: dict[str, Any] = {}
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        roles = roles_in_frame(X, choice, _FRAME, first_line=0)
        if names_of_rows is None and roles.row_names is not None:
            names_of_rows = X.iloc[:, roles.row_names]
        if roles.labels is not None:
            kept["labels"] = plain_labels(X.iloc[:, roles.labels].to_numpy())
        features = X.iloc[:, roles.features]
        X, names_of_features = numbers_in_frame(features, _FRAME, 0), features.columns.to_numpy()
        choice = Choice()  # done
    is_sparse = hasattr(X, "tocsr")
    X = X.tocsr() if is_sparse else np.asarray(X)
    shape = require_table(X.shape, X.dtype, _WHAT)
    if names_of_rows is not None:
        kept["row_names"] = [str(name) for name in names_of_rows]
    source = Source(
        "memory", "", shape, str(X.dtype), name=NAME, is_sparse=is_sparse, beside=Beside(details=X), kept=kept
    )
    names = None if names_of_features is None else [str(name) for name in names_of_features]
    return features_only(with_names(source, names), choice, _WHAT)


def read(source: Source, start: int, stop: int) -> Any:
    """Rows start..stop-1, a view where that is possible."""
    return source.beside.details[start:stop]


def stage(source: Source, folder: Path) -> Source:
    """All columns as `rows.npy`, or CSR rows as `rows.zarr`."""
    X = source.beside.details
    if source.is_sparse:
        copy = zarr.write_csr(folder / "rows.zarr", X)
    else:
        np.save(folder / "rows.npy", np.ascontiguousarray(X))
        copy = npy.described(folder / "rows.npy", X.shape, X.dtype)
    return replace(copy, shape=source.shape, columns=source.columns, picked=source.picked)


def n_stored(source: Source) -> int:
    """Values that a sparse matrix stores."""
    return int(source.beside.details.nnz)
