"""Compiled log marginals of the full Gaussian family.

The work is log det of the posterior scale matrix of each cluster. Scores of one atom with many are done `_LANES` at a
time, the same elimination step for all lanes in the innermost loop, so that the processor's vector units work on
several matrices at once; merging with a single point needs no factorisation of its own.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.lanes import LANES, log_of_lanes
from dtree.core.tables import table_index
from dtree.core.verbs import implements, log_marginal, log_marginal_merged

_LOG_PI = math.log(math.pi)
_PIVOTS_PER_LOG = 16  # one log of a product of this many pivots; in standard units they cannot overflow together
_LANES = 32  # clusters scored together: their matrices stay in the first-level cache
_LARGEST = 1e300  # the logarithm of lanes takes finite numbers only


class CompiledGaussian(NamedTuple):
    """In standard units: posterior scale = scale_base + second moments - pulled pulled' / (strength + n)."""

    pull: np.ndarray  # (d,) strength * mean
    scale_base: np.ndarray  # (d(d+1)/2,) upper triangle of scale + strength mean mean'
    strength: float
    dof: float
    count_terms: np.ndarray  # everything that depends on the count alone, indexed by the true count
    constant: float  # dof/2 log det scale - log multigamma(dof/2)
    log_jacobian: float
    per_count: float
    exact_points: bool  # whether one row has no scatter of its own, as it has when it was recorded to a step


@kernel(counted=False)
def log_multigamma(x, d):
    """Log of the multivariate gamma function of dimension d at x."""
    total = 0.25 * d * (d - 1) * _LOG_PI
    for j in range(d):
        total += math.lgamma(x - 0.5 * j)
    return total


@kernel(counted=False)
def _count_term(family, count):
    index = table_index(count, family.per_count, family.count_terms.shape[0])
    if index >= 0:
        return family.count_terms[index]
    d = family.pull.shape[0]
    total = family.constant + log_multigamma(0.5 * (family.dof + count), d)
    total += 0.5 * d * math.log(family.strength / (family.strength + count))
    return total + count * (family.log_jacobian - 0.5 * d * _LOG_PI)


@kernel(counted=False)
def _posterior_scale(family, statistics, matrix):
    """Fill the upper triangle of the posterior scale matrix (d, d)."""
    d = family.pull.shape[0]
    inverse = 1.0 / (family.strength + statistics[0])
    position = 0
    for a in range(d):
        pulled = (statistics[1 + a] + family.pull[a]) * inverse
        for b in range(a, d):
            second = family.scale_base[position] + statistics[1 + d + position]
            matrix[a, b] = second - pulled * (statistics[1 + b] + family.pull[b])
            position += 1


@implements(log_marginal, CompiledGaussian)
@kernel
def _log_marginal(family, statistics):
    d = family.pull.shape[0]
    count = statistics[0]
    matrix = np.empty((d, d))
    _posterior_scale(family, statistics, matrix)  # and eliminated in place
    log_det = 0.0
    product = 1.0
    for a in range(d):
        pivot = matrix[a, a]
        if not pivot > 0.0:  # rounding drowns the scale: a determinant of nothing would be worth more than any other
            return -np.inf
        product *= pivot
        if a % _PIVOTS_PER_LOG == _PIVOTS_PER_LOG - 1:
            log_det += math.log(product)
            product = 1.0
        for b in range(a + 1, d):
            factor = matrix[a, b] / pivot
            for c in range(b, d):
                matrix[b, c] -= factor * matrix[a, c]
    log_det += math.log(product)
    return _count_term(family, count) - 0.5 * (family.dof + count) * log_det


@kernel(counted=False)
def _posterior_factor(family, row, factor):
    """Fill the upper Cholesky factor (d, d) of the row's posterior scale, its diagonal inverted; returns log det.

    Where rounding drowns the scale that is infinite, for such a row to be worth nothing with any other.
    """
    _posterior_scale(family, row, factor)
    d = factor.shape[0]
    log_det = 0.0
    for a in range(d):
        for b in range(a):
            factor[a, a] -= factor[b, a] * factor[b, a]
        if not factor[a, a] > 0.0:
            factor[:] = 0.0
            return np.inf
        log_det += math.log(factor[a, a])
        factor[a, a] = 1.0 / math.sqrt(factor[a, a])
        for c in range(a + 1, d):
            for b in range(a):
                factor[a, c] -= factor[b, c] * factor[b, a]
            factor[a, c] *= factor[a, a]
    return log_det


