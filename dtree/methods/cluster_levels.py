"""Levels for the fits of other methods: their clusters become components, and the valleys between them are measured.

Nothing is fitted again. The clusters of a fit are statistics of a family, which is all that a mixture holds, so the
same lines, counts and tree serve as for `TreeClustering`. Chains are the exception: they say themselves how often two
clusters are one.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from dtree.core.levels import COMPONENTS, LevelTree, canonical_by_size
from dtree.core.model import Model
from dtree.core.tree import sums_below
from dtree.hierarchy.statistics import cluster_statistics
from dtree.methods.component_levels import Found, Look, Own, between, found_levels, lines_of
from dtree.methods.facts import Facts
from dtree.variational.mixture import Mixture
from dtree.variational.threads import one_blas_thread

MOST_CLUSTERS = 500  # what is kept of their pairs takes 200 MB
_MOST_COMPARED = 100  # leaves of a cluster whose draws are compared with those of another cluster's


def mixture_of(model: Model, statistics: np.ndarray) -> Mixture:
    """The clusters with statistics (k, s), as atoms of a model, seen as the components of a mixture."""
    plain = statistics / model.coarsening
    alpha = float(getattr(model.prior, "alpha", 1.0))
    none = np.zeros((0, 0)), np.zeros(0)
    return Mixture(model.family, "TSB", alpha, True, "best", plain, *none, 0.0, float(plain[:, 0].sum()))


def clusters_of(facts: Facts) -> Mixture:
    """The clusters of a fit as a mixture, or one sentence why there is none."""
    if facts.model is None or facts.statistics is None:
        raise ValueError("levels need clusters with a family, which a diffusion tree has not: cut the tree itself")
    k = facts.n_clusters
    if k > MOST_CLUSTERS:
        raise ValueError(f"{k:,} clusters are too many to compare each with each: levels take {MOST_CLUSTERS} at most")
    return mixture_of(facts.model, cluster_statistics(np.asarray(facts.leaf_clusters), facts.statistics))


def levels_of_clusters(
    mixture: Mixture, pieces: Iterable[tuple[int, Any]], labels: np.ndarray, wanted: float | str
) -> tuple[Found, np.ndarray]:
    """The tree over clusters from one pass over the rows, and the cluster (n,) of each row, none left out.

    pieces : the number of the first row and the rows (b, d'), the columns in use, again and again. labels : (n,) the
    cluster of each row, -1 where the fit left it out; such a row goes where the clusters would put a new one.
    """
    k = mixture.counts.shape[0]
    held, labels = np.arange(k), labels.astype(np.int64)
    looks = []
    with one_blas_thread():
        lines = lines_of(mixture, held)
        for start, rows in pieces:
            own = labels[start : start + rows.shape[0]]
            if own.min(initial=0) < 0:
                own[own < 0] = mixture.best(rows, held)[own < 0]
            pairs = between(mixture, held, lines, Own(rows, own, np.ones(rows.shape[0]), start))
            density = mixture.log_density(rows, held)
            looks.append(Look(pairs, np.bincount(own, minlength=k), np.bincount(own, density, minlength=k)))
        seen = Look(*(reduce(add, parts) for parts in zip(*looks, strict=True)))
        return found_levels(mixture, held, seen, wanted), labels


def levels_of_chains(facts: Facts) -> tuple[LevelTree, float, np.ndarray]:
    """The tree over the clusters of the point estimate of chains, its level, and the cluster (k,) of each.

    Average linkage of how often the leaves of two clusters are apart in the draws; depths are shares of the draws. The
    clusters are the finest level, and the level is the one that the point estimate has chosen: nothing is joined.
    """
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    assert facts.together is not None
    k, leaf_clusters = facts.n_clusters, np.asarray(facts.leaf_clusters)
    size = np.bincount(leaf_clusters, minlength=k)
    if k == 1:
        none = np.zeros(0, dtype=np.int64)
        return LevelTree(none, none, size, np.zeros(0)), COMPONENTS, np.zeros(1, dtype=np.int64)
    members = [np.flatnonzero(leaf_clusters == cluster) for cluster in range(k)]
    some = [own[np.linspace(0, own.size - 1, min(own.size, _MOST_COMPARED)).round().astype(int)] for own in members]
    together = facts.together(np.concatenate(some))
    ends = np.concatenate([[0], np.cumsum([own.size for own in some])])
    sums = np.add.reduceat(np.add.reduceat(together, ends[:-1], axis=0), ends[:-1], axis=1)
    apart = np.clip(1.0 - sums / np.outer(np.diff(ends), np.diff(ends)), 0.0, 1.0)
    np.fill_diagonal(apart, 0.0)
    joins = linkage(squareform(apart, checks=False), "average")
    left, right = (np.minimum(joins[:, 0], joins[:, 1]), np.maximum(joins[:, 0], joins[:, 1]))
    left, right = left.astype(np.int64), right.astype(np.int64)
    tree = LevelTree(left, right, sums_below(left, right, size), np.maximum.accumulate(joins[:, 2]))
    return tree, COMPONENTS, canonical_by_size(np.arange(k), size)
