"""Numbers that methods give as the table would have them: the inverse of `coding`."""

import numpy as np

from dtree.core.columns import Column
from dtree.data.kinds import DATES


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
