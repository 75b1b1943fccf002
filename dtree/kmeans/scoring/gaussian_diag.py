"""Assignment scores of diagonal Gaussian clusters.

Adding a row of weight w to a cluster with posterior (strength r, shape a_j, rate b_j, mean m_j) multiplies rate b_j by
1 + y_j^2 with y_j = (z_j - m_j) sqrt(w r / ((r+w) 2 b_j)), so gain = constant - sum_j (a_j + w/2) log(1 + y_j^2): one logarithm
of a product of sixteen factors where all features share their shape.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.jit import kernel
from dtree.core.model import Model
from dtree.kmeans.scoring.kappa import kappa_gains
from dtree.kmeans.scoring.lanes import FUSED, LANES, log_of_lanes

_FACTORS_PER_LOG = 16


class DiagonalTables(NamedTuple):
    """One entry per cluster; the last, k, is the empty cluster."""

    origin: np.ndarray  # (d,)
    inverse_unit: np.ndarray  # (d,)
    slope: np.ndarray  # (k+1, d) y = slope z - offset
    offset: np.ndarray  # (k+1, d)
    join: np.ndarray  # (k+1,) constant
    join_exponent: np.ndarray  # (k+1, d)
    leave: np.ndarray  # (k+1, 2) constant, factor on y^2
    leave_exponent: np.ndarray  # (k+1, d)
    alone: np.ndarray  # (k+1,)
    features_per_log: int
    coarsening: float


def diagonal_tables(model: Model, statistics: np.ndarray) -> DiagonalTables:
    """Tables of clusters (k, s) for `assign_diagonal`."""
    family = model.family
    assert isinstance(family, DiagonalGaussian)
    weight, d = model.coarsening, family.n_features
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    count, sums, squares = padded[:, :1], padded[:, 1 : 1 + d], padded[:, 1 + d :]
    prior_mean = (family.mean - family.origin) / family.unit
    strength = family.strength + count
    mean = (sums + family.strength * prior_mean) / strength
    rate = family.rate / family.unit**2
    rate = rate + 0.5 * (squares + family.strength * prior_mean**2 - strength * mean**2)
    shape = family.shape + 0.5 * count
    kappa_join, kappa_leave, alone = kappa_gains(model, padded)
    slope = np.sqrt(weight * strength / ((strength + weight) * 2.0 * rate))
    log_rate = np.log(rate).sum(axis=1)
    term = _count_term(family, count[:, 0])
    rest = np.where(alone, count[:, 0], count[:, 0] - weight)
    leave = np.zeros((padded.shape[0], 2))
    leave[:, 0] = kappa_leave + term - _count_term(family, rest) - 0.5 * weight * log_rate
    leave[:, 1] = np.where(alone, 0.0, (strength[:, 0] + weight) / np.maximum(strength[:, 0] - weight, family.strength))
    return DiagonalTables(
        origin=family.origin,
        inverse_unit=1.0 / family.unit,
        slope=np.ascontiguousarray(slope),
        offset=np.ascontiguousarray(slope * mean),
        join=kappa_join + _count_term(family, count[:, 0] + weight) - term - 0.5 * weight * log_rate,
        join_exponent=np.ascontiguousarray(shape + 0.5 * weight),
        leave=leave,
        leave_exponent=np.ascontiguousarray(shape - 0.5 * weight),
        alone=alone,
        features_per_log=_FACTORS_PER_LOG if np.all(family.shape == family.shape[0]) else 1,
        coarsening=weight,
    )


def _count_term(family: DiagonalGaussian, count: np.ndarray) -> np.ndarray:
    d = family.n_features
    term = -0.5 * d * np.log(family.strength + count)
    for shape, features in zip(*np.unique(family.shape, return_counts=True), strict=True):
        term += features * gammaln(shape + 0.5 * count)
    return term - count * (np.log(family.unit).sum() + 0.5 * d * math.log(2.0 * math.pi))


@kernel(fastmath=FUSED)
def _stay(tables, z, lane, c):
    """Gain of a row in its own cluster, which is taken without it; z (d, LANES) holds the row in one lane."""
    d = z.shape[0]
    total = tables.leave[c, 0]
    product = 1.0
    for j in range(d):
        y = tables.slope[c, j] * z[j, lane] - tables.offset[c, j]
        product *= max(1.0 - tables.leave[c, 1] * y * y, 1e-18)
        if j % tables.features_per_log == tables.features_per_log - 1 or j == d - 1:
            total += tables.leave_exponent[c, j] * math.log(product)
            product = 1.0
    return total


@kernel(fastmath=FUSED)
def assign_diagonal(tables, X, own, best, unexplained):
    """For each row of X (n, d) the cluster it gains most in, and whether a new cluster would gain more; see `gaussian`."""
    n, d = X.shape
    k = tables.join.shape[0] - 1
    z = np.zeros((d, LANES))
    product, log_product = np.empty(LANES), np.empty(LANES)
    score, top = np.empty(LANES), np.empty(LANES)
    where, present = np.empty(LANES, dtype=np.int64), np.empty(LANES, dtype=np.int64)
    bits = np.empty((2, LANES), dtype=np.int64)
    for start in range(0, n, LANES):
        width = min(LANES, n - start)
        for i in range(width):
            for a in range(d):
                z[a, i] = (X[start + i, a] - tables.origin[a]) * tables.inverse_unit[a]
            present[i] = own[start + i]
        for i in range(width, LANES):
            present[i] = -1
        for i in range(LANES):
            top[i] = -np.inf
            where[i] = -1
        for c in range(k + 1):
            constant = tables.join[c]
            for i in range(LANES):
                score[i] = constant
                product[i] = 1.0
            slopes, offsets = tables.slope[c], tables.offset[c]
            j = 0
            while j < d:
                stop = min(d, j + tables.features_per_log)
                exponent = tables.join_exponent[c, j]
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
                for i in range(LANES):
                    better = present[i] != c and score[i] > top[i]
                    top[i] = score[i] if better else top[i]
                    where[i] = c if better else where[i]
        for i in range(width):  # score now holds the gain of standing alone
            c = present[i]
            if c >= 0:
                stay = score[i] if tables.alone[c] else _stay(tables, z, i, c)
                if stay >= top[i]:
                    top[i] = stay
                    where[i] = c
            best[start + i] = where[i]
            unexplained[start + i] = score[i] > top[i]


@kernel(fastmath=FUSED)
def add_diagonal_rows(tables, X, labels, out):
    """Add the coarsened statistics of every row of X (n, d) with label c >= 0 to out[c] (k, s), in row order."""
    n, d = X.shape
    weight = tables.coarsening
    for i in range(n):
        if labels[i] >= 0:
            target = out[labels[i]]
            target[0] += weight
            for a in range(d):
                z = (X[i, a] - tables.origin[a]) * tables.inverse_unit[a]
                target[1 + a] += weight * z
                target[1 + d + a] += weight * z * z
