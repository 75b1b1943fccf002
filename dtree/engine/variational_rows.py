"""Rows for a mixture, wherever they are, with the names that come with them.

A file that fits in memory easily is read at once, as the other commands read it, so that its text column of row names, its
separators and its arrays are understood; a larger one stays where it is and gives the names in its header only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dtree.core.names import take_names
from dtree.engine.input_checks import one_sentence
from dtree.store.readers import read_rows
from dtree.store.rows import Rows, listed

_READ_AT_ONCE = 100_000_000  # bytes of a file


class NamedRows(NamedTuple):
    """What the engine opens, and names (n,) of its rows and (d,) of its features where they have any."""

    data: Any
    row_names: list[str] | None = None
    feature_names: list[str] | None = None

    def in_order(self, fitted: Sequence[str] | None) -> NamedRows:
        """The same with the features `fitted` in that order, where both sides have names; a missing one is named.

        >>> import numpy as np
        >>> rows = NamedRows(np.array([[1.0, 2.0]]), None, ["b", "a"])
        >>> rows.in_order(["a", "b"]).data.tolist()
        [[2.0, 1.0]]
        """
        if fitted is None or self.feature_names is None or list(fitted) == self.feature_names:
            return self
        missing = [str(name) for name in fitted if name not in self.feature_names]
        if missing:
            raise ValueError(f"the rows lack features that the mixture was fitted to: {listed(missing)}")
        if isinstance(self.data, str | os.PathLike) or hasattr(self.data, "dask"):
            raise ValueError(
                f"{self.data} is too large to reorder its columns here: give the columns {listed(list(fitted))}, in that order"
            )
        columns = [self.feature_names.index(name) for name in fitted]
        data = self.data.iloc[:, columns] if hasattr(self.data, "iloc") else self.data[:, columns]
        return NamedRows(data, self.row_names, [str(name) for name in fitted])


def named_rows(data: Any) -> NamedRows:
    """Rows and their names from a path, a frame, an AnnData-like object, an array or a Dask collection.

    >>> import pandas
    >>> named_rows(pandas.DataFrame({"length": [1.0, 2.0]}, index=["ash", "box"]))[1:]
    (['ash', 'box'], ['length'])
    """
    if isinstance(data, NamedRows):
        return data
    if isinstance(data, Rows):
        return NamedRows(data.X, data.row_names, data.feature_names)
    if isinstance(data, str | os.PathLike):
        return _of_path(data)
    if hasattr(data, "dask"):
        return NamedRows(data, None, _texts(getattr(data, "columns", None)))
    X, row_names, feature_names = take_names(data)
    return NamedRows(X, _texts(row_names), _texts(getattr(X, "columns", feature_names)))


def _of_path(path: str | os.PathLike[str]) -> NamedRows:
    name, file = os.fspath(path), Path(path)
    picked = ":" in file.name  # file.npz:NAME picks an array
    if picked or (file.is_file() and file.suffix in (".csv", ".npz", ".parquet") and _small(file)):
        rows = read_rows(name)
        return NamedRows(rows.X, rows.row_names, rows.feature_names)
    if file.is_file() and file.suffix == ".csv":
        import pandas

        with one_sentence(file):
            return NamedRows(path, None, _texts(pandas.read_csv(file, nrows=0).columns))
    if file.is_dir() and file.suffix == ".zarr":
        return NamedRows(path, *_in_attributes(file))
    return NamedRows(path)


def _small(file: Path) -> bool:
    return file.stat().st_size <= _READ_AT_ONCE


def _in_attributes(folder: Path) -> tuple[list[str] | None, list[str] | None]:
    """Names of rows and features in the attributes of a zarr array or group; whatever is wrong with it is said by its reader."""
    import zarr

    try:
        attributes = dict(zarr.open(str(folder), mode="r").attrs)
    except (OSError, ValueError, KeyError):
        return None, None
    rows, features = (attributes.get(key) for key in ("row_names", "feature_names"))
    return _texts(rows if isinstance(rows, list) else None), _texts(features if isinstance(features, list) else None)


def _texts(names: Any) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
