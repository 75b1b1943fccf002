"""The density of rows under weighted clusters: log sum_c w_c p(x | c).

Clusters of Gaussian families predict Student t densities, log w_c p(x | c) = constant - exponent log(1 + distance), or
less a sum of such terms. For LANES rows at a time all distances are taken; a bound on the logarithm that costs next to
nothing says which clusters can matter to a row, and only for those logarithm and exponential are computed. The same
scores say which cluster is most probable. Other families, rows that lack values and rows too far away for that shortcut
are scored by the family itself, block by block.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from dtree.core.families import Bent, DiagonalGaussian, Family, Gaussian, has_holes
from dtree.core.jit import kernel
from dtree.core.lanes import BITS_OF_ONE, FUSED, LANES, LOG_PER_BIT, exp_of_lanes, log_of_lanes
from dtree.core.whitening import whitened_distance, whitening

ROWS_PER_BLOCK = 4096  # so that (rows, clusters) matrices stay small
_FEATURES_PER_LOG = 16  # their factors 1 + y^2 are multiplied before the logarithm
# Clusters that are less probable than another by so many nats are left out: what they add to a sum is 1e-35 of it, and
# doubles know 1e-16.
_NEGLIGIBLE = 80.0
_TERMS_PER_TILE = 256  # of clusters that are looked at together: their distances stay in the second-level cache
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
    exponent: np.ndarray  # (k, 1)
    rounding: float  # scores that differ by less may be equal


class _Diagonal(NamedTuple):
    """Clusters of diagonal Gaussians."""

    slope: np.ndarray  # (k, d) distance of a feature = (slope z - offset)^2
    offset: np.ndarray  # (k, d)
    constant: np.ndarray  # (k,) log weights included
    exponent: np.ndarray  # (k, t) of the terms
    features_per_log: int  # that make a term; 1 where their exponents differ
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
    scratch = _scratch_for(tables)

    def by_lanes(rows: Any, best: np.ndarray) -> np.ndarray:
        if has_holes(rows):
            return one_by_one(rows)
        rows = family.kept_rows(rows)
        out = np.empty(rows.shape[0])
        points = np.ascontiguousarray(straight.points(rows[:, : family.n_features]))
        (_full_rows if isinstance(tables, _Full) else _diagonal_rows)(tables, points, scratch, out, best)
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
        rounding = _rounding(exponent)
        exponent = np.ascontiguousarray(exponent[:, ::per_log])
        return _Diagonal(slope, slope * mean, constant + log_weights, exponent, per_log, rounding)
    prior = np.zeros((1, statistics.shape[1]))
    strength, dof, mean, scale = family.posterior(np.vstack([statistics, prior]))
    shrink = strength / (strength + 1.0)
    whiten, offset, log_det = (part[:-1] for part in whitening(scale, mean, shrink))
    dof, shrink = dof[:-1], shrink[:-1]
    constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * (dof + 1.0 - d)) - log_unit
    constant += 0.5 * d * (np.log(shrink) - _LOG_PI) - 0.5 * log_det
    exponent = 0.5 * (dof + 1.0)[:, None]
    return _Full(whiten, offset, constant + log_weights, exponent, _rounding(exponent) * d)


def _rounding(exponent: np.ndarray) -> float:
    return _ROUNDING + _ROUNDING_OF_EXPONENTS * float(exponent.sum(axis=-1).max())


class _Scratch(NamedTuple):
    """Memory of kernels that count no references: counting them is what threads wait for. k clusters in tiles of c."""

    z: np.ndarray  # (d, LANES) rows
    distances: np.ndarray  # (c, t, LANES)
    at_most: np.ndarray  # (c, LANES) bounds of scores
    kept: np.ndarray  # (k * LANES + LANES,) scores of pairs of cluster and row that may matter
    cluster: np.ndarray  # (k * LANES + LANES,) theirs
    lane: np.ndarray  # (k * LANES + LANES,) theirs
    lanes: np.ndarray  # (12, LANES)
    bits: np.ndarray  # (3, LANES) int64


def _scratch_for(tables: _Full | _Diagonal) -> _Scratch:
    k, terms = tables.exponent.shape
    tile, pairs = max(1, min(k, _TERMS_PER_TILE // terms)), (k + 1) * LANES
    z, distances = np.zeros((tables.offset.shape[1], LANES)), np.empty((tile, terms, LANES))
    listed = np.empty(pairs), np.zeros(pairs, dtype=np.int64), np.zeros(pairs, dtype=np.int64)
    bits = np.empty((3, LANES), dtype=np.int64)
    return _Scratch(z, distances, np.empty((tile, LANES)), *listed, np.zeros((12, LANES)), bits)


@kernel(counted=False, fastmath=FUSED)
def _subtract_log1p(exponent, distance, one_more, bits, log, score):
    """score -= exponent * log(1 + distance), all (LANES,), every digit of a small distance kept.

    A cluster of a million rows has an exponent of that size and distances of its inverse.
    """
    for i in range(LANES):
        one_more[i] = 1.0 + distance[i]
    log_of_lanes(one_more, bits, log)
    for i in range(LANES):
        lost = np.divide(distance[i] - (one_more[i] - 1.0), one_more[i])
        score[i] -= exponent[i] * (log[i] + lost)


@kernel(counted=False, fastmath=FUSED)
def _bound(constant, exponent, distances, one_more, at_most):
    """at_most (LANES,) >= constant - sum of exponent (t,) * log(1 + distances (t, LANES)).

    The bits of a positive double, read as a whole number, are 2^52 times a logarithm to base 2 that is right for powers
    of two and straight between them, so nowhere more than the logarithm.
    """
    raw = one_more.view(np.int64)
    for i in range(LANES):
        at_most[i] = constant
    for t in range(exponent.shape[0]):
        slope, distance = exponent[t] * LOG_PER_BIT, distances[t]
        for i in range(LANES):
            one_more[i] = 1.0 + distance[i]
        for i in range(LANES):
            at_most[i] -= slope * (raw[i] - BITS_OF_ONE)


@kernel(counted=False, fastmath=FUSED)
def _score_pairs(tables, scratch, first, at, score):
    """score (LANES,) of the pairs listed from `at` on, of clusters of the tile that begins with `first`."""
    lanes, bits = scratch.lanes, scratch.bits
    exponent, distance, one_more, log = lanes[0], lanes[1], lanes[2], lanes[3]
    for i in range(LANES):
        score[i] = tables.constant[scratch.cluster[at + i]]
    for t in range(tables.exponent.shape[1]):
        for i in range(LANES):
            c = scratch.cluster[at + i]
            exponent[i] = tables.exponent[c, t]
            distance[i] = scratch.distances[c - first, t, scratch.lane[at + i]]
        _subtract_log1p(exponent, distance, one_more, bits, log, score)


@kernel(counted=False, fastmath=FUSED)
def _keep_near(tables, scratch, first, stop, width, n_kept):
    """List the pairs of a row and a cluster first .. stop - 1 that may matter behind `n_kept` others; how many there
    are then. Their distances are there; the highest scores of each row rise on the way.

    The last cluster of all is always kept and rules out no other: which of the others is best may be asked for.
    """
    lanes, lane, cluster, last = scratch.lanes, scratch.lane, scratch.cluster, tables.constant.shape[0] - 1
    one_more, high, score, top, reach, best = lanes[2], lanes[4], lanes[5], lanes[6], lanes[7], lanes[11]
    where = scratch.bits[2]
    for i in range(LANES):
        high[i] = -np.inf
        where[i] = first
    for c in range(first, stop):
        distances, at_most = scratch.distances[c - first], scratch.at_most[c - first]
        for t in range(distances.shape[0]):
            distance = distances[t]
            for i in range(LANES):
                reach[i] += distance[i]
        _bound(tables.constant[c], tables.exponent[c], distances, one_more, at_most)
        if c < last:
            for i in range(LANES):
                better = at_most[i] > high[i]
                high[i] = at_most[i] if better else high[i]
                where[i] = c if better else where[i]
    if first < last:
        for i in range(LANES):  # the most promising cluster of each row
            cluster[n_kept + i] = where[i]
            lane[n_kept + i] = i
        _score_pairs(tables, scratch, first, n_kept, score)
        for i in range(LANES):
            best[i] = max(best[i], score[i])
    for i in range(LANES):
        high[i] = best[i] - _NEGLIGIBLE if i < width else np.inf
    before = n_kept
    for c in range(first, stop):
        at_most = scratch.at_most[c - first]
        near = 0
        for i in range(LANES):
            near += at_most[i] >= high[i]
        if near == 0 and c < last:
            continue
        for i in range(width):
            if at_most[i] >= high[i] or c == last:
                cluster[n_kept] = c
                lane[n_kept] = i
                n_kept += 1
    for i in range(n_kept, n_kept + LANES):  # so that the last lanes hold something
        cluster[i] = first
        lane[i] = 0
    for at in range(before, n_kept, LANES):
        _score_pairs(tables, scratch, first, at, score)
        for i in range(min(LANES, n_kept - at)):
            scratch.kept[at + i] = score[i]
            top[lane[at + i]] = max(top[lane[at + i]], score[i])
    return n_kept


@kernel(counted=False, fastmath=FUSED)
def _settle(scratch, n_kept, start, out):
    """Write the log of the sum of exp(score) over the clusters kept for each row, NaN where distances of a row add up
    to what may have overflowed."""
    lanes, lane, kept = scratch.lanes, scratch.lane, scratch.kept
    top, reach, total, below, part = lanes[6], lanes[7], lanes[8], lanes[9], lanes[10]
    for i in range(LANES):
        total[i] = 0.0
    for at in range(0, n_kept, LANES):
        for i in range(LANES):
            below[i] = kept[at + i] - top[lane[at + i]] if at + i < n_kept else 0.0
        exp_of_lanes(below, scratch.bits, part)
        for i in range(min(LANES, n_kept - at)):
            total[lane[at + i]] += part[i]
    for i in range(min(LANES, out.shape[0] - start)):
        out[start + i] = top[i] + math.log(total[i]) if reach[i] < _TOO_FAR else np.nan


@kernel(counted=False)
def _most_probable(scratch, n_kept, last, rounding, start, best):
    """Write the cluster of the highest score of each row, the `last` left out; -1 where others come close."""
    where, highest, second = scratch.bits[2], scratch.lanes[8], scratch.lanes[9]
    for i in range(LANES):
        highest[i] = -np.inf
        second[i] = -np.inf
    for at in range(n_kept):
        i, score = scratch.lane[at], scratch.kept[at]
        if scratch.cluster[at] == last:
            continue
        if score > highest[i]:
            second[i] = highest[i]
            highest[i] = score
            where[i] = scratch.cluster[at]
        else:
            second[i] = max(second[i], score)
    for i in range(min(LANES, best.shape[0] - start)):
        best[start + i] = where[i] if highest[i] - second[i] > rounding else -1


@kernel(counted=False)
def _load(X, start, scratch):
    """Put rows of X (n, d) from `start` on into the lanes, the others keep what they had; returns how many have one."""
    width = min(LANES, X.shape[0] - start)
    for i in range(width):
        for a in range(X.shape[1]):
            scratch.z[a, i] = X[start + i, a]
    top, reach, best = scratch.lanes[6], scratch.lanes[7], scratch.lanes[11]
    for i in range(LANES):
        top[i] = -np.inf  # the highest score
        best[i] = -np.inf  # the last cluster left out
        reach[i] = 0.0
    return width


@kernel(counted=False, fastmath=FUSED)
def _full_rows(tables, X, scratch, out, best):
    """Log densities out (n,) of rows X (n, d) in standard units, and their `best` (n,) or (0,) clusters."""
    k, tile = tables.constant.shape[0], scratch.distances.shape[0]
    for start in range(0, X.shape[0], LANES):
        width, n_kept = _load(X, start, scratch), 0
        for first in range(0, k, tile):
            stop = min(first + tile, k)
            for c in range(first, stop):
                distance = scratch.distances[c - first, 0]
                whitened_distance(0.0, tables.whiten[c], tables.offset[c], scratch.z, distance, scratch.lanes[0])
            n_kept = _keep_near(tables, scratch, first, stop, width, n_kept)
        _settle(scratch, n_kept, start, out)
        if best.shape[0] > 0:
            _most_probable(scratch, n_kept, k - 1, tables.rounding, start, best)


@kernel(counted=False, fastmath=FUSED)
def _diagonal_distances(slope, offset, step, z, distances):
    """Fill the distances (t, LANES) of rows z (d, LANES) from one cluster, a term for every `step` features."""
    for t in range(distances.shape[0]):
        distance = distances[t]
        for i in range(LANES):
            distance[i] = 0.0
        for a in range(t * step, min(slope.shape[0], (t + 1) * step)):
            s, o, row = slope[a], offset[a], z[a]
            for i in range(LANES):  # (1 + distance) (1 + y^2) - 1
                y = s * row[i] - o
                distance[i] += y * y * (1.0 + distance[i])


@kernel(counted=False, fastmath=FUSED)
def _diagonal_rows(tables, X, scratch, out, best):
    """The same for clusters of diagonal Gaussians."""
    k, tile, step = tables.constant.shape[0], scratch.distances.shape[0], tables.features_per_log
    for start in range(0, X.shape[0], LANES):
        width, n_kept = _load(X, start, scratch), 0
        for first in range(0, k, tile):
            stop = min(first + tile, k)
            for c in range(first, stop):
                _diagonal_distances(tables.slope[c], tables.offset[c], step, scratch.z, scratch.distances[c - first])
            n_kept = _keep_near(tables, scratch, first, stop, width, n_kept)
        _settle(scratch, n_kept, start, out)
        if best.shape[0] > 0:
            _most_probable(scratch, n_kept, k - 1, tables.rounding, start, best)
