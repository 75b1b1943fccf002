"""Gaussian clusters on bent scales: every column is first sent through a monotone curve of its own.

Amounts, durations and sizes are skewed, and a Gaussian needs several components for one skewed group. On the scale of
Yeo and Johnson (2000), here of z = (x - centre) / unit,

    t(z) = ((1 + z)^b - 1) / b for z >= 0,    -((1 - z)^(2-b) - 1) / (2 - b) for z < 0    (logarithms at b = 0 and 2)

such a group is one Gaussian; b = 1 changes nothing, below 1 the upper tail is drawn in. With the centre and unit taken
from the data, bending commutes with every change of units, turned scales included. The log density is that of the bent
row plus the logarithm of the curve's slope, so that evidence with and without bends can be compared.

Statistics of a row: those of the base family for the bent row, then the sum of the logarithms of the slopes. Values
recorded to a step are known up to half of it; on the bent scale the step is longer where the curve is steep.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dtree.core.families.base import Family, feature_vector, require_positive
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.per_column import has_holes
from dtree.core.families.profile import Profile
from dtree.core.families.some_columns import RowCells, by_columns_held
from dtree.core.jit import kernel
from dtree.core.verbs import implements, log_marginal

LEAST_BEND, MOST_BEND = 0.0, 2.0  # from a logarithm of one tail to that of the other: beyond, a scale has an end


@kernel
def _power(one_plus, exponent):
    if abs(exponent) < 1e-8:
        return np.log(one_plus)
    return (one_plus**exponent - 1.0) / exponent


@kernel
def _bend_rows(X, centre, unit, bend, steps, out):
    """out (n, 2d+1): bent rows, what the steps add to their squares, and the log slopes of each row added up."""
    n, d = X.shape
    for i in range(n):
        total = 0.0
        for a in range(d):
            z = (X[i, a] - centre[a]) / unit[a]
            log_slope = (bend[a] - 1.0) * np.log1p(abs(z)) * (1.0 if z >= 0.0 else -1.0)
            out[i, a] = _power(1.0 + z, bend[a]) if z >= 0.0 else -_power(1.0 - z, 2.0 - bend[a])
            out[i, d + a] = (steps[a] / unit[a]) ** 2 / 12.0 * np.exp(2.0 * log_slope)
            total += log_slope - np.log(unit[a])
        out[i, 2 * d] = total


def unbend(values: np.ndarray, bend: np.ndarray) -> np.ndarray:
    """z (k, d) from bent values (k, d)."""
    upper, exponent = values >= 0.0, np.where(values >= 0.0, bend, 2.0 - bend)
    logarithm, size = exponent < 1e-8, np.abs(values)
    power = np.expm1(np.log1p(size * exponent) / np.where(logarithm, 1.0, exponent))
    size = np.where(logarithm, np.expm1(size), power)
    return np.where(upper, size, -size)


@dataclass(frozen=True, eq=False, repr=False)
class Bent(Family):
    """A Gaussian family of rows whose columns are bent.

    Parameters
    ----------
    base : `Gaussian` or `DiagonalGaussian` of the bent rows, without a step.
    centre, unit : (d,) of each column, in its own units. bend : (d,) of each column; 1 leaves it straight.
    step : (d,) to which values were recorded, 0 where they are exact.

    >>> straight = DiagonalGaussian([0.0], 0.1, 2.0, [1.0])
    >>> family = Bent(straight, centre=[0.0], unit=[1.0], bend=[1.0])
    >>> round(family.log_marginal([[0.5], [2.0]]) - straight.log_marginal([[0.5], [2.0]]), 9) == 0.0
    True
    """

    base: Any
    centre: Any
    unit: Any
    bend: Any
    step: Any = None

    name: ClassVar[str] = "bent"
    predicts_holes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.base, Gaussian | DiagonalGaussian):
            raise ValueError(f"base must be a Gaussian or DiagonalGaussian family, got {type(self.base).__name__}")
        d = self.base.n_features
        for name in ("centre", "unit", "bend", "step"):
            value = np.zeros(d) if name == "step" and self.step is None else getattr(self, name)
            object.__setattr__(self, name, feature_vector(value, d, name))
        require_positive(self.unit, "unit")
        if not np.all((self.bend >= LEAST_BEND) & (self.bend <= MOST_BEND)):
            raise ValueError(f"bend must lie between {LEAST_BEND:g} and {MOST_BEND:g}")

    @property
    def n_features(self) -> int:
        return int(self.base.n_features)

    # Rows are kept bent, with their log slopes and what their steps add.

    def kept_rows(self, X: Any) -> np.ndarray:
        rows = np.ascontiguousarray(X, dtype=np.float64)
        self._require_features(rows.shape)
        out = np.empty((rows.shape[0], 2 * rows.shape[1] + 1))
        _bend_rows(rows, self.centre, self.unit, self.bend, self.step, out)
        return out

    def statistics_of_kept(self, rows: np.ndarray) -> np.ndarray:
        d = self.n_features
        base = self.base.statistics(np.ascontiguousarray(rows[:, :d]))
        where = self.base._squares(np.arange(float(base.shape[1]))[None])[0].astype(np.int64)
        base[:, where] += rows[:, d : 2 * d] / self.base.unit**2
        return np.hstack([base, rows[:, 2 * d :]])

    def statistics(self, X: Any) -> np.ndarray:
        return self.statistics_of_kept(self.kept_rows(X))

    def points(self, X: Any) -> np.ndarray:
        return self.base.points(self.kept_rows(X)[:, : self.n_features])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> Any:
        return CompiledBent(self.base.compile(np.ascontiguousarray(total[:-1]), coarsening))

    # What the base family knows -------------------------------------------------------------------------------------

    def soft_log_marginal_of(self, statistics: np.ndarray) -> np.ndarray:
        return self.base.soft_log_marginal_of(statistics[:, :-1]) + statistics[:, -1]

    def log_predictive_of(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        if has_holes(X):
            return by_columns_held(self, X, np.atleast_2d(statistics), lambda one, *rest: one.log_predictive_of(*rest))
        kept = self.kept_rows(X)
        return self.base.log_predictive_of(kept[:, : self.n_features], statistics[:, :-1]) + kept[:, -1:]

    def narrowed(self, columns: np.ndarray) -> tuple[Any, np.ndarray]:
        base, places = self.base.narrowed(columns)
        made = type(self)(base, self.centre[columns], self.unit[columns], self.bend[columns], self.step[columns])
        # The last place holds slopes of all columns: they are no part of a predictive density.
        return made, np.append(places, self.n_statistics - 1)

    def cells(self, X: np.ndarray, statistics: np.ndarray) -> RowCells:
        """What one cluster (1, s) says of the values of rows X (n, d), which may hold NaN.

        What is expected is the middle of a column's distribution: on a scale that is bent like a logarithm a Student t
        has no mean.
        """
        bent, log_slope = self._bent_cells(X)
        if isinstance(self.base, Gaussian):
            found = self.base.cells(bent, statistics[:, :-1])
        else:
            parts = self.base.parts(statistics[:, :-1])
            own = self.base.log_cells(bent, parts)
            found = RowCells(own.sum(axis=1), own, np.tile(self.base.expected_values(parts), (bent.shape[0], 1)))
        middles = self._straight(found.expected)[0]
        return RowCells(found.log_density + log_slope.sum(axis=1), found.own + log_slope, middles)

    def _bent_cells(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows X (n, d) bent, NaN where they hold NaN, and the log slope (n, d) of each value, there 0."""
        holes = np.isnan(X)
        filled = np.where(holes, self.centre, X)
        sizes = np.log1p(np.abs(filled - self.centre) / self.unit)
        log_slope = (self.bend - 1.0) * sizes * np.where(filled >= self.centre, 1.0, -1.0) - np.log(self.unit)
        bent = self.kept_rows(filled)[:, : self.n_features]
        return np.where(holes, np.nan, bent), np.where(holes, 0.0, log_slope)

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        return np.hstack([self.base.expected_log_density(statistics[:, :-1]), np.ones((statistics.shape[0], 1))])

    def refined(self, statistics: np.ndarray, weights: np.ndarray) -> Self:
        found = self.base.refined(np.ascontiguousarray(statistics[:, :-1]), weights)
        return self if found is self.base else replace(self, base=found)

    def rounding(self, total: np.ndarray) -> float:
        return float(self.base.rounding(total[:-1]))

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        """Those of the base family back on the scales of the data: a mean is then the middle of its component, and
        variances are those of the straightened neighbourhood of the middle."""
        found = self.base.posterior_means(statistics[:, :-1])
        centres, slopes = self._straight(found["means"])
        found["means"] = centres
        if "covariances" in found:
            found["covariances"] = found["covariances"] * slopes[:, :, None] * slopes[:, None, :]
        else:
            found["variances"] = found["variances"] * slopes**2
        return found

    def profile(self, statistics: np.ndarray) -> Profile:
        counts, base = statistics[:, 0], self.base.profile(statistics[:, :-1])
        middles, slopes = self._straight(base.in_data_units())
        share = (counts / counts.sum())[:, None]
        centre = (share * middles).sum(axis=0)
        inside = (share * (slopes * base.spread) ** 2).sum(axis=0)
        spread = np.sqrt((share * (middles - centre) ** 2).sum(axis=0) + inside)
        spread = np.where(spread > 0, spread, 1.0)
        return Profile("standard", counts[:, None] * (middles - centre) / spread, counts, centre, spread)

    def _straight(self, bent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (k, d) in the units of the data for bent ones, and how many of these units a bent unit is there."""
        z = unbend(bent, self.bend)
        log_slope = (self.bend - 1.0) * np.log1p(np.abs(z)) * np.where(z >= 0.0, 1.0, -1.0)
        return self.centre + self.unit * z, self.unit * np.exp(-log_slope)


class CompiledBent(NamedTuple):
    """The base family's kernel; the log slopes are the last statistic."""

    base: Any


@implements(log_marginal, CompiledBent)
@kernel
def _log_marginal(family, statistics):
    return log_marginal(family.base, statistics[:-1]) + statistics[-1]
