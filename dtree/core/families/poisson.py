"""Rows of counts: the gamma-Poisson family, features independent within a cluster.

x_j ~ Poisson(l_j), l_j ~ Gamma(shape_j, rate_j). Statistics of a row: [1, -sum_j log x_j!, x (d)].
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.counts import CountsPerFeature, row_sums
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import Parts, split_holes
from dtree.core.jit import kernel
from dtree.core.tables import LogGammaTable, add_log_gamma_ratios, log_gamma_ratio, log_gamma_table
from dtree.core.verbs import implements, log_marginal, log_marginal_merged


class CompiledPoisson(NamedTuple):
    sums: LogGammaTable  # lgamma(shape + x) - lgamma(shape)
    rate: np.ndarray  # (d,)
    log_rate: np.ndarray  # (d,)
    same_rate: bool


@implements(log_marginal, CompiledPoisson)
@kernel(counted=False)
def _log_marginal(family, statistics):
    count = statistics[0]
    total = statistics[1]
    log_posterior_rate = math.log(family.rate[0] + count)
    for j in range(family.rate.shape[0]):
        if not family.same_rate:
            log_posterior_rate = math.log(family.rate[j] + count)
        shape, x = family.sums.shift[j], statistics[2 + j]
        total += shape * family.log_rate[j] - (shape + x) * log_posterior_rate
        if x != 0.0:
            total += log_gamma_ratio(family.sums, j, x)
    return total


@implements(log_marginal_merged, CompiledPoisson)
@kernel
def _log_marginal_merged(family, columns, row, start, stop, out):
    n = stop - start
    weight, log_posterior_rate, total = np.zeros(n), np.empty(n), np.empty(n)  # weight: that of the rate's logarithm
    scratch = np.empty(n, dtype=np.int32)
    for k in range(n):
        total[k] = row[1] + columns[1, start + k]
        log_posterior_rate[k] = math.log(family.rate[0] + row[0] + columns[0, start + k])
    constant = 0.0
    for j in range(family.rate.shape[0]):
        shape = family.sums.shift[j]
        constant += shape * family.log_rate[j]
        counts, own = columns[2 + j, start:stop], row[2 + j]
        if not family.same_rate:
            for k in range(n):
                total[k] -= weight[k] * log_posterior_rate[k]
                weight[k] = 0.0
                log_posterior_rate[k] = math.log(family.rate[j] + row[0] + columns[0, start + k])
        for k in range(n):
            weight[k] += shape + own + counts[k]
        add_log_gamma_ratios(family.sums, j, own, counts, scratch, total)
    for k in range(n):
        out[start + k] = constant + total[k] - weight[k] * log_posterior_rate[k]


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(CountsPerFeature):
    """Gamma-Poisson family for rows of counts.

    Parameters
    ----------
    shape, rate : (d,) gamma prior of each feature's intensity, whose mean is shape / rate.

    >>> round(Poisson(shape=[1.0, 1.0], rate=[0.5, 0.5]).log_marginal([[2, 0], [3, 1]]), 6)
    -6.414035
    """

    shape: Any
    rate: Any

    name: ClassVar[str] = "poisson"
    value_kind: ClassVar[str] = "count"

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        # Intensities spread with variance shape/rate^2 around their mean, rows around them with variance mean: a spread
        # of (1-share)/share times the mean leaves `share` of a feature's variance within clusters.
        mean = (moments.mean * moments.rows + 0.5) / (moments.rows + 1.0)
        rate = np.full(mean.shape, share / (1.0 - share))
        return cls(mean * rate, rate)

    def leading_columns(self, X: Any) -> list[np.ndarray]:
        return [np.ones(X.shape[0]), -row_sums(X, lambda x: gammaln(x + 1.0))]

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledPoisson:
        same_rate = bool(np.all(self.rate == self.rate[0]))
        return CompiledPoisson(
            log_gamma_table(self.shape, total[2:], coarsening), self.rate, np.log(self.rate), same_rate
        )

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        by_count, by_sum, constant = self.expected_parts(self.parts(statistics))
        return np.hstack([by_count.sum(axis=1, keepdims=True), constant[:, :1], by_sum])

    # Parts: counts, sums, -log x! of each column; of complete rows only the last one's sum over columns is known.

    def parts(self, statistics: np.ndarray) -> Parts:
        constants = np.zeros((statistics.shape[0], self.n_features))
        constants[:, 0] = statistics[:, 1]
        return statistics[:, :1], statistics[:, 2:], constants

    def parts_of_rows(self, X: Any) -> Parts:
        x, present = split_holes(X)
        return present, x, -gammaln(x + 1.0)

    def log_columns(self, parts: Parts) -> np.ndarray:
        count, sums, constants = parts
        shape = self.shape + sums
        prior = self.shape * np.log(self.rate) - gammaln(self.shape)
        return prior + gammaln(shape) - shape * np.log(self.rate + count) + constants

    def log_cells(self, X: np.ndarray, parts: Parts) -> np.ndarray:
        shape, rate = self.shape + parts[1], self.rate + parts[0]
        present, x, constant = self.parts_of_rows(X)
        negative_binomial = gammaln(shape + x) - gammaln(shape) + shape * np.log(rate / (rate + 1.0))
        return present * (negative_binomial - x * np.log(rate + 1.0) + constant)

    def expected_parts(self, parts: Parts) -> Parts:
        shape, rate = self.shape + parts[1], self.rate + parts[0]
        return -shape / rate, digamma(shape) - np.log(rate), np.ones_like(shape)

    def means_of_parts(self, parts: Parts) -> dict[str, np.ndarray]:
        return {"intensities": (self.shape + parts[1]) / (self.rate + parts[0])}

    # Unconstrained parameters: log shape (d), log rate (d).

    def gradient_of_parts(self, parts: Parts, weights: np.ndarray) -> np.ndarray:
        count, sums, _ = parts
        by_shape = weights @ (
            np.log(self.rate) - np.log(self.rate + count) + digamma(self.shape + sums) - digamma(self.shape)
        )
        by_rate = weights @ (self.shape / self.rate - (self.shape + sums) / (self.rate + count))
        return np.concatenate([self.shape * by_shape, self.rate * by_rate])
