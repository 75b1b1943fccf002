"""Log marginals of clusters of independent columns, each with a count of its own."""

import math

import numpy as np

from dtree.core.families.column_tables import (
    BASE,
    CONSTANT,
    COUNT,
    COUNT_BASE,
    END,
    FIRST,
    GROUP,
    LENGTH,
    LOG_GAMMA,
    LOG_LENGTH,
    LOG_START,
    PER_COUNT,
    PER_ROW,
    PLACE,
    PULL,
    RATE,
    RATE_BASE,
    SHIFT,
    SQUARE,
    START,
    STRENGTH,
    SUM,
    CompiledColumns,
    CompiledColumnsAndGaussian,
)
from dtree.core.jit import kernel
from dtree.core.lanes import LANES, log_of_lanes
from dtree.core.tables import table_index
from dtree.core.verbs import implements, log_marginal, log_marginal_merged

_COLUMNS_PER_LOG = 8  # one log of a product of this many rates, or squares of rates: it must stay a double


@kernel
def _ratio(at, values, pool, j, count):
    """lgamma(shift + count) - lgamma(shift) of cell or column j."""
    index = table_index(count, values[PER_COUNT, j], at[LENGTH, j])
    if index >= 0:
        return pool[at[START, j] + index]
    return math.lgamma(values[SHIFT, j] + count) - values[LOG_GAMMA, j]


@kernel
def _real_term(at, real, pool, j, count):
    """What depends on the count alone in a real column."""
    index = table_index(count, real[PER_COUNT, j], at[LENGTH, j])
    if index >= 0:
        return pool[at[START, j] + index]
    gained = math.lgamma(real[SHIFT, j] + 0.5 * count) - real[LOG_GAMMA, j]
    return gained - 0.5 * math.log1p(count / real[STRENGTH, j])


@kernel
def _log_rate(at, values, pool, j, count):
    """log(rate + count) of a column of counts."""
    index = table_index(count, values[PER_COUNT, j], at[LOG_LENGTH, j])
    if index >= 0:
        return pool[at[LOG_START, j] + index]
    return math.log(values[RATE, j] + count)


@kernel
def real_posterior(at, real, statistics, j):
    """Count, strength, mean and rate of real column j after `statistics` (s,), in standard units."""
    count = statistics[at[COUNT, j]]
    strength, pulled = real[STRENGTH, j] + count, statistics[at[SUM, j]] + real[PULL, j]
    mean = pulled / strength
    return count, strength, mean, real[RATE_BASE, j] + 0.5 * statistics[at[SQUARE, j]] - 0.5 * pulled * mean


@kernel
def real_posteriors(family, statistics):
    """The same (4, k, r) of all real columns of clusters (k, s)."""
    at, real = family.real_at, family.real
    out = np.empty((4, statistics.shape[0], at.shape[1]))
    for c in range(statistics.shape[0]):
        for j in range(at.shape[1]):
            count, strength, mean, rate = real_posterior(at, real, statistics[c], j)
            out[0, c, j], out[1, c, j], out[2, c, j], out[3, c, j] = count, strength, mean, rate
    return out


@kernel
def _log_of_real_column(at, real, pool, statistics, j):
    """Log marginal of real column j."""
    count, _, _, rate = real_posterior(at, real, statistics, j)
    gained = real[BASE, j] + count * real[PER_ROW, j] + _real_term(at, real, pool, j, count)
    return gained - (real[SHIFT, j] + 0.5 * count) * math.log(rate)


@kernel
def _real_columns(at, real, pool, statistics):
    total = 0.0
    product = 1.0
    together = 0  # columns in the product: neighbours with the same hyperparameters and the same count
    r = at.shape[1]
    for j in range(r):
        count, _, _, rate = real_posterior(at, real, statistics, j)
        product *= rate
        total += real[BASE, j] + count * real[PER_ROW, j]
        together += 1
        ends = j == r - 1 or together == _COLUMNS_PER_LOG or at[GROUP, j + 1] != at[GROUP, j]
        if ends or statistics[at[COUNT, j + 1]] != count:
            total += together * _real_term(at, real, pool, j, count)
            total -= (real[SHIFT, j] + 0.5 * count) * math.log(product)
            product = 1.0
            together = 0
    return total


