"""Cells as the numbers that methods get: a category as the code of its level, a missing value as NaN."""

from collections import Counter

import numpy as np

from dtree.core.columns import Column
from dtree.data.cells import Cells, at_levels, dates_in, level_text, numbers_in
from dtree.data.kinds import NO_WORDS, YES_WORDS, Around, binary_levels, spoiled_sentence
from dtree.data.summary import WORDS, Summary


def coded(cells: Cells, column: Column, around: Around, first_row: int = 0) -> np.ndarray:
    """The values (n,) of a column as float64; cells stand from row `first_row` on, for the sentence about a bad one.

    A level that the column does not know gets the code len(levels); where only yes and no are known, it is missing.

    >>> city = Column("city", "category", ("1", "2", "Rome"))
    >>> around = Around("the data", 0, False, True)
    >>> coded(Cells("text", np.array([0.0, 1.0, np.nan]), ("Rome", "Oslo")), city, around).tolist()
    [2.0, 3.0, nan]
    >>> coded(Cells("number", np.array([2.0])), city, around).tolist()
    [1.0]
    """
    if column.kind in ("real", "count"):
        return _numbers(cells, column, around, first_row)
    if cells.form in WORDS:
        return at_levels(cells, _codes(cells.levels, column))
    if cells.form == "truth":
        values, texts = np.array([0.0, 1.0]), ["False", "True"]
    else:
        values = np.unique(cells.values[~np.isnan(cells.values)])
        texts = [level_text(value) for value in values]
    places = np.searchsorted(values, cells.values).astype(np.float64)
    places[np.isnan(cells.values)] = np.nan
    return at_levels(Cells("text", places), _codes(texts, column))


def _numbers(cells: Cells, column: Column, around: Around, first_row: int) -> np.ndarray:
    if cells.form not in WORDS:
        return cells.values
    values = dates_in(cells.levels)
    if values is None:
        values = numbers_in(cells.levels)
    if np.isnan(values).any():
        found = Summary()
        found.add(cells)
        if found.spoiler is not None:
            spoiler = found.spoiler._replace(row=found.spoiler.row + first_row)
            raise ValueError(spoiled_sentence(column.name, spoiler, around))
    return at_levels(cells, values)


def _codes(texts: tuple[str, ...] | list[str], column: Column) -> np.ndarray:
    """The codes (L,) of texts; one that is no level may still be the same number as one, such as 1.0 and 01 are."""
    levels = column.levels
    known = {level: float(code) for code, level in enumerate(levels)}
    if column.kind == "binary" and binary_levels(levels) is not None:
        words = dict.fromkeys(NO_WORDS, 0.0) | dict.fromkeys(YES_WORDS, 1.0)
        same = {text: words[word] for text in map(_as_number, texts) if (word := text.strip().casefold()) in words}
        unknown = np.nan
    else:
        numbers = Counter(_as_number(level) for level in levels)
        same = {_as_number(level): code for level, code in known.items() if numbers[_as_number(level)] == 1}
        unknown = np.nan if column.kind == "binary" else float(len(levels))
    found = (known.get(text, same.get(_as_number(text), unknown)) for text in texts)
    return np.fromiter(found, dtype=np.float64, count=len(texts))


def _as_number(text: str) -> str:
    """A text that is a number as `level_text` writes it, any other as it is."""
    try:
        return level_text(float(text))
    except ValueError:
        return text
