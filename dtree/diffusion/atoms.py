"""Many rows as few leaves: a diffusion tree over atoms, each a cluster summary with count, mean and noise within.

An atom's mean is observed with its own noise divided by its count; new rows choose branches in proportion to the rows
behind them. The predictive density stays a normalised mixture, so 10^5 rows cost what a tree over a few hundred atoms
costs plus one pass over the rows. Rows in memory are summarised here; for more rows than memory holds the engine takes
the clusters of a Bayes-K-means run (`dtree.methods.clusters_as_leaves`).
"""

from typing import NamedTuple

import numpy as np
from sklearn.cluster import MiniBatchKMeans

from dtree.diffusion.belief import Leaves

PRIOR_ROWS = 2.0  # strength, in rows, with which an atom's noise is drawn towards the pooled one


class Atoms(NamedTuple):
    """Cluster summaries: mean (m, d), rows (m,) behind each, noise (m,) = variance of a row around its atom, per
    dimension."""

    mean: np.ndarray
    rows: np.ndarray
    noise: np.ndarray


def atoms_from_labels(x: np.ndarray, labels: np.ndarray) -> Atoms:
    """Summaries of the clusters given by labels 0..m-1 (all present).

    >>> atoms = atoms_from_labels(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]))
    >>> atoms.mean[:, 0], atoms.rows
    (array([1., 5.]), array([2., 1.]))
    """
    m, d = int(labels.max()) + 1, x.shape[1]
    count = np.bincount(labels, minlength=m).astype(np.float64)
    mean = np.stack([np.bincount(labels, weights=x[:, k], minlength=m) for k in range(d)], axis=1) / count[:, None]
    scatter = np.bincount(labels, weights=((x - mean[labels]) ** 2).sum(axis=1), minlength=m)
    return atoms_from_moments(count, mean, scatter)


def atoms_from_moments(count: np.ndarray, mean: np.ndarray, scatter: np.ndarray) -> Atoms:
    """Atoms of clusters given by counts (m,), means (m, d) and sums of squared distances to the mean (m,)."""
    d = mean.shape[1]
    spare = max(float((count - 1).sum()), 1.0)
    pooled = float(scatter.sum()) / (spare * d)
    noise = (scatter / d + PRIOR_ROWS * pooled) / (np.maximum(count - 1.0, 0.0) + PRIOR_ROWS)
    return Atoms(mean, np.asarray(count, dtype=np.float64), np.maximum(noise, 1e-9))


def summarise_rows(x: np.ndarray, n_atoms: int, seed: int) -> tuple[Atoms, np.ndarray]:
    """At most n_atoms summaries of rows x (n, d) by mini-batch k-means, and the atom of each row (n,)."""
    means = MiniBatchKMeans(n_atoms, random_state=seed, n_init=1, batch_size=4096, max_iter=20, reassignment_ratio=0.0)
    labels = np.unique(means.fit_predict(x), return_inverse=True)[1]
    return atoms_from_labels(x, labels), labels


def leaves_of_atoms(atoms: Atoms) -> Leaves:
    """Leaf messages of atoms with absolute variances: the mean of `count` rows has variance noise / count."""
    var = (atoms.noise / atoms.rows)[:, None]
    return Leaves(np.ascontiguousarray(atoms.mean), np.ascontiguousarray(var), atoms.mean.size)
