"""Slow, obvious twins for diffusion trees: dense covariances, nested quadrature, enumeration of structures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.polynomial.legendre import leggauss

from dtree.diffusion.prior import harmonic
from dtree.diffusion.tree import Columns


def leaf_covariance(tree: Columns, sigma2: float, noise: float) -> np.ndarray:
    """Dense covariance (n, n) of the leaves: sigma2 times the time of the common ancestor."""
    n = tree.n_leaves
    ancestors = []
    for leaf in range(n):
        path = [leaf]
        while tree.parent[path[-1]] >= 0:
            path.append(int(tree.parent[path[-1]]))
        ancestors.append(path)
    cov = np.zeros((n, n))
    for i, j in product(range(n), range(n)):
        common = next(a for a in ancestors[i] if a in ancestors[j])
        cov[i, j] = sigma2 * (1.0 - tree.rest[common])
    return cov + noise * np.eye(n)


def log_marginal(tree: Columns, y: np.ndarray, sigma2: float, noise: float) -> float:
    """Sum over columns of log N(y_observed; 0, K_observed)."""
    cov = leaf_covariance(tree, sigma2, noise)
    total = 0.0
    for column in y.T:
        seen = ~np.isnan(column)
        k = cov[np.ix_(seen, seen)]
        total -= 0.5 * (np.linalg.slogdet(2 * np.pi * k)[1] + column[seen] @ np.linalg.solve(k, column[seen]))
    return float(total)


def structures(leaves: tuple[int, ...]) -> Iterator[Any]:
    """All binary tree structures over the given leaves as nested lists."""
    if len(leaves) == 1:
        yield leaves[0]
        return
    first, others = leaves[0], leaves[1:]
    for mask in range(2 ** len(others) - 1):
        left = (first, *(x for k, x in enumerate(others) if mask >> k & 1))
        right = tuple(x for k, x in enumerate(others) if not mask >> k & 1)
        for a in structures(left):
            for b in structures(right):
                yield [a, b]


def log_evidence_given_structure(
    tree: Columns, y: np.ndarray, sigma2: float, c: float, noise: float, nodes: int = 40
) -> float:
    """log of the integral of p(y | T, t) p(t | T) by Gauss-Legendre over the quantiles of each w (few leaves only)."""
    n = tree.n_leaves
    count = np.ones(2 * n - 1)
    for i in range(n, 2 * n - 1):
        count[i] = count[tree.child[i]].sum()
    x, weight = leggauss(nodes)
    # u in (0, 1) with a cubic map that is flat at both ends, where the integrand may be steep
    half = 0.5 * (x + 1.0)
    u = half**3 * (10 - 15 * half + 6 * half**2)
    jacobian = 30 * half**2 * (1 - half) ** 2 * 0.5 * weight
    grids = [u ** (1.0 / (c * float(harmonic(int(count[i]) - 1)))) for i in range(n, 2 * n - 1)]
    mesh = np.meshgrid(*grids, indexing="ij")
    log_weight = np.log(np.meshgrid(*[jacobian] * (n - 1), indexing="ij")).sum(axis=0)
    w = np.stack([m.ravel() for m in mesh], axis=1)
    rest = np.zeros((w.shape[0], 2 * n - 1))
    for i in range(2 * n - 2, n - 1, -1):
        rest[:, i] = w[:, i - n] * (rest[:, tree.parent[i]] if tree.parent[i] >= 0 else 1.0)
    # covariances that are singular to working precision carry no weight worth computing
    keep = np.min(rest[:, n:], axis=1) > 1e-13
    rest, log_weight = rest[keep], log_weight.ravel()[keep]
    cov = np.empty((rest.shape[0], n, n))
    for i, j in product(range(n), range(n)):
        a, path = i, []
        while a >= 0:
            path.append(a)
            a = int(tree.parent[a])
        b = j
        while b not in path:
            b = int(tree.parent[b])
        cov[:, i, j] = sigma2 * (1.0 - rest[:, b])
    cov += noise * np.eye(n)
    log_det = np.linalg.slogdet(cov)[1]
    quad = (y * np.linalg.solve(cov, np.broadcast_to(y, (rest.shape[0], *y.shape)))).sum(axis=(1, 2))
    log_p = -0.5 * (y.size * np.log(2 * np.pi) + y.shape[1] * log_det + quad) + log_weight
    top = log_p.max()
    return float(top + np.log(np.exp(log_p - top).sum()))
