"""What is in the columns of parquet files: footers for numbers, one scan of the columns that hold text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dtree.data.cells import Cells, cells_of
from dtree.data.summary import Summary
from dtree.storage.places import Place, file_to_read

_MOST_LOOKED_AT = 1_000_000  # rows up to which numbers are read too; of more rows the footers must tell
_WORTH_COUNTING = 1000  # a range of whole numbers in which there may be so few different ones that they are codes


def files_of(folder: Place) -> list[Any]:
    """The .parquet files of a folder in the order of their names, or the file itself."""
    return [folder] if folder.is_file() else sorted(folder.rglob("*.parquet"))


def reader(file: Place, texts: Sequence[str] = ()) -> Any:
    """A file whose columns of text come as codes and dictionaries, the way they are stored for the most part.

    A remote one is asked for neighbouring columns at once (`pre_buffer`), since every question costs time.
    """
    import pyarrow.parquet as pq

    handle = file_to_read(file)
    return pq.ParquetFile(handle, read_dictionary=list(texts), pre_buffer=handle is not file)


def number_type(kind: Any) -> np.dtype | None:
    """The NumPy type of a column of numbers or truth values, None for any other."""
    import pyarrow.types as types

    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return None
    return np.dtype(kind.to_pandas_dtype())


def as_pandas_column(column: Any) -> Any:
    """A column of a table as a pandas one: text by its dictionary, dates as dates, decimals as numbers."""
    import pandas
    import pyarrow
    import pyarrow.types as types

    kind = column.type
    if types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    if types.is_null(kind):
        return pandas.Series(np.full(len(column), np.nan))
    if types.is_dictionary(kind):
        column = column.unify_dictionaries().combine_chunks()
        column = column if not hasattr(column, "chunks") else column.chunk(0)
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        levels = column.dictionary.to_pylist()
        return pandas.Series(pandas.Categorical.from_codes(codes, categories=pandas.Index(levels, dtype=object)))
    return column.to_pandas(date_as_object=False)


def _sort(kind: Any) -> str:
    """What a type is for people: columns of one sort may differ in type from file to file."""
    import pyarrow.types as types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_null(kind):
        return ""
    if types.is_boolean(kind):
        return "truth values"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    return "dates" if types.is_date(kind) or types.is_timestamp(kind) else str(kind)


@dataclass
class Look:
    """The columns of all files together; `summary` looks at one when it is asked for."""

    files: list[Any]
    names: list[str]
    types: list[Any]  # Arrow's
    index: str | None  # the column that was the index of a pandas frame
    rows: int
    found: dict[int, Summary] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Place, files: list[Any]) -> Look:
        """By the footers; files whose columns do not fit each other get one sentence."""
        first = reader(files[0])
        schema, rows = first.schema_arrow, first.metadata.num_rows
        # The index of a pandas frame names its rows, as it does when the frame itself is given.
        index = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if name in schema.names]
        columns = {kept.name: kept.type for kept in schema if kept.name not in index}
        sorts = {name: _sort(kind) for name, kind in columns.items()}
        for file in files[1:]:
            other = reader(file)
            rows += other.metadata.num_rows
            for name in columns:
                if name not in other.schema_arrow.names:
                    raise ValueError(f"{path}: {file.name} lacks the column '{name}', which {files[0].name} has")
                kind = other.schema_arrow.field(name).type
                if "" in (_sort(kind), sorts[name]):  # nothing but gaps
                    columns[name] = kind if sorts[name] == "" else columns[name]
                    sorts[name] = sorts[name] or _sort(kind)
                elif _sort(kind) != sorts[name]:
                    raise ValueError(
                        f"{path}: the column '{name}' holds {sorts[name]} in {files[0].name} but {_sort(kind)} in "
                        f"{file.name}; write it with one type, or leave it out (--column '{name}=skip')"
                    )
                elif number_type(kind) is not None and number_type(columns[name]) is not None:
                    wider = np.result_type(number_type(kind), number_type(columns[name]))
                    columns[name] = kind if number_type(kind) == wider else columns[name]
        names = [kept.name for kept in schema if kept.name not in index]
        return cls(files, names, [columns[name] for name in names], index[0] if len(index) == 1 else None, rows)

    def summary(self, place: int) -> Summary:
        """What is in a column."""
        if place not in self.found:
            by_footer = self._by_footer(place) if self.rows > _MOST_LOOKED_AT else None
            self.found[place] = self._by_reading(place) if by_footer is None else by_footer
        return self.found[place]

    def _by_reading(self, place: int) -> Summary:
        found, is_text = Summary(), _sort(self.types[place]) == "text"
        for column in self._pieces(self.names[place], [self.names[place]] if is_text else []):
            cells = cells_of(as_pandas_column(column))
            # Dictionaries differ from piece to piece, so that their order means nothing: levels are sorted.
            found.add(Cells("text", *cells[1:]) if cells.form == "category" else cells)
        return found

    def _pieces(self, name: str, texts: list[str]) -> Iterator[Any]:
        for file in self.files:
            opened = reader(file, texts)
            for group in range(opened.num_row_groups):
                yield opened.read_row_group(group, columns=[name]).column(name)

    def _by_footer(self, place: int) -> Summary | None:
        """What the statistics of the row groups tell of a column of numbers, or None when they do not tell enough."""
        kind = number_type(self.types[place])
        if kind is None:
            return None
        found, name = Summary(), self.names[place]
        for file in self.files:
            metadata = reader(file).metadata
            for group in range(metadata.num_row_groups):
                part = metadata.row_group(group)
                by_name = {part.column(at).path_in_schema: part.column(at) for at in range(part.num_columns)}
                told = by_name[name].statistics
                if told is None or not told.has_null_count:
                    return None
                if told.null_count < part.num_rows:
                    if not told.has_min_max:
                        return None
                    ends = np.array([told.min, told.max], dtype=np.float64)
                    found.add(Cells("truth" if kind.kind == "b" else "number", ends))
                    found.rows -= 2
                found.rows += part.num_rows
                found.missing += told.null_count
        if kind.kind in "iu" and found.high - found.low < _WORTH_COUNTING:
            return None  # it may hold codes, which must be known: one narrow column is read
        found.whole = kind.kind in "iu"  # decimals of a few values say nothing about the rest
        found.running = found.high - found.low + 1 == found.rows
        found.values = {0.0, 1.0} if kind.kind == "b" else None
        return found
