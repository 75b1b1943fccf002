"""Assignment scores of full Gaussian clusters: one whitening per cluster, many rows at a time.

Adding a row of weight w (1, or the coarsening) to a cluster with posterior (strength r, dof nu, mean m, scale S = L L')
multiplies det S by 1 + w r/(r+w) |L^-1 (z-m)|^2, so

    gain = constant - (nu + w)/2 log(1 + |W z - b|^2),  W = sqrt(w r/(r+w)) L^-1,  b = W m.

Taking a row out of its own cluster multiplies det S by 1 - f |W z - b|^2, f = (r+w)/(r-w), from the same distance.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.gaussian import Gaussian
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, log_of_lanes
from dtree.core.model import Model
from dtree.core.removal import SMALLEST_REMAINDER
from dtree.kmeans.scoring.rows import (
    Lanes,
    RowTables,
    load_rows,
    row_tables,
    settle_rows,
    stay_by_statistics,
)


class GaussianTables(NamedTuple):
    """One entry per cluster; the last, k, is the empty cluster."""

    rows: RowTables
    whiten: np.ndarray  # (k+1, d(d+1)/2) lower triangle of W, row by row
    offset: np.ndarray  # (k+1, d) b
    join: np.ndarray  # (k+1, 2) constant, exponent
    leave: np.ndarray  # (k+1, 3) constant, exponent, factor on the squared distance


def _count_term(family: Gaussian, count: np.ndarray) -> np.ndarray:
    """What the log marginal holds besides the determinant, up to a constant that cancels in every gain."""
    d = family.n_features
    half_dof = 0.5 * (family.dof + count)
    term = sum(gammaln(half_dof - 0.5 * j) for j in range(d)) - 0.5 * d * np.log(family.strength + count)
    return term - count * (np.log(family.unit).sum() + 0.5 * d * math.log(math.pi))


@kernel
def whitening(scale, mean, stretch):
    """Lower triangles of sqrt(stretch) L^-1 (k, d(d+1)/2), scale = L L', their products with the means (k, d), log det.

    The last scale is the prior's. Rows only widen it, so no pivot of another scale can be smaller than the prior's own:
    where rounding says so, the prior's is taken.
    Not LAPACK's: its last bits depend on how many threads it was given, and labels must not.
    """
    k, d = mean.shape
    least = np.zeros(d)
    whiten, offset, log_det = np.empty((k, d * (d + 1) // 2)), np.zeros((k, d)), np.zeros(k)
    factor, inverse = np.zeros((d, d)), np.zeros((d, d))
    for c in range(k - 1, -1, -1):
        for a in range(d):
            for b in range(a + 1):
                total = scale[c, a, b]
                for j in range(b):
                    total -= factor[a, j] * factor[b, j]
                if a == b:
                    total = max(total, least[a])
                    if c == k - 1:
                        least[a] = total
                factor[a, b] = math.sqrt(total) if a == b else total / factor[b, b]
            log_det[c] += 2.0 * math.log(factor[a, a])
        root = math.sqrt(stretch[c])
        position = 0
        for a in range(d):
            for b in range(a + 1):
                total = 1.0 if a == b else 0.0
                for j in range(b, a):
                    total -= factor[a, j] * inverse[j, b]
                inverse[a, b] = total / factor[a, a]
                whiten[c, position] = root * inverse[a, b]
                offset[c, a] += whiten[c, position] * mean[c, b]
                position += 1
    return whiten, offset, log_det


def gaussian_tables(model: Model, statistics: np.ndarray) -> GaussianTables:
    """Tables of clusters (k, s) for `assign_gaussian`."""
    family = model.family
    assert isinstance(family, Gaussian)
    weight, rows = model.coarsening, row_tables(model, statistics)
    strength, dof, mean, scale = family.posterior(rows.statistics)
    stretch = weight * strength / (strength + weight)
    whiten, offset, log_det = whitening(scale, mean, stretch)
    count = rows.statistics[:, 0]
    term = _count_term(family, count)
    join = rows.kappa_join + _count_term(family, count + weight) - term - 0.5 * weight * log_det
    rest = np.where(rows.alone, count, count - weight)
    leave = rows.kappa_leave + term - _count_term(family, rest) - 0.5 * weight * log_det
    factor = np.where(rows.alone, 0.0, (strength + weight) / np.maximum(strength - weight, family.strength))
    return GaussianTables(
        rows=rows,
        whiten=whiten,
        offset=offset,
        join=np.column_stack([join, 0.5 * (dof + weight)]),
        leave=np.column_stack([leave, 0.5 * (dof - weight), factor]),
    )


@kernel(fastmath=FUSED)
def _whitened_distance(whiten, offset, z, distance, y):
    """distance (LANES,) = 1 + squared length of W z - b for each column of z (d, LANES); y (LANES,) is scratch."""
    d = z.shape[0]
    for i in range(LANES):
        distance[i] = 1.0
    position = 0
    for a in range(d):
        shift = offset[a]
        for i in range(LANES):
            y[i] = -shift
        b = 0
        while b + 4 <= a + 1:  # four columns a time: fewer trips of y through memory
            w0, w1, w2, w3 = whiten[position], whiten[position + 1], whiten[position + 2], whiten[position + 3]
            z0, z1, z2, z3 = z[b], z[b + 1], z[b + 2], z[b + 3]
            for i in range(LANES):
                y[i] += w0 * z0[i] + w1 * z1[i] + (w2 * z2[i] + w3 * z3[i])
            position += 4
            b += 4
        while b < a + 1:
            w0 = whiten[position]
            z0 = z[b]
            for i in range(LANES):
                y[i] += w0 * z0[i]
            position += 1
            b += 1
        for i in range(LANES):
            distance[i] += y[i] * y[i]


@kernel(fastmath=FUSED)
def assign_gaussian(tables, X, own, best, unexplained):
    """For each row of X (n, d) the cluster it gains most in, and whether a new cluster of its own would gain more.

    `own` (n,) is the row's present cluster or -1; there the row is taken out first.
    """
    n, d = X.shape
    k = tables.join.shape[0] - 1
    join, leave, whiten, offset = tables.join, tables.leave, tables.whiten, tables.offset
    z, bits = np.zeros((d, LANES)), np.empty((2, LANES), dtype=np.int64)
    present, where = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    score, top, stay = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    lanes = Lanes(z, present, score, top, where, stay)
    distance, log_distance, y, own_distance = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        load_rows(lanes, tables.rows, X, own, start)
        for c in range(k + 1):
            _whitened_distance(whiten[c], offset[c], z, distance, y)
            log_of_lanes(distance, bits, log_distance)
            constant, exponent = join[c, 0], join[c, 1]
            for i in range(LANES):
                score[i] = constant - exponent * log_distance[i]
            if c < k:
                for i in range(LANES):
                    mine = present[i] == c
                    own_distance[i] = distance[i] if mine else own_distance[i]
                    better = (not mine) and score[i] > top[i]
                    top[i] = score[i] if better else top[i]
                    where[i] = c if better else where[i]
        for i in range(LANES):
            c = present[i]
            if c >= 0 and not tables.rows.alone[c]:
                remainder = 1.0 - leave[c, 2] * (own_distance[i] - 1.0)
                if remainder > SMALLEST_REMAINDER:
                    stay[i] = leave[c, 0] + leave[c, 1] * np.log(remainder)
                else:
                    stay[i] = stay_by_statistics(tables.rows, True, X, start + i, c)
        settle_rows(lanes, tables.rows.alone, start, best, unexplained)
