"""Which of many rows are drawn, and the plane in which they differ most."""

from typing import NamedTuple

import numpy as np

from dtree.reporting.profile import Profile


def evenly(n: int, most: int) -> np.ndarray:
    """The places of at most so many of n things, from the first to the last.

    >>> evenly(9, 3).tolist(), evenly(2, 3).tolist()
    ([0, 4, 8], [0, 1])
    """
    return np.linspace(0, n - 1, min(n, most)).round().astype(int)


def over_clusters(labels: np.ndarray, most: int) -> np.ndarray:
    """At most so many rows, ordered by their clusters (n,), of which each gets its share."""
    return np.argsort(labels, kind="stable")[evenly(labels.shape[0], most)]


class Plane(NamedTuple):
    """Places (m, 2) of the points, and the share of the variance (2,) along each axis."""

    places: np.ndarray
    share: np.ndarray


def principal_plane(profile: Profile) -> Plane:
    """The first two principal components of the points, each counted as often as it has rows.

    Shares of words or of ones are taken as square roots first, which makes their variance the same everywhere.

    >>> points = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> plane = principal_plane(Profile("standard", points, np.ones(4), np.zeros(2), np.ones(2)))
    >>> plane.share.round(3).tolist()
    [1.0, 0.0]
    """
    values = profile.means
    values = np.sqrt(np.maximum(values, 0.0)) if profile.kind in ("share", "token", "rate") else values
    weight = np.ones(values.shape[0]) if profile.kind == "token" else np.maximum(profile.exposure, 1e-12)
    weight = weight / weight.sum()
    centred = values - weight @ values
    scaled = centred * np.sqrt(weight)[:, None]
    if min(scaled.shape) > 500:
        from sklearn.utils.extmath import randomized_svd

        axes = randomized_svd(scaled, 2, random_state=0)[2]
    else:
        axes = np.linalg.svd(scaled, full_matrices=False)[2][:2]
    if axes.shape[0] < 2:
        axes = np.vstack([axes, np.zeros((2 - axes.shape[0], axes.shape[1]))])
    # The sign of an axis is arbitrary: fix it, so that the same model gives the same picture everywhere.
    sign = np.sign(axes[np.arange(2), np.argmax(np.abs(axes), axis=1)])
    axes = axes * np.where(sign == 0, 1.0, sign)[:, None]
    total = float((scaled**2).sum())
    share = ((scaled @ axes.T) ** 2).sum(axis=0) / (total if total > 0 else 1.0)
    return Plane(centred @ axes.T, share)
