"""k-means of our own gives the labels of scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans

from dtree.variational.centres import kmeans_centres, nearest_centres


def _rows(name):
    rng = np.random.default_rng(4)
    if name == "groups":
        return rng.normal(size=(700, 4)) + 6.0 * rng.integers(0, 5, size=(700, 1))
    if name == "wide":
        return rng.normal(size=(569, 30)) * np.exp(rng.normal(size=30)) + 50.0
    if name == "grid":  # ties
        return rng.integers(0, 5, size=(600, 3)) / 1.7
    if name == "whole numbers":  # ties, and fewer different rows than some numbers of centres
        return rng.integers(0, 3, size=(400, 3)).astype(float)
    return np.repeat(rng.normal(size=(6, 2)), 20, axis=0)  # fewer different rows than centres


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 2, 7, 20, 70])
@pytest.mark.parametrize("name", ["groups", "wide", "grid", "whole numbers", "few"])
def test_labels_are_those_of_scikit_learn(name, k, weighted):
    X = _rows(name)
    weight = np.random.default_rng(5).integers(1, 4, size=len(X)).astype(float) if weighted else None
    theirs = KMeans(k, n_init=1, random_state=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs.fit(X, sample_weight=weight)
    centres = kmeans_centres(X, k, 8, weight)
    assert centres == pytest.approx(theirs.cluster_centers_, abs=1e-9)
    assert np.array_equal(nearest_centres(X, centres), theirs.predict(X))
