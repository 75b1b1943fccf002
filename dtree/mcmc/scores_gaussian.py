"""Fast join and leave gains of the full Gaussian family.

An atom whose rows are all equal (a point, or a weighted point) changes a cluster's posterior scale matrix S by a
matrix of rank one, so with the inverse Cholesky factor of S at hand

    log p(c + x) - log p(c) = count terms - w/2 log det S - (dof + n + w)/2 log1p(q),   q = w kappa/(kappa + w) |L^-1
    (x - mean)|^2

with kappa = strength + n. Factors are kept one cluster per column, so the squared distances of one atom to all
clusters are a few contiguous vectorised loops. Taking x away is the same with a minus sign, so an atom that stays
where it was costs no factorisation. Atoms with a scatter of their own go through the batched marginals of the family.

The distance is a sum over the rows of L^-1, so the first of them give a lower bound of it, and an upper bound of the
gain. In many dimensions half of the rows, a quarter of the work, mostly tell all clusters but a few apart.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.families.gaussian_kernels import CompiledGaussian
from dtree.core.families.gaussian_kernels import _count_term as count_term
from dtree.core.jit import DOT_PRODUCT_MATH, kernel
from dtree.core.removal import SMALLEST_REMAINDER
from dtree.core.verbs import implements
from dtree.mcmc.scores import gain_from_statistics, gains_by_merging, join_gains, leave_gain, make_cache, refresh_slots

MANY_DIMENSIONS = 8  # from here on half of the rows are looked at first; below, the rest costs less than to ask
FEW_LEFT = 8  # one cluster in so many is better finished alone than all together


class GaussianCache(NamedTuple):
    """Inverse Cholesky factors of posterior scale matrices, one cluster per column."""

    point: np.ndarray  # (m, d) centre of each atom in standard units
    same_rows: np.ndarray  # (m,) whether all rows of the atom are equal
    mean: np.ndarray  # (d, capacity)
    factor: np.ndarray  # (d(d+1)/2, capacity) inverse lower Cholesky factor, row by row
    log_det: np.ndarray  # (capacity,)
    unit: float  # the weight of most atoms, for which the next three are kept
    unit_base: np.ndarray  # (capacity,) what joining gains before the distance is paid for
    unit_exponent: np.ndarray  # (capacity,) (dof + n + unit) / 2
    unit_shrink: np.ndarray  # (capacity,) unit kappa / (kappa + unit)
    distance: np.ndarray  # (capacity,) scratch
    projected: np.ndarray  # (capacity,) scratch
    difference: np.ndarray  # (d, capacity) scratch
    matrix: np.ndarray  # (d, d) scratch
    row: np.ndarray  # (s,) scratch


@implements(make_cache, CompiledGaussian)
def gaussian_cache(family: CompiledGaussian, atoms: np.ndarray, capacity: int) -> GaussianCache:
    """Make the cache; an atom counts as equal rows when its scatter is zero up to rounding."""
    d = family.pull.shape[0]
    point = atoms[:, 1 : 1 + d] / atoms[:, :1]
    a, b = np.triu_indices(d)
    second = atoms[:, 1 + d :] / atoms[:, :1]
    diagonal = second[:, a == b]
    magnitude = np.sqrt(diagonal[:, a] * diagonal[:, b])
    same_rows = np.all(np.abs(second - point[:, a] * point[:, b]) <= 1e-13 * (1e-3 + magnitude), axis=1)
    mean, factor, log_det = np.zeros((d, capacity)), np.zeros((a.shape[0], capacity)), np.zeros(capacity)
    unit = float(np.median(atoms[:, 0])), *np.zeros((3, capacity))
    scratch = *np.zeros((2, capacity)), np.zeros((d, capacity)), np.zeros((d, d)), np.zeros(atoms.shape[1])
    return GaussianCache(np.ascontiguousarray(point), same_rows, mean, factor, log_det, *unit, *scratch)


@implements(refresh_slots, GaussianCache)
@kernel
def _refresh_slots(cache, family, clusters, start, stop):
    for k in range(start, stop):
        _refresh(cache, family, clusters, k)


@kernel
def _refresh(cache, family, clusters, k):
    d = family.pull.shape[0]
    columns, matrix = clusters.columns, cache.matrix
    count = columns[0, k]
    inverse = 1.0 / (family.strength + count)
    for a in range(d):
        cache.mean[a, k] = (columns[1 + a, k] + family.pull[a]) * inverse
    position = 0
    for a in range(d):
        for b in range(a, d):
            second = family.scale_base[position] + columns[1 + d + position, k]
            matrix[b, a] = second - cache.mean[a, k] * (columns[1 + b, k] + family.pull[b])
            position += 1
    log_det = 0.0
    for a in range(d):  # lower Cholesky factor in place
        for c in range(a):
            matrix[a, a] -= matrix[a, c] * matrix[a, c]
        pivot = math.sqrt(matrix[a, a])
        matrix[a, a] = pivot
        log_det += math.log(pivot)
        for b in range(a + 1, d):
            for c in range(a):
                matrix[b, a] -= matrix[b, c] * matrix[a, c]
            matrix[b, a] /= pivot
    for b in range(d):  # its inverse, column by column, into the cache
        for a in range(b, d):
            total = 1.0 if a == b else 0.0
            for c in range(b, a):
                total -= matrix[a, c] * cache.factor[c * (c + 1) // 2 + b, k]
            cache.factor[a * (a + 1) // 2 + b, k] = total / matrix[a, a]
    cache.log_det[k] = 2.0 * log_det
    terms = count_term(family, count)
    clusters.log_marginal[k] = terms - (family.dof + count) * log_det
    kappa, unit = family.strength + count, cache.unit
    cache.unit_base[k] = count_term(family, count + unit) - terms - unit * log_det
    cache.unit_exponent[k] = 0.5 * (family.dof + count + unit)
    cache.unit_shrink[k] = unit * kappa / (kappa + unit)


@kernel(fastmath=DOT_PRODUCT_MATH)
def _distances(point, mean, factor, difference, projected, distance, i, rows, count):
    """distance[k] = |L_k^-1 (x_i - mean_k)|^2 for k < count, of the rows from rows[0] to below rows[1] of L_k^-1.

    Those before are in it already, as is `difference`. Plain two-dimensional indexing from 0, so the loops vectorise
    and no slice costs a reference count; bare arrays, since handing over a whole tuple of arrays takes longer than the
    work of a small problem.
    """
    if rows[0] == 0:
        for k in range(count):
            distance[k] = 0.0
    position = rows[0] * (rows[0] + 1) // 2
    for a in range(rows[0], rows[1]):
        x = point[i, a]
        for k in range(count):
            difference[a, k] = x - mean[a, k]
            projected[k] = factor[position, k] * difference[0, k]
        position += 1
        for b in range(1, a + 1):
            for k in range(count):
                projected[k] += factor[position, k] * difference[b, k]
            position += 1
        for k in range(count):
            distance[k] += projected[k] * projected[k]


@kernel
def _distance_to(point, mean, factor, i, first, k):
    """The same for one cluster, of the rows from `first` on."""
    total = 0.0
    position = first * (first + 1) // 2
    for a in range(first, mean.shape[0]):
        projected = 0.0
        for b in range(a + 1):
            projected += factor[position, k] * (point[i, b] - mean[b, k])
            position += 1
        total += projected * projected
    return total


@kernel(fastmath=DOT_PRODUCT_MATH)
def _bound_gains(distance, shrink, base, exponent, count, out):
    """out[k] = upper bound of the gain at a distance, or beyond it. Few clusters are worth an exact logarithm.

    log1p(q) = 8 log y >= 16 (y - 1)/(y + 1), y the eighth root of 1 + q: square roots vectorise where logs do not.
    """
    for k in range(count):
        y = math.sqrt(math.sqrt(math.sqrt(1.0 + shrink[k] * distance[k])))
        out[k] = base[k] - exponent[k] * (16.0 * (y - 1.0) / (y + 1.0))


@kernel
def _gain_of(cache, family, clusters, weight, k, distance):
    """Gain of an atom of equal rows at this squared distance."""
    if weight == cache.unit:
        return cache.unit_base[k] - cache.unit_exponent[k] * math.log1p(cache.unit_shrink[k] * distance)
    count = clusters.columns[0, k]
    kappa = family.strength + count
    base = count_term(family, count + weight) - count_term(family, count) - 0.5 * weight * cache.log_det[k]
    q = weight * kappa / (kappa + weight) * distance
    return base - 0.5 * (family.dof + count + weight) * math.log1p(q)


@implements(join_gains, GaussianCache)
@kernel
def _join(cache, family, clusters, atoms, i, start, stop, depth, out):
    if not cache.same_rows[i]:
        gains_by_merging(family, clusters, atoms[i], start, stop, out)
        return
    weight = atoms[i, 0]
    if start > 0 or weight != cache.unit or depth == np.inf:
        for k in range(start, stop):
            to_it = _distance_to(cache.point, cache.mean, cache.factor, i, 0, k)
            out[k] = _gain_of(cache, family, clusters, weight, k, to_it)
        return
    point, mean, factor, distance = cache.point, cache.mean, cache.factor, cache.distance
    difference, projected = cache.difference, cache.projected
    base, exponent, shrink = cache.unit_base, cache.unit_exponent, cache.unit_shrink
    d = mean.shape[0]
    looked_at = d // 2 if d >= MANY_DIMENSIONS else d
    _distances(point, mean, factor, difference, projected, distance, i, (0, looked_at), stop)
    _bound_gains(distance, shrink, base, exponent, stop, out)
    if looked_at < d:
        left = 0
        for k in range(stop):
            left += 1 if out[k] >= -depth else 0
        if FEW_LEFT * left <= stop:
            for k in range(stop):
                if out[k] >= -depth:
                    distance[k] += _distance_to(point, mean, factor, i, looked_at, k)
        else:
            _distances(point, mean, factor, difference, projected, distance, i, (looked_at, d), stop)
            _bound_gains(distance, shrink, base, exponent, stop, out)
    for k in range(stop):
        out[k] = base[k] - exponent[k] * math.log1p(shrink[k] * distance[k]) if out[k] >= -depth else -np.inf


@implements(leave_gain, GaussianCache)
@kernel
def _leave(cache, family, clusters, atoms, i, k):
    count, weight = clusters.columns[0, k], atoms[i, 0]
    if cache.same_rows[i]:
        kappa = family.strength + count
        distance = _distance_to(cache.point, cache.mean, cache.factor, i, 0, k)
        remainder = 1.0 - weight * kappa / (kappa - weight) * distance
        if remainder > SMALLEST_REMAINDER:
            gain = count_term(family, count) - count_term(family, count - weight) - 0.5 * weight * cache.log_det[k]
            return gain + 0.5 * (family.dof + count - weight) * math.log(remainder)
    return gain_from_statistics(cache, family, clusters, atoms, i, k)
