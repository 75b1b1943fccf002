"""The names of rows, where there are few enough of them to be worth keeping; names of features come with the source."""

from __future__ import annotations

import os
from typing import Any

from dtree.core.names import take_names
from dtree.store.readers import read_rows, split_array_name

_SMALL_FILE = 100_000_000  # bytes; names of rows in larger ones are not looked for
_MOST_NAMES = 1_000_000


def row_names_of(data: Any, labels_column: str | None = None) -> list[str] | None:
    """Names (n,) of the rows of a frame (its index), of a small file (a column called name or id) or of a zarr store.

    >>> import pandas
    >>> row_names_of(pandas.DataFrame({"length": [1.0, 2.0]}, index=["ash", "box"]))
    ['ash', 'box']
    >>> row_names_of([[1.0], [2.0]]) is None
    True
    """
    if isinstance(data, str | os.PathLike):
        names = _in_file(os.fspath(data), labels_column)
    else:
        names = None if hasattr(data, "dask") else take_names(data).row_names
    return None if names is None or len(names) > _MOST_NAMES else [str(name) for name in names]


def _in_file(name: str, labels_column: str | None) -> Any:
    path, _ = split_array_name(name)
    if path.is_file() and path.suffix in (".csv", ".npz", ".parquet") and path.stat().st_size <= _SMALL_FILE:
        return read_rows(name, labels_column=labels_column).row_names
    if path.is_dir() and (path / "zarr.json").exists():
        import zarr

        found = zarr.open(str(path), mode="r").attrs.get("row_names")
        return found if isinstance(found, list) else None
    return None
