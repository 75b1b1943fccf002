"""`log_marginal_joined` of clusters of independent columns: what `row` adds to what each of them is worth.

Levels are many and a cluster holds few of them, so reading all of them for every pair would be most of the work. What a
level adds, L(a + b) - L(a) - L(b) with L(x) = lgamma(shift + x) - lgamma(shift), is nothing unless both hold it: only
the levels that `row` holds are read. With a single row it is linear in b, which is 0 or 1; else L is looked up.
"""

import math

import numpy as np

from dtree.core.families.column_kernels import (
    _COLUMNS_PER_LOG,
    _log_of_real_column,
    _log_rate,
    _ratio,
    _real_term,
    real_posterior,
)
from dtree.core.families.column_tables import (
    CONSTANT,
    COUNT,
    END,
    FIRST,
    GROUP,
    LENGTH,
    PER_COUNT,
    PER_ROW,
    PLACE,
    PULL,
    RATE_BASE,
    SHIFT,
    SQUARE,
    START,
    STRENGTH,
    SUM,
    CompiledColumns,
)
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, log_of_lanes
from dtree.core.tables import table_index
from dtree.core.verbs import implements, log_marginal_joined

_COLUMNS_TOGETHER = 512  # of single rows; their scores stay in the first-level cache while lines are added


@kernel
def _all_points(columns, per_count, start, stop):
    """Whether the columns hold one row each."""
    others = 0
    for k in range(start, stop):
        others += columns[0, k] * per_count != 1.0
    return others == 0


@kernel(fastmath=FUSED)
def _add_lines(columns, places, slopes, start, stop, out):
    """out[k] += sum over lines of slopes[line] * columns[places[line], k]."""
    for first in range(start, stop, _COLUMNS_TOGETHER):
        end = min(first + _COLUMNS_TOGETHER, stop)
        target = out[first:end]
        line = 0
        while line + 4 <= places.shape[0]:
            s0, s1, s2, s3 = slopes[line], slopes[line + 1], slopes[line + 2], slopes[line + 3]
            v0, v1 = columns[places[line], first:end], columns[places[line + 1], first:end]
            v2, v3 = columns[places[line + 2], first:end], columns[places[line + 3], first:end]
            for k in range(end - first):
                target[k] += (s0 * v0[k] + s1 * v1[k]) + (s2 * v2[k] + s3 * v3[k])
            line += 4
        while line < places.shape[0]:
            s0, v0 = slopes[line], columns[places[line], first:end]
            for k in range(end - first):
                target[k] += s0 * v0[k]
            line += 1


@kernel
def _gain_of_cells(family, columns, row, start, stop, out):
    """Add what the cells of `row` add to single rows."""
    pool, n_lines, constant = family.pool, 0, 0.0
    most = family.column_at.shape[1] + family.cell_at.shape[1]
    places, slopes = np.empty(most, dtype=np.int64), np.empty(most)
    for c in range(family.column_at.shape[1]):
        unit, place = 1.0 / family.column[PER_COUNT, c], family.column_at[COUNT, c]
        own = row[place]
        if own == 0.0:
            continue
        without = _ratio(family.column_at, family.column, pool, c, own)
        grown = _ratio(family.column_at, family.column, pool, c, own + unit)
        alone = _ratio(family.column_at, family.column, pool, c, unit)
        constant -= without
        places[n_lines], slopes[n_lines] = place, (without + alone - grown) / unit
        n_lines += 1
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            place = family.cell_at[PLACE, v]
            held = row[place]
            if held != 0.0:
                without = _ratio(family.cell_at, family.cell, pool, v, held)
                grown = _ratio(family.cell_at, family.cell, pool, v, held + unit)
                alone = _ratio(family.cell_at, family.cell, pool, v, unit)
                constant += without
                places[n_lines], slopes[n_lines] = place, (grown - without - alone) / unit
                n_lines += 1
    _add_lines(columns, places[:n_lines], slopes[:n_lines], start, stop, out)
    for k in range(start, stop):
        out[k] += constant


@kernel
def _gain_of_counts(family, columns, row, start, stop, out):
    """Add what the columns of counts of `row` add to single rows."""
    at, values, pool = family.poisson_at, family.poisson, family.pool
    for j in range(at.shape[1]):
        own_count, own_sum, shape = row[at[COUNT, j]], row[at[SUM, j]], values[SHIFT, j]
        if own_count == 0.0:
            continue
        n, sums, constant = columns[at[COUNT, j]], columns[at[SUM, j]], row[at[CONSTANT, j]]
        for k in range(start, stop):
            x = own_sum + sums[k]
            out[k] += constant + _ratio(at, values, pool, j, x) - _ratio(at, values, pool, j, sums[k])
            out[k] += (shape + sums[k]) * _log_rate(at, values, pool, j, n[k])
            out[k] -= (shape + x) * _log_rate(at, values, pool, j, own_count + n[k])


