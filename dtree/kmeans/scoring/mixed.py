"""Assignment scores of clusters of independent columns, each with a count of its own: values may be missing.

Real columns are scored as in `gaussian_diag`, but every column has its own constant and exponent, because a cluster has
more values of one column than of another. A bound that needs one logarithm tells which clusters can be the best of a
row; few are left. A value of a category is a lookup; what is missing looks up a zero. Rows that lack the same columns
are scored together, so that what is missing costs nothing. Constants of the row alone (log x! of counts) are left out.
"""

import math

import numpy as np

from dtree.core.families.column_tables import CONSTANT, COUNT, FIRST, PER_COUNT, PLACE, SQUARE, SUM
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, log_of_lanes
from dtree.core.removal import SMALLEST_REMAINDER, log_marginal_without
from dtree.core.verbs import log_marginal
from dtree.kmeans.scoring.counts import _rise_one as rise_one
from dtree.kmeans.scoring.mixed_tables import TABLED_COUNTS
from dtree.kmeans.scoring.rows import Lanes, settle_rows

_COLUMNS_PER_LOG = 16  # each factor is below 1e19 for any row within 1e9 spreads of a cluster
_BITS_OF_ONE = 1023 << 52
_LOG_2_PER_BIT = math.log(2.0) / (1 << 52)
_SORTED_COLUMNS = 64  # rows are sorted by what they lack of so many columns: a bucket for each pair of them


@kernel
def _count_gain(x, unit, shape, rate):
    """What a count x of weight `unit` adds to a cluster with this posterior, but for the constant of the row."""
    gained = shape * (math.log(rate) - math.log(rate + unit)) - unit * x * math.log(rate + unit)
    return gained + rise_one(shape, x, unit) if x > 0.0 else gained


@kernel
def _stay(real, cells, z, present, codes, lane):
    """Gain of the row in a lane in its own cluster, taken without it, but for columns of counts and the prior.

    Tables are of that cluster; NaN where it cancels.
    """
    total = 0.0
    for j in range(z.shape[0]):
        if present[j, lane] > 0.0:
            y = real[0, j] * z[j, lane] - real[1, j]
            remainder = 1.0 - real[6, j] * y * y
            if not remainder > SMALLEST_REMAINDER:
                return np.nan
            total += real[4, j] + real[5, j] * math.log(remainder)
    for j in range(codes.shape[0]):
        total += cells[codes[j, lane]]
    return total


@kernel
def _stay_counts(tables, x, lane, c):
    """What the columns of counts add to it."""
    total, empty = 0.0, tables.alone.shape[0] - 1
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
def _sorted_by_holes(tables, X):
    """The rows of X (n, d) in the order of the first and the second real column that they lack, else as they stand."""
    n, r = X.shape[0], min(tables.real_columns.shape[0], _SORTED_COLUMNS)
    key, order = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    starts = np.zeros((r + 1) * (r + 1) + 1, dtype=np.int64)
    for i in range(n):
        first, second = r, r
        for j in range(r):
            value = X[i, tables.real_columns[j]]
            if value != value:
                if first < r:
                    second = j
                    break
                first = j
        key[i] = first * (r + 1) + second
        starts[key[i] + 1] += 1
    for bucket in range(1, starts.shape[0]):
        starts[bucket] += starts[bucket - 1]
    for i in range(n):
        order[starts[key[i]]] = i
        starts[key[i]] += 1
    return order


@kernel
def _load(tables, X, rows, z, present, codes, x):
    """Rows of X into the lanes; missing: present 0, the code after the last, a count of -1."""
    for i in range(rows.shape[0]):
        row = X[rows[i]]
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
def _split_columns(present, width, columns):
    """The real columns that all rows in the lanes have, then those that some have; how many there are of each."""
    r, full, some = present.shape[0], 0, 0
    for j in range(r):
        there = 0.0
        for i in range(width):
            there += present[j, i]
        if there == width:
            columns[full] = j
            full += 1
        elif there > 0.0:
            some += 1
            columns[r - some] = j
    for j in range(some):
        columns[full + j] = columns[r - some + j]
    return full, some


@kernel
def _cell_of(tables, j, value):
    """The cell of a value of column j; those of a binary column are ones, then zeros."""
    first = tables.family.column_at[FIRST, j]
    if tables.binary[j]:
        return first + (0 if value == 1.0 else 1)
    return first + int(value)


@kernel
def _add_counts(tables, x, width, c, bound):
    """Add what the columns of counts gain in cluster c."""
    for q in range(x.shape[0]):
        gains, unit = tables.count_gains[c, q], 1.0 / tables.family.poisson[PER_COUNT, q]
        for i in range(width):
            value = x[q, i]
            if value < 0.0:
                continue
            if value < TABLED_COUNTS and value == int(value):
                bound[i] += gains[int(value)]
            else:
                bound[i] += _count_gain(value, unit, tables.counts[0, c, q], tables.counts[1, c, q])


