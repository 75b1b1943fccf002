"""Binary features: the Beta-Bernoulli family, features independent within a cluster.

x_j ~ Bernoulli(p_j), p_j ~ Beta(a_j, b_j). Statistics of a row: [1, x (d)].
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.counts import CountsPerFeature
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import Parts, split_holes
from dtree.core.jit import kernel
from dtree.core.tables import LogGammaTable, add_log_gamma_ratios, log_gamma_ratio, log_gamma_table, table_index
from dtree.core.verbs import implements, log_marginal, log_marginal_merged

_TOGETHER = 512  # clusters scored together: what is kept of them stays in the caches near the processor


class CompiledBernoulli(NamedTuple):
    ones: LogGammaTable  # lgamma(a + x) - lgamma(a)
    zeros: LogGammaTable  # lgamma(b + x) - lgamma(b)
    both: LogGammaTable  # lgamma(a + b + x) - lgamma(a + b)
    count_terms: np.ndarray  # its sum over features with the sign turned, indexed by the true count


@kernel(counted=False)
def _count_term(family, count):
    index = table_index(count, family.both.per_count, family.count_terms.shape[0])
    if index >= 0:
        return family.count_terms[index]
    total = 0.0
    for j in range(family.both.shift.shape[0]):
        total -= log_gamma_ratio(family.both, j, count)
    return total


@implements(log_marginal, CompiledBernoulli)
@kernel(counted=False)
def _log_marginal(family, statistics):
    count = statistics[0]
    total = _count_term(family, count)
    for j in range(family.ones.shift.shape[0]):
        ones = statistics[1 + j]
        total += log_gamma_ratio(family.ones, j, ones) + log_gamma_ratio(family.zeros, j, count - ones)
    return total


@kernel
def _merge_points(family, columns, row, start, stop, out):
    """Scores of `row` with columns that hold one point each: linear in the point's zeros and ones."""
    unit = 1.0 / family.ones.per_count  # one point's count: 1, or zeta when coarsened
    count = row[0] + unit
    constant = _count_term(family, count)
    d = family.ones.shift.shape[0]
    slope = np.empty(d)
    for j in range(d):
        ones = row[1 + j]
        with_zero = log_gamma_ratio(family.ones, j, ones) + log_gamma_ratio(family.zeros, j, count - ones)
        with_one = log_gamma_ratio(family.ones, j, ones + unit) + log_gamma_ratio(family.zeros, j, row[0] - ones)
        constant += with_zero
        slope[j] = (with_one - with_zero) / unit
    for k in range(start, stop):
        out[k] = constant
    for j in range(0, d - 3, 4):  # four at a time: `out` is read and written a quarter as often
        a, b, c, e = slope[j], slope[j + 1], slope[j + 2], slope[j + 3]
        for k in range(start, stop):
            more = a * columns[1 + j, k] + b * columns[2 + j, k]
            out[k] += more + (c * columns[3 + j, k] + e * columns[4 + j, k])
    for j in range(d - d % 4, d):
        for k in range(start, stop):
            out[k] += slope[j] * columns[1 + j, k]


@kernel
def _merge_clusters(family, columns, row, clusters, out):
    """Scores of `row` with columns of several points each, by table."""
    n = clusters.shape[0]
    counts, ones, zeros, total = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    scratch = np.empty(n, dtype=np.int32)
    for i in range(n):
        counts[i] = columns[0, clusters[i]]
        total[i] = _count_term(family, row[0] + counts[i])
    for j in range(family.ones.shift.shape[0]):
        values = columns[1 + j]
        for i in range(n):
            ones[i] = values[clusters[i]]
            zeros[i] = counts[i] - ones[i]
        add_log_gamma_ratios(family.ones, j, row[1 + j], ones, scratch, total)
        add_log_gamma_ratios(family.zeros, j, row[0] - row[1 + j], zeros, scratch, total)
    for i in range(n):
        out[clusters[i]] = total[i]


@implements(log_marginal_merged, CompiledBernoulli)
@kernel
def _log_marginal_merged(family, columns, row, start, stop, out):
    clusters = np.empty(stop - start, dtype=np.int64)
    n_clusters = 0
    for k in range(start, stop):
        if columns[0, k] * family.ones.per_count != 1.0:
            clusters[n_clusters] = k
            n_clusters += 1
    if n_clusters < stop - start:
        _merge_points(family, columns, row, start, stop, out)  # what it writes for clusters is written over
    for first in range(0, n_clusters, _TOGETHER):
        _merge_clusters(family, columns, row, clusters[first : min(first + _TOGETHER, n_clusters)], out)


