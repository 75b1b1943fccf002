"""What kernels take for clusters of independent columns, each with a count of its own: one compiled type for all.

Whatever columns a `Mixed` family is made of, its compiled form has the same type (arrays are empty where a kind of
column does not occur), so kernels are compiled once and not for every composition. Few arrays, with a row for each
quantity, because every array of a compiled type costs seconds whenever a kernel is compiled for it. A binary column is
a category of two levels here: their log marginals are the same.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.jit import kernel as kernel  # constants below are read by kernels, so this file counts as one of theirs
from dtree.core.tables import MAX_TABLE_ENTRIES

# The arrays of integers have a row for each of these. In all of them: where the table of a column or cell begins in the
# pool, and how long it is.
START, LENGTH = 0, 1
# Of real columns: where their statistics stand, and a number that columns of equal shape, strength and weight share.
COUNT, SUM, SQUARE, GROUP = 2, 3, 4, 5
# Of columns of categories, after COUNT: their first cell, and the one after their last.
FIRST, END = 3, 4
# Of a cell: where its statistic stands.
PLACE = 2
# Of columns of counts, after COUNT and SUM: where -log x! stands, then begin and length of a table of log(rate + n).
CONSTANT, LOG_START, LOG_LENGTH = 4, 5, 6
# The arrays of numbers. In all of them: shift and lgamma(shift), as tables hold lgamma(shift + x) - lgamma(shift), and
# 1 / what one row adds to a count.
SHIFT, LOG_GAMMA, PER_COUNT = 0, 1, 2
# Of real columns, whose shift is the shape of the prior.
STRENGTH, PULL, RATE_BASE, BASE, PER_ROW = 3, 4, 5, 6, 7
# Of columns of counts.
RATE, COUNT_BASE = 3, 4


class CompiledColumns(NamedTuple):
    """Independent columns; the rows of the arrays are named above."""

    real_at: np.ndarray  # (6, r) normal-inverse-gamma columns, see `gaussian_diag`
    real: np.ndarray  # (8, r)
    column_at: np.ndarray  # (5, c) columns of categories: Dirichlet priors
    column: np.ndarray  # (3, c) shift: the sum over its cells
    cell_at: np.ndarray  # (3, l) their levels
    cell: np.ndarray  # (3, l)
    poisson_at: np.ndarray  # (7, p) gamma-Poisson columns, see `poisson`
    poisson: np.ndarray  # (5, p) shift: the shape
    pool: np.ndarray  # the values of all tables
    per_count: float  # 1 / the count of one row in column 0 of the statistics


class CompiledColumnsAndGaussian(NamedTuple):
    """Independent columns, and a block of columns with a full covariance."""

    columns: CompiledColumns
    gaussian: Any  # CompiledGaussian
    start: int  # its statistics are those from here to `stop`
    stop: int


class Pool:
    """The values of tables, one after the other."""

    def __init__(self) -> None:
        self.tables: list[np.ndarray] = []
        self.size = 0

    def add(self, keys: np.ndarray, largest: np.ndarray, unit: np.ndarray, function: Any) -> np.ndarray:
        """Start and length (2, c) of tables of function(key (m, q), count (m,)) for each row of keys (c, q).

        Equal rows share a table. `largest` (c,) are the largest counts, `unit` (c,) the counts of one row.
        """
        groups, which = np.unique(np.column_stack([keys, unit]), axis=0, return_inverse=True)
        which = which.ravel()
        entries = np.zeros(groups.shape[0], dtype=np.int64)
        np.maximum.at(entries, which, np.floor(largest / unit + 0.5).astype(np.int64) + 1)
        if entries.sum() > MAX_TABLE_ENTRIES:
            entries[:] = 0
        start = np.cumsum(entries) - entries
        owner = np.repeat(np.arange(groups.shape[0]), entries)
        counts = (np.arange(entries.sum()) - start[owner]) * groups[owner, -1]
        self.tables.append(np.asarray(function(groups[owner, :-1], counts), dtype=np.float64))
        found = np.stack([self.size + start[which], entries[which]])
        self.size += int(entries.sum())
        return found

    def add_log_gamma(self, shift: np.ndarray, largest: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """The same for lgamma(shift + count) - lgamma(shift)."""
        return self.add(shift[:, None], largest, unit, lambda key, n: gammaln(key[:, 0] + n) - gammaln(key[:, 0]))

    def values(self) -> np.ndarray:
        """All tables, contiguous."""
        return np.ascontiguousarray(np.concatenate([np.empty(0), *self.tables]))
