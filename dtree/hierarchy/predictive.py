"""The predictive density of a tree, normalised.

    p(x) = sum_k omega_k n_k / (n + alpha) p(x | D_k) + alpha / (n + alpha) p(x | prior)

omega_k is the posterior probability that node k is a cluster. The sum printed in [HG05] leaves out the weights
n_k / (n + alpha) and the new cluster, and does not integrate to one.

For a normalised generalised gamma process the weights are E[(u/n) kappa(n_k + 1, u) / kappa(n_k, u)] and E[(u/n)
kappa(1, u)] over the posterior of u; normalising them at a fixed u [LC15 Eq. 6] is right for the Dirichlet process
only. Given the tree, that posterior is one-dimensional and is integrated by quadrature.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dtree.core.families import Family
from dtree.core.mixture_density import ROWS_PER_BLOCK, log_mixture_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma
from dtree.core.tree import Tree

_NEGLIGIBLE = 1e-14  # total weight of the nodes that may be left out of the mixture
_QUADRATURE_NODES = 129  # over the likely range of log u, where its density is smooth


def mixture_weights(tree: Tree, model: Model) -> tuple[np.ndarray, float]:
    """Log weights (2m-1,) of the nodes and the log weight of a new cluster; together they sum to one."""
    sizes = tree.size.astype(np.float64)
    if isinstance(model.prior, GeneralizedGamma):
        log_weights, log_new = _weights_over_u(tree, model.prior, sizes)
    else:
        grow = model.prior.log_kappa(sizes + 1.0) - model.prior.log_kappa(sizes)
        log_weights, log_new = tree.log_omega + grow, float(model.prior.log_kappa(1.0))
    total = np.logaddexp(logsumexp(log_weights), log_new)
    return log_weights - total, float(log_new - total)


def _weights_over_u(tree: Tree, prior: GeneralizedGamma, sizes: np.ndarray) -> tuple[np.ndarray, float]:
    """The same for an NGGP, u integrated over its posterior given the tree on a grid in log u."""
    n = sizes[-1]
    log_marginal = tree.log_phi_h - prior.log_kappa(sizes)

    def tree_at(log_u: float) -> tuple[GeneralizedGamma, Tree, float]:
        at = GeneralizedGamma(prior.alpha, prior.sigma, float(np.exp(log_u)))
        tree_u = tree.with_potentials(log_marginal + at.log_kappa(sizes))
        # p(X, u) du = p(X, u) u d(log u); the additional u is the Jacobian.
        return at, tree_u, tree_u.log_phi_t[-1] + at.log_normaliser(n) + log_u

    for centre in (np.log(n), np.log(prior.u)):  # an alpha learned from a few odd rows may be huge, and u then tiny
        coarse = np.linspace(-20.0, 20.0, 161) + centre
        log_density = np.array([tree_at(x)[2] for x in coarse])
        top = int(np.argmax(np.where(np.isnan(log_density), -np.inf, log_density)))
        if np.isfinite(log_density[top]) and 0 < top < coarse.shape[0] - 1:
            break
    likely = coarse[log_density > log_density.max() - 40.0]
    step = coarse[1] - coarse[0]
    grid = np.linspace(likely[0] - step, likely[-1] + step, _QUADRATURE_NODES)
    parts = [tree_at(x) for x in grid]
    log_mass = np.array([part[2] for part in parts])
    log_mass -= logsumexp(log_mass)
    log_weights = np.full(sizes.shape, -np.inf)
    log_new = -np.inf
    for log_u, log_p, (at, tree_u, _) in zip(grid, log_mass, parts, strict=True):
        log_front = log_p + log_u - np.log(n)
        grow = at.log_kappa(sizes + 1.0) - at.log_kappa(sizes)
        log_weights = np.logaddexp(log_weights, log_front + tree_u.log_omega + grow)
        log_new = np.logaddexp(log_new, log_front + at.log_kappa(1.0))
    return log_weights, float(log_new)


def heaviest_nodes(log_weights: np.ndarray) -> np.ndarray:
    """The nodes that carry all but a negligible part of the mixture, in increasing order."""
    order = np.argsort(log_weights)
    light = np.cumsum(np.exp(log_weights[order])) < _NEGLIGIBLE
    return np.sort(order[~light])


def by_blocks(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """function(X), an entry or a row for each row of X, computed for some rows at a time."""
    starts = range(0, max(X.shape[0], 1), ROWS_PER_BLOCK)
    return np.concatenate([function(X[start : start + ROWS_PER_BLOCK]) for start in starts])


def log_mixture_density(
    family: Family,
    X: Any,
    statistics: np.ndarray,
    log_weights: np.ndarray,
    log_new: float,
    best: np.ndarray | None = None,
) -> np.ndarray:
    """Log density (n,) of rows X under weighted clusters (k, s) and a new one with weight exp(log_new).

    `best` (n,) int64 is filled with the most probable cluster, the new one left out; see `log_mixture_of`.
    """
    everything = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    return log_mixture_of(family, X, everything, np.append(log_weights, log_new), best=best)


def log_membership(family: Family, X: Any, statistics: np.ndarray, log_sizes: np.ndarray) -> np.ndarray:
    """Log probability (n, k) that each row belongs to each of the clusters (k, s), given that it is in one of them."""

    def normalised(block: Any) -> np.ndarray:
        log_joint = family.log_predictive_of(block, statistics) + log_sizes
        return log_joint - logsumexp(log_joint, axis=1, keepdims=True)

    return by_blocks(normalised, X)


def log_cluster_weights(model: Model, sizes: np.ndarray) -> np.ndarray:
    """Log prior weight (k,) with which a new row joins a cluster of given size."""
    prior = model.prior
    if isinstance(prior, DirichletProcess):
        return np.log(sizes)
    return prior.log_kappa(sizes + 1.0) - prior.log_kappa(sizes)
