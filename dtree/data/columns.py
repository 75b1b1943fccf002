"""Which columns are features, which one holds labels, and which one names the rows."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dtree.core.names import require_distinct
from dtree.data.sentences import listed
from dtree.data.source import Choice, Source

ROW_NAME_COLUMNS = {"", "id", "name", "names", "row", "row_name", "row_names", "unnamed: 0"}


def column_index(names: Sequence[str], wanted: str, what: str) -> int:
    """Where the column called `wanted` stands; a number counts from 0, or from the end when negative."""
    if wanted in names:
        return list(names).index(wanted)
    if wanted.lstrip("-").isdigit() and -len(names) <= int(wanted) < len(names):
        return int(wanted) % len(names)
    raise ValueError(f"{what} has no column '{wanted}'; it has {listed(names)}")


# Arrays: every column is a number, and names are rare ---------------------------------------------------------------


def with_names(source: Source, names: Sequence[str] | None) -> Source:
    """The source with the names of its features, unless they are none, too few or not distinct."""
    proper = names is not None and len(names) == len(set(names)) == source.shape[1]
    return replace(source, columns=tuple(names or ())) if proper else source


def features_only(source: Source, choice: Choice, what: str) -> Source:
    """The source without the columns that are not features; it remembers where its labels are."""
    names = list(source.columns) or [str(column) for column in range(source.shape[1])]
    unwanted = left_out(names, choice.leave_out, by_number=not source.columns)
    by_number = bool(unwanted) and not source.columns
    if choice.labels_column is not None:
        labels = column_index(names, choice.labels_column, what)
        source = replace(source, beside=source.beside._replace(labels=labels))
        unwanted.add(labels)
    if len(unwanted) == len(names):
        raise ValueError(f"{what} is empty: it holds {source.shape[0]} rows of 0 features besides what was left out")
    if not unwanted:
        return source
    features = source.pick([column for column in range(len(names)) if column not in unwanted])
    return replace(features, wider=source) if by_number else features


def left_out(names: Sequence[str], leave_out: Sequence[str], by_number: bool) -> set[int]:
    """The places of the columns to leave out that are there; without names, "-1" is the last column."""
    places = {names.index(name) for name in leave_out if name in names}
    if by_number:
        counted = [int(name[1:]) for name in leave_out if name.startswith("-") and name[1:].isdigit()]
        places |= {len(names) - place for place in counted if 1 <= place <= len(names)}
    return places


# Tables: columns have names, and some hold text ---------------------------------------------------------------------


class Roles(NamedTuple):
    """The places of a table's columns by what they are for."""

    features: list[int]
    labels: int | None
    row_names: int | None


def roles_of(
    names: Sequence[str],
    is_text: Sequence[bool],
    choice: Choice,
    what: str,
    names_rows: Callable[[int], bool],
    sentence: Callable[[int], str],
    has_header: bool = True,
) -> Roles:
    """What every column of a table is for; a text column that is for nothing is refused with `sentence(its place)`.

    Rows are named by a text column called id or name, else by a first text column that `names_rows`, else by a first
    column without a name, which is the index that pandas writes unless told otherwise.
    """
    require_distinct([name for name in names if name.strip()], what)
    labels = None if choice.labels_column is None else column_index(names, choice.labels_column, what)
    unwanted = left_out(names, choice.leave_out, by_number=not has_header) | ({labels} - {None})
    left = [place for place in range(len(names)) if place not in unwanted]
    called = [place for place in left if is_text[place] and names[place].strip().lower() in ROW_NAME_COLUMNS]
    row_names = called[0] if called else None
    if row_names is None and len(left) > 1:
        first = left[0]
        unnamed = names[first].strip().lower() in ("", "unnamed: 0")
        row_names = first if unnamed or (is_text[first] and names_rows(first)) else None
    features = [place for place in left if place != row_names]
    for place in features:
        if is_text[place]:
            raise ValueError(sentence(place))
    return Roles(features, labels, row_names)


def roles_in_frame(frame: Any, choice: Choice, what: str, first_line: int, has_header: bool = True) -> Roles:
    """`roles_of` the columns of a pandas frame; its rows stand in a file from line `first_line` on (0: in no file)."""
    return roles_of(
        [str(name) for name in frame.columns],
        [is_text(column) for column in frame.dtypes],
        choice,
        what,
        lambda place: frame.iloc[:, place].is_unique and not mostly_numbers(frame.iloc[:, place]),
        lambda place: text_sentence(what, frame.iloc[:, place], first_line),
        has_header,
    )


def numbers_in_frame(frame: Any, what: str, first_line: int) -> np.ndarray:
    """The columns of a pandas frame as float64 (n, d), NaN where a cell is blank."""
    for place, kind in enumerate(frame.dtypes):
        if is_text(kind):
            raise ValueError(text_sentence(what, frame.iloc[:, place], first_line))
    return frame.to_numpy(dtype=np.float64, na_value=np.nan) if frame.shape[1] else np.empty((len(frame), 0))


def is_text(kind: Any) -> bool:
    """Whether a pandas type is neither of numbers nor of truth values."""
    from pandas.api import types

    return not (types.is_numeric_dtype(kind) or types.is_bool_dtype(kind))


def mostly_numbers(column: Any) -> bool:
    """Whether a text column is a numeric one spoiled by a few words or by decimal commas."""
    import pandas

    return bool(pandas.to_numeric(column.astype(str).str.replace(",", "."), errors="coerce").notna().mean() > 0.5)


def text_sentence(what: str, column: Any, first_line: int) -> str:
    """Which cell of a column is not a number, and what to do about it."""
    import pandas

    numbers = pandas.to_numeric(column, errors="coerce")
    bad = int(np.flatnonzero((numbers.isna() & column.notna()).to_numpy())[0]) if numbers.isna().any() else 0
    place = f"line {bad + first_line}" if first_line else f"row {bad}"
    value = str(column.iloc[bad])[:40]
    advice = ", with a point instead of a comma" if re.fullmatch(r"\s*[-+]?\d*,\d+\s*", value) else ""
    return (
        f"{what}: the column '{column.name}' holds text ('{value}' in {place}); "
        f"turn it into numbers{advice}, or leave it out (on the command line: --labels-column '{column.name}')"
    )