@kernel(fastmath=FUSED)
def _join(real, cells, z, present, codes, lane):
    """Gain of the row in a lane in a cluster, but for columns of counts and the prior; tables are of that cluster."""
    r = z.shape[0]
    score, product, together = 0.0, 1.0, 0
    for j in range(r):
        y = (real[0, j] * z[j, lane] - real[1, j]) * present[j, lane]
        score += real[2, j] * present[j, lane]
        product *= 1.0 + y * y
        together += 1
        if j == r - 1 or together == _COLUMNS_PER_LOG or real[3, j + 1] != real[3, j]:
            score -= real[3, j] * math.log(product)
            product, together = 1.0, 0
    for j in range(codes.shape[0]):
        score += cells[codes[j, lane]]
    return score


@kernel
def _join_counts(tables, x, lane, c):
    """Gain of the columns of counts."""
    score = 0.0
    for q in range(x.shape[0]):
        if x[q, lane] >= 0.0:
            unit = 1.0 / tables.family.poisson[PER_COUNT, q]
            score += _count_gain(x[q, lane], unit, tables.counts[0, c, q], tables.counts[1, c, q])
    return score


@kernel(fastmath=FUSED)
def _reaching(bound, product, least, needed, now, c):
    """In how many lanes bound - least * log(product) may reach what is needed, other than in the present cluster.

    The bits of a double 2^e (1 + f), read as an integer, are e + f in units of 2^-52 above those of 1; e + f is at most
    its logarithm to base 2.
    """
    bits, scale, reached = product.view(np.int64), least * _LOG_2_PER_BIT, 0
    for i in range(LANES):
        reached += (bound[i] - scale * (bits[i] - _BITS_OF_ONE) >= needed[i]) & (now[i] != c)
    return reached


