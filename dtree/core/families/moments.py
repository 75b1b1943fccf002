"""What defaults need to know of the data: moments of the values that are there, and how often each category occurs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import Column


class Moments(NamedTuple):
    """What `Family.defaults` needs to know of the data: one pass over any number of rows."""

    rows: Any  # how many, a number; in a part of the columns (`of`) how many values each has, (d,)
    mean: np.ndarray  # (d,) of the values that are not missing, 0 where all are
    variance: np.ndarray  # (d,), divisor n
    covariance: np.ndarray | None  # (d, d), divisor n; None when not asked for
    present: np.ndarray | None = None  # (d,) how many values there are; None: as many as rows
    kinds: tuple[Column, ...] = ()  # of the columns; () when nothing is known of them
    levels: tuple[np.ndarray, ...] = ()  # how often each code of each column occurs, for categories

    def of(self, columns: np.ndarray) -> Moments:
        """The moments of some columns, with the number of values of each column for the number of rows."""
        covariance = None if self.covariance is None else self.covariance[np.ix_(columns, columns)]
        rows = np.broadcast_to(self.rows if self.present is None else self.present, self.mean.shape)[columns]
        kinds = tuple(self.kinds[j] for j in columns) if self.kinds else ()
        levels = tuple(self.levels[j] for j in columns) if self.levels else ()
        return Moments(rows, self.mean[columns], self.variance[columns], covariance, rows, kinds, levels)


def moments_of(
    X: Any, with_covariance: bool = True, weight: np.ndarray | None = None, kinds: tuple[Column, ...] = ()
) -> Moments:
    """Moments of the rows of X (n, d), dense or SciPy sparse, optionally weighted by integer counts.

    Rows with missing values (NaN) have no covariance.
    """
    weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    count = weight.sum()
    if hasattr(X, "tocsr"):
        X = X.tocsr().astype(np.float64)
        mean = np.asarray(X.T @ weight).ravel() / count
        variance = np.maximum(np.asarray(X.multiply(X).T @ weight).ravel() / count - mean**2, 0.0)
        return Moments(count, mean, variance, None)
    X = np.asarray(X, dtype=np.float64)
    levels = with_reserved(count_levels(X, kinds, weight))
    holes = np.isnan(X)
    if holes.any():
        present = weight @ ~holes
        each = np.maximum(present, 1e-300)  # a column without values has mean and variance 0
        mean = weight @ np.where(holes, 0.0, X) / each
        centred = np.where(holes, 0.0, X - mean)
        centred[:, np.fmin.reduce(X, axis=0) == np.fmax.reduce(X, axis=0)] = 0.0
        return Moments(count, mean, weight @ centred**2 / each, None, present, kinds, levels)
    mean = weight @ X / count
    centred = X - mean
    constant = X.min(axis=0) == X.max(axis=0)
    centred[:, constant] = 0.0  # rounding in the mean must not turn a constant column into a varying one
    variance = weight @ centred**2 / count
    covariance = (centred * weight[:, None]).T @ centred / count if with_covariance else None
    return Moments(count, mean, variance, covariance, None, kinds, levels)


def count_levels(X: np.ndarray, kinds: tuple[Column, ...], weight: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    """How often each code occurs in each column of rows (n, d) that holds categories; empty for other columns.

    >>> count_levels(np.array([[0.0], [2.0], [np.nan]]), (Column("x", "category", ("a", "b", "c", "d")),))
    (array([1., 0., 1., 0.]),)
    """
    found = []
    for j, column in enumerate(kinds):
        if column.kind != "category":
            found.append(np.empty(0))
            continue
        there = ~np.isnan(X[:, j])
        codes = X[there, j].astype(np.int64)
        each = None if weight is None else weight[there]
        found.append(np.bincount(codes, each, minlength=len(column.levels)).astype(np.float64))
    return tuple(found)


def with_reserved(levels: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Counts of levels with one more, that of the reserved level, which no training row has."""
    return tuple(np.append(counts, 0.0) for counts in levels)