@kernel
def _log_predictive(family, statistics, j):
    """Of one row with a value z in real column j: slope and offset of y, constant and exponent of
    constant - exponent * log(1 + y^2), y = slope * z - offset."""
    at, real = family.real_at, family.real
    unit = 1.0 / real[PER_COUNT, j]
    count, strength, mean, rate = real_posterior(at, real, statistics, j)
    slope = math.sqrt(unit * strength / ((strength + unit) * 2.0 * rate))
    rise = _real_term(at, real, family.pool, j, count + unit) - _real_term(at, real, family.pool, j, count)
    constant = rise + unit * real[PER_ROW, j] - 0.5 * unit * math.log(rate)
    return slope, slope * mean, constant, real[SHIFT, j] + 0.5 * (count + unit)


@kernel
def _by_row(family, row, empty, out):
    """Describe every real column in which `row` has a value by a column of out (8, r); returns how many there are.

    The rows of `out`: which column it is; slope and offset of y (see `_log_predictive`) given `row`; the same given an
    `empty` cluster; the exponent given `row`, and given the empty cluster; how much larger the constant is given `row`.
    All are for sums and counts as they stand in statistics.
    """
    at, real = family.real_at, family.real
    used = 0
    for j in range(at.shape[1]):
        if row[at[COUNT, j]] != 0.0:
            per_count = real[PER_COUNT, j]
            slope, offset, constant, exponent = _log_predictive(family, row, j)
            prior_slope, prior_offset, prior_constant, prior_exponent = _log_predictive(family, empty, j)
            out[0, used], out[1, used], out[2, used] = j, slope * per_count, offset * per_count
            out[3, used], out[4, used] = prior_slope * per_count, prior_offset * per_count
            out[5, used], out[6, used] = exponent, prior_exponent
            out[7, used] = (constant - prior_constant) * per_count
            used += 1
    return used


@kernel(fastmath=FUSED)
def _gain_of_reals(family, columns, row, start, stop, out):
    """Add what the real columns of `row` add to single rows: log p(value | row) - log p(value) where it is there.

    Both are constant - exponent * log(1 + y^2), so columns with the same exponent share the logarithm of a product.
    Exponents in `row` differ by how many of its values are missing, a few halves: these are powers in another product.
    """
    at, real = family.real_at, family.real
    table = np.empty((8, at.shape[1]))
    used = _by_row(family, row, np.zeros(row.shape[0]), table)
    constant = 0.0
    places, slopes = np.empty(used, dtype=np.int64), np.empty(used)
    for q in range(used):
        j = int(table[0, q])
        constant += _log_of_real_column(at, real, family.pool, row, j)
        places[q], slopes[q] = at[COUNT, j], table[7, q]
    _add_lines(columns, places, slopes, start, stop, out)
    factor, product, prior, powers = np.ones(LANES), np.ones(LANES), np.ones(LANES), np.ones(LANES)
    bits, logs, target = np.empty((2, LANES), dtype=np.int64), np.empty(LANES), np.empty(LANES)
    for block in range(start, stop, LANES):
        width = min(LANES, stop - block)
        for i in range(LANES):
            target[i], product[i], prior[i], powers[i] = constant, 1.0, 1.0, 1.0
        first, n_powers = 0, 0  # of the columns in the products, and factors in `powers`
        for q in range(used):
            j = int(table[0, q])
            s0, o0, s1, o1 = table[1, q], table[2, q], table[3, q], table[4, q]
            counts = columns[at[COUNT, j], block : block + width]
            sums = columns[at[SUM, j], block : block + width]
            for i in range(width):
                y0, y1 = s0 * sums[i] - o0 * counts[i], s1 * sums[i] - o1 * counts[i]
                factor[i] = 1.0 + y0 * y0
                product[i] *= 1.0 + y0 * y0
                prior[i] *= 1.0 + y1 * y1
            # The exponent is that of the first column of the product plus so many units.
            more = (table[5, q] - table[5, first]) * real[PER_COUNT, j] * 2.0
            times = int(abs(more) + 0.5)
            if times > _COLUMNS_PER_LOG // 2:
                log_of_lanes(factor, bits, logs)
                for i in range(width):
                    target[i] -= (table[5, q] - table[5, first]) * logs[i]
            elif times > 0:
                if n_powers + times > _COLUMNS_PER_LOG:
                    log_of_lanes(powers, bits, logs)
                    for i in range(width):
                        target[i] -= 0.5 / real[PER_COUNT, j] * logs[i]
                        powers[i] = 1.0
                    n_powers = 0
                n_powers += times
                for _ in range(times):
                    for i in range(width):
                        powers[i] = powers[i] * factor[i] if more > 0.0 else powers[i] / factor[i]
            ends = q == used - 1 or q + 1 - first == _COLUMNS_PER_LOG
            if ends or at[GROUP, int(table[0, q + 1])] != at[GROUP, j]:
                log_of_lanes(product, bits, logs)
                for i in range(width):
                    target[i] -= table[5, first] * logs[i]
                    product[i] = 1.0
                log_of_lanes(prior, bits, logs)
                for i in range(width):
                    target[i] += table[6, q] * logs[i]
                    prior[i] = 1.0
                if n_powers > 0:
                    log_of_lanes(powers, bits, logs)
                    for i in range(width):
                        target[i] -= 0.5 / real[PER_COUNT, j] * logs[i]
                        powers[i] = 1.0
                    n_powers = 0
                first = q + 1
        for i in range(width):
            out[block + i] += target[i]


