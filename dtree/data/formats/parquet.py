"""`.parquet`: a file or a folder of them, read by row group in the order of the file names."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dtree.core.columns import Column
from dtree.data.cells import cells_of
from dtree.data.coding import coded
from dtree.data.formats.parquet_look import Look, as_pandas_column, files_of, number_type, reader
from dtree.data.kinds import Around
from dtree.data.source import Beside, Choice, Source
from dtree.data.tables import Table, understood
from dtree.storage.options import StorageOptions, current_options
from dtree.storage.places import Place, located

BY_RANGES = True
RECORDED_KINDS = ("parquet",)


@lru_cache(maxsize=8)
def row_groups(path: str, options: StorageOptions) -> tuple[tuple[Place, int, int], ...]:
    """(file, row group, rows) of every row group, in order."""
    found: list[tuple[Place, int, int]] = []
    for file in files_of(located(path, options)):
        metadata = reader(file).metadata
        found += [(file, group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]
    return tuple(found)


def opened(path: Place, choice: Choice) -> Source:
    """The shape of the table and what its columns are for: by its schema, and by a look at what holds text."""
    files, place = files_of(path), str(path.resolve())
    if not files:
        raise ValueError(f"{path} is a folder without .parquet files")
    look = Look.at(path, files)
    row_groups.cache_clear()
    groups = row_groups(place, current_options())
    found = understood(Table(look.names, look.summary, str(path)), choice)
    named = look.index if look.index is not None else None if found.row_names is None else look.names[found.row_names]
    labels = None if found.labels is None else look.names[found.labels]
    features = tuple(column.name for column in found.kinds)
    as_they_are = [_read_as(look.types[column], kind) for column, kind in zip(found.features, found.kinds)]
    dtype = np.result_type(*as_they_are) if features else np.dtype(float)
    step = groups[0][2] if groups and len({count for _, _, count in groups[:-1]}) <= 1 else 1
    return Source(
        "parquet", place, (look.rows, len(features)), str(dtype), max(step, 1), features, kinds=found.kinds,
        beside=Beside(labels, named, is_coded=found.is_coded), left_out=found.left_out, name=str(path),
    )  # fmt: skip


def _read_as(kind: Any, column: Column | None) -> np.dtype:
    """The type in which a column is read: its own where it holds numbers, else the codes' or days'."""
    own = number_type(kind)
    return own if own is not None and (column is None or column.kind != "category") else np.dtype(np.float64)


def read(source: Source, start: int, stop: int) -> np.ndarray:
    """Rows start..stop-1 of the features."""
    kinds: Sequence[Column | None] = source.kinds or [None] * source.shape[1]
    texts = [column.name for column in source.kinds if column.kind in ("category", "binary")]
    out, first = np.zeros((stop - start, len(kinds)), dtype=np.bool_), 0
    for file, group, rows in row_groups(source.path, source.options):
        if first < stop and first + rows > start:
            table = reader(file, texts).read_row_group(group, columns=list(source.columns))
            own, into = slice(max(start - first, 0), stop - first), max(first - start, 0)
            # Each column goes to its place at once: several copies of a chunk would be what a worker needs most for.
            for j, (name, kind) in enumerate(zip(source.columns, kinds)):
                values = _values(table.column(name), kind, source)[own]
                out = out.astype(np.result_type(out, values), copy=False)
                out[into : into + values.shape[0], j] = values
        first += rows
    return out


def _values(column: Any, kind: Column | None, source: Source) -> np.ndarray:
    """A column as numbers: as it is stored where it holds numbers, else by its kind; NaN where it has no value."""
    if kind is None or (number_type(column.type) is not None and kind.kind != "category"):
        values = column.to_numpy()  # truth values with gaps come as objects
        return values.astype(np.float64) if values.dtype.hasobject else values
    return coded(cells_of(as_pandas_column(column)), kind, Around(source.name or source.path, 0, False, True))


def _column(path: Place, name: str) -> np.ndarray:
    return np.concatenate([reader(file).read(columns=[name]).column(name).to_numpy() for file in files_of(path)])


def column(source: Source, place: str) -> np.ndarray:
    """The column of this name."""
    return _column(source.place, place)


def row_names(source: Source) -> np.ndarray | None:
    """The index of the frame that was written, or a column that names the rows."""
    return None if source.beside.row_names is None else _column(source.place, str(source.beside.row_names))


def table(source: Source) -> tuple[Any, list[int]]:
    """All files as they are, one below the other, and where the features stand in them."""
    import pandas

    parts = [reader(file).read() for file in files_of(source.place)]
    columns = {
        name: [value for part in parts for value in part.column(name).to_pylist()] for name in parts[0].column_names
    }
    frame = pandas.DataFrame(columns, dtype=object)
    return frame, [frame.columns.get_loc(name) for name in source.columns]
