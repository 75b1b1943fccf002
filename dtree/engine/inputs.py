"""Data for a method that needs all rows at once: files are read and Dask collections computed, names and all."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dtree.core.names import Named
from dtree.store.rows import Rows


def in_memory(X: Any) -> Any:
    """The rows behind a path (`.npy .npz .csv .parquet .zarr`) or a Dask collection; anything else as it is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "heights.csv")
    ...     _ = open(path, "w").write("name,height\\nash,20\\nbox,2\\n")
    ...     rows = in_memory(path)
    >>> rows.X.tolist(), rows.row_names.tolist(), rows.feature_names.tolist()
    ([[20.0], [2.0]], ['ash', 'box'], ['height'])
    """
    if hasattr(X, "dask"):
        return X.compute()
    if not isinstance(X, str | os.PathLike):
        return X
    from dtree.store.readers import read_rows

    return with_names(read_rows(os.fspath(X)))


def with_names(rows: Rows) -> Named:
    """What a file holds, for an estimator; features that share a name are better called by their number."""
    features = rows.feature_names
    if features is not None and len(set(features)) < len(features):
        features = None
    return Named(rows.X, _as_array(rows.row_names), _as_array(features))


def _as_array(names: list[str] | None) -> np.ndarray | None:
    return None if names is None else np.array(names, dtype=object)
