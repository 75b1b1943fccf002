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
from dtree.core.whitening import whitened_distance, whitening
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
            whitened_distance(1.0, whiten[c], offset[c], z, distance, y)
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