@dataclass(frozen=True, eq=False, repr=False)
class Bernoulli(CountsPerFeature):
    """Beta-Bernoulli family for rows of zeros and ones.

    Parameters
    ----------
    a, b : (d,) Beta prior of each feature's probability of a one.

    >>> round(Bernoulli(a=[1.0, 1.0], b=[1.0, 1.0]).log_marginal([[0, 1], [1, 1]]), 6)
    -2.890372
    """

    a: Any
    b: Any

    name: ClassVar[str] = "bernoulli"
    value_kind: ClassVar[str] = "binary"

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        # A Beta(c p, c (1-p)) cluster has within-cluster variance c/(c+1) p(1-p): share = c/(c+1).
        concentration = share / (1.0 - share)
        rate = (moments.mean * moments.rows + 0.5) / (moments.rows + 1.0)  # keeps constant columns inside (0, 1)
        return cls(concentration * rate, concentration * (1.0 - rate))

    def leading_columns(self, X: Any) -> list[np.ndarray]:
        return [np.ones(X.shape[0])]

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledBernoulli:
        counts = np.full(self.n_features, total[0])
        both = log_gamma_table(self.a + self.b, counts, coarsening)
        by_feature = both.values.reshape(-1, both.length[0]) if both.length[0] else np.empty((1, 0))
        return CompiledBernoulli(
            log_gamma_table(self.a, total[1:], coarsening),
            log_gamma_table(self.b, counts, coarsening),
            both,
            -by_feature.sum(axis=0) * (self.n_features // by_feature.shape[0]),  # equal features share one table
        )

    def log_predictive_complete(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        """Log probabilities (n, k): linear in the row, so one matrix product."""
        statistics = np.atleast_2d(statistics)
        count, ones = statistics[:, :1], statistics[:, 1:]
        log_total = np.log(self.a + self.b + count)
        log_one = np.log(self.a + ones) - log_total
        log_zero = np.log(self.b + (count - ones)) - log_total
        rows = X if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        return np.asarray(rows @ (log_one - log_zero).T) + log_zero.sum(axis=1)

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        by_count, by_one, by_zero = self.expected_parts(self.parts(statistics))
        return np.hstack([(by_zero + by_count).sum(axis=1, keepdims=True), by_one - by_zero])

    # Parts: counts, ones, zeros.

    def parts(self, statistics: np.ndarray) -> Parts:
        return statistics[:, :1], statistics[:, 1:], statistics[:, :1] - statistics[:, 1:]

    def parts_of_rows(self, X: Any) -> Parts:
        ones, present = split_holes(X)
        return present, ones, present - ones

    def log_columns(self, parts: Parts) -> np.ndarray:
        count, ones, zeros = parts
        prior = gammaln(self.a + self.b) - gammaln(self.a) - gammaln(self.b)
        return prior + gammaln(self.a + ones) + gammaln(self.b + zeros) - gammaln(self.a + self.b + count)

    def log_cells(self, X: np.ndarray, parts: Parts) -> np.ndarray:
        count, ones, zeros = parts
        present, one, zero = self.parts_of_rows(X)
        weighed = one * np.log(self.a + ones) + zero * np.log(self.b + zeros)
        return weighed - present * np.log(self.a + self.b + count)

    def expected_parts(self, parts: Parts) -> Parts:
        count, ones, zeros = parts
        total = np.broadcast_to(-digamma(self.a + self.b + count), ones.shape)
        return total, digamma(self.a + ones), digamma(self.b + zeros)

    def means_of_parts(self, parts: Parts) -> dict[str, np.ndarray]:
        return {"probabilities": (self.a + parts[1]) / (self.a + self.b + parts[0])}

    # Unconstrained parameters: log a (d), log b (d).

    def gradient_of_parts(self, parts: Parts, weights: np.ndarray) -> np.ndarray:
        count, ones, zeros = parts
        both = digamma(self.a + self.b) - digamma(self.a + self.b + count)
        by_a = weights @ (digamma(self.a + ones) - digamma(self.a) + both)
        by_b = weights @ (digamma(self.b + zeros) - digamma(self.b) + both)
        return np.concatenate([self.a * by_a, self.b * by_b])
