"""Log predictive densities of components, without making wide sparse rows dense."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from dtree.core.families import Family, Multinomial, Poisson


def log_predictive(family: Family, X: Any, statistics: np.ndarray) -> np.ndarray:
    """Log density (n, k) of each row of X under each component with soft statistics (k, s).

    >>> from dtree.core.families import Poisson
    >>> family = Poisson([1.0], [1.0])
    >>> log_predictive(family, np.array([[2.0]]), np.array([[0.0, 0.0, 0.0]])).round(4).tolist()  # (1/2)^3
    [[-2.0794]]
    """
    if isinstance(family, Multinomial):
        return _multinomial(family, X, statistics)
    if isinstance(family, Poisson):
        return _poisson(family, X, statistics)
    return family.log_predictive_of(X, statistics)


def _gained(X: Any, shape: np.ndarray) -> np.ndarray:
    """sum_j lgamma(shape_kj + x_nj) - lgamma(shape_kj) over non-zero entries: (n, k); X (n, d), shape (k, d)."""
    X = sparse.csr_matrix(X)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    out = np.empty((X.shape[0], shape.shape[0]))
    for k in range(shape.shape[0]):
        own = shape[k][X.indices]
        out[:, k] = np.bincount(row, gammaln(own + X.data) - gammaln(own), minlength=X.shape[0])
    return out


def _floats(X: Any) -> sparse.csr_matrix:
    return sparse.csr_matrix(X).astype(np.float64)


def _multinomial(family: Multinomial, X: Any, statistics: np.ndarray) -> np.ndarray:
    words = family.concentration + statistics[:, 3:]
    total = words.sum(axis=1)
    length = np.asarray(X.sum(axis=1), dtype=np.float64).ravel()
    out = _gained(X, words) + gammaln(total) - gammaln(total + length[:, None])
    if family.coefficient:
        out += family.leading_columns(_floats(X))[1][:, None]
    return out


def _poisson(family: Poisson, X: Any, statistics: np.ndarray) -> np.ndarray:
    shape = family.shape + statistics[:, 2:]
    rate = family.rate + statistics[:, :1]
    X = _floats(X)
    base = family.leading_columns(X)[1][:, None]
    return _gained(X, shape) + base + (shape * np.log(rate / (rate + 1.0))).sum(axis=1) - X @ np.log(rate + 1.0).T
