"""How far two components overlap, for families whose rows have no place on a line: counts, categories, mixed tables.

The rows of a component that the mixture might as well give to another are their overlap (Hennig's misclassification
probability, here with soft shares). It is turned into the depth of a valley by asking how deep it would be between two
equal Gaussians with the same overlap: at a distance of 2 z deviations the share on the wrong side is Phi(-z), and the
density in the middle lies z^2 / 2 - log 2 nats below the peaks. So both kinds of families share one scale of levels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

_DOUBT = 0.5  # of a row: without any row in doubt, half a row might have been; so few rows show no deep valley


class Overlap(NamedTuple):
    """What rows add up to, twice: for the rows of even and of odd number."""

    shares: np.ndarray  # (2, k, k) sums over the rows of component i of their probability to belong to j
    rows: np.ndarray  # (2, k) rows of each component

    def __add__(self, other: Overlap) -> Overlap:  # type: ignore[override]
        return Overlap(self.shares + other.shares, self.rows + other.rows)


def overlap_of(shares: np.ndarray, labels: np.ndarray, weight: np.ndarray, first_row: int) -> Overlap:
    """The sums of rows with probabilities (n, k) that belong to components `labels` (n,), numbered from first_row.

    >>> overlap_of(np.array([[0.9, 0.1], [0.0, 1.0]]), np.array([0, 1]), np.ones(2), 0).shares.sum(axis=0).tolist()
    [[0.9, 0.1], [0.0, 1.0]]
    """
    k = shares.shape[1]
    half = (first_row + np.arange(labels.shape[0])) % 2
    sums, rows = np.zeros((2, k, k)), np.zeros((2, k))
    np.add.at(sums, (half, labels), shares * weight[:, None])
    np.add.at(rows, (half, labels), weight)
    return Overlap(sums, rows)


def overlap_depths(shares: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Depths (p,) of the pairs i < j from shares (k, k) and rows (k,)."""
    wrong = (shares + _DOUBT) / (rows[:, None] + 1.0)
    i, j = np.triu_indices(rows.shape[0], 1)
    larger = np.minimum(np.maximum(wrong[i, j], wrong[j, i]), 0.5)
    return np.maximum(0.5 * ndtri(larger) ** 2 - math.log(2.0), 0.0)
