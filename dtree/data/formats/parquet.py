"""`.parquet`: a file or a folder of them, read by row group in the order of the file names."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from dtree.data.columns import mostly_numbers, roles_of
from dtree.data.source import Beside, Choice, Source

BY_RANGES = True
RECORDED_KINDS = ("parquet",)
_MOST_LOOKED_AT = 1_000_000  # rows of a text column that are read to see whether it names the rows


def files_of(path: str | Path) -> list[Path]:
    """The .parquet files of a folder in the order of their names, or the file itself."""
    folder = Path(path)
    return [folder] if folder.is_file() else sorted(folder.rglob("*.parquet"))


@lru_cache(maxsize=8)
def row_groups(path: str) -> tuple[tuple[str, int, int], ...]:
    """(file, row group, rows) of every row group, in order."""
    import pyarrow.parquet as pq

    found = []
    for file in files_of(path):
        metadata = pq.ParquetFile(file).metadata
        found += [(str(file), group, metadata.row_group(group).num_rows) for group in range(metadata.num_row_groups)]
    return tuple(found)


def opened(path: Path, choice: Choice) -> Source:
    """The shape of the table and what its columns are for, by its schema."""
    import pandas
    import pyarrow.parquet as pq

    files, place = files_of(path), str(path.resolve())
    if not files:
        raise ValueError(f"{path} is a folder without .parquet files")
    schema = pq.ParquetFile(files[0]).schema_arrow
    # The index of a pandas frame names its rows, as it does when the frame itself is given.
    index = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if name in schema.names]
    columns = [field for field in schema if field.name not in index]
    names, kinds = [field.name for field in columns], [_number_type(field.type) for field in columns]
    row_groups.cache_clear()
    groups = row_groups(place)
    n = sum(count for _, _, count in groups)

    def names_rows(column: int) -> bool:
        values = pandas.Series(_column(place, names[column])) if n <= _MOST_LOOKED_AT else None
        return values is not None and values.is_unique and not mostly_numbers(values)

    roles = roles_of(
        names, [kind is None for kind in kinds], choice, str(path), names_rows, lambda column: (
            f"{path}: the column '{names[column]}' does not hold numbers; turn it into numbers, or leave it out "
            f"(on the command line: --labels-column '{names[column]}')"
        ),
    )  # fmt: skip
    named = index[0] if len(index) == 1 else None if roles.row_names is None else names[roles.row_names]
    labels = None if roles.labels is None else names[roles.labels]
    features = tuple(names[column] for column in roles.features)
    dtype = np.result_type(*(kinds[column] for column in roles.features)) if features else np.dtype(float)
    step = groups[0][2] if groups and len({count for _, _, count in groups[:-1]}) <= 1 else 1
    beside = Beside(labels, named)
    return Source("parquet", place, (n, len(features)), str(dtype), max(step, 1), features, beside=beside)


def _number_type(kind: Any) -> np.dtype | None:
    """The NumPy type of a column of numbers, None for any other."""
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except (TypeError, NotImplementedError):
        return None
    return dtype if dtype.kind in "biuf" else None


def read(source: Source, start: int, stop: int) -> np.ndarray:
    """Rows start..stop-1 of the features."""
    import pyarrow.parquet as pq

    parts, first = [], 0
    for file, group, rows in row_groups(source.path):
        if first < stop and first + rows > start:
            table = pq.ParquetFile(file).read_row_group(group, columns=list(source.columns))
            values = np.column_stack([_numbers(table.column(name)) for name in source.columns])
            parts.append(values[max(start - first, 0) : stop - first])
        first += rows
    return np.concatenate(parts)


def _numbers(column: Any) -> np.ndarray:
    """A column with NaN where it has no value; truth values with gaps come as objects."""
    values = column.to_numpy()
    return values.astype(np.float64) if values.dtype.hasobject else values


def _column(path: str, name: str) -> np.ndarray:
    import pyarrow.parquet as pq

    return np.concatenate(
        [pq.ParquetFile(file).read(columns=[name]).column(name).to_numpy() for file in files_of(path)]
    )


def column(source: Source, place: str) -> np.ndarray:
    """The column of this name."""
    return _column(source.path, place)


def row_names(source: Source) -> np.ndarray | None:
    """The index of the frame that was written, or a column that names the rows."""
    return None if source.beside.row_names is None else _column(source.path, str(source.beside.row_names))