@kernel(fastmath=FUSED)
def _rises(table, per_count, own, counts, out):
    """out[i] = table[own + counts[i]] - table[counts[i]] for as many as `counts` has; False where one is not there."""
    mine = table_index(own, per_count, table.shape[0])
    if mine < 0:
        return False
    mine, last = np.uint64(mine), np.uint64(table.shape[0] - 1 - mine)
    lost = 0
    for i in range(counts.shape[0]):
        scaled = counts[i] * per_count
        index = np.uint64(scaled + 0.5)
        lost += (index > last) | (abs(scaled - index) > 1e-9 * (1.0 + scaled))
        index = min(index, last)
        out[i] = table[mine + index] - table[index]
    return lost == 0


@kernel
def _rise_of(at, values, pool, j, own, counts, gained):
    """gained[i] = L(own + counts[i]) - L(counts[i]) of cell or column j."""
    table = pool[at[START, j] : at[START, j] + at[LENGTH, j]]
    if not _rises(table, values[PER_COUNT, j], own, counts, gained):
        for i in range(counts.shape[0]):
            gained[i] = _ratio(at, values, pool, j, own + counts[i]) - _ratio(at, values, pool, j, counts[i])


@kernel
def _gain_of_cells_of_clusters(family, columns, row, block, end, out):
    """Add what the cells of `row` add to clusters."""
    pool = family.pool
    gained = np.empty(LANES)
    width = end - block
    for c in range(family.column_at.shape[1]):
        place = family.column_at[COUNT, c]
        own = row[place]
        if own == 0.0:
            continue
        _rise_of(family.column_at, family.column, pool, c, own, columns[place, block:end], gained)
        for i in range(width):
            out[block + i] -= gained[i]
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            place = family.cell_at[PLACE, v]
            held = row[place]
            if held != 0.0:
                _rise_of(family.cell_at, family.cell, pool, v, held, columns[place, block:end], gained)
                for i in range(width):
                    out[block + i] += gained[i]


@kernel(fastmath=FUSED)
def _gain_of_reals_of_clusters(family, columns, row, block, width, out):
    """Add what the real columns of `row` add to clusters, LANES of them at most."""
    at, real, pool = family.real_at, family.real, family.pool
    before, after, gained = np.ones(LANES), np.ones(LANES), np.zeros(LANES)
    bits, log_before, log_after = np.empty((2, LANES), dtype=np.int64), np.empty(LANES), np.empty(LANES)
    for j in range(at.shape[1]):
        own, strength, shape = row[at[COUNT, j]], real[STRENGTH, j], real[SHIFT, j]
        if own == 0.0:
            continue
        pull, row_pull = real[PULL, j], row[at[SUM, j]] + real[PULL, j]
        base, row_base = real[RATE_BASE, j], real[RATE_BASE, j] + 0.5 * row[at[SQUARE, j]]
        counts = columns[at[COUNT, j], block : block + width]
        sums = columns[at[SUM, j], block : block + width]
        squares = columns[at[SQUARE, j], block : block + width]
        for i in range(width):
            half_square, alone, joined = 0.5 * squares[i], sums[i] + pull, sums[i] + row_pull
            before[i] = base + half_square - 0.5 * alone * alone / (strength + counts[i])
            after[i] = row_base + half_square - 0.5 * joined * joined / (strength + own + counts[i])
        log_of_lanes(before, bits, log_before)
        log_of_lanes(after, bits, log_after)
        table = pool[at[START, j] : at[START, j] + at[LENGTH, j]]
        if not _rises(table, real[PER_COUNT, j], own, counts, gained):
            for i in range(width):
                gained[i] = _real_term(at, real, pool, j, own + counts[i]) - _real_term(at, real, pool, j, counts[i])
        constant = own * real[PER_ROW, j]
        for i in range(width):
            exponent = shape + 0.5 * counts[i]
            out[block + i] += (
                constant + gained[i] + exponent * (log_before[i] - log_after[i]) - 0.5 * own * log_after[i]
            )


@implements(log_marginal_joined, CompiledColumns)
@kernel
def _log_marginal_joined(family, columns, log_own, row, start, stop, out):
    for k in range(start, stop):
        out[k] = log_own[k]
    block = start
    while block < stop:  # blocks of single rows that stand together, or one of clusters
        end = min(block + LANES, stop)
        points = _all_points(columns, family.per_count, block, end)
        while points and end < stop and _all_points(columns, family.per_count, end, min(end + LANES, stop)):
            end = min(end + LANES, stop)
        if points:
            _gain_of_cells(family, columns, row, block, end, out)
            _gain_of_reals(family, columns, row, block, end, out)
        else:
            _gain_of_cells_of_clusters(family, columns, row, block, end, out)
            _gain_of_reals_of_clusters(family, columns, row, block, end - block, out)
        block = end
    _gain_of_counts(family, columns, row, start, stop, out)
