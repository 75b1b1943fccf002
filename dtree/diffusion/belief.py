"""Exact belief propagation on a diffusion tree with all D dimensions in one contiguous sweep.

Everything is in units of the diffusion variance: a branch of length delta adds variance delta, a leaf is observed with
variance `noise / sigma2`. Messages are Gaussian, `mean` (nodes, d) and `var` (nodes, q) with q = 1 when all dimensions
share one variance (complete Gaussian data) and q = d otherwise (missing entries, probit sites). A missing entry is a
message of infinite variance.

With K the leaf covariance in these units, the sweep returns
`log_det` = sum over dimensions of log|K| and `quad` = sum over dimensions of y' K^-1 y, so that
`log p(y | tree) = -1/2 [ n_observed log(2 pi sigma2) + log_det + quad / sigma2 ]`.
"""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.tree import Columns, children_first, rest_above


class Leaves(NamedTuple):
    """Gaussian messages of the observed leaves: mean (n, d), var (n, q), and the number of observed entries."""

    mean: np.ndarray
    var: np.ndarray
    n_observed: int


class Beliefs(NamedTuple):
    """A tree and its messages, in the form that kernels take; a `Pool` has these fields too and may stand in for it.

    parent, child, rest: the columns of the tree; mean (2n-1, d), var (2n-1, q): message at each node from its subtree;
    down_mean, down_var: the cavity message at the parent of each node from everything else.
    """

    parent: np.ndarray
    child: np.ndarray
    rest: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    down_mean: np.ndarray
    down_var: np.ndarray


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
def message_up(tree: Beliefs, i: int) -> tuple[float, float]:
    """Message of an internal node from those of its children; returns what their meeting adds to log_det and quad."""
    l, r = tree.child[i, 0], tree.child[i, 1]
    to_l, to_r = tree.rest[i] - tree.rest[l], tree.rest[i] - tree.rest[r]
    return meet(tree.mean[l], tree.var[l], to_l, tree.mean[r], tree.var[r], to_r, tree.mean[i], tree.var[i])


@kernel
def cavity_into(tree: Beliefs, node: int) -> None:
    """Cavity message at the top of the branch to `node` from that of its parent and its sibling's message."""
    p = tree.parent[node]
    if p < 0:
        tree.down_mean[node] = 0.0
        tree.down_var[node] = 0.0
        return
    sibling = tree.child[p, 0] + tree.child[p, 1] - node
    length, beside = rest_above(tree.parent, tree.rest, p) - tree.rest[p], tree.rest[p] - tree.rest[sibling]
    to_mean, to_var = tree.down_mean[node], tree.down_var[node]
    meet(tree.down_mean[p], tree.down_var[p], length, tree.mean[sibling], tree.var[sibling], beside, to_mean, to_var)


@kernel
def sweep_up(tree: Beliefs, order: np.ndarray) -> tuple[float, float]:
    """Messages of all internal nodes from their subtrees (leaf rows are given); returns log_det and quad.

    `order` lists the internal nodes children first, so that the root comes last.
    """
    # arrays are taken out of the record before a loop: in it, every access would count references
    child, rest, mean, var = tree.child, tree.rest, tree.mean, tree.var
    log_det, quad = 0.0, 0.0
    for i in order:
        l, r = child[i, 0], child[i, 1]
        to_l, to_r = rest[i] - rest[l], rest[i] - rest[r]
        add_det, add_quad = meet(mean[l], var[l], to_l, mean[r], var[r], to_r, mean[i], var[i])
        log_det += add_det
        quad += add_quad
    root = order[-1]
    add_det, add_quad = against_origin(mean[root], var[root], 1.0 - rest[root])
    return log_det + add_det, quad + add_quad


@kernel
def sweep_down(tree: Beliefs, order: np.ndarray) -> None:
    """Cavity messages at the parent end of every branch; needs the upward messages."""
    parent, child, rest, mean, var, down_mean, down_var = tree
    down_mean[order[-1]] = 0.0
    down_var[order[-1]] = 0.0
    for i in order[::-1]:
        length = (rest[parent[i]] if parent[i] >= 0 else 1.0) - rest[i]
        for side in range(2):
            to, other = child[i, side], child[i, 1 - side]
            beside = rest[i] - rest[other]
            meet(down_mean[i], down_var[i], length, mean[other], var[other], beside, down_mean[to], down_var[to])


@kernel
def branch_gradients(tree: Beliefs, grad_det: np.ndarray, grad_quad: np.ndarray) -> None:
    """Derivatives of log_det and quad with respect to the length of the branch above each node."""
    parent, _, rest, mean, var, down_mean, down_var = tree
    q = var.shape[1]
    g = mean.shape[1] // q
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


def beliefs_of(tree: Columns, leaves: Leaves) -> Beliefs:
    """The tree with the messages of its leaves and room for all others."""
    n = tree.n_leaves
    mean, var = np.empty((2 * n - 1, leaves.mean.shape[1])), np.empty((2 * n - 1, leaves.var.shape[1]))
    mean[:n], var[:n] = leaves.mean, leaves.var
    return Beliefs(*tree, mean, var, np.empty_like(mean), np.empty_like(var))


def data_sums(tree: Columns, leaves: Leaves) -> tuple[float, float]:
    """log_det and quad of a tree, by one sweep up."""
    return sweep_up(beliefs_of(tree, leaves), children_first(tree.child, tree.root))


def all_messages(tree: Columns, leaves: Leaves) -> Beliefs:
    """One sweep up and one sweep down."""
    beliefs = beliefs_of(tree, leaves)
    order = children_first(tree.child, tree.root)
    sweep_up(beliefs, order)
    sweep_down(beliefs, order)
    return beliefs


def log_marginal(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> float:
    """log p(y | structure, times, sigma2) with all locations integrated out.

    >>> from dtree.diffusion.tree import from_nested
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> round(log_marginal(from_nested([0, 1], [0.4]), y), 9)
    -2.12674204
    """
    log_det, quad = data_sums(tree, leaves)
    return float(-0.5 * (leaves.n_observed * np.log(2 * np.pi * sigma2) + log_det + quad / sigma2))


def posterior_locations(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean (2n-1, d) and variance (2n-1, q) of the location of every node given times and sigma2."""
    m = all_messages(tree, leaves)
    above = m.down_var + (tree.above - tree.rest)[:, None]
    finite = np.isfinite(m.var)
    below = np.where(finite, m.var, 0.0)
    share = np.where(finite, below / (below + above), 1.0)  # of what comes from above in the product of both
    g = m.mean.shape[1] // m.var.shape[1]
    return m.mean + np.repeat(share, g, axis=1) * (m.down_mean - m.mean), share * above * sigma2


def expected_squares(tree: Columns, leaves: Leaves, sigma2: float = 1.0) -> np.ndarray:
    """E |x_i - x_parent(i)|^2 over all d dimensions, for the branch above each node (2n-1,)."""
    m = all_messages(tree, leaves)
    length = (tree.above - tree.rest)[:, None]
    d, q = m.mean.shape[1], m.var.shape[1]
    others = m.var + m.down_var
    finite = np.isfinite(others)
    shrink = np.where(finite, length / (length + np.where(finite, others, 0.0)), 0.0)
    gap = np.repeat(shrink, d // q, axis=1) * (m.mean - m.down_mean)
    remaining = sigma2 * length * (1.0 - shrink)
    return (gap**2).sum(axis=1) + (d // q) * remaining.sum(axis=1)
