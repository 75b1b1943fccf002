"""Data for a method that needs all rows at once: files are read and Dask collections computed, names and all."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dtree.core.names import Named


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

    rows = read_rows(os.fspath(X))
    return Named(rows.X, _distinct(rows.row_names, False), _distinct(rows.feature_names, True))


def _distinct(names: list[str] | None, required: bool) -> np.ndarray | None:
    """Names as an array; features that share a name are better called by their number."""
    if names is None or (required and len(set(names)) < len(names)):
        return None
    return np.array(names, dtype=object)
