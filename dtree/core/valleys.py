"""How deep the density falls between two components of a mixture, measured on the rows themselves.

Every pair of components has two coordinates of a row that tell the two apart: a line, the best linear one, and the log
odds, how much likelier the row is in the one than in the other. Groups of many features may differ in shape rather than
in place, which no line shows. The rows of the two components, counted in narrow bins along a coordinate, show whether
there is a valley between them; the deeper of the two counts. The mixture alone cannot tell: two Gaussians side by side
under an even stretch of rows have a dip between their bumps that the rows do not have. So the valley that two bumps
would leave is compared with the same curve filled up to the lower rim:

    density(u) proportional to exp(filled(u) - s drop(u)),    s = 1: the valley of two bumps, s = 0: none

s is found by maximum likelihood from the rows between the two centres, and the depth that counts is the smallest that
the rows do not contradict (a lower confidence bound by the likelihood ratio; with 0 deviations the likeliest s). Few
rows support no valley.

What is kept of the rows is additive, so any number of rows takes one pass, and the pass can be shared out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.lanes import LANES, exp_of_lanes

BINS = 96
_LOW, _HIGH = -0.25, 1.25  # where the bins end; the centres of the two components are at 0 and 1
DEVIATIONS = 1.5  # of the lower bound: a valley that is not there is believed in one case of fifteen; see levels
_STEPS = 60  # values of s that are tried; the last is 3, beyond which a deeper valley changes nothing
_SMALLEST_S, _LARGEST_S = 0.01, 3.0


class Lines(NamedTuple):
    """A line for each pair i < j of k components, in the order (0, 1), (0, 2), ..., (1, 2), ...; q features."""

    directions: np.ndarray  # (p, q)
    low: np.ndarray  # (p,) where the centre of j is
    scale: np.ndarray  # (p,) one over the distance to the centre of i; 0 for a pair with one centre


class Odds(NamedTuple):
    """The log odds for each pair i < j in the same order: score of i less that of j, measured like places on a line."""

    low: np.ndarray  # (p,) the mean over the rows of j
    scale: np.ndarray  # (p,) one over how much higher the mean over the rows of i is; 0 where it is not


class PairSums(NamedTuple):
    """What rows add up to: how they lie along the lines, or along the log odds, or along both in this order.

    Two of them, for the rows of even and of odd number.
    """

    histogram: np.ndarray  # (2, p, BINS) rows of both components between the ends of the bins
    moments: np.ndarray  # (2, p, 2, 3) of the rows of i and of j: number, sum and sum of squares of their places

    def __add__(self, other: PairSums) -> PairSums:  # type: ignore[override]
        return PairSums(self.histogram + other.histogram, self.moments + other.moments)

    def together(self) -> tuple[np.ndarray, np.ndarray]:
        """Histogram (p, BINS) and moments (p, 2, 3) of all rows."""
        return self.histogram.sum(axis=0), self.moments.sum(axis=0)


def lines_between(centres: np.ndarray, directions: np.ndarray) -> Lines:
    """Lines along directions (p, q) through centres (k, q); 'along' must point from j towards i.

    >>> lines_between(np.array([[2.0], [0.0]]), np.array([[1.0]])).scale.tolist()
    [0.5]
    """
    i, j = np.triu_indices(centres.shape[0], 1)
    low = np.einsum("pq,pq->p", directions, centres[j])
    low, scale = _from_low_to_high(low, np.einsum("pq,pq->p", directions, centres[i]))
    return Lines(np.ascontiguousarray(np.where(scale[:, None] > 0, directions, 0.0)), low, scale)


def odds_between(scores: np.ndarray) -> Odds:
    """The log odds of k components from the mean scores (k, k) of the rows of each, a row, under each, a column.

    >>> odds_between(np.array([[3.0, 0.0], [1.0, 2.0]])).scale.tolist()
    [0.25]
    """
    i, j = np.triu_indices(scores.shape[0], 1)
    return Odds(*_from_low_to_high(scores[j, i] - scores[j, j], scores[i, i] - scores[i, j]))


def _from_low_to_high(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where a coordinate begins (p,), and one over how long it is; zeros for a pair that it does not tell apart."""
    length = high - low
    known = np.isfinite(length) & (length > 0)
    return np.where(known, low, 0.0), np.where(known, 1.0 / np.where(known, length, 1.0), 0.0)


def no_rows(pairs: int) -> PairSums:
    """The sums of no rows."""
    return PairSums(np.zeros((2, pairs, BINS)), np.zeros((2, pairs, 2, 3)))


def both(lines: PairSums, odds: PairSums) -> PairSums:
    """What is known along lines and along log odds."""
    return PairSums(*(np.concatenate(parts, axis=1) for parts in zip(lines, odds, strict=True)))


class Labelled(NamedTuple):
    """Rows of which it is known where they belong."""

    points: np.ndarray  # (n, q) features
    labels: np.ndarray  # (n,) int64, components; a row of -1 is left out
    weight: np.ndarray  # (n,)
    first_row: int  # number of the first of them in the data


