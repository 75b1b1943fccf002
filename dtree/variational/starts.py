"""Where a fit starts: hard labels from k-means, or responsibilities or labels that the user gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse

from dtree.core.families import DiagonalGaussian, Family, Gaussian
from dtree.variational.steps import Rule, Sums, make_block, sums_of

_KMEANS_ROWS = 20_000  # centres are found on at most this many rows; every row is then assigned


def one_hot(labels: np.ndarray, size: int) -> np.ndarray:
    """Hard responsibilities (n, T) of labels (n,)."""
    out = np.zeros((labels.shape[0], size))
    out[np.arange(labels.shape[0]), labels] = 1.0
    return out


def as_points(family: Family, X: Any) -> Any:
    """Rows where Euclidean distance makes sense: standard units for Gaussians, square roots for counts."""
    if isinstance(family, Gaussian | DiagonalGaussian):
        return (np.asarray(X, dtype=np.float64) - family.origin) / family.unit
    if family.value_kind == "count":
        points = X.astype(np.float64).sqrt() if sparse.issparse(X) else np.sqrt(np.asarray(X, dtype=np.float64))
        return points
    return X.astype(np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)


def kmeans_labels(
    family: Family, X: Any, size: int, random: np.random.Generator, weight: np.ndarray | None = None
) -> np.ndarray:
    """Labels (n,) of k-means with k-means++ seeding and `size` centres."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    points = as_points(family, X)
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


def sums_from_sample(X: Any, rule: Rule, size: int, random: np.random.Generator) -> Sums:
    """Where a fit over partitions starts: sums of a k-means clustering of a sample of rows (m, d).

    They make the first state; the first pass over all rows then replaces them.

    >>> from dtree.core.families import Poisson
    >>> from dtree.variational.variants import VARIANTS
    >>> rule = Rule(Poisson([1.0], [0.1]), VARIANTS["FSD"], 1.0)
    >>> X = np.array([[1.0], [2.0], [50.0], [55.0]])
    >>> np.sort(sums_from_sample(X, rule, 2, np.random.default_rng(0)).counts).tolist()
    [2.0, 2.0]
    """
    labels = one_hot(kmeans_labels(rule.family, X, size, random), size)
    return sums_of(make_block(rule.family, X), labels, rule)
