"""Exact belief propagation on a diffusion tree with all D dimensions in one contiguous sweep.

Everything is in units of the diffusion variance: a branch of length delta adds variance delta, a leaf is observed with
variance `noise / sigma2`. Messages are Gaussian, `mean` (nodes, d) and `var` (nodes, q) with q = 1 when all dimensions
share one variance (complete Gaussian data) and q = d otherwise (missing entries, probit sites). A missing entry is a
message of infinite variance.

With K the leaf covariance in these units, the sweep returns
`log_det` = sum over dimensions of log|K| and `quad` = sum over dimensions of y' K^-1 y, so that
`log p(y | tree) = -1/2 [ n_observed log(2 pi sigma2) + log_det + quad / sigma2 ]`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.tree import Columns, children_first


class Leaves(NamedTuple):
    """Gaussian messages of the observed leaves: mean (n, d), var (n, q), and the number of observed entries."""

    mean: np.ndarray
    var: np.ndarray
    n_observed: int


class Messages(NamedTuple):
    """Messages of a tree: `up_*[i]` at node i from its subtree, `down_*[i]` at the parent of i from everything else.

    `log_det` and `quad` (2n-1,) are what each internal node adds when its two children meet (and the root meets the
    origin).
    """

    up_mean: np.ndarray
    up_var: np.ndarray
    down_mean: np.ndarray
    down_var: np.ndarray
    log_det: float
    quad: float


def leaves_from_data(y: np.ndarray, noise: float | np.ndarray = 0.0) -> Leaves:
    """Leaf messages of data (n, d), NaN = missing, with observation variance `noise` in units of sigma2.

    `noise` may be a vector with one entry per row (an atom of many rows is seen more sharply).

    >>> leaves_from_data(np.array([[0.0, 1.0], [2.0, np.nan]])).var.shape
    (2, 2)
    """
    y = np.ascontiguousarray(y, dtype=np.float64)
    noise_column = np.broadcast_to(np.asarray(noise, dtype=np.float64), (y.shape[0],))[:, None]
    missing = np.isnan(y)
    if missing.any():
        return Leaves(np.where(missing, 0.0, y), np.where(missing, np.inf, noise_column), int((~missing).sum()))
    return Leaves(y, np.ascontiguousarray(noise_column), y.size)


@kernel
def meet(
    mean_a: np.ndarray,
    var_a: np.ndarray,
    length_a: float,
    mean_b: np.ndarray,
    var_b: np.ndarray,
    length_b: float,
    out_mean: np.ndarray,
    out_var: np.ndarray,
) -> tuple[float, float]:
    """Multiply two messages after they have diffused along branches; returns what they add to log_det and quad."""
    d = mean_a.shape[0]
    q = var_a.shape[0]
    g = d // q
    log_det = 0.0
    quad = 0.0
    for j in range(q):
        va = var_a[j] + length_a
        vb = var_b[j] + length_b
        if va == np.inf or vb == np.inf:
            out_var[j] = min(va, vb)
            for k in range(j * g, (j + 1) * g):
                out_mean[k] = mean_b[k] if va == np.inf else mean_a[k]
            continue
        s = va + vb
        share = va / s
        total = 0.0
        for k in range(j * g, (j + 1) * g):
            gap = mean_b[k] - mean_a[k]
            total += gap * gap
            out_mean[k] = mean_a[k] + share * gap
        out_var[j] = vb * share
        log_det += g * np.log(s)
        quad += total / s
    return log_det, quad


@kernel
def against_origin(mean: np.ndarray, var: np.ndarray, length: float) -> tuple[float, float]:
    """What the root's message adds to log_det and quad when it meets the origin (location 0 at time 0)."""
    q = var.shape[0]
    g = mean.shape[0] // q
    log_det = 0.0
    quad = 0.0
    for j in range(q):
        s = var[j] + length
        if s == np.inf:
            continue
        total = 0.0
        for k in range(j * g, (j + 1) * g):
            total += mean[k] * mean[k]
        log_det += g * np.log(s)
        quad += total / s
    return log_det, quad


@kernel
def sweep_up(
    order: np.ndarray, child: np.ndarray, rest: np.ndarray, root: int, mean: np.ndarray, var: np.ndarray
) -> tuple[float, float]:
    """Messages of all internal nodes from their subtrees (leaf rows are given); returns log_det and quad."""
    log_det, quad = 0.0, 0.0
    for i in order:
        l = child[i, 0]
        r = child[i, 1]
        add_det, add_quad = meet(
            mean[l], var[l], rest[i] - rest[l], mean[r], var[r], rest[i] - rest[r], mean[i], var[i]
        )
        log_det += add_det
        quad += add_quad
    add_det, add_quad = against_origin(mean[root], var[root], 1.0 - rest[root])
    return log_det + add_det, quad + add_quad