def add_rows(lines: Lines, rows: Labelled, k: int) -> PairSums:
    """What rows of k components add to the sums."""
    sums = no_rows(lines.low.shape[0])
    _add_rows(lines, rows, k, sums.histogram, sums.moments)
    return sums


def add_odds(odds: Odds, rows: Labelled, k: int) -> PairSums:
    """The same along log odds; the features of a row are its scores (k,) under the components."""
    sums = no_rows(odds.low.shape[0])
    _add_odds(odds, rows, k, sums.histogram, sums.moments)
    return sums


@kernel
def _add_rows(lines, rows, k, histogram, moments):
    points, labels = rows.points, rows.labels
    q = points.shape[1]
    pairs, low, scale, _ = _tables(lines.low, lines.scale, k)
    ways = np.zeros((k, q, k))
    for i in range(k):
        for j in range(i + 1, k):
            for feature in range(q):
                ways[i, feature, j] = ways[j, feature, i] = lines.directions[pairs[i, j], feature]
    places, sums = np.empty(k), np.zeros((2, k, 3, k))
    for row in range(points.shape[0]):
        own = labels[row]
        if own < 0:
            continue
        half = (rows.first_row + row) % 2
        for other in range(k):
            places[other] = -low[own, other]
        for feature in range(q):
            value, way = points[row, feature], ways[own, feature]
            for other in range(k):  # several at a time: the other component is the last axis
                places[other] += way[other] * value
        _count(places, scale[own], pairs[own], own, rows.weight[row], histogram[half], sums[half, own])
    _add_moments(sums, pairs, moments)


@kernel
def _add_odds(odds, rows, k, histogram, moments):
    scores, labels = rows.points, rows.labels
    pairs, low, scale, sign = _tables(odds.low, odds.scale, k)
    places, sums = np.empty(k), np.zeros((2, k, 3, k))
    for row in range(scores.shape[0]):
        own = labels[row]
        if own < 0:
            continue
        half, best = (rows.first_row + row) % 2, scores[row, own]
        for other in range(k):
            places[other] = sign[own, other] * (best - scores[row, other]) - low[own, other]
        _count(places, scale[own], pairs[own], own, rows.weight[row], histogram[half], sums[half, own])
    _add_moments(sums, pairs, moments)


@kernel(inline=True)
def _tables(low, scale, k):
    """What is known of pairs as matrices (k, k): their number, low, scale, and 1 or, for the later of the two, -1."""
    pairs, lows, scales, sign = np.zeros((k, k), dtype=np.int64), np.zeros((k, k)), np.zeros((k, k)), np.ones((k, k))
    for i in range(k):
        for j in range(i + 1, k):
            pair = i * k - i * (i + 1) // 2 + j - i - 1
            pairs[i, j] = pairs[j, i] = pair
            lows[i, j] = lows[j, i] = low[pair]
            scales[i, j] = scales[j, i] = scale[pair]
            sign[j, i] = -1.0
    return pairs, lows, scales, sign


@kernel(inline=True)
def _count(places, scale, pairs, own, weight, histogram, sums):
    """Add a row of component `own` at places (k,), not yet scaled, to the histogram (p, BINS) and sums (3, k)."""
    width = (_HIGH - _LOW) / BINS
    number, total, squares = sums
    for other in range(places.shape[0]):
        place = places[other] * scale[other]
        number[other] += weight
        total[other] += weight * place
        squares[other] += weight * place * place
        places[other] = place
    for other in range(places.shape[0]):
        where = (places[other] - _LOW) / width
        if 0.0 <= where < BINS and other != own:
            histogram[pairs[other], int(where)] += weight


@kernel(inline=True)
def _add_moments(sums, pairs, moments):
    """Add sums (2, k, 3, k) of the rows of each component towards each other one to those of the pairs."""
    k = pairs.shape[0]
    for own in range(k):
        for other in range(k):
            if other != own:
                side = 0 if own < other else 1
                for half in range(2):
                    for moment in range(3):  # for a slice numba would compile 37 functions of its own
                        moments[half, pairs[own, other], side, moment] += sums[half, own, moment, other]


def separations(moments: np.ndarray) -> np.ndarray:
    """How far apart (p,) the centres of each pair are along its line, in units of the two spreads added up.

    >>> places = np.array([[[2.0, 2.0, 2.5], [3.0, 0.0, 0.75]]])  # number, sum, sum of squares: 1 and 0, spread 0.5
    >>> separations(places).tolist()
    [1.0]
    """
    number = np.maximum(moments[:, :, 0], 1e-300)
    centre = moments[:, :, 1] / number
    spread = np.sqrt(np.maximum(moments[:, :, 2] / number - centre**2, 0.0)).sum(axis=1)
    return np.abs(centre[:, 0] - centre[:, 1]) / np.maximum(spread, 1e-300)


