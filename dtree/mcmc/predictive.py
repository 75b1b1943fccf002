"""What draws of a partition say of new rows: the cluster each belongs to, and its density averaged over draws."""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from dtree.core.model import Model
from dtree.core.priors import GeneralizedGamma, Prior
from dtree.hierarchy.predictive import log_cluster_weights, log_membership, log_mixture_density
from dtree.hierarchy.statistics import cluster_statistics
from dtree.mcmc.hyperparameters import from_parameter_vector
from dtree.mcmc.point_estimate import evenly

PREDICTIVE_DRAWS = 100  # evenly chosen; the Monte Carlo error of more is far below that of the chains themselves


def log_membership_at(model: Model, atoms: np.ndarray, labels: np.ndarray, rows: Any) -> np.ndarray:
    """Log probability (n, k) that each row is in each of the clusters of a partition (m,) of atoms (m, s)."""
    statistics = cluster_statistics(labels, atoms)
    weights = log_cluster_weights(model, model.counts(statistics))
    return log_membership(model.family, rows, statistics, weights)


def log_density_over_draws(
    model: Model, atoms: np.ndarray, labels: np.ndarray, priors: np.ndarray, rows: Any
) -> np.ndarray:
    """Log predictive density (n,) of rows, averaged over draws of partitions (draws, m) and prior vectors (draws, p).

    For an NGGP every draw carries (u/n) kappa(n_c + 1, u)/kappa(n_c, u) and (u/n) kappa(1, u): it is their mean over
    the posterior of u that sums to one; normalising at each u ([LC15] Eq. 6) would be right for the DP only.
    """
    n = float(model.counts(atoms).sum())
    densities, weights = [], []
    for draw in evenly(labels.shape[0], PREDICTIVE_DRAWS):
        prior = from_parameter_vector(model.prior, priors[draw])
        log_density, log_weight = _log_density_at(model, atoms, labels[draw].astype(np.int64), prior, n, rows)
        densities.append(log_density)
        weights.append(log_weight)
    # Over finitely many draws the mean of the weights is one only up to Monte Carlo error; dividing by it keeps the
    # density normalised.
    return logsumexp(np.stack(densities), axis=0) - logsumexp(weights)


def _log_density_at(
    model: Model, atoms: np.ndarray, labels: np.ndarray, prior: Prior, n: float, rows: Any
) -> tuple[np.ndarray, float]:
    """Log density (n,) of rows at one draw, and the log of the weights that it carries in all."""
    statistics = cluster_statistics(labels, atoms)
    sizes = model.counts(statistics)
    log_weights = np.append(prior.log_kappa(sizes + 1.0) - prior.log_kappa(sizes), float(prior.log_kappa(1.0)))
    if isinstance(prior, GeneralizedGamma):
        log_weights += np.log(prior.u) - np.log(n)
    else:
        log_weights -= logsumexp(log_weights)
    log_density = log_mixture_density(model.family, rows, statistics, log_weights[:-1], log_weights[-1])
    return log_density, float(logsumexp(log_weights))
