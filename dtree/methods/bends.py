"""How far each column is bent so that components are Gaussian on its scale: by likelihood, given who is where."""

from typing import NamedTuple

import numpy as np

from dtree.core.families.bent import LEAST_BEND, MOST_BEND

_BENDS = np.arange(LEAST_BEND, MOST_BEND + 0.125, 0.25)  # as fine as thousands of rows can tell
_IQR = 1.349  # deviations between the quartiles of a Gaussian
# A Gaussian recorded in steps of a quarter of its deviation has a tenth of the rows at its commonest value. Where more
# rows agree, they do so because the scale is coarse or ends there (zeros, full marks), which no curve undoes.
_ATOM = 0.1
_SHRINK = 2.0  # rows: a component's variance leans on that of all components by so much


class Bends(NamedTuple):
    """A scale for each column."""

    centre: np.ndarray  # (d,)
    unit: np.ndarray  # (d,)
    bend: np.ndarray  # (d,) 1: straight

    @property
    def straight(self) -> bool:
        """Whether no column is bent."""
        return bool(np.all(self.bend == 1.0))


def chosen_bends(X: np.ndarray, weight: np.ndarray, shares: np.ndarray) -> Bends:
    """Bends of the columns of X (n, d) with weights (n,) that suit components with responsibilities `shares` (n, k).

    Centre and unit are median and quartile distance, so a long tail does not decide where the bend begins. A bend must
    gain what a parameter costs (half the logarithm of the rows). Columns with a value that many rows share stay
    straight.
    """
    d, held = X.shape[1], shares * weight[:, None]
    centre, unit, bend = np.empty(d), np.empty(d), np.ones(d)
    cost = 0.5 * np.log(weight.sum())
    for j, column in enumerate(X.T):
        centre[j], unit[j] = _middle(column, weight)
        values = np.unique(column, return_inverse=True)[1].ravel()
        if np.bincount(values, weight).max() > _ATOM * weight.sum():
            continue
        z = (column - centre[j]) / unit[j]
        gains = _log_likelihoods(z, weight, held)
        straight, best = int(np.argmin(np.abs(_BENDS - 1.0))), int(np.argmax(gains))
        if gains[best] > gains[straight] + cost:
            bend[j] = _BENDS[best]
    return Bends(centre, unit, bend)


def _middle(column: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Median and spread of a column (n,); the deviation where the quartiles agree."""
    order = np.argsort(column, kind="stable")
    places = (np.cumsum(weight[order]) - 0.5 * weight[order]) / weight.sum()
    low, middle, high = np.interp([0.25, 0.5, 0.75], places, column[order])
    if high - low > 1e-9 * (column.max() - column.min()):
        return float(middle), float((high - low) / _IQR)
    mean = weight @ column / weight.sum()
    deviation = float(np.sqrt(weight @ (column - mean) ** 2 / weight.sum()))
    return float(middle), deviation if deviation > 0.0 else 1.0


def _log_likelihoods(z: np.ndarray, weight: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Log likelihood (b,) of z (n,) under each bend, each component a Gaussian; held (n, k): weighted shares."""
    upper, logarithm = z >= 0.0, np.log1p(np.abs(z))
    signed = weight @ (logarithm * np.where(upper, 1.0, -1.0))
    rows = np.maximum(held.sum(axis=0), 1e-300)
    out = np.empty(_BENDS.shape[0])
    for place, bend in enumerate(_BENDS):
        exponent = np.where(upper, bend, 2.0 - bend)
        power = np.where(
            exponent == 0.0, logarithm, np.expm1(exponent * logarithm) / np.where(exponent == 0, 1, exponent)
        )
        bent = np.where(upper, power, -power)
        bent -= weight @ bent / weight.sum()
        mean = bent @ held / rows
        squares = np.maximum(bent**2 @ held - rows * mean**2, 0.0)
        variance = (squares + _SHRINK * squares.sum() / rows.sum()) / (rows + _SHRINK)
        out[place] = (bend - 1.0) * signed - 0.5 * rows @ np.log(np.maximum(variance, 1e-300))
    return out
