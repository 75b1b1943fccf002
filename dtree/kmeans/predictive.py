"""The density of a new row given a partition: the clusters and a new one, weighted by the prior."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from dtree.core.model import Model

_BLOCK = 4096


def log_weights(model: Model, statistics: np.ndarray) -> np.ndarray:
    """Log probabilities (k+1,) that a new row joins each cluster (k, s) or opens one.

    For a Dirichlet process n_c/(n+alpha) and alpha/(n+alpha). For other priors the same ratios of kappa at the given u, normalised.
    """
    counts = np.rint(model.counts(statistics))
    prior = model.prior
    joined = np.append(prior.log_kappa(counts + 1.0) - prior.log_kappa(counts), prior.log_kappa(1.0))
    return joined - logsumexp(joined)


def log_joint_density(model: Model, X: Any, statistics: np.ndarray) -> np.ndarray:
    """Log of weight times density (n, k+1) of each row of X under every cluster (k, s) and under a new one.

    Under coarsening the clusters are those of the coarsened posterior, the row's density is the family's own.
    """
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    weights = log_weights(model, statistics)
    parts = [
        model.family.log_predictive_of(X[start : start + _BLOCK], padded) + weights for start in range(0, X.shape[0], _BLOCK)
    ]
    return np.concatenate(parts)


def log_density(model: Model, X: Any, statistics: np.ndarray) -> np.ndarray:
    """Normalised log predictive density (n,) of each row of X."""
    parts = [
        logsumexp(log_joint_density(model, X[start : start + _BLOCK], statistics), axis=1)
        for start in range(0, X.shape[0], _BLOCK)
    ]
    return np.concatenate(parts)
