"""What the two Gaussian families share: rows in standard units z = (x - origin) / unit.

Taking statistics about an origin inside the data and in the data's own units keeps second moments from cancelling and
products of variances from overflowing, whatever units the rows come in; changing variables adds -log(unit) per row.

Values that were recorded to a step (whole numbers, tenths) are known up to half a step, so a row's square is on average
larger by step^2 / 12 than that of what was written down. With `step` the statistics say so. A component can then
not become infinitely thin where rows agree, and the marginal likelihood is a lower bound on the probability of the
recorded values (per unit of step).
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from dtree.core.families.base import KeptAsRows, feature_vector
from dtree.core.families.moments import Moments
from dtree.core.families.profile import Profile, standardised
from dtree.core.jit import kernel


@kernel
def statistics_of_rows(X, origin, unit, extra, all_products):
    """[1, z (d), z**2 (d)] of each row, z = (x - origin) / unit; or z_a z_b for all a <= b in place of the squares.

    `extra` (d,) is added to the squares.
    """
    n, d = X.shape
    out = np.empty((n, 1 + d + (d * (d + 1) // 2 if all_products else d)))
    for i in range(n):
        row = out[i]
        row[0] = 1.0
        if not all_products:  # a loop of its own, which the compiler turns into wide instructions
            for a in range(d):
                z = (X[i, a] - origin[a]) / unit[a]
                row[1 + a] = z
                row[1 + d + a] = z * z + extra[a]
            continue
        for a in range(d):
            row[1 + a] = (X[i, a] - origin[a]) / unit[a]
        position = 1 + d
        for a in range(d):
            left = row[1 + a]
            row[position] = left * left + extra[a]
            for b in range(1, d - a):
                row[position + b] = left * row[1 + a + b]
            position += d - a
    return out


class StandardUnits(KeptAsRows):
    """A family with `mean`, `origin` and `unit` (d,) whose statistics begin with the count and the sums of z."""

    mean: Any
    origin: Any
    unit: Any
    step: Any

    def _set(self, d: int, **values: Any) -> None:
        """Keep the constructor's arguments; a missing origin is the mean."""
        values["mean"] = feature_vector(self.mean, d, "mean")
        values["origin"] = feature_vector(values["mean"] if self.origin is None else self.origin, d, "origin")
        values["unit"] = feature_vector(values["unit"] if self.unit is None else self.unit, d, "unit")
        if self.step is not None:
            values["step"] = feature_vector(self.step, d, "step")
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @property
    def n_features(self) -> int:
        return int(self.mean.shape[0])  # asked for every block of rows, so not searched among all parameters

    def statistics(self, X: Any) -> np.ndarray:
        rows, step = self.kept_rows(X).view(), np.zeros(self.n_features) if self.step is None else self.step
        rows.flags.writeable = False  # some rows are so anyway: of both kinds the kernel would be compiled twice
        return statistics_of_rows(rows, self.origin, self.unit, (step / self.unit) ** 2 / 12.0, self.needs_covariance)

    @abstractmethod
    def _squares(self, statistics: np.ndarray) -> np.ndarray:
        """Sums of z**2 (k, d) in statistics (k, s)."""

    @abstractmethod
    def _smallest_scale(self) -> float:
        """What the prior adds at least to a cluster's sum of squares, in standard units."""

    def rounding(self, total: np.ndarray) -> float:
        squares = self._squares(np.atleast_2d(total)).max(initial=0.0)
        return float(np.finfo(np.float64).eps * squares / self._smallest_scale())

    def anchored(self, moments: Moments) -> Self:
        unit = np.where(moments.variance > 0, np.sqrt(moments.variance), self.unit)
        return type(self)(**{**self.parameters(), "origin": moments.mean, "unit": unit})

    def points(self, X: Any) -> np.ndarray:
        return (np.asarray(X, dtype=np.float64) - self.origin) / self.unit

    def _mean_in_units(self) -> np.ndarray:
        return (self.mean - self.origin) / self.unit

    def profile(self, statistics: np.ndarray) -> Profile:
        sums = statistics[:, 1 : 1 + self.n_features]
        return standardised(sums, self._squares(statistics), statistics[:, 0], self.origin, self.unit)
