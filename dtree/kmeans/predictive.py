"""With what probability a new row joins each cluster of a partition, or opens one."""

import numpy as np
from scipy.special import logsumexp

from dtree.core.model import Model


def log_weights(model: Model, statistics: np.ndarray) -> tuple[np.ndarray, float]:
    """Log probabilities (k,) of joining each cluster (k, s), and the log probability of a new one; they sum to one.

    For a Dirichlet process n_c/(n+alpha) and alpha/(n+alpha). For other priors the ratios of kappa at the given u,
    normalised.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> joined, new = log_weights(Model(Poisson([1.0], [1.0]), DirichletProcess(1.0)), np.array([[3.0, 0.0, 5.0]]))
    >>> np.exp(joined).round(3).tolist(), round(float(np.exp(new)), 3)
    ([0.75], 0.25)
    """
    counts = np.rint(model.counts(statistics))
    prior = model.prior
    joined = np.append(prior.log_kappa(counts + 1.0) - prior.log_kappa(counts), prior.log_kappa(1.0))
    joined -= logsumexp(joined)
    return joined[:-1], float(joined[-1])
