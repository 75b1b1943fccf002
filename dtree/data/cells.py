"""The cells of a column, whatever they were stored as: numbers, truth values, dates, or text by its levels."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# What stands for a missing value in a text file, in any case; in other formats a missing value is one without words.
MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "null", "none", "?", "<na>", "#n/a"})
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")


class Cells(NamedTuple):
    """A column, or a piece of it.

    form : "number", "truth", "date" (values are days since 1970), "text", "category" (text whose levels were declared),
        or the name of a type that is none of these.
    values : (n,) float64, NaN where missing; of text, the place in `levels`. levels : (L,) distinct texts.
    gone : words that were taken to say that a value is missing.
    """

    form: str
    values: np.ndarray
    levels: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


def level_text(value: Any) -> str:
    """A level as text; a whole number has no decimals, however it was stored.

    >>> level_text(2.0), level_text(0.5), level_text("2.0")
    ('2', '0.5', '2.0')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() else repr(number)


def cells_of(column: Any, from_text: bool = False) -> Cells:
    """The cells of a pandas column; `from_text` when it was read from a file of text, where words mean "missing"."""
    import pandas
    from pandas.api import types

    kind = column.dtype
    if isinstance(kind, pandas.CategoricalDtype):
        return _by_levels("category", column.cat.codes.to_numpy(), list(column.cat.categories), from_text)
    if types.is_bool_dtype(kind) and not types.is_object_dtype(kind):
        return Cells("truth", column.to_numpy(dtype=np.float64, na_value=np.nan))
    if types.is_complex_dtype(kind):
        return Cells("complex", np.zeros(len(column)))
    if types.is_numeric_dtype(kind):
        return Cells("number", column.to_numpy(dtype=np.float64, na_value=np.nan))
    if isinstance(kind, pandas.PeriodDtype):
        return Cells("date", _days(column.dt.to_timestamp()))
    if types.is_datetime64_any_dtype(kind):
        return Cells("date", _days(column))
    if types.is_timedelta64_dtype(kind):
        return Cells("duration", (column / np.timedelta64(1, "D")).to_numpy(dtype=np.float64, na_value=np.nan))
    return _objects(column, from_text)


def _objects(column: Any, from_text: bool) -> Cells:
    """Cells of a column that may hold anything."""
    import datetime
    from decimal import Decimal
    from numbers import Real

    import pandas

    try:
        codes, found = pandas.factorize(column)
    except TypeError:  # what cannot be compared, such as lists
        first = column.dropna()
        return Cells(type(first.iloc[0]).__name__, np.zeros(len(column)))
    values = list(found)
    if values and all(isinstance(value, bool | np.bool_) for value in values):
        return _spread("truth", codes, np.array(values, dtype=np.float64))
    if all(isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_) for value in values):
        return _spread("number", codes, np.array([float(value) for value in values]))
    if all(isinstance(value, datetime.date) for value in values):
        return _spread("date", codes, _days(pandas.Series(pandas.to_datetime(values, utc=True))))
    strange = [value for value in values if not isinstance(value, str | bool | np.bool_ | Real | Decimal)]
    if strange:
        return Cells(type(strange[0]).__name__, np.zeros(len(column)))
    return _by_levels("text", codes, values, from_text)


def _spread(form: str, codes: np.ndarray, values: np.ndarray) -> Cells:
    return Cells(form, np.append(values, np.nan)[codes])  # the code -1 is the missing one, and so the last


def _by_levels(form: str, codes: np.ndarray, values: Sequence[Any], from_text: bool) -> Cells:
    """Text from codes into distinct values; values that are one text become one level, words for "missing" none."""
    places: dict[str, int] = {}
    gone: dict[str, None] = {}
    place = np.empty(len(values) + 1)
    place[-1] = np.nan
    for code, value in enumerate(values):
        text = level_text(value).strip() if from_text else level_text(value)
        missing = from_text and text.casefold() in MISSING_WORDS
        place[code] = np.nan if missing else places.setdefault(text, len(places))
        if missing and text:
            gone[text] = None
    return Cells(form, place[codes], tuple(places), tuple(gone))


def _days(column: Any) -> np.ndarray:
    """Dates (n,) as days since 1970-01-01, in UTC where they know their time zone; NaN where missing."""
    import pandas

    if column.dt.tz is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    return ((column - pandas.Timestamp(0)) / np.timedelta64(1, "D")).to_numpy(dtype=np.float64, na_value=np.nan)


# What texts say ------------------------------------------------------------------------------------------------------


def numbers_in(texts: Sequence[str]) -> np.ndarray:
    """Texts (L,) as numbers, NaN for those that are none.

    >>> numbers_in(["7", "1e3", "seven"]).tolist()
    [7.0, 1000.0, nan]
    """
    import pandas

    if not len(texts):
        return np.empty(0)
    plain = pandas.Series(list(texts), dtype=object)
    numbers = pandas.to_numeric(plain, errors="coerce").to_numpy(dtype=np.float64).copy()
    there = ~np.isnan(numbers)
    numbers[there] = plain[there].astype(np.float64)  # to_numeric of pandas 2 may miss the last bit
    return numbers


def dates_in(texts: Sequence[str]) -> np.ndarray | None:
    """Texts (L,) as days since 1970-01-01 when all of them are dates such as 2024-05-31, else None.

    Other ways to write a date are not read: nobody can tell 03/04 from 04/03.
    """
    import pandas

    if not len(texts) or not all(_ISO_DATE.fullmatch(text) for text in texts):
        return None
    try:
        return _days(pandas.Series(pandas.to_datetime(list(texts), format="ISO8601", utc=True)))
    except ValueError:  # such as the 31st of February
        return None


def as_numbers(cells: Cells) -> Cells:
    """Text of a file that is all numbers, but for words that mean "missing", as numbers; other cells as they are."""
    if cells.form != "text":
        return cells
    numbers = numbers_in(cells.levels)
    return cells if np.isnan(numbers).any() else Cells("number", at_levels(cells, numbers))


def at_levels(cells: Cells, of_levels: np.ndarray) -> np.ndarray:
    """For every cell (n,) the value (L,) of its level, NaN where it is missing."""
    places = np.where(np.isnan(cells.values), of_levels.shape[0], cells.values).astype(np.int64)
    return np.append(of_levels, np.nan)[places]
