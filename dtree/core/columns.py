"""What a column of a table holds: its kind, and the levels of a category.

Every table reaches the methods as float64 rows (n, d): a category as the number of its level, a missing value as NaN.
"""

from typing import Literal

import msgspec

Kind = Literal["real", "count", "binary", "category"]


class Column(msgspec.Struct, frozen=True):
    """One feature of a table.

    levels : the categories in the order of their codes 0, 1, ...; for a binary column what 0 and 1 stand for.
        A category that is not among them is read as the code len(levels), the reserved level.
    reason : why the column was taken for this kind, for people to read.

    >>> Column("city", "category", ("Bonn", "Rome")).levels[1]
    'Rome'
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    reason: str = ""
