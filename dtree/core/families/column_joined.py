"""`log_marginal_joined` of clusters of independent columns: with single rows, only the levels that `row` holds count.

Levels are many and a row holds one of each column, so reading all of them for every pair would be most of the work. The
log marginal of a single row and of its union with `row` differ in those levels only, and in the real columns.
"""

import numpy as np

from dtree.core.families.column_kernels import (
    _COLUMNS_PER_LOG,
    _add_line,
    _all_points,
    _log_marginal_merged,
    _log_rate,
    _ratio,
    _real_term,
)
from dtree.core.families.column_tables import (
    CONSTANT,
    COUNT,
    END,
    FIRST,
    GROUP,
    PER_COUNT,
    PER_ROW,
    PLACE,
    PULL,
    RATE_BASE,
    SHIFT,
    SQUARE,
    STRENGTH,
    SUM,
    CompiledColumns,
)
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, log_of_lanes
from dtree.core.verbs import implements, log_marginal_joined


@kernel
def _gain_of_cells(family, columns, row, start, stop, out):
    """Add what the cells of `row` add to single rows."""
    pool = family.pool
    constant = 0.0
    for c in range(family.column_at.shape[1]):
        unit, place = 1.0 / family.column[PER_COUNT, c], family.column_at[COUNT, c]
        own = row[place]
        if own == 0.0:
            continue
        without = _ratio(family.column_at, family.column, pool, c, own)
        grown = _ratio(family.column_at, family.column, pool, c, own + unit)
        alone = _ratio(family.column_at, family.column, pool, c, unit)
        constant -= without
        _add_line(columns[place], (without + alone - grown) / unit, start, stop, out)
        for v in range(family.column_at[FIRST, c], family.column_at[END, c]):
            place = family.cell_at[PLACE, v]
            held = row[place]
            if held != 0.0:
                without = _ratio(family.cell_at, family.cell, pool, v, held)
                grown = _ratio(family.cell_at, family.cell, pool, v, held + unit)
                alone = _ratio(family.cell_at, family.cell, pool, v, unit)
                constant += without
                _add_line(columns[place], (grown - without - alone) / unit, start, stop, out)
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


@kernel(fastmath=FUSED)
def _gain_of_reals(family, columns, row, block, width, out):
    """Add what the real columns of `row` add to single rows, LANES of them at most.

    Everything that depends on a count is linear in it, because it is 0 or 1. A rate has the exponent shape + half of
    the counts. When `row` is a single row too, two logarithms of products of rates stand for one of every rate.
    """
    at, real, pool = family.real_at, family.real, family.pool
    r = at.shape[1]
    single = row[0] * family.per_count == 1.0
    rates, there, own_rates = np.ones(LANES), np.ones(LANES), np.ones(LANES)
    bits, logs = np.empty((2, LANES), dtype=np.int64), np.empty(LANES)
    merged, target = np.ones(LANES), np.zeros(LANES)
    together = 0
    constant = 0.0
    for j in range(r):
        own, strength, per_count = row[at[COUNT, j]], real[STRENGTH, j], real[PER_COUNT, j]
        unit, shape = 1.0 / per_count, real[SHIFT, j]
        term, grown = _real_term(at, real, pool, j, own), _real_term(at, real, pool, j, own + unit)
        slope = (grown - term - _real_term(at, real, pool, j, unit)) * per_count
        constant += own * real[PER_ROW, j] + term
        half, half_of_point = 0.5 / (strength + own), 0.5 / strength
        half_slope = (0.5 / (strength + own + unit) - half) * per_count
        point_slope = (0.5 / (strength + unit) - half_of_point) * per_count
        pull, row_pull = real[PULL, j], row[at[SUM, j]] + real[PULL, j]
        base, row_base = real[RATE_BASE, j], real[RATE_BASE, j] + 0.5 * row[at[SQUARE, j]]
        counts = columns[at[COUNT, j], block : block + width]
        sums = columns[at[SUM, j], block : block + width]
        squares = columns[at[SQUARE, j], block : block + width]
        share = own * per_count if single else 0.0
        if together == 0:
            for i in range(LANES):
                rates[i], there[i] = 1.0, 1.0
        for i in range(width):
            n, half_square = counts[i], 0.5 * squares[i]
            pulled, point_pulled = sums[i] + row_pull, sums[i] + pull
            after = row_base + half_square - (half + half_slope * n) * pulled * pulled
            before = base + half_square - (half_of_point + point_slope * n) * point_pulled * point_pulled
            merged[i] = after
            own_rates[i] = after / before
            target[i] += slope * n
            there[i] *= (1.0 + share * (after - 1.0)) * (1.0 + n * per_count * (own_rates[i] - 1.0))
            rates[i] *= own_rates[i]
        if not single:  # the row's count of each column is another exponent of what the rate becomes
            log_of_lanes(merged, bits, logs)
            for i in range(width):
                target[i] -= 0.5 * own * logs[i]
        together += 1
        if j == r - 1 or together == _COLUMNS_PER_LOG or at[GROUP, j + 1] != at[GROUP, j]:
            log_of_lanes(rates, bits, logs)
            for i in range(width):
                target[i] -= shape * logs[i]
            log_of_lanes(there, bits, logs)
            for i in range(width):
                target[i] -= 0.5 * unit * logs[i]
            together = 0
    for i in range(width):
        out[block + i] += constant + target[i]


@implements(log_marginal_joined, CompiledColumns)
@kernel
def _log_marginal_joined(family, columns, log_own, row, start, stop, out):
    waiting = start  # columns from here to the block at hand hold clusters
    for block in range(start, stop, LANES):
        end = min(block + LANES, stop)
        points = _all_points(columns, family.per_count, block, end - block)
        if waiting < block and points:
            _log_marginal_merged(family, columns, row, waiting, block, out)
        if not points:
            if end == stop:
                _log_marginal_merged(family, columns, row, waiting, end, out)
            continue
        waiting = end
        for k in range(block, end):
            out[k] = log_own[k]
        _gain_of_cells(family, columns, row, block, end, out)
        _gain_of_counts(family, columns, row, block, end, out)
        _gain_of_reals(family, columns, row, block, end - block, out)
