"""Assignment scores of Bernoulli, multinomial and Poisson clusters, from the non-zero entries of sparse rows.

For all three the gain of a row x in a cluster is, up to a constant of the row,

    base + sum over non-zeros of [rise(a_v, x_v) - x_v slope_v] - rise(A, sum x),   rise(a, x) = lgamma(a + w x) -
    lgamma(a)

with a the posterior counts of the cluster. A Bernoulli row has x in {0, 1}, so `first` = rise(a, 1) - slope is all it
needs; only the multinomial has the last term. Dense rows are turned into sparse ones a block at a time.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.base import Family
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.multinomial import FIRST_WORD, Multinomial
from dtree.core.families.poisson import Poisson
from dtree.core.jit import kernel
from dtree.core.model import Model
from dtree.core.removal import SMALLEST_REMAINDER
from dtree.kmeans.scoring.kappa import kappa_gains

_LONGEST_PRODUCT = 12  # rise by a product of so many factors and one log; a longer one costs more than two lgamma


class CountTables(NamedTuple):
    """Rows of `first` and `counts` are features, columns clusters; the last column, k, is the empty cluster."""

    first: np.ndarray  # (v, k+1) what a single count of the feature adds
    leave_first: np.ndarray  # (v, k+1) the same for a row of the cluster, taken out first, where it has one count
    counts: np.ndarray  # (v or 0, k+1) posterior counts a; no rows for the Bernoulli, which needs no more than `first`
    slope: np.ndarray  # (v or 1, k+1)
    leave_slope: np.ndarray  # (v or 1, k+1)
    base: np.ndarray  # (k+1,)
    leave_base: np.ndarray  # (k+1,)
    total: np.ndarray  # (k+1 or 0,) A, for the multinomial
    alone: np.ndarray  # (k+1,)
    coarsening: float
    first_count: int  # the column of a statistics row where counts begin
    total_column: int = -1  # the column of the sum of counts, or -1
    constant_column: int = -1  # the column of the row's own constant, or -1
    is_poisson: bool = False
    with_coefficient: bool = False


def _rise(shift: np.ndarray, by: float) -> np.ndarray:
    return gammaln(shift + by) - gammaln(shift)


def _without(shift: np.ndarray, by: float) -> np.ndarray:
    """`_count_without` for tables (v, k+1), whose last column is the empty cluster."""
    rest, prior = shift - by, shift[:, -1:]
    return np.where(rest > SMALLEST_REMAINDER * shift, rest, prior + np.maximum((shift - prior) - by, 0.0))


def _rise_to(shift: np.ndarray, by: float) -> np.ndarray:
    """rise from shift - by to shift; 0 where the cluster has no row to take out."""
    return gammaln(shift) - gammaln(_without(shift, by))


def count_tables(model: Model, statistics: np.ndarray) -> CountTables:
    """Tables of clusters (k, s) for `assign_counts`."""
    family, weight = model.family, model.coarsening
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    kappa_join, kappa_leave, alone = kappa_gains(model, padded)
    count = padded[:, 0]
    nothing = np.zeros((1, padded.shape[0]))
    fill = partial(CountTables, slope=nothing, leave_slope=nothing, total=np.empty(0), alone=alone, coarsening=weight)
    if isinstance(family, Bernoulli):
        ones = padded[:, 1:].T
        a, b = family.a[:, None] + ones, family.b[:, None] + count - ones
        both = (family.a + family.b)[:, None] + count
        zero, leave_zero = _rise(b, weight), np.where(count - ones >= 0.5 * weight, _rise_to(b, weight), 0.0)
        leave_one = np.where(ones >= 0.5 * weight, _rise_to(a, weight), 0.0)
        return fill(
            first=np.ascontiguousarray(_rise(a, weight) - zero),
            leave_first=np.ascontiguousarray(leave_one - leave_zero),
            counts=np.empty((0, padded.shape[0])),
            base=kappa_join + (zero - _rise(both, weight)).sum(axis=0),
            leave_base=kappa_leave + (leave_zero - _rise_to(both, weight)).sum(axis=0),
            first_count=1,
        )
    if isinstance(family, Multinomial):
        counts = np.ascontiguousarray(family.concentration[:, None] + padded[:, FIRST_WORD:].T)
        return fill(
            first=_rise(counts, weight),
            leave_first=_rise_to(counts, weight),
            counts=counts,
            base=kappa_join,
            leave_base=kappa_leave,
            total=family.concentration.sum() + padded[:, 2],
            first_count=FIRST_WORD,
            total_column=2,
            constant_column=1,
            with_coefficient=family.coefficient,
        )
    assert isinstance(family, Poisson)
    counts = np.ascontiguousarray(family.shape[:, None] + padded[:, 2:].T)
    rate = family.rate[:, None] + count
    same = bool(np.all(family.rate == family.rate[0]))
    grown, shrunk = np.log(rate + weight), np.log(_without(rate, weight))
    return fill(
        first=_rise(counts, weight) - weight * grown,
        leave_first=_rise_to(counts, weight) - weight * shrunk,
        counts=counts,
        slope=grown[:1] if same else grown,
        leave_slope=shrunk[:1] if same else shrunk,
        base=kappa_join - (counts * (grown - np.log(rate))).sum(axis=0),
        leave_base=kappa_leave - (counts * (np.log(rate) - shrunk)).sum(axis=0),
        first_count=2,
        constant_column=1,
        is_poisson=True,
    )


@kernel
def _rise_one(shift, x, weight):
    """lgamma(shift + weight x) - lgamma(shift)."""
    if weight == 1.0 and x <= _LONGEST_PRODUCT:
        product = shift
        for step in range(1, int(x)):
            product *= shift + step
        return math.log(product)
    return math.lgamma(shift + weight * x) - math.lgamma(shift)


@kernel
def _count_without(shift, by, prior):
    """Posterior count shift - by of a cluster without a row that holds `by` of it; `prior` is the empty cluster's.

    Where that cancels (see `core.removal`) the prior's part is taken out first, so that it cannot be lost.
    """
    rest = shift - by
    return rest if rest > SMALLEST_REMAINDER * shift else prior + max((shift - prior) - by, 0.0)


@kernel
def _stay(tables, indices, values, c):
    """Gain of a row in its own cluster c, which is taken without it."""
    weight, empty = tables.coarsening, tables.base.shape[0] - 1
    total = tables.leave_base[c]
    size = 0.0
    per_feature = tables.leave_slope.shape[0] > 1
    for position in range(indices.shape[0]):
        v, x = indices[position], values[position]
        size += x
        if x == 1.0 or tables.counts.shape[0] == 0:
            total += tables.leave_first[v, c]
        else:
            rest = _count_without(tables.counts[v, c], weight * x, tables.counts[v, empty])
            total += _rise_one(rest, x, weight)
            total -= weight * x * tables.leave_slope[v if per_feature else 0, c]
    if tables.total.shape[0] > 0 and size > 0.0:
        rest = _count_without(tables.total[c], weight * size, tables.total[empty])
        total -= _rise_one(rest, size, weight)
    return total


@kernel
def assign_counts(tables, indptr, indices, values, own, best, unexplained):
    """For each sparse row (CSR) the best cluster, and whether a new one would gain more; see `assign_gaussian`."""
    n = indptr.shape[0] - 1
    k = tables.base.shape[0] - 1
    weight = tables.coarsening
    score = np.empty(k + 1)
    per_feature = tables.slope.shape[0] > 1
    for i in range(n):
        start, stop = indptr[i], indptr[i + 1]
        score[:] = tables.base
        size = 0.0
        for position in range(start, stop):
            v, x = indices[position], values[position]
            size += x
            if x == 1.0 or tables.counts.shape[0] == 0:
                added = tables.first[v]
                for c in range(k + 1):
                    score[c] += added[c]
            elif x > 0.0:
                counts, slopes = tables.counts[v], tables.slope[v if per_feature else 0]
                for c in range(k + 1):
                    score[c] += _rise_one(counts[c], x, weight) - weight * x * slopes[c]
        if tables.total.shape[0] > 0 and size > 0.0:
            for c in range(k + 1):
                score[c] -= _rise_one(tables.total[c], size, weight)
        where, top = -1, -np.inf
        for c in range(k):
            if c != own[i] and score[c] > top:
                where, top = c, score[c]
        c = own[i]
        if c >= 0:
            stay = score[k] if tables.alone[c] else _stay(tables, indices[start:stop], values[start:stop], c)
            if stay >= top:
                where, top = c, stay
        best[i] = where
        unexplained[i] = score[k] > top


@kernel
def add_count_rows(tables, indptr, indices, values, labels, out):
    """Add the coarsened statistics of every sparse row with label c >= 0 to out[c] (k, s), in row order."""
    weight = tables.coarsening
    for i in range(indptr.shape[0] - 1):
        if labels[i] >= 0:
            target = out[labels[i]]
            target[0] += weight
            size, log_factorials = 0.0, 0.0
            for position in range(indptr[i], indptr[i + 1]):
                x = values[position]
                target[tables.first_count + indices[position]] += weight * x
                size += x
                if tables.is_poisson or tables.with_coefficient:
                    log_factorials += math.lgamma(x + 1.0)
            if tables.total_column >= 0:
                target[tables.total_column] += weight * size
            if tables.is_poisson:
                target[tables.constant_column] -= weight * log_factorials
            elif tables.with_coefficient:
                target[tables.constant_column] += weight * (math.lgamma(size + 1.0) - log_factorials)


def is_count_family(family: Family) -> bool:
    """Whether `count_tables` knows the family."""
    return isinstance(family, Bernoulli | Multinomial | Poisson)
