"""The peers: how each clusters rows, which of them are installed, and in which version.

A peer takes standardised rows (n, d) and the number of classes, and returns labels (n,) and, if it is hierarchical, a
linkage matrix. Those that need the number of classes are given it and marked so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster

Answer = tuple[np.ndarray, Any]


class Peer(NamedTuple):
    """Name, package it needs, whether it is told the number of classes, and the call."""

    name: str
    package: str
    told: bool
    cluster: Callable[[np.ndarray, int], Answer]
    largest: int = 1_000_000  # rows beyond which its time or memory grows too fast
    judged: bool = True  # False: timed only, its model is not meant for any data


def _linkage(function: Callable[..., np.ndarray], method: str) -> Callable[[np.ndarray, int], Answer]:
    def cluster(X: np.ndarray, k: int) -> Answer:
        tree = function(X, method)
        return fcluster(tree, k, "maxclust"), tree

    return cluster


def _bhc(family: str) -> Callable[[np.ndarray, int], Answer]:
    def cluster(X: np.ndarray, k: int) -> Answer:
        import dtree

        model = dtree.BHC(family).fit(X)
        return model.labels_, model.tree_

    return cluster


def _tree_alone(X: np.ndarray, k: int) -> Answer:
    import dtree
    from dtree.core.families import moments_of

    family = dtree.DiagonalGaussian.defaults(moments_of(X, with_covariance=False))
    model = dtree.BHC(family, dtree.DirichletProcess(1.0)).fit(X)
    return model.labels_, model.tree_


def _bayes_kmeans(X: np.ndarray, k: int) -> Answer:
    import dtree

    return dtree.BayesKMeansBHC("gaussian", random_state=0).fit(X).labels_, None


def _scipy(method: str) -> Callable[[np.ndarray, int], Answer]:
    from scipy.cluster.hierarchy import linkage

    return _linkage(linkage, method)


def _fastcluster(method: str) -> Callable[[np.ndarray, int], Answer]:
    def cluster(X: np.ndarray, k: int) -> Answer:
        import fastcluster

        return _linkage(fastcluster.linkage, method)(X, k)

    return cluster


def _genie(X: np.ndarray, k: int) -> Answer:
    import genieclust

    return genieclust.Genie(n_clusters=k).fit_predict(X), None


def _hdbscan(X: np.ndarray, k: int) -> Answer:
    import hdbscan

    return hdbscan.HDBSCAN(min_cluster_size=5).fit_predict(X), None


def _agglomerative(X: np.ndarray, k: int) -> Answer:
    from sklearn.cluster import AgglomerativeClustering

    return AgglomerativeClustering(n_clusters=k).fit_predict(X), None


def _kmeans(X: np.ndarray, k: int) -> Answer:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=3, random_state=0).fit_predict(X), None


def _sklearn_hdbscan(X: np.ndarray, k: int) -> Answer:
    from sklearn.cluster import HDBSCAN

    return HDBSCAN(copy=True).fit_predict(X), None


def _mixture(X: np.ndarray, k: int) -> Answer:
    from sklearn.mixture import BayesianGaussianMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one that has not converged is judged by its labels all the same
        return BayesianGaussianMixture(n_components=30, max_iter=300, random_state=0).fit_predict(X), None


PEERS = [
    Peer("dtree BHC, full", "dtree", False, _bhc("gaussian"), 10_000),
    Peer("dtree BHC, diagonal", "dtree", False, _bhc("gaussian-diag"), 10_000),
    Peer("dtree BHC, diagonal, model given", "dtree", False, _tree_alone, 10_000, judged=False),
    Peer("dtree Bayes-K-means BHC", "dtree", False, _bayes_kmeans),
    Peer("scipy average", "scipy", True, _scipy("average"), 20_000),
    Peer("scipy ward", "scipy", True, _scipy("ward"), 20_000),
    Peer("fastcluster average", "fastcluster", True, _fastcluster("average"), 20_000),
    Peer("fastcluster ward", "fastcluster", True, _fastcluster("ward"), 20_000),
    Peer("genieclust Genie", "genieclust", True, _genie),
    Peer("scikit-learn Ward", "scikit-learn", True, _agglomerative, 20_000),
    Peer("scikit-learn KMeans", "scikit-learn", True, _kmeans),
    Peer("scikit-learn HDBSCAN", "scikit-learn", False, _sklearn_hdbscan, 20_000),
    Peer("scikit-learn BayesianGaussianMixture", "scikit-learn", False, _mixture),
    Peer("hdbscan", "hdbscan", False, _hdbscan, 50_000),
]


def installed() -> dict[str, str]:
    """Versions of the packages of the peers that are installed."""
    found = {}
    for package in dict.fromkeys(peer.package for peer in PEERS):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
