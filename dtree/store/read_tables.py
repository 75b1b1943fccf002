"""Rows from tables: `.csv` and `.parquet`."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np

from dtree.store.rows import Choice, Rows, column_index

ROW_NAME_COLUMNS = {"", "id", "name", "names", "row", "row_name", "row_names", "unnamed: 0"}


def read_csv(path: Path, choice: Choice) -> Rows:
    import pandas

    delimiter, has_header = look_at_csv(path)
    frame = pandas.read_csv(path, **csv_options(delimiter, has_header))
    return rows_of_frame(path, frame, has_header, choice, first_line=2 if has_header else 1)


def csv_options(delimiter: str, has_header: bool) -> dict[str, Any]:
    """How pandas must read a file that `look_at_csv` has looked at."""
    return {
        "sep": delimiter,
        "header": 0 if has_header else None,
        "encoding": "utf-8-sig",
        "skip_blank_lines": True,
        "index_col": False,
        "low_memory": False,
    }


def look_at_csv(path: Path) -> tuple[str, bool]:
    """The delimiter and whether there is a header; a ragged file is refused (pandas would fill it with NaN)."""
    with open(path, encoding="utf-8-sig", newline="") as handle:
        first_line = next((line for line in handle if line.strip()), "")
        if not first_line:
            raise ValueError(f"{path} is empty")
        delimiter = max((",", ";", "\t"), key=first_line.count)
        handle.seek(0)
        width = 0
        first: list[str] = []
        second: list[str] = []
        reader = csv.reader(handle, delimiter=delimiter)
        for fields in reader:
            if not fields or (len(fields) == 1 and not fields[0].strip()):
                continue
            if not width:
                width, first = len(fields), fields
            elif not second:
                second = fields
            if len(fields) != width:
                raise ValueError(
                    f"{path} is ragged: line {reader.line_num} has {len(fields)} values but the first line has {width}"
                )
    return delimiter, not all(_is_number(field) for field in first) or _numbers_columns(first, second)


def _numbers_columns(first: list[str], second: list[str]) -> bool:
    """Whether a first line of numbers is a header after all: 0, 1, 2, ... (or from 1) above something else than integers."""
    names = [field.strip() for field in first]
    counting = any(names == [str(start + column) for column in range(len(names))] for start in (0, 1))
    return counting and any("." in field or "e" in field.lower() for field in second)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


def read_parquet(path: Path, choice: Choice) -> Rows:
    import pandas

    try:
        frame = pandas.read_parquet(path)
    except ImportError:
        raise ValueError(
            f"{path} cannot be read because pyarrow is not installed; pip install 'dtree[parquet]'"
        ) from None
    if not isinstance(frame.index, pandas.RangeIndex) and frame.index.name not in frame.columns:
        frame = frame.reset_index(names=["name"] if frame.index.nlevels == 1 and frame.index.name is None else None)
    return rows_of_frame(path, frame, True, choice, first_line=0)


def rows_of_frame(path: Path, frame: Any, named: bool, choice: Choice, first_line: int) -> Rows:
    """The numeric columns of a data frame as rows, its labels and the names of its rows kept apart."""
    from pandas.api import types

    frame = frame.rename(columns=str)
    if len(frame) == 0:
        raise ValueError(f"{path} is empty: it holds 0 rows of {frame.shape[1]} columns")
    labels = row_names = None
    if choice.labels_column is not None:
        labelled = column_index([str(name) for name in frame.columns], choice.labels_column, path)
        labels = _plain_labels(frame.iloc[:, labelled])
        frame = frame.drop(columns=frame.columns[labelled])
    frame = frame.drop(columns=[name for name in choice.leave_out if name in frame.columns])
    text = [not (types.is_numeric_dtype(kind) or types.is_bool_dtype(kind)) for kind in frame.dtypes]
    column = _row_name_column(frame, text)
    if column is not None:
        row_names = [str(value) for value in frame.iloc[:, column]]
        frame = frame.drop(columns=frame.columns[column])
        text.pop(column)
    for column, name in enumerate(frame.columns):
        if text[column]:
            raise ValueError(_text_column_sentence(path, frame.iloc[:, column], str(name), first_line))
    X = frame.to_numpy(dtype=np.float64, na_value=np.nan) if frame.shape[1] else np.empty((len(frame), 0))
    names = [str(name) for name in frame.columns] if named else None
    return Rows(X, names, row_names, labels, str(path))


def _row_name_column(frame: Any, text: list[bool]) -> int | None:
    """A text column called id or name, else a first text column without repeats, else a first column without a name."""
    for column, name in enumerate(frame.columns):
        if text[column] and name.strip().lower() in ROW_NAME_COLUMNS:
            return column
    if text and text[0] and frame.shape[1] > 1 and frame.iloc[:, 0].is_unique and not _mostly_numbers(frame.iloc[:, 0]):
        return 0
    # The index column that pandas writes unless told otherwise.
    if text and frame.shape[1] > 1 and frame.columns[0].strip().lower() in ("", "unnamed: 0"):
        return 0
    return None


def _mostly_numbers(column: Any) -> bool:
    """Whether a text column is a numeric one spoiled by a few words or by decimal commas."""
    import pandas

    return bool(pandas.to_numeric(column.astype(str).str.replace(",", "."), errors="coerce").notna().mean() > 0.5)


def _text_column_sentence(path: Path, column: Any, name: str, first_line: int) -> str:
    import pandas

    numbers = pandas.to_numeric(column, errors="coerce")
    bad = int(np.flatnonzero((numbers.isna() & column.notna()).to_numpy())[0]) if numbers.isna().any() else 0
    place = f"line {bad + first_line}" if first_line else f"row {bad}"
    value = str(column.iloc[bad])[:40]
    advice = ", with a point instead of a comma" if re.fullmatch(r"\s*[-+]?\d*,\d+\s*", value) else ""
    return (
        f"{path}: the column '{name}' holds text ('{value}' in {place}); "
        f"turn it into numbers{advice}, or leave it out (on the command line: --labels-column '{name}')"
    )


def _plain_labels(column: Any) -> np.ndarray:
    values = column.to_numpy()
    return np.asarray([str(value) for value in values]) if values.dtype.kind not in "biuf" else values