@kernel
def _cell_columns(family, statistics):
    total = 0.0
    for c in range(family.column_at.shape[1]):
        count = statistics[family.column_at[COUNT, c]]
        if count != 0.0:
            total -= _ratio(family.column_at, family.column, family.pool, c, count)
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            held = statistics[family.cell_at[PLACE, v]]
            if held != 0.0:
                total += _ratio(family.cell_at, family.cell, family.pool, v, held)
    return total


@kernel
def _count_columns(at, values, pool, statistics):
    total = 0.0
    for j in range(at.shape[1]):
        x = statistics[at[SUM, j]]
        log_rate = _log_rate(at, values, pool, j, statistics[at[COUNT, j]])
        total += values[COUNT_BASE, j] - (values[SHIFT, j] + x) * log_rate + statistics[at[CONSTANT, j]]
        if x != 0.0:
            total += _ratio(at, values, pool, j, x)
    return total


@implements(log_marginal, CompiledColumns)
@kernel
def _log_marginal(family, statistics):
    total = _real_columns(family.real_at, family.real, family.pool, statistics)
    total += _cell_columns(family, statistics)
    return total + _count_columns(family.poisson_at, family.poisson, family.pool, statistics)


# A row with many columns of an array of clusters ---------------------------------------------------------------------


@kernel
def _same_counts(columns, row, at, start, counts, width):
    """Whether the counts of a column are `counts` in all lanes."""
    own = row[at]
    others = columns[at]
    differing = 0
    for i in range(width):
        differing += own + others[start + i] != counts[i]
    return differing == 0


@kernel
def _merge_real(family, columns, row, start, stop, out):
    at, real, pool = family.real_at, family.real, family.pool
    r = at.shape[1]
    counts, product, logs = np.ones(LANES), np.ones(LANES), np.empty(LANES)
    half_inverse = np.empty(LANES)
    bits = np.empty((2, LANES), dtype=np.int64)
    for block in range(start, stop, LANES):
        width = min(LANES, stop - block)
        together = 0
        base, per_row = 0.0, 0.0
        for j in range(r):
            if together == 0:
                others = columns[at[COUNT, j], block : block + width]
                own, strength = row[at[COUNT, j]], real[STRENGTH, j]
                for i in range(width):
                    counts[i] = own + others[i]
                    half_inverse[i] = 0.5 / (strength + counts[i])
                    product[i] = 1.0
            pull = row[at[SUM, j]] + real[PULL, j]
            rate = real[RATE_BASE, j] + 0.5 * row[at[SQUARE, j]]
            sums = columns[at[SUM, j], block : block + width]
            squares = columns[at[SQUARE, j], block : block + width]
            for i in range(width):
                pulled = sums[i] + pull
                product[i] *= rate + 0.5 * squares[i] - half_inverse[i] * pulled * pulled
            together += 1
            base += real[BASE, j]
            per_row += real[PER_ROW, j]
            ends = j == r - 1 or together == _COLUMNS_PER_LOG or at[GROUP, j + 1] != at[GROUP, j]
            if ends or not _same_counts(columns, row, at[COUNT, j + 1], block, counts, width):
                log_of_lanes(product, bits, logs)
                shape, per_count, first, length = real[SHIFT, j], real[PER_COUNT, j], at[START, j], at[LENGTH, j]
                for i in range(width):
                    count = counts[i]
                    index = table_index(count, per_count, length)
                    term = pool[first + index] if index >= 0 else _real_term(at, real, pool, j, count)
                    out[block + i] += base + count * per_row + together * term - (shape + 0.5 * count) * logs[i]
                together = 0
                base, per_row = 0.0, 0.0


@kernel
def _merge_counts(family, columns, row, start, stop, out):
    at, values, pool = family.poisson_at, family.poisson, family.pool
    for j in range(at.shape[1]):
        own_count, own_sum = row[at[COUNT, j]], row[at[SUM, j]]
        shape, constant = values[SHIFT, j], values[COUNT_BASE, j] + row[at[CONSTANT, j]]
        n, sums, constants = columns[at[COUNT, j]], columns[at[SUM, j]], columns[at[CONSTANT, j]]
        for k in range(start, stop):
            x = own_sum + sums[k]
            log_rate = _log_rate(at, values, pool, j, own_count + n[k])
            out[k] += constant + constants[k] - (shape + x) * log_rate
            if x != 0.0:
                out[k] += _ratio(at, values, pool, j, x)