@kernel(fastmath=FUSED)
def assign_mixed(tables, X, own, best, unexplained):
    """For each row of X (n, d) the best cluster, and whether a new one would gain more; see `assign_gaussian`.

    A gain is computed only where its bound reaches the best gain so far, the present cluster's to begin with. The
    bound: sum_j e_j log f_j with f_j >= 1 is at least min_j e_j times the logarithm of the product of all f_j, and no
    level of a category gains more than the best. Then one logarithm does for all columns, and there is no lookup. Even
    that logarithm is taken only where a simpler bound of it does not do.
    """
    n, k = X.shape[0], tables.alone.shape[0] - 1
    r, m, p = tables.real_columns.shape[0], tables.cell_columns.shape[0], tables.count_columns.shape[0]
    z, present = np.zeros((r, LANES)), np.zeros((r, LANES))
    codes, x = np.zeros((m, LANES), dtype=np.int64), np.full((p, LANES), -1.0)
    bits, product, logs = np.empty((2, LANES), dtype=np.int64), np.empty(LANES), np.empty(LANES)
    now, where = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    score, top, stay, bound = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    best_here, unexplained_here = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.bool_)
    lanes = Lanes(z, now, score, top, where, stay)
    needed = np.empty(LANES)  # a bound below this cannot win
    columns, order = np.empty(r, dtype=np.int64), _sorted_by_holes(tables, X)
    for start in range(0, n, LANES):
        width = min(LANES, n - start)
        rows = order[start : start + width]
        _load(tables, X, rows, z, present, codes, x)
        full, some = _split_columns(present, width, columns)
        for i in range(width):
            c = own[rows[i]]
            now[i], where[i] = c, -1
            top[i], stay[i] = -np.inf, -np.inf
            if c >= 0 and not tables.alone[c]:
                stay[i] = tables.kappa[1, c] + _stay(tables.real[:, c], tables.cells[1, c], z, present, codes, i)
                stay[i] += _stay_counts(tables, x, i, c) if p > 0 else 0.0
                if math.isnan(stay[i]):
                    stay[i] = _stay_by_statistics(tables, X, rows[i], c)
            needed[i] = _just_below(stay[i])
        for i in range(width, LANES):
            now[i], needed[i] = -1, np.inf
        for c in range(k + 1):
            constant, least = tables.kappa[0, c] + tables.limits[c, 0], tables.limits[c, 1]
            slopes, offsets, joins = tables.real[0, c], tables.real[1, c], tables.real[2, c]
            for q in range(full):
                constant += joins[columns[q]]
            for i in range(LANES):
                bound[i], product[i] = constant, 1.0
            q, together = 0, 0
            while q < full + some:
                j0 = columns[q]
                if q + 4 <= full:  # four columns a time: fewer trips of the product through memory
                    j1, j2, j3 = columns[q + 1], columns[q + 2], columns[q + 3]
                    s0, s1, s2, s3 = slopes[j0], slopes[j1], slopes[j2], slopes[j3]
                    o0, o1, o2, o3 = offsets[j0], offsets[j1], offsets[j2], offsets[j3]
                    z0, z1, z2, z3 = z[j0], z[j1], z[j2], z[j3]
                    for i in range(LANES):
                        y0, y1, y2, y3 = s0 * z0[i] - o0, s1 * z1[i] - o1, s2 * z2[i] - o2, s3 * z3[i] - o3
                        product[i] *= ((1.0 + y0 * y0) * (1.0 + y1 * y1)) * ((1.0 + y2 * y2) * (1.0 + y3 * y3))
                    q += 4
                    together += 4
                else:
                    s0, o0, z0 = slopes[j0], offsets[j0], z[j0]
                    if q < full:
                        for i in range(LANES):
                            y0 = s0 * z0[i] - o0
                            product[i] *= 1.0 + y0 * y0
                    else:
                        g0, p0 = joins[j0], present[j0]
                        for i in range(LANES):
                            y0 = (s0 * z0[i] - o0) * p0[i]
                            product[i] *= 1.0 + y0 * y0
                            bound[i] += g0 * p0[i]
                    q += 1
                    together += 1
                if together > _COLUMNS_PER_LOG - 4 and q < full + some:
                    log_of_lanes(product, bits, logs)
                    for i in range(LANES):
                        bound[i] -= least * logs[i]
                        product[i] = 1.0
                    together = 0
            if p > 0:
                _add_counts(tables, x, width, c, bound)
            reached = _reaching(bound, product, least, needed, now, c)
            if c < k and reached == 0:
                continue
            log_of_lanes(product, bits, logs)
            for i in range(LANES):
                bound[i] -= least * logs[i]
            for i in range(width):
                if c < k:
                    wanted = bound[i] >= needed[i] and now[i] != c
                else:  # standing alone: asked for by rows that do, and by those that may gain by it
                    wanted = bound[i] >= needed[i] or (now[i] >= 0 and tables.alone[now[i]])
                    score[i] = -np.inf
                if not wanted:
                    continue
                gain = tables.kappa[0, c] + _join(tables.real[:, c], tables.cells[0, c], z, present, codes, i)
                gain += _join_counts(tables, x, i, c) if p > 0 else 0.0
                if c == k:
                    score[i] = gain
                elif gain > top[i]:
                    top[i], where[i] = gain, c
                    needed[i] = max(needed[i], _just_below(gain))
        settle_rows(lanes, tables.alone, 0, best_here[:width], unexplained_here[:width])
        for i in range(width):
            best[rows[i]], unexplained[rows[i]] = best_here[i], unexplained_here[i]


@kernel
def _just_below(gain):
    """A little less than a gain: bounds are rounded in another way."""
    return gain - 1e-9 * (1.0 + abs(gain))


@kernel
def add_mixed_rows(tables, X, labels, out):
    """Add the coarsened statistics of every row of X (n, d) with label c >= 0 to out[c] (k, s), in row order."""
    real_at, column_at = tables.family.real_at, tables.family.column_at
    cell_at, count_at = tables.family.cell_at, tables.family.poisson_at
    real_unit, cell_unit = 1.0 / tables.family.real[PER_COUNT], 1.0 / tables.family.column[PER_COUNT]
    count_unit, row_unit = 1.0 / tables.family.poisson[PER_COUNT], 1.0 / tables.family.per_count
    for i in range(X.shape[0]):
        if labels[i] < 0:
            continue
        target, row = out[labels[i]], X[i]
        target[0] += row_unit
        for j in range(tables.real_columns.shape[0]):
            value = row[tables.real_columns[j]]
            if value == value:
                unit, z = real_unit[j], (value - tables.units[0, j]) * tables.units[1, j]
                target[real_at[COUNT, j]] += unit
                target[real_at[SUM, j]] += unit * z
                target[real_at[SQUARE, j]] += unit * z * z
        for j in range(tables.cell_columns.shape[0]):
            value = row[tables.cell_columns[j]]
            if value == value:
                target[column_at[COUNT, j]] += cell_unit[j]
                target[cell_at[PLACE, _cell_of(tables, j, value)]] += cell_unit[j]
        for j in range(tables.count_columns.shape[0]):
            value = row[tables.count_columns[j]]
            if value == value:
                target[count_at[COUNT, j]] += count_unit[j]
                target[count_at[SUM, j]] += count_unit[j] * value
                target[count_at[CONSTANT, j]] -= count_unit[j] * math.lgamma(value + 1.0)
