"""The density of rows under weighted clusters: log sum_c w_c p(x | c).

Clusters of Gaussian families predict Student t densities, w_c p(x | c) = constant - exponent log(1 + distance): all
clusters are scored for LANES rows at a time, and summed, without a matrix of rows by clusters; the same scores say
which cluster is most probable. Other families, rows that lack values and rows too far away for that shortcut are scored
by the family itself, block by block.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from dtree.core.families import Bent, DiagonalGaussian, Family, Gaussian, has_holes
from dtree.core.jit import kernel
from dtree.core.lanes import FUSED, LANES, exp_of_lanes, log_of_lanes
from dtree.core.whitening import whitened_distance, whitening

ROWS_PER_BLOCK = 4096  # so that (rows, clusters) matrices stay small
_FEATURES_PER_LOG = 16  # their factors 1 + y^2 are multiplied before the logarithm
_TOO_FAR = 1e300  # a sum of distances some of which may have overflowed
# Which cluster is most probable is left open where scores differ by less than they may be wrong by: a thousand times
# what was seen of rounding, which grows with the exponents (a million rows in a cluster: 1e-9).
_ROUNDING, _ROUNDING_OF_EXPONENTS = 1e-6, 1e-12
_LOG_PI = math.log(math.pi)


class _Full(NamedTuple):
    """Clusters of full Gaussians."""

    whiten: np.ndarray  # (k, d(d+1)/2) lower triangles of W, distance = |W z - offset|^2
    offset: np.ndarray  # (k, d)
    constant: np.ndarray  # (k,) log weights included
    exponent: np.ndarray  # (k,)
    rounding: float  # scores that differ by less may be equal


class _Diagonal(NamedTuple):
    """Clusters of diagonal Gaussians."""

    slope: np.ndarray  # (k, d) distance of a feature = (slope z - offset)^2
    offset: np.ndarray  # (k, d)
    constant: np.ndarray  # (k,) log weights included
    exponent: np.ndarray  # (k, d)
    features_per_log: int  # 1 where their exponents differ
    rounding: float  # scores that differ by less may be equal


def _by_the_family(family: Family, X: Any, statistics: np.ndarray) -> np.ndarray:
    return family.log_predictive_of(X, statistics)


def log_mixture_of(
    family: Family,
    X: Any,
    statistics: np.ndarray,
    log_weights: np.ndarray,
    log_predictive: Callable[[Family, Any, np.ndarray], np.ndarray] = _by_the_family,
    best: np.ndarray | None = None,
) -> np.ndarray:
    """Log density (n,) of rows X (n, d) under clusters (k, s) with log weights (k,).

    `log_predictive(family, rows, statistics)` (n, k) is asked where there is no shortcut. `best` (n,) int64 is filled
    with the most probable cluster of every row, the last left out; -1 where rounding may decide, or without a shortcut.

    >>> family = DiagonalGaussian([0.0], 0.1, 2.0, [1.0])
    >>> clusters, X = family.statistics([[0.0], [5.0]]), np.array([[1.0], [4.0]])
    >>> both = family.log_predictive_of(X, clusters) + np.log([0.3, 0.7])
    >>> np.allclose(log_mixture_of(family, X, clusters, np.log([0.3, 0.7])), logsumexp(both, axis=1))
    True
    """

    if best is not None:
        best[:] = -1

    def one_by_one(rows: Any, _: Any = None) -> np.ndarray:
        return np.asarray(logsumexp(log_predictive(family, rows, statistics) + log_weights, axis=1))

    straight: Any = family.base if type(family) is Bent else family
    if type(straight) not in (Gaussian, DiagonalGaussian) or not statistics.shape[0]:
        return _by_blocks(one_by_one, X, best)
    tables = _tables(straight, statistics[:, :-1] if family is not straight else statistics, log_weights)

    def by_lanes(rows: Any, best: np.ndarray) -> np.ndarray:
        if has_holes(rows):
            return one_by_one(rows)
        rows = family.kept_rows(rows)
        out = np.empty(rows.shape[0])
        points = np.ascontiguousarray(straight.points(rows[:, : family.n_features]))
        (_full_rows if isinstance(tables, _Full) else _diagonal_rows)(tables, points, out, best)
        if family is not straight:
            out += rows[:, -1]  # log slopes
        return out

    found = _by_blocks(by_lanes, X, best)
    far = np.flatnonzero(np.isnan(found))
    if far.size:
        found[far] = one_by_one(X[far])
        if best is not None:
            best[far] = -1
    return found


def _by_blocks(function: Callable[[Any, np.ndarray], np.ndarray], X: Any, best: np.ndarray | None) -> np.ndarray:
    best = np.empty(0, dtype=np.int64) if best is None else best
    parts = [slice(start, start + ROWS_PER_BLOCK) for start in range(0, max(X.shape[0], 1), ROWS_PER_BLOCK)]
    return np.concatenate([function(X[part], best[part]) for part in parts])


def _tables(family: Gaussian | DiagonalGaussian, statistics: np.ndarray, log_weights: np.ndarray) -> _Full | _Diagonal:
    """What the kernels need to know of clusters (k, s)."""
    d, log_unit = family.n_features, np.log(family.unit).sum()
    if isinstance(family, DiagonalGaussian):
        count, mean, shape, rate = family.posterior(statistics)
        rate = np.maximum(rate, family.rate / family.unit**2)  # rows only add to it; less is rounding
        strength = family.strength + count
        scale = 2.0 * rate * (strength + 1.0) / strength
        constant = (gammaln(shape + 0.5) - gammaln(shape) - 0.5 * (_LOG_PI + np.log(scale))).sum(axis=1) - log_unit
        slope, exponent = 1.0 / np.sqrt(scale), np.broadcast_to(shape + 0.5, mean.shape)
        per_log = _FEATURES_PER_LOG if np.all(exponent == exponent[:, :1]) else 1
        exponent = np.ascontiguousarray(exponent)
        return _Diagonal(slope, slope * mean, constant + log_weights, exponent, per_log, _rounding(exponent))
    prior = np.zeros((1, statistics.shape[1]))
    strength, dof, mean, scale = family.posterior(np.vstack([statistics, prior]))
    shrink = strength / (strength + 1.0)
    whiten, offset, log_det = (part[:-1] for part in whitening(scale, mean, shrink))
    dof, shrink = dof[:-1], shrink[:-1]
    constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * (dof + 1.0 - d)) - log_unit
    constant += 0.5 * d * (np.log(shrink) - _LOG_PI) - 0.5 * log_det
    exponent = 0.5 * (dof + 1.0)
    return _Full(whiten, offset, constant + log_weights, exponent, _rounding(exponent) * d)


def _rounding(exponent: np.ndarray) -> float:
    return _ROUNDING + _ROUNDING_OF_EXPONENTS * float(exponent.sum(axis=-1).max())


@kernel(fastmath=FUSED)
def _add_log1p(exponent, distance, one_more, bits, log, score):
    """score -= exponent * log(1 + distance), all (LANES,), every digit of a small distance kept.

    A cluster of a million rows has an exponent of that size and distances of its inverse.
    """
    for i in range(LANES):
        one_more[i] = 1.0 + distance[i]
    log_of_lanes(one_more, bits, log)
    for i in range(LANES):
        lost = np.divide(distance[i] - (one_more[i] - 1.0), one_more[i])
        score[i] -= exponent * (log[i] + lost)


@kernel(fastmath=FUSED)
def _load(X, start, z):
    """Put rows of X (n, d) from `start` on into the lanes of z (d, LANES); lanes without a row keep what they had."""
    for i in range(min(LANES, X.shape[0] - start)):
        for a in range(X.shape[1]):
            z[a, i] = X[start + i, a]


@kernel(fastmath=FUSED)
def _settle(scores, reach, bits, start, out):
    """Write the log of the sum of exp(scores) (k, LANES) over clusters, NaN where distances of a row add up to
    a `reach` (LANES,) that may have overflowed."""
    k = scores.shape[0]
    top, total, below, part = np.empty(LANES), np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    for i in range(LANES):
        top[i] = -np.inf
    for c in range(k):
        score = scores[c]
        for i in range(LANES):
            top[i] = max(top[i], score[i])
    for c in range(k):
        score = scores[c]
        for i in range(LANES):
            below[i] = score[i] - top[i]
        exp_of_lanes(below, bits, part)
        for i in range(LANES):
            total[i] += part[i]
    for i in range(min(LANES, out.shape[0] - start)):
        out[start + i] = top[i] + math.log(total[i]) if reach[i] < _TOO_FAR else np.nan


@kernel
def _most_probable(scores, rounding, start, best):
    """Write the cluster of the highest of scores (k, LANES), the last left out; -1 where others come close."""
    top, second, where = np.empty(LANES), np.empty(LANES), np.empty(LANES, dtype=np.int64)
    top[:] = -np.inf
    second[:] = -np.inf
    for c in range(scores.shape[0] - 1):
        score = scores[c]
        for i in range(LANES):
            better = score[i] > top[i]
            second[i] = top[i] if better else max(second[i], score[i])
            where[i] = c if better else where[i]
            top[i] = score[i] if better else top[i]
    for i in range(min(LANES, best.shape[0] - start)):
        best[start + i] = where[i] if top[i] - second[i] > rounding else -1


@kernel(fastmath=FUSED)
def _full_rows(tables, X, out, best):
    """Log densities out (n,) of rows X (n, d) in standard units, and their `best` (n,) or (0,) clusters."""
    n, d = X.shape
    whiten, offset, constant, exponent = tables.whiten, tables.offset, tables.constant, tables.exponent
    k = constant.shape[0]
    z, scores, bits = np.zeros((d, LANES)), np.empty((k, LANES)), np.empty((2, LANES), dtype=np.int64)
    distance, one_more, y, reach = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        _load(X, start, z)
        reach[:] = 0.0
        for c in range(k):
            whitened_distance(0.0, whiten[c], offset[c], z, distance, y)
            score, first = scores[c], constant[c]
            for i in range(LANES):
                score[i] = first
                reach[i] += distance[i]
            _add_log1p(exponent[c], distance, one_more, bits, y, score)
        _settle(scores, reach, bits, start, out)
        if best.shape[0] > 0:
            _most_probable(scores, tables.rounding, start, best)


@kernel(fastmath=FUSED)
def _diagonal_rows(tables, X, out, best):
    """The same for clusters of diagonal Gaussians."""
    n, d = X.shape
    slope, offset, constant, exponents = tables.slope, tables.offset, tables.constant, tables.exponent
    k, step = constant.shape[0], tables.features_per_log
    z, scores, bits = np.zeros((d, LANES)), np.empty((k, LANES)), np.empty((2, LANES), dtype=np.int64)
    distance, one_more, log, reach = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for start in range(0, n, LANES):
        _load(X, start, z)
        reach[:] = 0.0
        for c in range(k):
            score, first = scores[c], constant[c]
            for i in range(LANES):
                score[i] = first
            for j in range(0, d, step):
                for i in range(LANES):
                    distance[i] = 0.0
                for a in range(j, min(d, j + step)):
                    s, o, row = slope[c, a], offset[c, a], z[a]
                    for i in range(LANES):  # (1 + distance) (1 + y^2) - 1
                        y = s * row[i] - o
                        distance[i] += y * y * (1.0 + distance[i])
                for i in range(LANES):
                    reach[i] += distance[i]
                _add_log1p(exponents[c, j], distance, one_more, bits, log, score)
        _settle(scores, reach, bits, start, out)
        if best.shape[0] > 0:
            _most_probable(scores, tables.rounding, start, best)