@kernel
def _add_line(values, slope, start, stop, out):
    for k in range(start, stop):
        out[k] += slope * values[k]


@kernel
def _merge_cells_of_points(family, columns, row, start, stop, out):
    """out[k] = log marginal of the cells of `row` with columns that hold one row each: linear in that row's cells."""
    pool = family.pool
    constant = 0.0
    for k in range(start, stop):
        out[k] = 0.0
    for c in range(family.column_at.shape[1]):
        unit = 1.0 / family.column[PER_COUNT, c]
        place = family.column_at[COUNT, c]
        without = _ratio(family.column_at, family.column, pool, c, row[place])
        grown = _ratio(family.column_at, family.column, pool, c, row[place] + unit)
        constant -= without
        _add_line(columns[place], (without - grown) / unit, start, stop, out)
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            place = family.cell_at[PLACE, v]
            without = _ratio(family.cell_at, family.cell, pool, v, row[place])
            grown = _ratio(family.cell_at, family.cell, pool, v, row[place] + unit)
            constant += without
            _add_line(columns[place], (grown - without) / unit, start, stop, out)
    for k in range(start, stop):
        out[k] += constant


@kernel
def _merge_cells_of_clusters(family, columns, row, clusters, out):
    """The same with columns of several rows each, by table."""
    pool = family.pool
    for i in range(clusters.shape[0]):
        out[clusters[i]] = 0.0
    for c in range(family.column_at.shape[1]):
        count = row[family.column_at[COUNT, c]]
        values = columns[family.column_at[COUNT, c]]
        for i in range(clusters.shape[0]):
            out[clusters[i]] -= _ratio(family.column_at, family.column, pool, c, count + values[clusters[i]])
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            held = row[family.cell_at[PLACE, v]]
            values = columns[family.cell_at[PLACE, v]]
            first, length, per_count = family.cell_at[START, v], family.cell_at[LENGTH, v], family.cell[PER_COUNT, v]
            for i in range(clusters.shape[0]):
                together = held + values[clusters[i]]
                if together != 0.0:
                    index = table_index(together, per_count, length)
                    if index >= 0:
                        out[clusters[i]] += pool[first + index]
                    else:
                        out[clusters[i]] += _ratio(family.cell_at, family.cell, pool, v, together)


@implements(log_marginal_merged, CompiledColumns)
@kernel
def _log_marginal_merged(family, columns, row, start, stop, out):
    if family.column_at.shape[1] == 0:
        for k in range(start, stop):
            out[k] = 0.0
    else:
        clusters = np.empty(stop - start, dtype=np.int64)
        n_clusters = 0
        for k in range(start, stop):
            if columns[0, k] * family.per_count != 1.0:
                clusters[n_clusters] = k
                n_clusters += 1
        if n_clusters < stop - start:  # what it writes for clusters is written over
            _merge_cells_of_points(family, columns, row, start, stop, out)
        if n_clusters > 0:
            _merge_cells_of_clusters(family, columns, row, clusters[:n_clusters], out)
    _merge_real(family, columns, row, start, stop, out)
    _merge_counts(family, columns, row, start, stop, out)


# With a full Gaussian block -------------------------------------------------------------------------------------------


@implements(log_marginal, CompiledColumnsAndGaussian)
@kernel
def _log_marginal_with_gaussian(family, statistics):
    rest = log_marginal(family.columns, statistics)
    return rest + log_marginal(family.gaussian, statistics[family.start : family.stop])


@implements(log_marginal_merged, CompiledColumnsAndGaussian)
@kernel
def _log_marginal_merged_with_gaussian(family, columns, row, start, stop, out):
    log_marginal_merged(family.gaussian, columns[family.start : family.stop], row[family.start : family.stop], start, stop, out)  # fmt: skip  # noqa: E501
    rest = np.empty(out.shape[0])
    log_marginal_merged(family.columns, columns, row, start, stop, rest)
    for k in range(start, stop):
        out[k] += rest[k]
