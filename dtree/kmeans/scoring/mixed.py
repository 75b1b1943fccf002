"""Assignment scores of clusters of independent columns, each with a count of its own: values may be missing.

Real columns are scored as in `gaussian_diag`, but every column has its own constant, and columns share a logarithm only
where the cluster has as many values of one as of the next. A value of a category is a lookup; what is missing looks up
a zero. Constants of the row alone (log x! of counts) are left out.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.column_compile import columns_by_kind
from dtree.core.families.column_tables import (
    CONSTANT,
    COUNT,
    FIRST,
    PER_COUNT,
    PER_ROW,
    PLACE,
    PULL,
    RATE,
    RATE_BASE,
    SHIFT,
    SQUARE,
    STRENGTH,
    SUM,
)
from dtree.core.families.mixed import Mixed
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, log_of_lanes
from dtree.core.model import Model
from dtree.core.removal import SMALLEST_REMAINDER, log_marginal_without
from dtree.core.verbs import log_marginal
from dtree.kmeans.scoring.counts import _rise_one as rise_one
from dtree.kmeans.scoring.kappa import kappa_gains
from dtree.kmeans.scoring.rows import Lanes, keep_better, settle_rows

_COLUMNS_PER_LOG = 16  # each factor is below 1e19 for any row within 1e9 spreads of a cluster


class MixedTables(NamedTuple):
    """One entry per cluster; the last, k, is the empty cluster. First the columns of the data of each kind."""

    real_columns: np.ndarray  # (r,)
    cell_columns: np.ndarray  # (c,)
    count_columns: np.ndarray  # (p,)
    binary: np.ndarray  # (c,) whether a column of cells holds 1 and 0, in that order
    units: np.ndarray  # (2, r) origin and 1 / unit
    real: np.ndarray  # (7, k+1, r) slope, offset; constant, exponent of joining; constant, exponent, factor of leaving
    cells: np.ndarray  # (2, k+1, l+1) what a level adds on joining and on leaving; the last is 0, for missing values
    counts: np.ndarray  # (2, k+1, p) posterior shape, posterior rate
    kappa: np.ndarray  # (2, k+1) joining, leaving
    alone: np.ndarray  # (k+1,) the cluster holds one row only
    statistics: np.ndarray  # (k+1, s)
    family: Any  # compiled, without tables of counts: it scores few rows


def mixed_tables(model: Model, statistics: np.ndarray) -> MixedTables:
    """Tables of clusters (k, s) for `assign_mixed`."""
    family = model.family
    assert isinstance(family, Mixed)
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    compiled: Any = family.compile(np.zeros(padded.shape[1]), model.coarsening)
    kappa_join, kappa_leave, alone = kappa_gains(model, padded)
    real_columns, cell_columns, count_columns = columns_by_kind(family.blocks)
    origin, inverse = np.zeros(family.n_features), np.ones(family.n_features)
    for block in family.blocks:
        if hasattr(block.family, "origin"):
            origin[block.columns], inverse[block.columns] = block.family.origin, 1.0 / block.family.unit
    binary = np.array([kind == "binary" for kind, _ in family.column_kinds])
    at, count = compiled.poisson_at, compiled.poisson
    return MixedTables(
        real_columns, cell_columns, count_columns, binary[cell_columns], np.stack([origin, inverse])[:, real_columns],
        _real_tables(compiled, padded), _cell_tables(compiled, padded),
        np.stack([count[SHIFT] + padded[:, at[SUM]], count[RATE] + padded[:, at[COUNT]]]),
        np.stack([kappa_join, kappa_leave]), alone, padded, compiled,
    )  # fmt: skip


def _real_tables(compiled: Any, padded: np.ndarray) -> np.ndarray:
    at, real = compiled.real_at, compiled.real
    unit, count = 1.0 / real[PER_COUNT], padded[:, at[COUNT]]
    strength, pulled = real[STRENGTH] + count, padded[:, at[SUM]] + real[PULL]
    mean, shape = pulled / strength, real[SHIFT] + 0.5 * count
    rate = real[RATE_BASE] + 0.5 * padded[:, at[SQUARE]] - 0.5 * pulled * mean
    least = real[RATE_BASE] - 0.5 * real[PULL] ** 2 / real[STRENGTH]
    rate = np.maximum(rate, least)  # rows only add to it; less is rounding

    def term(n: np.ndarray) -> np.ndarray:
        return gammaln(real[SHIFT] + 0.5 * n) - 0.5 * np.log(real[STRENGTH] + n)

    slope = np.sqrt(unit * strength / ((strength + unit) * 2.0 * rate))
    fixed, rest = unit * real[PER_ROW] - 0.5 * unit * np.log(rate), np.maximum(count - unit, 0.0)
    join, leave = term(count + unit) - term(count) + fixed, term(count) - term(rest) + fixed
    factor = (strength + unit) / np.maximum(strength - unit, real[STRENGTH])
    return np.stack([slope, slope * mean, join, shape + 0.5 * unit, leave, shape - 0.5 * unit, factor])


def _cell_tables(compiled: Any, padded: np.ndarray) -> np.ndarray:
    sizes = compiled.column_at[FIRST + 1] - compiled.column_at[FIRST]
    unit, unit_of_cell = 1.0 / compiled.column[PER_COUNT], 1.0 / compiled.cell[PER_COUNT]
    held, count = padded[:, compiled.cell_at[PLACE]], padded[:, compiled.column_at[COUNT]]
    out = np.zeros((2, padded.shape[0], held.shape[1] + 1))
    for which, (cells, total) in enumerate(
        ((held, count), (np.maximum(held - unit_of_cell, 0.0), np.maximum(count - unit, 0.0)))
    ):
        shift, whole = compiled.cell[SHIFT] + cells, compiled.column[SHIFT] + total
        fall = np.repeat(gammaln(whole + unit) - gammaln(whole), sizes, axis=1)
        out[which, :, :-1] = gammaln(shift + unit_of_cell) - gammaln(shift) - fall
    return out


@kernel
def _count_gain(x, unit, shape, rate):
    """What a count x of weight `unit` adds to a cluster with this posterior, but for the constant of the row."""
    gained = shape * (math.log(rate) - math.log(rate + unit)) - unit * x * math.log(rate + unit)
    return gained + rise_one(shape, x, unit) if x > 0.0 else gained


@kernel
def _stay(tables, z, present, codes, x, lane, c):
    """Gain of the row in a lane in its own cluster, taken without it; NaN where that cancels."""
    total = tables.kappa[1, c]
    for j in range(z.shape[0]):
        if present[j, lane] > 0.0:
            y = tables.real[0, c, j] * z[j, lane] - tables.real[1, c, j]
            remainder = 1.0 - tables.real[6, c, j] * y * y
            if not remainder > SMALLEST_REMAINDER:
                return np.nan
            total += tables.real[4, c, j] + tables.real[5, c, j] * math.log(remainder)
    for j in range(codes.shape[0]):
        total += tables.cells[1, c, codes[j, lane]]
    empty = tables.alone.shape[0] - 1
    for j in range(x.shape[0]):
        if x[j, lane] >= 0.0:
            unit = 1.0 / tables.family.poisson[PER_COUNT, j]
            # The prior's part is set apart, so that it cannot be lost where the row holds nearly all of the sum.
            prior_shape, prior_rate = tables.counts[0, empty, j], tables.counts[1, empty, j]
            shape = prior_shape + max(tables.counts[0, c, j] - prior_shape - unit * x[j, lane], 0.0)
            rate = prior_rate + max(tables.counts[1, c, j] - prior_rate - unit, 0.0)
            total += _count_gain(x[j, lane], unit, shape, rate)
    return total


@kernel
def _stay_by_statistics(tables, X, i, c):
    """The same without the shortcut that may cancel (see `core.removal`)."""
    cluster = tables.statistics[c]
    row = np.zeros((1, cluster.shape[0]))
    add_mixed_rows(tables, X[i : i + 1], np.zeros(1, dtype=np.int64), row)
    constants = 0.0
    for j in range(tables.family.poisson_at.shape[1]):
        constants += row[0, tables.family.poisson_at[CONSTANT, j]]
    rest = np.empty(cluster.shape[0])
    gain = log_marginal(tables.family, cluster) - log_marginal_without(tables.family, cluster, row[0], rest)
    return -np.inf if math.isnan(gain) else tables.kappa[1, c] + gain - constants


@kernel
def _load(tables, X, start, z, present, codes, x):
    """Rows from `start` on into the lanes; missing: present 0, the code after the last, a count of -1."""
    width = min(LANES, X.shape[0] - start)
    for i in range(width):
        row = X[start + i]
        for j in range(z.shape[0]):
            value = row[tables.real_columns[j]]
            there = value == value
            present[j, i] = 1.0 if there else 0.0
            z[j, i] = (value - tables.units[0, j]) * tables.units[1, j] if there else 0.0
        for j in range(codes.shape[0]):
            value = row[tables.cell_columns[j]]
            codes[j, i] = _cell_of(tables, j, value) if value == value else tables.cells.shape[2] - 1
        for j in range(x.shape[0]):
            value = row[tables.count_columns[j]]
            x[j, i] = value if value == value else -1.0


@kernel
def _cell_of(tables, j, value):
    """The cell of a value of column j; those of a binary column are ones, then zeros."""
    first = tables.family.column_at[FIRST, j]
    if tables.binary[j]:
        return first + (0 if value == 1.0 else 1)
    return first + int(value)


@kernel(fastmath=FUSED)
def assign_mixed(tables, X, own, best, unexplained):
    """For each row of X (n, d) the best cluster, and whether a new one would gain more; see `assign_gaussian`."""
    n, k = X.shape[0], tables.alone.shape[0] - 1
    r, m, p = tables.real_columns.shape[0], tables.cell_columns.shape[0], tables.count_columns.shape[0]
    z, present = np.zeros((r, LANES)), np.zeros((r, LANES))
    codes, x = np.zeros((m, LANES), dtype=np.int64), np.zeros((p, LANES))
    bits = np.empty((2, LANES), dtype=np.int64)
    now, where = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    score, top, stay = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lanes = Lanes(z, now, score, top, where, stay)
    product, logs = np.ones(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        _load(tables, X, start, z, present, codes, x)
        width = min(LANES, n - start)
        for i in range(LANES):
            now[i] = own[start + i] if i < width else -1
            top[i] = -np.inf
            where[i] = -1
        for c in range(k + 1):
            for i in range(LANES):
                score[i] = tables.kappa[0, c]
                product[i] = 1.0
            slopes, offsets, joins, exponents = (
                tables.real[0, c],
                tables.real[1, c],
                tables.real[2, c],
                tables.real[3, c],
            )
            together = 0
            for j in range(r):
                slope, offset, join, zs, there = slopes[j], offsets[j], joins[j], z[j], present[j]
                for i in range(LANES):
                    y = (slope * zs[i] - offset) * there[i]
                    product[i] *= 1.0 + y * y
                    score[i] += join * there[i]
                together += 1
                if j == r - 1 or together == _COLUMNS_PER_LOG or exponents[j + 1] != exponents[j]:
                    log_of_lanes(product, bits, logs)
                    exponent = exponents[j]
                    for i in range(LANES):
                        score[i] -= exponent * logs[i]
                        product[i] = 1.0
                    together = 0
            values = tables.cells[0, c]
            for j in range(m):
                code = codes[j]
                for i in range(LANES):
                    score[i] += values[code[i]]
            for j in range(p):
                unit = 1.0 / tables.family.poisson[PER_COUNT, j]
                for i in range(width):
                    if x[j, i] >= 0.0:
                        score[i] += _count_gain(x[j, i], unit, tables.counts[0, c, j], tables.counts[1, c, j])
            if c < k:
                keep_better(now, score, top, where, c)
        for i in range(width):
            c = now[i]
            if c >= 0 and not tables.alone[c]:
                stay[i] = _stay(tables, z, present, codes, x, i, c)
                if math.isnan(stay[i]):
                    stay[i] = _stay_by_statistics(tables, X, start + i, c)
        settle_rows(lanes, tables.alone, start, best, unexplained)


@kernel
def add_mixed_rows(tables, X, labels, out):
    """Add the coarsened statistics of every row of X (n, d) with label c >= 0 to out[c] (k, s), in row order."""
    real_at, column_at = tables.family.real_at, tables.family.column_at
    cell_at, count_at = tables.family.cell_at, tables.family.poisson_at
    for i in range(X.shape[0]):
        if labels[i] < 0:
            continue
        target, row = out[labels[i]], X[i]
        target[0] += 1.0 / tables.family.per_count
        for j in range(tables.real_columns.shape[0]):
            value = row[tables.real_columns[j]]
            if value == value:
                unit = 1.0 / tables.family.real[PER_COUNT, j]
                z = (value - tables.units[0, j]) * tables.units[1, j]
                target[real_at[COUNT, j]] += unit
                target[real_at[SUM, j]] += unit * z
                target[real_at[SQUARE, j]] += unit * z * z
        for j in range(tables.cell_columns.shape[0]):
            value = row[tables.cell_columns[j]]
            if value == value:
                unit = 1.0 / tables.family.column[PER_COUNT, j]
                target[column_at[COUNT, j]] += unit
                target[cell_at[PLACE, _cell_of(tables, j, value)]] += unit
        for j in range(tables.count_columns.shape[0]):
            value = row[tables.count_columns[j]]
            if value == value:
                unit = 1.0 / tables.family.poisson[PER_COUNT, j]
                target[count_at[COUNT, j]] += unit
                target[count_at[SUM, j]] += unit * value
                target[count_at[CONSTANT, j]] -= unit * math.lgamma(value + 1.0)
