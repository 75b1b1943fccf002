"""Where a fit starts: hard labels from k-means, or responsibilities or labels that the user gives."""

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from dtree.core.families import Family

_KMEANS_ROWS = 20_000  # centres are found on at most this many rows; every row is then assigned


def one_hot(labels: np.ndarray, size: int) -> np.ndarray:
    """Hard responsibilities (n, T) of labels (n,)."""
    out = np.zeros((labels.shape[0], size))
    out[np.arange(labels.shape[0]), labels] = 1.0
    return out


def kmeans_labels(
    family: Family, X: Any, size: int, random: np.random.Generator, weight: np.ndarray | None = None
) -> np.ndarray:
    """Labels (n,) of k-means with k-means++ seeding and `size` centres."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    points = family.points(X)
    if sparse.issparse(points):  # scikit-learn takes 32-bit indices only
        parts = points.data, points.indices.astype(np.int32), points.indptr.astype(np.int32)
        points = sparse.csr_matrix(parts, shape=points.shape)
    rows = points.shape[0]
    chosen = slice(None) if rows <= _KMEANS_ROWS else np.sort(random.choice(rows, _KMEANS_ROWS, replace=False))
    sample = points[chosen]
    means = KMeans(min(size, sample.shape[0]), n_init=1, random_state=int(random.integers(2**31 - 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than centres is no trouble here
        means.fit(sample, sample_weight=None if weight is None else weight[chosen])
    return means.predict(points).astype(np.int64)


def given_start(init: Any, rows: int, size: int) -> np.ndarray:
    """Responsibilities (n, T) from what the user gave: labels (n,) or responsibilities (n, j), j <= T."""
    given = np.asarray(init)
    if given.shape[:1] != (rows,) or given.ndim not in (1, 2):
        raise ValueError(
            f"init must be 'kmeans', 'random', one label per row or one row of responsibilities per row ({rows} rows), "
            f"not an array of shape {given.shape}"
        )
    if given.ndim == 1:
        values, labels = np.unique(given, return_inverse=True)
        if values.shape[0] > size:
            raise ValueError(f"init has {values.shape[0]} different labels but truncation is {size}: raise truncation")
        return one_hot(labels, size)
    given = given.astype(np.float64)
    if given.shape[1] > size:
        raise ValueError(f"init has {given.shape[1]} columns but truncation is {size}: raise truncation")
    if not np.all(np.isfinite(given)) or given.min() < 0 or given.sum(axis=1).min() <= 0:
        raise ValueError("responsibilities given as init must be finite, not negative, and not all zero in any row")
    out = np.zeros((rows, size))
    out[:, : given.shape[1]] = given / given.sum(axis=1, keepdims=True)
    return out
