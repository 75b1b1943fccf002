"""Rows of counts: the gamma-Poisson family, features independent within a cluster.

x_j ~ Poisson(l_j), l_j ~ Gamma(shape_j, rate_j). Statistics of a row: [1, -sum_j log x_j!, x (d)].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.base import Family, Moments, feature_vector, require_positive
from dtree.core.jit import kernel
from dtree.core.tables import LogGammaTable, log_gamma_ratio, log_gamma_table
from dtree.core.verbs import implements, log_marginal


class CompiledPoisson(NamedTuple):
    sums: LogGammaTable  # lgamma(shape + x) - lgamma(shape)
    rate: np.ndarray  # (d,)
    log_rate: np.ndarray  # (d,)
    same_rate: bool


@implements(log_marginal, CompiledPoisson)
@kernel
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


@dataclass(frozen=True, eq=False, repr=False)
class Poisson(Family):
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
    accepts_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        d = max(np.size(self.shape), np.size(self.rate))
        for key in ("shape", "rate"):
            vector = feature_vector(getattr(self, key), d, key)
            require_positive(vector, key)
            object.__setattr__(self, key, vector)

    @property
    def n_features(self) -> int:
        return self.shape.shape[0]

    def parameters(self) -> dict[str, Any]:
        return {"shape": self.shape, "rate": self.rate}

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        # Intensities spread with variance shape/rate^2 around their mean, rows around them with variance mean: a spread
        # of (1-share)/share times the mean leaves `share` of a feature's variance within clusters.
        mean = (moments.mean * moments.rows + 0.5) / (moments.rows + 1.0)
        rate = np.full(mean.shape, share / (1.0 - share))
        return cls(mean * rate, rate)

    def statistics(self, X: Any) -> np.ndarray:
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        log_base = -gammaln(dense + 1.0).sum(axis=1)
        return np.hstack([np.ones((dense.shape[0], 1)), log_base[:, None], dense])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledPoisson:
        same_rate = bool(np.all(self.rate == self.rate[0]))
        return CompiledPoisson(
            log_gamma_table(self.shape, total[2:], coarsening), self.rate, np.log(self.rate), same_rate
        )

    # Unconstrained parameters: log shape (d), log rate (d).

    def free_parameters(self) -> np.ndarray:
        return np.log(np.concatenate([self.shape, self.rate]))

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        d = self.n_features
        return type(self)(np.exp(theta[:d]), np.exp(theta[d:]))

    def gradient(self, statistics: np.ndarray, weights: np.ndarray) -> np.ndarray:
        count, sums = statistics[:, :1], statistics[:, 2:]
        by_shape = weights @ (
            np.log(self.rate) - np.log(self.rate + count) + digamma(self.shape + sums) - digamma(self.shape)
        )
        by_rate = weights @ (self.shape / self.rate - (self.shape + sums) / (self.rate + count))
        return np.concatenate([self.shape * by_shape, self.rate * by_rate])
