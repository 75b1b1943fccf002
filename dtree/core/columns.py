"""What a column of a table holds: its kind, and the levels of a category.

Every table reaches the methods as float64 rows (n, d): a category as the number of its level, a missing value as NaN.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec
import numpy as np

Kind = Literal["real", "count", "binary", "category"]
KINDS: tuple[str, ...] = get_args(Kind)
MOST_LEVELS = 1000  # of a category; with more, a level has too few rows to say anything, and every cluster pays for all
DATES = "dates, as days since 1970-01-01"  # why a column of dates is real; by it dates are written as dates again
CODES = "whole numbers that repeat: codes"  # why few whole numbers beside text are a category
DECIMALS = "numbers with decimals"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One feature of a table.

    levels : the categories in the order of their codes 0, 1, ...; for a binary column what 0 and 1 stand for.
        A category that is not among them is read as the code len(levels), the reserved level.
    reason : why the column was taken for this kind, for people to read.
    missing : the share of rows without a value. low, high : the smallest and largest number, None where unknown.

    >>> Column("city", "category", ("Bonn", "Rome")).levels[1]
    'Rome'
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    reason: str = ""
    missing: float = 0.0
    low: float | None = None
    high: float | None = None


def check_columns(columns: Sequence[Column], n_features: int, names: Sequence[str] | None) -> None:
    """ValueError unless columns that were read from somewhere can describe so many features of these names."""
    if not columns:
        return
    if len(columns) != n_features:
        raise ValueError(f"it describes {len(columns)} columns but has {n_features} features")
    if names and [column.name for column in columns] != list(names):
        raise ValueError("the columns that it describes are not its features")
    for column in columns:
        if len(column.levels) > MOST_LEVELS or len(set(column.levels)) < len(column.levels):
            raise ValueError(f"the levels of its column {column.name[:40]!r} are too many or not distinct")
        if (column.kind == "category" and not column.levels) or (column.kind == "binary" and len(column.levels) != 2):
            raise ValueError(f"its column {column.name[:40]!r} has no proper levels")
        if not 0.0 <= column.missing <= 1.0:
            raise ValueError(f"the missing share of its column {column.name[:40]!r} is none")


def values_of(column: Column, most: int = 5) -> str:
    """The levels or the range of a column, for a table that people read.

    >>> values_of(Column("city", "category", ("Bonn", "Oslo", "Rome")), most=2)
    'Bonn, Oslo and 1 more'
    """
    if column.levels:
        more = len(column.levels) - most
        return ", ".join(column.levels[:most]) + (f" and {more} more" if more > 0 else "")
    return "" if column.low is None or column.high is None else f"{column.low:g} to {column.high:g}"


def share(part: float) -> str:
    """A share of the rows in per cent, nothing for none of them.

    >>> share(0.254), share(0.0001), share(0.0)
    ('25%', '<1%', '')
    """
    return "" if part == 0 else "<1%" if part < 0.01 else f"{100 * part:.0f}%"


def in_words(values: np.ndarray, column: Column) -> list[str]:
    """The values (n,) of a column as texts: a level by its name, a date as one, other numbers with six digits.

    A binary value may be any probability of a yes; the likelier word is taken. A code that is no level is "".

    >>> in_words(np.array([1.0, 2.0]), Column("city", "category", ("Bonn", "Rome")))
    ['Rome', '']
    >>> in_words(np.array([0.7]), Column("member", "binary", ("no", "yes")))
    ['yes']
    """
    if column.kind == "binary" and column.levels:
        return [column.levels[int(value >= 0.5)] for value in values]
    if column.kind == "category":
        codes = values.astype(np.int64)
        return [column.levels[code] if code < len(column.levels) else "" for code in codes]
    if column.reason.startswith(DATES):
        return [str(np.datetime64(round(value), "D")) for value in values.tolist()]
    return [f"{value:.6g}" for value in values]
