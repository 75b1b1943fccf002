"""Tables of functions of a count.

Counts are integers, so whatever depends on a count alone (mostly `lgamma`) is computed once and looked up. Under
coarsening the statistics are zeta times an integer; a table is indexed by the integer and `per_count` = 1/zeta turns
one into the other. Soft counts (variational responsibilities) and counts beyond the table fall back
to the function itself."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.jit import kernel

MAX_TABLE_ENTRIES = 4_000_000  # 32 MB
NOT_IN_TABLE = -1


@kernel(counted=False)
def table_index(value, per_count, length):
    """Where `value` stands in a table of `length` entries, or NOT_IN_TABLE."""
    scaled = value * per_count
    if scaled >= length or scaled < 0.0:
        return NOT_IN_TABLE
    index = int(scaled + 0.5)
    if index >= length or abs(scaled - index) > 1e-9 * (1.0 + index):
        return NOT_IN_TABLE
    return index


def counts_of_table(largest: float, coarsening: float = 1.0) -> np.ndarray:
    """The (coarsened) counts 0, 1, ... up to `largest` with entries in a table; none when it would be too large."""
    entries = int(largest / coarsening + 0.5) + 1
    return coarsening * np.arange(entries if entries <= MAX_TABLE_ENTRIES else 0)


class LogGammaTable(NamedTuple):
    """lgamma(shift[j] + x) - lgamma(shift[j]) for each feature j and every count x that can occur.

    `values` holds the features' tables one after the other, feature j from `start[j]` with `length[j]` entries.
    Features with the same shift share one table.
    """

    shift: np.ndarray  # (d,)
    log_gamma_shift: np.ndarray  # (d,)
    values: np.ndarray
    start: np.ndarray  # (d,)
    length: np.ndarray  # (d,)
    per_count: float


def log_gamma_table(shift: np.ndarray, largest: np.ndarray, coarsening: float = 1.0) -> LogGammaTable:
    """Build the table for counts up to `largest` (d,) per feature (in coarsened units)."""
    shift = np.ascontiguousarray(shift, dtype=np.float64)
    wanted = np.floor(np.asarray(largest, dtype=np.float64) / coarsening + 0.5)
    entries = np.minimum(wanted, MAX_TABLE_ENTRIES).astype(np.int64) + 1  # more would not fit into whole numbers
    tabled = shift
    if np.all(shift == shift[0]):
        tabled, entries = shift[:1], entries.max(keepdims=True)
    if entries.sum() > MAX_TABLE_ENTRIES:
        entries = np.zeros_like(entries)
    start = np.cumsum(entries) - entries
    within = np.arange(entries.sum()) - np.repeat(start, entries)
    values = gammaln(np.repeat(tabled, entries) + coarsening * within) - np.repeat(gammaln(tabled), entries)
    start, length = (np.broadcast_to(column, shift.shape).copy() for column in (start, entries))
    return LogGammaTable(shift, gammaln(shift), values, start, length, 1.0 / coarsening)


@kernel(counted=False)
def log_gamma_ratio(table, feature, count):
    """lgamma(shift + count) - lgamma(shift) of one feature."""
    index = table_index(count, table.per_count, table.length[feature])
    if index >= 0:
        return table.values[table.start[feature] + index]
    return math.lgamma(table.shift[feature] + count) - table.log_gamma_shift[feature]


@kernel(counted=False)
def add_log_gamma_ratios(table, feature, own, counts, scratch, out):
    """out[k] += lgamma(shift + own + counts[k]) - lgamma(shift) of one feature, for every k.

    `scratch` (>= k,) int32 is overwritten: whole numbers are made for all first, then looked up.
    """
    first, length = table.start[feature], table.length[feature]
    own_index = table_index(own, table.per_count, length)
    in_table = table.per_count == 1.0 and own_index >= 0
    if in_table:
        most = length - 1 - own_index
        for k in range(out.shape[0]):
            scratch[k] = np.int32(counts[k])
            in_table &= (scratch[k] == counts[k]) & (scratch[k] >= 0) & (scratch[k] <= most)
    if in_table:
        values, index = table.values[first + own_index : first + length], scratch.view(np.uint32)  # none is below 0
        for k in range(out.shape[0]):
            out[k] += values[index[k]]
    else:
        for k in range(out.shape[0]):
            out[k] += log_gamma_ratio(table, feature, own + counts[k])