@kernel
def sweep_down(
    order: np.ndarray,
    parent: np.ndarray,
    child: np.ndarray,
    rest: np.ndarray,
    root: int,
    mean: np.ndarray,
    var: np.ndarray,
    down_mean: np.ndarray,
    down_var: np.ndarray,
) -> None:
    """Cavity messages at the parent end of every branch; needs the upward messages."""
    down_mean[root] = 0.0
    down_var[root] = 0.0
    for k in range(order.shape[0] - 1, -1, -1):
        i = order[k]
        rest_above = rest[parent[i]] if parent[i] >= 0 else 1.0
        for side in range(2):
            to = child[i, side]
            other = child[i, 1 - side]
            meet(
                down_mean[i],
                down_var[i],
                rest_above - rest[i],
                mean[other],
                var[other],
                rest[i] - rest[other],
                down_mean[to],
                down_var[to],
            )


@kernel
def branch_gradients(
    parent: np.ndarray,
    rest: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    down_mean: np.ndarray,
    down_var: np.ndarray,
    grad_det: np.ndarray,
    grad_quad: np.ndarray,
) -> None:
    """Derivatives of log_det and quad with respect to the length of the branch above each node."""
    d = mean.shape[1]
    q = var.shape[1]
    g = d // q
    for i in range(parent.shape[0]):
        length = (rest[parent[i]] if parent[i] >= 0 else 1.0) - rest[i]
        grad_det[i] = 0.0
        grad_quad[i] = 0.0
        for j in range(q):
            s = length + var[i, j] + down_var[i, j]
            if s == np.inf:
                continue
            total = 0.0
            for k in range(j * g, (j + 1) * g):
                gap = mean[i, k] - down_mean[i, k]
                total += gap * gap
            grad_det[i] += g / s
            grad_quad[i] -= total / (s * s)


def up_messages(tree: Columns, leaves: Leaves) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Upward messages of all nodes, log_det and quad."""
    n = tree.n_leaves
    mean = np.empty((2 * n - 1, leaves.mean.shape[1]))
    var = np.empty((2 * n - 1, leaves.var.shape[1]))
    mean[:n], var[:n] = leaves.mean, leaves.var
    root = tree.root
    log_det, quad = sweep_up(children_first(tree.child, root), tree.child, tree.rest, root, mean, var)
    return mean, var, log_det, quad


def all_messages(tree: Columns, leaves: Leaves) -> Messages:
    """One sweep up and one sweep down."""
    mean, var, log_det, quad = up_messages(tree, leaves)
    down_mean, down_var = np.empty_like(mean), np.empty_like(var)
    order = children_first(tree.child, tree.root)
    sweep_down(order, tree.parent, tree.child, tree.rest, tree.root, mean, var, down_mean, down_var)
    return Messages(mean, var, down_mean, down_var, log_det, quad)


def log_marginal(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> float:
    """log p(y | structure, times, sigma2) with all locations integrated out.

    >>> from dtree.diffusion.tree import from_nested
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> round(log_marginal(from_nested([0, 1], [0.4]), y), 9)
    -2.12674204
    """
    _, _, log_det, quad = up_messages(tree, leaves)
    return float(-0.5 * (leaves.n_observed * np.log(2 * np.pi * sigma2) + log_det + quad / sigma2))


def gradient_over_times(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> np.ndarray:
    """Gradient of `log_marginal` over the times t of the internal nodes n..2n-2, by one sweep up and down."""
    messages = all_messages(tree, leaves)
    grad_det, grad_quad = np.empty(tree.parent.shape[0]), np.empty(tree.parent.shape[0])
    branch_gradients(tree.parent, tree.rest, *messages[:4], grad_det, grad_quad)
    by_length = -0.5 * (grad_det + grad_quad / sigma2)
    n = tree.n_leaves
    return by_length[n:] - by_length[tree.child[n:, 0]] - by_length[tree.child[n:, 1]]


def posterior_locations(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (2n-1, d) and variance (2n-1, q) of the location of every node given times and sigma2."""
    m = all_messages(tree, leaves)
    above = np.where(tree.parent >= 0, tree.rest[tree.parent], 1.0)
    length = (above - tree.rest)[:, None]
    share, var = _product_share(m.up_var, m.down_var + length)
    g = m.up_mean.shape[1] // m.up_var.shape[1]
    return m.up_mean + np.repeat(share, g, axis=1) * (m.down_mean - m.up_mean), var * sigma2


def _product_share(var_a: np.ndarray, var_b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weight of b in the mean of the product of two Gaussians, and the product's variance (a may be infinite)."""
    finite = np.isfinite(var_a)
    safe = np.where(finite, var_a, 0.0)
    share = np.where(finite, safe / (safe + var_b), 1.0)
    return share, share * var_b


def expected_squares(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> np.ndarray:
    """E |x_i - x_parent(i)|^2 over all d dimensions, for the branch above each node (2n-1,)."""
    m = all_messages(tree, leaves)
    above = np.where(tree.parent >= 0, tree.rest[tree.parent], 1.0)
    length = (above - tree.rest)[:, None]
    d, q = m.up_mean.shape[1], m.up_var.shape[1]
    others = m.up_var + m.down_var
    finite = np.isfinite(others)
    shrink = np.where(finite, length / (length + np.where(finite, others, 0.0)), 0.0)
    gap = np.repeat(shrink, d // q, axis=1) * (m.up_mean - m.down_mean)
    remaining = sigma2 * length * (1.0 - shrink)
    return (gap**2).sum(axis=1) + (d // q) * remaining.sum(axis=1)