@kernel(inline=True)
def _merge_points(family, columns, row, points, out):
    """Scores of `row` with columns that hold one point each.

    A point changes the row's posterior scale by a matrix of rank one, so its determinant follows from the distance of
    the point to the row's mean in the row's own metric: d^2/2 steps instead of a factorisation.
    """
    d = family.pull.shape[0]
    factor = np.empty((d, d))
    log_det = _posterior_factor(family, row, factor)
    strength = family.strength + row[0]
    centre = np.empty(d)
    for a in range(d):
        centre[a] = (row[1 + a] + family.pull[a]) / strength
    distance, log_growth = np.empty(LANES), np.empty(LANES)
    solved, bits = np.empty((d, LANES)), np.empty((2, LANES), dtype=np.int64)
    for block in range(0, points.shape[0], LANES):
        chosen = points[block : block + LANES]
        width = chosen.shape[0]
        unit = columns[0, chosen[0]]  # one point's count: 1, or zeta when coarsened
        shrink = unit * strength / (strength + unit)
        for lane in range(LANES):
            distance[lane] = 0.0
        for a in range(d):
            target = solved[a]
            sums = columns[1 + a]
            for lane in range(width):
                target[lane] = np.divide(sums[chosen[lane]], unit) - centre[a]
            for b in range(a):
                weight = factor[b, a]
                source = solved[b]
                for lane in range(width):
                    target[lane] -= weight * source[lane]
            scale = factor[a, a]
            for lane in range(width):
                target[lane] *= scale
                distance[lane] += target[lane] * target[lane]
        near = True
        for lane in range(LANES):
            distance[lane] = 1.0 + shrink * distance[lane]
            near &= distance[lane] < _LARGEST
        if near:
            log_of_lanes(distance, bits, log_growth)
        else:
            for lane in range(width):
                log_growth[lane] = math.log(distance[lane])
        count = row[0] + unit
        term = _count_term(family, count)
        exponent = 0.5 * (family.dof + count)
        for lane in range(width):
            out[chosen[lane]] = term - exponent * (log_det + log_growth[lane])


@kernel(inline=True)
def _merge_clusters(family, columns, row, clusters, out):
    """Scores of `row` with columns of several points each: one factorisation per column."""
    d = family.pull.shape[0]
    inverse = np.empty(_LANES)
    product = np.empty(_LANES)
    factor = np.empty(_LANES)
    pulled = np.empty((d, _LANES))
    matrix = np.empty((d, d, _LANES))
    for block in range(0, clusters.shape[0], _LANES):
        chosen = clusters[block : block + _LANES]
        width = chosen.shape[0]
        for lane in range(width):
            count = row[0] + columns[0, chosen[lane]]
            inverse[lane] = np.divide(1.0, family.strength + count)
            product[lane] = 1.0
            out[chosen[lane]] = _count_term(family, count)
        for a in range(d):
            shift = row[1 + a] + family.pull[a]
            sums = columns[1 + a]
            target = pulled[a]
            for lane in range(width):
                target[lane] = shift + sums[chosen[lane]]
        position = 0
        for a in range(d):
            for lane in range(width):
                factor[lane] = pulled[a, lane] * inverse[lane]
            for b in range(a, d):
                base = family.scale_base[position] + row[1 + d + position]
                seconds = columns[1 + d + position]
                target = matrix[a, b]
                other = pulled[b]
                for lane in range(width):
                    target[lane] = base + seconds[chosen[lane]] - factor[lane] * other[lane]
                position += 1
        for a in range(d):
            pivot = matrix[a, a]
            for lane in range(width):
                product[lane] *= pivot[lane]
                inverse[lane] = np.divide(1.0, pivot[lane])  # `/` asks about zero, and is not vectorised
            if a % _PIVOTS_PER_LOG == _PIVOTS_PER_LOG - 1 or a == d - 1:
                for lane in range(width):
                    exponent = 0.5 * (family.dof + row[0] + columns[0, chosen[lane]])
                    out[chosen[lane]] -= exponent * math.log(product[lane])
                    product[lane] = 1.0
            for b in range(a + 1, d):
                head = matrix[a, b]
                for lane in range(width):
                    factor[lane] = head[lane] * inverse[lane]
                for c in range(b, d):
                    target = matrix[b, c]
                    source = matrix[a, c]
                    for lane in range(width):
                        target[lane] -= factor[lane] * source[lane]


@implements(log_marginal_merged, CompiledGaussian)
@kernel
def _log_marginal_merged(family, columns, row, start, stop, out):
    points = np.empty(stop - start, dtype=np.int64)
    clusters = np.empty(stop - start, dtype=np.int64)
    n_points = 0
    n_clusters = 0
    for j in range(start, stop):
        if family.exact_points and columns[0, j] * family.per_count == 1.0:
            points[n_points] = j
            n_points += 1
        else:
            clusters[n_clusters] = j
            n_clusters += 1
    if n_points > 0:
        _merge_points(family, columns, row, points[:n_points], out)
    if n_clusters > 0:
        _merge_clusters(family, columns, row, clusters[:n_clusters], out)
