"""Gaussian clusters with independent features: the normal-inverse-gamma family.

x_j ~ N(mu_j, v_j), mu_j | v_j ~ N(mean_j, v_j / strength), v_j ~ InverseGamma(shape_j, rate_j).

Statistics of a row, with z = (x - origin) / unit: [1, z (d), z**2 (d)]; `standard_units` says why.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.base import feature_vector, require_positive
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import SHARES, Parts, PerColumn, split_holes
from dtree.core.families.standard_units import StandardUnits
from dtree.core.jit import kernel
from dtree.core.tables import counts_of_table, table_index
from dtree.core.verbs import implements, log_marginal, log_marginal_merged

_LOG_2PI = math.log(2.0 * math.pi)
_FEATURES_PER_LOG = 16  # one log of a product of this many variances; in standard units they cannot overflow together
_LANES = 64  # columns scored together: their accumulators stay in the first-level cache


class CompiledDiagonalGaussian(NamedTuple):
    """In standard units: posterior rate_j = rate_base_j + (sum z_j^2 - (sum z_j + pull_j)^2 / (strength + n)) / 2."""

    pull: np.ndarray  # (d,) strength * mean
    rate_base: np.ndarray  # (d,) rate + strength mean^2 / 2
    shape: np.ndarray  # (d,)
    strength: float
    same_shape: bool
    count_terms: np.ndarray  # everything that depends on the count alone, indexed by the true count
    constant: float  # sum_j shape_j log rate_j - lgamma(shape_j)
    log_jacobian: float
    per_count: float


@kernel(counted=False)
def _count_term(family, count):
    index = table_index(count, family.per_count, family.count_terms.shape[0])
    if index >= 0:
        return family.count_terms[index]
    total = family.constant
    d = family.shape.shape[0]
    if family.same_shape:
        total += d * math.lgamma(family.shape[0] + 0.5 * count)
    else:
        for j in range(d):
            total += math.lgamma(family.shape[j] + 0.5 * count)
    total += 0.5 * d * math.log(family.strength / (family.strength + count))
    return total + count * (family.log_jacobian - 0.5 * d * _LOG_2PI)


@implements(log_marginal, CompiledDiagonalGaussian)
@kernel(counted=False)
def _log_marginal(family, statistics):
    d = family.shape.shape[0]
    count = statistics[0]
    half_inverse = 0.5 / (family.strength + count)
    total = _count_term(family, count)
    together = _FEATURES_PER_LOG if family.same_shape else 1
    for begin in range(0, d, together):
        product = 1.0
        for j in range(begin, min(begin + together, d)):
            pulled = statistics[1 + j] + family.pull[j]
            product *= family.rate_base[j] + 0.5 * statistics[1 + d + j] - half_inverse * pulled * pulled
        total -= (family.shape[begin] + 0.5 * count) * math.log(product)
    return total


@implements(log_marginal_merged, CompiledDiagonalGaussian)
@kernel
def _log_marginal_merged(family, columns, row, start, stop, out):
    d = family.shape.shape[0]
    half_inverse = np.empty(_LANES)
    product = np.empty(_LANES)
    for block in range(start, stop, _LANES):
        width = min(_LANES, stop - block)
        for lane in range(width):
            count = row[0] + columns[0, block + lane]
            half_inverse[lane] = 0.5 / (family.strength + count)
            product[lane] = 1.0
            out[block + lane] = _count_term(family, count)
        for j in range(d):
            pull = row[1 + j] + family.pull[j]
            base = family.rate_base[j] + 0.5 * row[1 + d + j]
            sums = columns[1 + j, block : block + width]
            squares = columns[1 + d + j, block : block + width]
            for lane in range(width):
                pulled = sums[lane] + pull
                product[lane] *= base + 0.5 * squares[lane] - half_inverse[lane] * pulled * pulled
            if not family.same_shape or j % _FEATURES_PER_LOG == _FEATURES_PER_LOG - 1 or j == d - 1:
                for lane in range(width):
                    exponent = family.shape[j] + 0.5 * (row[0] + columns[0, block + lane])
                    out[block + lane] -= exponent * math.log(product[lane])
                    product[lane] = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalGaussian(PerColumn, StandardUnits):
    """Normal-inverse-gamma family, one independent Gaussian per feature.

    Parameters
    ----------
    mean : (d,) prior mean of a cluster's centre.
    strength : how many rows that prior mean is worth (one number for all features).
    shape, rate : (d,) inverse-gamma prior of a cluster's variance, whose mean is rate / (shape - 1).
    origin, unit : (d,) where statistics are taken about and in which units; they change rounding, never a value.
    step : (d,) the step to which the values were recorded, 0 where they are exact; see `standard_units`.

    >>> family = DiagonalGaussian(mean=[0.0, 0.0], strength=0.1, shape=2.0, rate=[0.5, 0.5])
    >>> round(family.log_marginal([[0.1, -0.2], [0.3, 0.2]]), 6)
    -4.249162
    """

    mean: Any
    strength: float
    shape: Any
    rate: Any
    origin: Any = None
    unit: Any = None
    step: Any = None

    name: ClassVar[str] = "gaussian-diag"

    def __post_init__(self) -> None:
        d = max(np.size(self.mean), np.size(self.shape), np.size(self.rate))
        shape, rate = feature_vector(self.shape, d, "shape"), feature_vector(self.rate, d, "rate")
        require_positive(self.strength, "strength")
        require_positive(shape, "shape")
        require_positive(rate, "rate")
        unit = np.sqrt(rate / np.maximum(shape - 1.0, 0.5))
        self._set(d, strength=float(self.strength), shape=shape, rate=rate, unit=unit)

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        shape = 2.0
        variance = np.where(moments.variance > 0, moments.variance, 1.0)
        rate = share * (shape - 1.0) * variance
        return cls(moments.mean, share / (1.0 - share), shape, rate, moments.mean, np.sqrt(variance))

    def _smallest_scale(self) -> float:
        return float(2.0 * np.min(self.rate / self.unit**2))

    def _squares(self, statistics: np.ndarray) -> np.ndarray:
        return statistics[:, 1 + self.n_features :]

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledDiagonalGaussian:
        d = self.n_features
        mean = self._mean_in_units()
        rate = self.rate / self.unit**2
        constant = float(np.sum(self.shape * np.log(rate) - gammaln(self.shape)))
        log_jacobian = float(-np.log(self.unit).sum())
        counts = counts_of_table(total[0], coarsening)
        terms = constant + 0.5 * d * np.log(self.strength / (self.strength + counts))
        for shape, features in zip(*np.unique(self.shape, return_counts=True), strict=True):
            terms += features * gammaln(shape + 0.5 * counts)
        terms += counts * (log_jacobian - 0.5 * d * _LOG_2PI)
        return CompiledDiagonalGaussian(
            pull=self.strength * mean,
            rate_base=rate + 0.5 * self.strength * mean**2,
            shape=self.shape,
            strength=self.strength,
            same_shape=bool(np.all(self.shape == self.shape[0])),
            count_terms=terms,
            constant=constant,
            log_jacobian=log_jacobian,
            per_count=1.0 / coarsening,
        )

    def posterior(self, statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """count (k, 1), and posterior mean, shape, rate (k, d) in standard units."""
        return self.posterior_of_parts(self.parts(statistics))

    def narrowed(self, columns: np.ndarray) -> tuple[Any, np.ndarray]:
        each = self.mean, self.shape, self.rate, self.origin, self.unit
        mean, shape, rate, origin, unit = (one[columns] for one in each)
        made = type(self)(
            mean, self.strength, shape, rate, origin, unit, None if self.step is None else self.step[columns]
        )
        return made, np.concatenate([[0], 1 + columns, 1 + self.n_features + columns])

    def parts(self, statistics: np.ndarray) -> Parts:
        d = self.n_features
        return statistics[:, :1], statistics[:, 1 : 1 + d], statistics[:, 1 + d :]

    def parts_of_rows(self, X: Any) -> Parts:
        """Counts, sums and sums of squares (n, d) of z."""
        z, present = split_holes(self.points(X))
        return present, z, z * z

    def posterior_of_parts(self, parts: Parts) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The counts as they are, and posterior mean, shape, rate (k, d) in standard units."""
        count, sums, squares = parts
        prior_mean = self._mean_in_units()
        mean = (sums + self.strength * prior_mean) / (self.strength + count)
        within = squares + self.strength * prior_mean**2 - (self.strength + count) * mean**2
        return count, mean, self.shape + 0.5 * count, self.rate / self.unit**2 + 0.5 * within

    def log_columns(self, parts: Parts) -> np.ndarray:
        count, _, shape, rate = self.posterior_of_parts(parts)
        prior_rate = self.rate / self.unit**2
        prior = self.shape * np.log(prior_rate) - gammaln(self.shape) + 0.5 * np.log(self.strength)
        posterior = shape * np.log(rate) - gammaln(shape) + 0.5 * np.log(self.strength + count)
        return prior - posterior - count * (np.log(self.unit) + 0.5 * _LOG_2PI)

    def log_predictive_complete(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        """Product of Student t densities (n, k)."""
        count, mean, shape, rate = self.posterior(np.atleast_2d(statistics))
        z = self.points(X)
        strength = self.strength + count
        scale = 2.0 * rate * (strength + 1.0) / strength
        constant = (gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(np.pi * scale) - np.log(self.unit)).sum(axis=1)
        out = np.empty((z.shape[0], mean.shape[0]))
        for k in range(mean.shape[0]):
            out[:, k] = constant[k] - np.log1p((z - mean[k]) ** 2 / scale[k]) @ (shape[k] + 0.5)
        return out

    def log_cells(self, X: np.ndarray, parts: Parts) -> np.ndarray:
        """Student t densities."""
        count, mean, shape, rate = self.posterior_of_parts(parts)
        z, present = split_holes(self.points(X))
        strength = self.strength + count
        scale = 2.0 * rate * (strength + 1.0) / strength
        constant = gammaln(shape + 0.5) - gammaln(shape) - 0.5 * np.log(np.pi * scale) - np.log(self.unit)
        return present * (constant - (shape + 0.5) * np.log1p((z - mean) ** 2 / scale))

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        constant, by_sum, by_square = self.expected_parts(self.parts(statistics))
        return np.hstack([constant.sum(axis=1, keepdims=True), by_sum, by_square])

    def expected_parts(self, parts: Parts) -> Parts:
        count, mean, shape, rate = self.posterior_of_parts(parts)
        precision = shape / rate
        constant = digamma(shape) - np.log(rate) - _LOG_2PI - 1.0 / (self.strength + count) - precision * mean**2
        return 0.5 * constant - np.log(self.unit), precision * mean, -0.5 * precision

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        found = self.means_of_parts(self.parts(statistics))
        return {**found, "strengths": found["strengths"][:, 0]}

    def means_of_parts(self, parts: Parts) -> dict[str, np.ndarray]:
        count, mean, shape, rate = self.posterior_of_parts(parts)
        variance = rate / np.where(shape > 1.0, shape - 1.0, np.nan) * self.unit**2  # no mean where shape <= 1
        return {"means": self.origin + self.unit * mean, "variances": variance, "strengths": self.strength + count}

    def moments_of_parts(self, parts: Parts) -> Moments:
        count, sums, squares = parts
        rows = np.maximum(count[0], 1e-300)  # an empty column has mean and variance 0
        mean = sums[0] / rows
        variance = np.maximum(squares[0] / rows - mean**2, 0.0)
        return Moments(count[0], self.origin + self.unit * mean, variance * self.unit**2, None)

    def refined_of_parts(self, parts: Parts, weights: np.ndarray) -> Self:
        """The best share for all columns first, since they have one strength; then the best rate of each column."""
        whole = self.moments_of_parts(tuple(part[-1:] for part in parts))
        spread = np.where(whole.variance > 0, whole.variance, self.unit**2)

        def at(mean: np.ndarray, strength: float, share: float) -> Any:
            rate = share * np.maximum(self.shape - 1.0, 0.5) * spread
            return type(self)(mean, strength, self.shape, rate, self.origin, self.unit, self.step)

        # The prior mean is that of the data: it has no share, and rows that are missing say nothing of it.
        candidates = [self, *(at(whole.mean, share / (1.0 - share), share) for share in SHARES)]
        likely = weights > 1e-8 * weights.sum()
        held, mass = tuple(part[likely] for part in parts), weights[likely]
        best = max(candidates, key=lambda one: float((mass @ one.log_columns(held)).sum()))
        return best._best_columns([best, *(at(best.mean, best.strength, share) for share in SHARES)], parts, weights)

    def of_columns(self, candidates: list[Self], best: np.ndarray) -> Self:
        rate = np.stack([candidate.rate for candidate in candidates])[best, np.arange(best.shape[0])]
        return type(self)(self.mean, self.strength, self.shape, rate, self.origin, self.unit, self.step)

    # Unconstrained parameters: mean in standard units (d), log strength, log shape (d), log rate (d).

    def free_parameters(self) -> np.ndarray:
        mean = self._mean_in_units()
        return np.concatenate([mean, [math.log(self.strength)], np.log(self.shape), np.log(self.rate / self.unit**2)])

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        d = self.n_features
        mean = self.origin + self.unit * theta[:d]
        strength, shape = math.exp(theta[d]), np.exp(theta[d + 1 : 2 * d + 1])
        return type(self)(
            mean, strength, shape, np.exp(theta[2 * d + 1 :]) * self.unit**2, self.origin, self.unit, self.step
        )

    def gradient_of_parts(self, parts: Parts, weights: np.ndarray) -> np.ndarray:
        count, mean, shape, rate = self.posterior_of_parts(parts)
        prior_mean = self._mean_in_units()
        prior_rate = self.rate / self.unit**2
        precision = shape / rate
        off = prior_mean - mean
        by_mean = -self.strength * precision * off
        by_strength = (0.5 / self.strength - 0.5 / (self.strength + count) - 0.5 * precision * off**2).sum(axis=1)
        by_shape = np.log(prior_rate) - digamma(self.shape) + digamma(shape) - np.log(rate)
        by_rate = self.shape / prior_rate - precision
        by_logs = [self.strength * (weights @ by_strength)], self.shape * (weights @ by_shape)
        return np.concatenate([weights @ by_mean, *by_logs, prior_rate * (weights @ by_rate)])
