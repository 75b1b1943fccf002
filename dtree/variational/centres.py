"""k-means of dense rows, step by step as scikit-learn's `KMeans(k, n_init=1)` does it: the same draws, the same labels.

Loading scikit-learn takes a tenth of `dtree fit` of a small table, which needs nothing else of it.
"""

import numpy as np
from scipy.linalg.blas import dgemm

_ROWS = 256  # of which distances are known at a time
_MOST_STEPS = 300
_TOLERANCE = 1e-4  # of the mean variance: centres that move less stand still


def kmeans_centres(X: np.ndarray, k: int, seed: int, weight: np.ndarray | None = None) -> np.ndarray:
    """Centres (k, d) of rows X (n, d) with weights (n,): k-means++, then Lloyd's steps."""
    weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    enough = np.mean(np.var(X, axis=0)) * _TOLERANCE
    middle = X.mean(axis=0)
    X = np.ascontiguousarray(X - middle)
    centres = _seeded(X, k, np.random.RandomState(seed), weight)
    before = np.full(X.shape[0], -1)
    for _ in range(_MOST_STEPS):
        labels = nearest_centres(X, centres)
        moved = _means(X, weight, labels, centres)
        centres, shift = moved, np.sqrt(((centres - moved) ** 2).sum(axis=1))
        if np.array_equal(labels, before) or (shift**2).sum() <= enough:
            break
        before = labels
    return centres + middle


def nearest_centres(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The nearest centre (n,) of each row of X (n, d), the first of several."""
    labels, lengths = np.empty(X.shape[0], dtype=np.int64), _squares(centres)
    for start in range(0, X.shape[0], _ROWS):
        part = X[start : start + _ROWS]
        distance = np.empty((centres.shape[0], part.shape[0]), order="F")
        distance[:] = lengths[:, None]  # |c|^2 - 2 x c: what tells the centres apart
        dgemm(-2.0, centres.T, part.T, beta=1.0, c=distance, trans_a=True, overwrite_c=True)
        labels[start : start + _ROWS] = distance.argmin(axis=0)
    return labels


def _squares(X: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", X, X)


def _seeded(X: np.ndarray, k: int, random: np.random.RandomState, weight: np.ndarray) -> np.ndarray:
    """Rows (k, d) of X, each the best of a few drawn in proportion to their squared distance from those before."""
    tries, lengths = 2 + int(np.log(k)), _squares(X)

    def distances(places: np.ndarray) -> np.ndarray:
        found = -2.0 * (X[places] @ X.T)
        found += _squares(X[places])[:, None]
        found += lengths
        return np.maximum(found, 0.0, out=found)

    places = np.empty(k, dtype=np.int64)
    places[0] = random.choice(X.shape[0], p=weight / weight.sum())
    closest = distances(places[:1])
    total = closest @ weight
    for c in range(1, k):
        drawn = np.searchsorted(np.cumsum(weight * closest), random.uniform(size=tries) * total)
        drawn = np.minimum(drawn, X.shape[0] - 1)
        each = np.minimum(closest, distances(drawn))
        totals = each @ weight[:, None]
        best = int(np.argmin(totals))
        total, closest, places[c] = totals[best], each[best], drawn[best]
    return X[places]


def _means(X: np.ndarray, weight: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Means (k, d) of the rows with each label; a centre without rows gets a row that is far from its own."""
    k = centres.shape[0]
    sums = np.stack([np.bincount(labels, column * weight, minlength=k) for column in X.T], axis=1)
    held = np.bincount(labels, weight, minlength=k)
    empty = np.flatnonzero(held == 0.0)
    if empty.size:
        distance = ((X - centres[labels]) ** 2).sum(axis=1)
        far = np.argpartition(distance, -empty.size)[: -empty.size - 1 : -1]
        if distance.max() > 0.0:
            for centre, row in zip(empty, far, strict=True):
                sums[labels[row]] -= X[row] * weight[row]
                held[labels[row]] -= weight[row]
                sums[centre], held[centre] = X[row] * weight[row], weight[row]
    means = sums * (1.0 / np.where(held > 0.0, held, 1.0))[:, None]
    largest = int(np.argmax(held))
    for centre in np.flatnonzero(held <= 0.0):  # scikit-learn divides in turn: before the largest, by nothing yet
        means[centre] = means[largest] if largest < centre else sums[largest]
    return means
