"""Rows that lack values under families whose columns depend on each other: the family of the columns that are there.

A cluster of a full Gaussian knows how any of its columns are distributed together: the marginals of a
normal-inverse-Wishart are of its kind, with fewer degrees of freedom. So a row with gaps is a complete row of a family
of fewer columns (`Family.narrowed`), and its statistics are some of those of the whole. That serves rows to predict; a
fit needs all values, because the statistics of rows with different gaps do not add up.

Single values of a row are told by the Student t of the columns that are there (`cells_of_gaussian`): with residuals r,
scale matrix S and precision P = S^-1 of these columns, leaving column j out takes (P r)_j^2 / P_jj from the squared
distance and log P_jj from -log det S, and a missing column is expected at its mean + S_mo P r.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.special import gammaln

_LOG_PI = math.log(math.pi)


class RowCells(NamedTuple):
    """What one cluster says of rows and of their single values."""

    log_density: np.ndarray  # (n,) of what a row holds
    own: np.ndarray  # (n, d) log p(x_j | the other values of the row); 0 where it is missing
    expected: np.ndarray  # (n, d) the middle of column j given the values of the row that are there


def patterns(X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows (b,) of X (n, d) that hold the same columns, and these columns (c,), one pattern after the other."""
    there = ~np.isnan(X)
    kinds, which = np.unique(there, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel(), minlength=kinds.shape[0]))
    for kind, rows in zip(kinds, np.split(order, ends[:-1]), strict=True):
        yield rows, np.flatnonzero(kind)


def by_columns_held(
    family: Any, X: Any, statistics: np.ndarray, of_complete: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """of_complete(narrowed family, its rows, its statistics) (b, k) for rows X (n, d) with gaps, put together (n, k).

    A row of nothing gets 0 everywhere: it has probability one in every cluster.
    """
    X, out = np.asarray(X, dtype=np.float64), np.zeros((np.shape(X)[0], statistics.shape[0]))
    for rows, columns in patterns(X):
        if columns.size:
            narrow, places = family.narrowed(columns)
            out[rows] = of_complete(narrow, np.ascontiguousarray(X[np.ix_(rows, columns)]), statistics[:, places])
    return out


def expected_log_densities(family: Any, X: Any, statistics: np.ndarray) -> np.ndarray:
    """E log p(values that row i holds | cluster k) (n, k) over the parameters of clusters (k, s)."""

    def of_complete(narrow: Any, rows: np.ndarray, part: np.ndarray) -> np.ndarray:
        return np.asarray(narrow.statistics(rows) @ narrow.expected_log_density(part).T)

    return by_columns_held(family, X, statistics, of_complete)


def cells_of_gaussian(family: Any, X: np.ndarray, statistics: np.ndarray) -> RowCells:
    """What one cluster (1, s) of a `Gaussian` says of the values of rows X (n, d), which may hold NaN."""
    (strength,), (dof,), (mean,), (scale,) = family.posterior(statistics)
    z, d = family.points(X), family.n_features
    shrink, freedom = strength / (strength + 1.0), dof + 1.0 - d
    log_unit = np.log(family.unit)
    log_density, own, expected = np.zeros(z.shape[0]), np.zeros(z.shape), np.tile(mean, (z.shape[0], 1))
    for rows, columns in patterns(z):
        if not columns.size:
            continue
        factor = cholesky(scale[np.ix_(columns, columns)], lower=True), True
        precision = cho_solve(factor, np.eye(columns.size))
        off = z[np.ix_(rows, columns)] - mean[columns]
        pushed = off @ precision
        distance = np.einsum("ij,ij->i", off, pushed)
        log_det = 2.0 * np.log(np.diag(factor[0])).sum()
        whole = _log_student(columns.size, freedom, shrink, distance, log_det) - log_unit[columns].sum()
        spread = np.diag(precision)
        less = np.maximum(distance[:, None] - pushed**2 / spread, 0.0)  # without column j; rounding may go below 0
        rest = _log_student(columns.size - 1, freedom, shrink, less, log_det + np.log(spread))
        log_density[rows] = whole
        own[np.ix_(rows, columns)] = whole[:, None] - rest + (log_unit[columns].sum() - log_unit[columns])
        missing = np.setdiff1d(np.arange(d), columns)
        expected[np.ix_(rows, missing)] += pushed @ scale[np.ix_(columns, missing)]
    return RowCells(log_density, own, family.origin + family.unit * expected)


def _log_student(columns: int, freedom: float, shrink: float, distance: Any, log_det: Any) -> Any:
    """Log Student t density of so many columns at squared distances from the mean, in standard units."""
    constant = gammaln(0.5 * (freedom + columns)) - gammaln(0.5 * freedom)
    constant += 0.5 * columns * (math.log(shrink) - _LOG_PI)
    return constant - 0.5 * log_det - 0.5 * (freedom + columns) * np.log1p(shrink * distance)
