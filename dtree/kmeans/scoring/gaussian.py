"""Assignment scores of full Gaussian clusters: one whitening per cluster, many rows at a time.

Adding a row of weight w (1, or the coarsening) to a cluster with posterior (strength r, dof nu, mean m, scale S = L L')
multiplies det S by 1 + w r/(r+w) |L^-1 (z-m)|^2, so

    gain = constant - (nu + w)/2 log(1 + |W z - b|^2),  W = sqrt(w r/(r+w)) L^-1,  b = W m.

Taking a row out of its own cluster divides det S by the same kind of factor, from the same whitened distance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.gaussian import Gaussian
from dtree.core.jit import kernel
from dtree.core.model import Model
from dtree.kmeans.scoring.kappa import kappa_gains
from dtree.kmeans.scoring.lanes import FUSED, LANES, log_of_lanes


class GaussianTables(NamedTuple):
    """One entry per cluster; the last, k, is the empty cluster."""

    origin: np.ndarray  # (d,)
    inverse_unit: np.ndarray  # (d,)
    whiten: np.ndarray  # (k+1, d(d+1)/2) lower triangle of W, row by row
    offset: np.ndarray  # (k+1, d) b
    join: np.ndarray  # (k+1, 2) constant, exponent
    leave: np.ndarray  # (k+1, 3) constant, exponent, factor on the squared distance
    alone: np.ndarray  # (k+1,) the cluster holds one row only
    coarsening: float


def _count_term(family: Gaussian, count: np.ndarray) -> np.ndarray:
    """What the log marginal holds besides the determinant, up to a constant that cancels in every gain."""
    d = family.n_features
    half_dof = 0.5 * (family.dof + count)
    term = sum(gammaln(half_dof - 0.5 * j) for j in range(d)) - 0.5 * d * np.log(family.strength + count)
    return term - count * (np.log(family.unit).sum() + 0.5 * d * math.log(math.pi))


@kernel
def whitening(scale, mean, stretch):
    """Lower triangles of sqrt(stretch) L^-1 (k, d(d+1)/2) with scale = L L', their products with the means (k, d), log det scale.

    Not LAPACK's: its last bits depend on how many threads it was given, and labels must not.
    """
    k, d = mean.shape
    whiten, offset, log_det = np.empty((k, d * (d + 1) // 2)), np.zeros((k, d)), np.zeros(k)
    factor, inverse = np.zeros((d, d)), np.zeros((d, d))
    for c in range(k):
        for a in range(d):
            for b in range(a + 1):
                total = scale[c, a, b]
                for j in range(b):
                    total -= factor[a, j] * factor[b, j]
                factor[a, b] = math.sqrt(max(total, 1e-300)) if a == b else total / factor[b, b]
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
    weight = model.coarsening
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    strength, dof, mean, scale = family.posterior(padded)
    kappa_join, kappa_leave, alone = kappa_gains(model, padded)
    stretch = weight * strength / (strength + weight)
    whiten, offset, log_det = whitening(scale, mean, stretch)
    count = padded[:, 0]
    held = ~alone
    term = _count_term(family, count)
    join = kappa_join + _count_term(family, count + weight) - term - 0.5 * weight * log_det
    leave = np.zeros((padded.shape[0], 3))
    rest = np.where(held, count - weight, count)
    leave[:, 0] = kappa_leave + term - _count_term(family, rest) - 0.5 * weight * log_det
    leave[:, 1] = 0.5 * (dof - weight)
    leave[:, 2] = np.where(held, (strength + weight) / np.maximum(strength - weight, family.strength), 0.0)
    return GaussianTables(
        origin=family.origin,
        inverse_unit=1.0 / family.unit,
        whiten=whiten,
        offset=offset,
        join=np.column_stack([join, 0.5 * (dof + weight)]),
        leave=leave,
        alone=alone,
        coarsening=weight,
    )


@kernel(fastmath=FUSED)
def _whitened_distance(whiten, offset, z, distance, y):
    """distance (LANES,) = squared length of W z - b for each column of z (d, LANES); y (LANES,) is scratch."""
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

    `own` (n,) is the row's present cluster or -1; there the row is taken out first. Ties go to the own cluster, then to the
    first.
    """
    n, d = X.shape
    k = tables.join.shape[0] - 1
    z = np.zeros((d, LANES))
    distance, log_distance, y = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    own_distance, score, top = np.empty(LANES), np.empty(LANES), np.empty(LANES)
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
            own_distance[i] = 1.0
        for c in range(k + 1):
            _whitened_distance(tables.whiten[c], tables.offset[c], z, distance, y)
            log_of_lanes(distance, bits, log_distance)
            constant, exponent = tables.join[c, 0], tables.join[c, 1]
            for i in range(LANES):
                score[i] = constant - exponent * log_distance[i]
            if c < k:
                for i in range(LANES):
                    mine = present[i] == c
                    own_distance[i] = distance[i] if mine else own_distance[i]
                    better = (not mine) and score[i] > top[i]
                    top[i] = score[i] if better else top[i]
                    where[i] = c if better else where[i]
        for i in range(width):  # score now holds the gain of standing alone
            c = present[i]
            if c >= 0:
                stay = score[i]
                if not tables.alone[c]:
                    left = max(1.0 - tables.leave[c, 2] * (own_distance[i] - 1.0), 1e-300)
                    stay = tables.leave[c, 0] + tables.leave[c, 1] * np.log(left)
                if stay >= top[i]:
                    top[i] = stay
                    where[i] = c
            best[start + i] = where[i]
            unexplained[start + i] = score[i] > top[i]


@kernel(fastmath=FUSED)
def add_gaussian_rows(tables, X, labels, out):
    """Add the coarsened statistics of every row of X (n, d) with label c >= 0 to out[c] (k, s), in row order."""
    n, d = X.shape
    z = np.empty(d)
    weight = tables.coarsening
    for i in range(n):
        if labels[i] >= 0:
            target = out[labels[i]]
            target[0] += weight
            for a in range(d):
                z[a] = (X[i, a] - tables.origin[a]) * tables.inverse_unit[a]
                target[1 + a] += weight * z[a]
            position = 1 + d
            for a in range(d):
                scaled = weight * z[a]
                for b in range(a, d):
                    target[position] += scaled * z[b]
                    position += 1
