"""The units a tree works in: an affine map learned on the training rows, undone in every density.

A diffusion tree spreads equally in all directions, so rows are first brought to a common scale: column by column
(`standardize`), or along their principal axes as well (`whiten`). Densities are corrected by the map's Jacobian, so
they are always those of the original units and can be compared between maps.
"""

from typing import NamedTuple

import numpy as np

SCALINGS = ("auto", "whiten", "standardize", "none")


class Affine(NamedTuple):
    """x = offset + z * basis for a basis (d,) of scales, x = offset + z @ basis for a basis (d, d) of axes."""

    offset: np.ndarray
    basis: np.ndarray

    @property
    def by_column(self) -> bool:
        """Whether every column is mapped by itself, so that a missing entry concerns no other."""
        return self.basis.ndim == 1

    def inward(self, x: np.ndarray) -> np.ndarray:
        """Rows x (n, d) in the tree's units.

        >>> Affine(np.array([1.0]), np.array([2.0])).inward(np.array([[5.0]]))
        array([[2.]])
        """
        centred = x - self.offset
        return centred / self.basis if self.by_column else np.linalg.solve(self.basis.T, centred.T).T

    def outward(self, z: np.ndarray) -> np.ndarray:
        """Rows z (n, d) in the original units."""
        return self.offset + (z * self.basis if self.by_column else z @ self.basis)

    def deviation(self, var: np.ndarray) -> np.ndarray:
        """Standard deviations (n, d) in the original units of rows with independent variances `var` (n, d)."""
        return np.sqrt(var) * self.basis if self.by_column else np.sqrt(var @ self.basis**2)

    def log_volume(self, x: np.ndarray) -> np.ndarray:
        """Log |dx/dz| of each row's observed entries (n,); a map that mixes columns needs complete rows."""
        if self.by_column:
            return np.where(np.isnan(x), 0.0, np.log(self.basis)).sum(axis=1)
        return np.full(x.shape[0], np.linalg.slogdet(self.basis)[1])


def unchanged(d: int) -> Affine:
    """The map that changes nothing.

    >>> unchanged(2).outward(np.ones((1, 2)))
    array([[1., 1.]])
    """
    return Affine(np.zeros(d), np.ones(d))


def standardizing(x: np.ndarray) -> Affine:
    """Columns centred and scaled to unit variance, missing entries left out.

    >>> standardizing(np.array([[0.0], [2.0]])).inward(np.array([[3.0]]))
    array([[2.]])
    """
    return Affine(np.nanmean(x, axis=0), np.nanstd(x, axis=0))


def whitening(x: np.ndarray) -> Affine | None:
    """Principal axes scaled to unit variance; None when missing entries, few rows or dependent columns forbid it.

    >>> rows = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.5], [4.0, 3.0]])
    >>> np.cov(whitening(rows).inward(rows).T, bias=True).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    n, d = x.shape
    if d < 2 or n < 2 * d or np.isnan(x).any():
        return None
    centre, scale = x.mean(axis=0), x.std(axis=0)
    # axes of the correlations: the answer does not depend on the columns' units
    values, axes = np.linalg.eigh(((x - centre) / scale).T @ ((x - centre) / scale) / n)
    if values[0] < 1e-8:
        return None
    # the sign of an axis is arbitrary: fix it, so that equal data give equal maps
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(d)])
    return Affine(centre, np.sqrt(values)[:, None] * axes.T * scale)


def free_numbers(affine: Affine) -> int:
    """How many numbers the map took from the data; what a comparison of maps has to charge for."""
    d = affine.offset.shape[0]
    return 2 * d if affine.by_column else d + d * (d + 1) // 2
