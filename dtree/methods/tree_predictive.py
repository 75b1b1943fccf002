"""New rows under a tree over atoms: which cluster they belong to, and their density."""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.hierarchy import predictive
from dtree.hierarchy.statistics import cluster_statistics, node_statistics


class Mixture(NamedTuple):
    """The nodes of a tree that carry weight in the predictive density, and a new cluster."""

    statistics: np.ndarray  # (k, s)
    log_weights: np.ndarray  # (k,)
    log_new: float


def mixture_of(model: Model, tree: Tree, atoms: np.ndarray) -> Mixture:
    """The predictive mixture of a tree over atoms (m, s)."""
    log_weights, log_new = predictive.mixture_weights(tree, model)
    nodes = predictive.heaviest_nodes(log_weights)
    return Mixture(node_statistics(tree, atoms)[nodes], log_weights[nodes], log_new)


def log_probabilities(model: Model, clusters: np.ndarray, rows: Any) -> np.ndarray:
    """Log probability (n, k) that each row belongs to each of the clusters (k, s), given that it belongs to one."""
    log_weights = predictive.log_cluster_weights(model, model.counts(clusters))
    return predictive.log_membership(model.family, rows, clusters, log_weights)


def labels_of_new(model: Model, atoms: np.ndarray, leaf_clusters: np.ndarray, rows: Any) -> np.ndarray:
    """The most probable cluster (n,) of rows (n, d'), given the clusters (m,) of atoms (m, s)."""
    return np.argmax(log_probabilities(model, cluster_statistics(leaf_clusters, atoms), rows), axis=1)


def predict_with_tree(
    model: Model, tree: Tree, atoms: np.ndarray, leaf_clusters: np.ndarray, rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Labels (n,) and log densities (n,) of rows (n, d')."""
    labels = labels_of_new(model, atoms, leaf_clusters, rows)
    return labels, predictive.log_mixture_density(model.family, rows, *mixture_of(model, tree, atoms))
