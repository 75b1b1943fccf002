"""What the rows of leaves have in common: sums of features, and what these are divided by.

All families keep sums over rows, so the profile of any set of leaves is a sum of rows of one table. Kinds of value:

| kind | from | a leaf's value |
| --- | --- | --- |
| standard | real numbers | mean, in standard deviations of the whole data from its mean |
| share | zeros and ones | share of the rows that are 1 |
| token | words | share of all words |
| rate | counts | mean count |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_CONSTANT = 1e-14  # a variance, in units of the statistics, that is nothing but rounding


@dataclass(frozen=True, eq=False)
class Profile:
    """Sums (m, d) over the rows of each leaf, and what they are divided by, (m,): rows, or words for the kind "token".

    centre, spread : (d,) turn a value of the kind "standard" back into the units of the data.
    """

    kind: str
    sums: np.ndarray
    exposure: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """Values (m, d) of the leaves."""
        return self.sums / np.maximum(self.exposure, 1e-300)[:, None]

    def of(self, groups: np.ndarray, n_groups: int) -> Profile:
        """Profile (k, d) of groups of leaves, given the group (m,) of each; leaves of group -1 are left out."""
        held = groups >= 0
        sums, exposure = np.zeros((n_groups, self.sums.shape[1])), np.zeros(n_groups)
        np.add.at(sums, groups[held], self.sums[held])
        np.add.at(exposure, groups[held], self.exposure[held])
        return Profile(self.kind, sums, exposure, self.centre, self.spread)

    def in_data_units(self) -> np.ndarray:
        """Values (m, d) as the data have them."""
        return self.centre + self.spread * self.means


def plain_profile(value_kind: str, sums: np.ndarray, counts: np.ndarray) -> Profile:
    """The profile of leaves of which the sums of features (m, d) and the counts (m,) are known, nothing else.

    Without sums of squares, the deviation of real features is that between the means of the leaves.
    """
    if value_kind != "real":
        return as_it_is("share" if value_kind == "binary" else "rate", sums, counts)
    squares = sums**2 / np.maximum(counts, 1e-300)[:, None]
    return standardised(sums, squares, counts, np.zeros(sums.shape[1]), np.ones(sums.shape[1]))


def as_it_is(kind: str, sums: np.ndarray, exposure: np.ndarray) -> Profile:
    """A profile whose values are in the units of the data."""
    return Profile(kind, sums, exposure, np.zeros(sums.shape[1]), np.ones(sums.shape[1]))


def standardised(
    first: np.ndarray, second: np.ndarray, counts: np.ndarray, origin: np.ndarray, unit: np.ndarray
) -> Profile:
    """The profile of real features from sums and sums of squares (m, d) of (x - origin) / unit."""
    total = counts.sum()
    mean = first.sum(axis=0) / total
    variance = np.maximum(second.sum(axis=0) / total - mean**2, 0.0)
    deviation = np.where(variance > _CONSTANT, np.sqrt(variance), 1.0)
    sums = (first - counts[:, None] * mean) / deviation
    return Profile("standard", sums, counts, origin + unit * mean, unit * deviation)


def feature_columns(statistics: Callable[[Any], np.ndarray], d: int, value_kind: str) -> np.ndarray | None:
    """Which columns (d,) of the statistics are the features themselves, or None when some feature has no such column.

    Row b of a few made-up rows writes digit b of each feature's number in base two, so that every feature takes values
    that no other takes and that tell its number; a column that holds the same digits is that feature's.

    >>> feature_columns(lambda X: np.column_stack([np.ones(len(X)), X[:, 0] ** 2, X[:, 1], X[:, 0]]), 2, "real")
    array([3, 2])
    """
    digits = 1 << np.arange((d + 1).bit_length())
    written = (np.arange(1, d + 1) & digits[:, None]) > 0
    # Zeros and ones where nothing else is allowed, else ones and twos, whose squares, logarithms and factorials differ.
    lowest = 0.0 if value_kind == "binary" else 1.0
    found = np.asarray(statistics(written + lowest))[:, 1:] - lowest
    numbers = np.where(np.all((found == 0) | (found == 1), axis=0), digits @ found, 0)
    columns = np.full(d + 1, -1)
    for column, number in reversed(list(enumerate(numbers.astype(np.int64), 1))):  # the first of several counts
        if number <= d:
            columns[number] = column
    return None if np.any(columns[1:] < 0) else columns[1:]