def depths(histogram: np.ndarray, moments: np.ndarray, deviations: float = DEVIATIONS) -> np.ndarray:
    """How deep (p,) the valley of each pair is at least, in nats below the lower of its two peaks."""
    grid = np.concatenate([[0.0], np.geomspace(_SMALLEST_S, _LARGEST_S, _STEPS)])
    return _depths(histogram, moments, grid, 0.5 * deviations**2)


@kernel
def _depths(histogram, moments, grid, allowed):
    out = np.zeros(histogram.shape[0])
    curve, drop = np.empty(BINS), np.empty(BINS)
    scratch = np.empty(LANES), np.empty(LANES), np.empty((2, LANES), dtype=np.int64)
    for pair in range(histogram.shape[0]):
        upper, lower = moments[pair, 0], moments[pair, 1]
        if upper[0] < 2 or lower[0] < 2:
            continue
        a, b = upper[1] / upper[0], lower[1] / lower[0]
        spread_a = math.sqrt(max(upper[2] / upper[0] - a * a, 0.0))
        spread_b = math.sqrt(max(lower[2] / lower[0] - b * b, 0.0))
        if not a > b:
            continue
        # Bins show no less than their width: within it the rows of a needle, or equal rows, may lie on either side of
        # an edge, which must not look like rows far out in its tail.
        width = (_HIGH - _LOW) / BINS
        spread_a, spread_b = max(spread_a, width), max(spread_b, width)
        first = max(0, int((b - _LOW) / width))
        last = min(BINS - 1, int((a - _LOW) / width))
        if last - first < 2:
            continue
        log_a, log_b = math.log(upper[0] / spread_a), math.log(lower[0] / spread_b)
        for bin in range(first, last + 1):
            place = min(max(_LOW + (bin + 0.5) * width, b), a)
            from_a = log_a - 0.5 * ((place - a) / spread_a) ** 2
            from_b = log_b - 0.5 * ((place - b) / spread_b) ** 2
            high = max(from_a, from_b)
            curve[bin] = high + math.log1p(math.exp(min(from_a, from_b) - high))
        out[pair] = _bounded_depth(curve, drop, histogram[pair], first, last, grid, allowed, scratch)
    return out


@kernel(inline=True)
def _bounded_depth(curve, drop, counts, first, last, grid, allowed, scratch):
    """The smallest depth of the valley in curve[first..last] that the counts do not contradict."""
    highest = -np.inf
    for bin in range(first, last + 1):  # the rim on the left
        highest = max(highest, curve[bin])
        drop[bin] = highest
    highest = -np.inf
    deepest = 0.0
    for bin in range(last, first - 1, -1):  # the lower of both rims
        highest = max(highest, curve[bin])
        drop[bin] = min(drop[bin], highest) - curve[bin]
        deepest = max(deepest, drop[bin])
    if deepest <= 1e-9:
        return 0.0
    while first < last and drop[first + 1] <= 0.0:
        first += 1
    while last > first and drop[last - 1] <= 0.0:
        last -= 1
    rows, seen = 0.0, 0.0
    for bin in range(first, last + 1):
        rows += counts[bin]
        seen += counts[bin] * drop[bin]
    if rows <= 0.0:
        return 0.0
    highest = -np.inf
    for bin in range(first, last + 1):
        highest = max(highest, curve[bin] + drop[bin])
    for bin in range(first, last + 1):  # now no curve that is tried rises above 0
        curve[bin] -= highest
    # The log likelihood is concave in s: it rises up to the likeliest s and falls from there on, so that both the top
    # and the smallest s that is likely enough are found by halving.
    low, high = 0, grid.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        here = _log_likelihood(grid[middle], curve, drop, first, last, rows, seen, scratch)
        if _log_likelihood(grid[middle + 1], curve, drop, first, last, rows, seen, scratch) > here:
            low = middle + 1
        else:
            high = middle
    enough = _log_likelihood(grid[low], curve, drop, first, last, rows, seen, scratch) - allowed
    low, high = 0, low
    while low < high:
        middle = (low + high) // 2
        if _log_likelihood(grid[middle], curve, drop, first, last, rows, seen, scratch) >= enough:
            high = middle
        else:
            low = middle + 1
    return deepest * grid[low]


@kernel(inline=True)
def _log_likelihood(s, curve, drop, first, last, rows, seen, scratch):
    """Of so many rows in curve[first..last] with a valley of depth s; `seen` is the sum of their drops."""
    below, part, bits = scratch
    size, total = min(last + 1 - first, LANES), 0.0
    for i in range(LANES):
        bin = min(first + i, last)
        below[i] = curve[bin] + (1.0 - s) * drop[bin]
    exp_of_lanes(below, bits, part)
    for i in range(size):
        total += part[i]
    for bin in range(first + LANES, last + 1):
        total += math.exp(curve[bin] + (1.0 - s) * drop[bin])
    return -s * seen - rows * math.log(total)
