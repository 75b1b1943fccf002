"""Assignment scores of diagonal Gaussian clusters.

Adding a row of weight w to a cluster with posterior (strength r, shape a_j, rate b_j, mean m_j) multiplies rate b_j by
1 + y_j^2 with y_j = (z_j - m_j) sqrt(w r / ((r+w) 2 b_j)), so gain = constant - sum_j (a_j + w/2) log(1 + y_j^2): one
logarithm of a product of sixteen factors where all features share their shape. Taking the row out of its own cluster
multiplies b_j by 1 - f y_j^2, f = (r+w)/(r-w).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, log_of_lanes
from dtree.core.model import Model
from dtree.core.removal import SMALLEST_REMAINDER
from dtree.kmeans.scoring.rows import (
    Lanes,
    RowTables,
    keep_better,
    load_rows,
    row_tables,
    settle_rows,
    stay_by_statistics,
)

_FACTORS_PER_LOG = 16  # each is below 1e19 for any row within 1e9 spreads of a cluster: their product is a double


class DiagonalTables(NamedTuple):
    """One entry per cluster; the last, k, is the empty cluster."""

    rows: RowTables
    slope: np.ndarray  # (k+1, d) y = slope z - offset
    offset: np.ndarray  # (k+1, d)
    join: np.ndarray  # (k+1,) constant
    join_exponent: np.ndarray  # (k+1, d)
    leave: np.ndarray  # (k+1, 2) constant, factor on y^2
    leave_exponent: np.ndarray  # (k+1, d)
    features_per_log: int


def diagonal_tables(model: Model, statistics: np.ndarray) -> DiagonalTables:
    """Tables of clusters (k, s) for `assign_diagonal`."""
    family = model.family
    assert isinstance(family, DiagonalGaussian)
    weight, rows = model.coarsening, row_tables(model, statistics)
    count, mean, shape, rate = family.posterior(rows.statistics)
    rate = np.maximum(rate, family.rate / family.unit**2)  # rows only add to it; less is rounding
    strength = family.strength + count
    slope = np.sqrt(weight * strength / ((strength + weight) * 2.0 * rate))
    log_rate = np.log(rate).sum(axis=1)
    term = _count_term(family, count[:, 0])
    rest = np.where(rows.alone, count[:, 0], count[:, 0] - weight)
    leave = rows.kappa_leave + term - _count_term(family, rest) - 0.5 * weight * log_rate
    factor = (strength[:, 0] + weight) / np.maximum(strength[:, 0] - weight, family.strength)
    return DiagonalTables(
        rows=rows,
        slope=np.ascontiguousarray(slope),
        offset=np.ascontiguousarray(slope * mean),
        join=rows.kappa_join + _count_term(family, count[:, 0] + weight) - term - 0.5 * weight * log_rate,
        join_exponent=np.ascontiguousarray(shape + 0.5 * weight),
        leave=np.column_stack([leave, np.where(rows.alone, 0.0, factor)]),
        leave_exponent=np.ascontiguousarray(shape - 0.5 * weight),
        features_per_log=_FACTORS_PER_LOG if np.all(family.shape == family.shape[0]) else 1,
    )


def _count_term(family: DiagonalGaussian, count: np.ndarray) -> np.ndarray:
    d = family.n_features
    term = -0.5 * d * np.log(family.strength + count)
    for shape, features in zip(*np.unique(family.shape, return_counts=True), strict=True):
        term += features * gammaln(shape + 0.5 * count)
    return term - count * (np.log(family.unit).sum() + 0.5 * d * math.log(2.0 * math.pi))


@kernel(fastmath=FUSED)
def _stay(tables, z, lane, c):
    """Gain of a row, one lane of z (d, LANES), in its own cluster, taken without it; NaN where that cancels."""
    d = z.shape[0]
    total = tables.leave[c, 0]
    product = 1.0
    for j in range(d):
        y = tables.slope[c, j] * z[j, lane] - tables.offset[c, j]
        remainder = 1.0 - tables.leave[c, 1] * y * y
        if not remainder > SMALLEST_REMAINDER:
            return np.nan
        product *= remainder
        if j % tables.features_per_log == tables.features_per_log - 1 or j == d - 1:
            total += tables.leave_exponent[c, j] * math.log(product)
            product = 1.0
    return total


@kernel(fastmath=FUSED)
def assign_diagonal(tables, X, own, best, unexplained):
    """For each row of X (n, d) the best cluster, and whether a new one would gain more; see `assign_gaussian`."""
    n, d = X.shape
    k = tables.join.shape[0] - 1
    join, exponents, slope, offset = tables.join, tables.join_exponent, tables.slope, tables.offset
    z, bits = np.zeros((d, LANES)), np.empty((2, LANES), dtype=np.int64)
    present, where = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    score, top, stay = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lanes = Lanes(z, present, score, top, where, stay)
    product, log_product = np.empty(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        load_rows(lanes, tables.rows, X, own, start)
        for c in range(k + 1):
            constant = join[c]
            for i in range(LANES):
                score[i] = constant
                product[i] = 1.0
            slopes, offsets = slope[c], offset[c]
            j = 0
            while j < d:
                stop = min(d, j + tables.features_per_log)
                exponent = exponents[c, j]
                while j + 4 <= stop:  # four features a time: fewer trips of the product through memory
                    s0, s1, s2, s3 = slopes[j], slopes[j + 1], slopes[j + 2], slopes[j + 3]
                    o0, o1, o2, o3 = offsets[j], offsets[j + 1], offsets[j + 2], offsets[j + 3]
                    z0, z1, z2, z3 = z[j], z[j + 1], z[j + 2], z[j + 3]
                    for i in range(LANES):
                        y0, y1, y2, y3 = s0 * z0[i] - o0, s1 * z1[i] - o1, s2 * z2[i] - o2, s3 * z3[i] - o3
                        product[i] *= ((1.0 + y0 * y0) * (1.0 + y1 * y1)) * ((1.0 + y2 * y2) * (1.0 + y3 * y3))
                    j += 4
                while j < stop:
                    s0, o0, z0 = slopes[j], offsets[j], z[j]
                    for i in range(LANES):
                        y0 = s0 * z0[i] - o0
                        product[i] *= 1.0 + y0 * y0
                    j += 1
                log_of_lanes(product, bits, log_product)
                for i in range(LANES):
                    score[i] -= exponent * log_product[i]
                    product[i] = 1.0
            if c < k:
                keep_better(present, score, top, where, c)
        for i in range(LANES):
            c = present[i]
            if c >= 0 and not tables.rows.alone[c]:
                stay[i] = _stay(tables, z, i, c)
                if math.isnan(stay[i]):
                    stay[i] = stay_by_statistics(tables.rows, False, X, start + i, c)
        settle_rows(lanes, tables.rows.alone, start, best, unexplained)
