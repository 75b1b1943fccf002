"""Evidence of one tree structure by Laplace's method in logit w, with an optional importance correction.

The second derivatives are exact. With h_a a shift of the increment on branch a, `G_ab = -d2 log p / dh_a dh_b` (per
dimension, unit sigma2) factorises along the path between two branches, so the whole Hessian over the branch lengths,
`1/2 D G_ab^2 - G_ab z_a . z_b / sigma2`, follows from the messages of one sweep up and down. Up to `DENSE_LIMIT`
leaves the matrix is built in full; beyond that only the entries between a node and its parent are kept, which can be
eliminated from the leaves upwards in linear time (the discarded entries fall off with distance in the tree).
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc

from dtree.core.jit import kernel
from dtree.diffusion.belief import Beliefs, Leaves
from dtree.diffusion.objective import (
    C_SUM,
    LOGIT_LIMIT,
    QUAD,
    Hyper,
    Workspace,
    climb,
    effective_c,
    effective_precision,
)
from dtree.diffusion.tree import Columns, rest_above

DENSE_LIMIT = 300  # leaves: a full matrix beyond costs more than all other work on a tree


class Evidence(NamedTuple):
    """Approximate log p(y, structure) of one tree, with times and hyperparameters integrated.

    `log_evidence` includes the prior of the structure. `converged` is False when the optimiser stopped early or the
    curvature was not positive; `message` then says which.
    """

    log_evidence: float
    tree: Columns
    log_density: float
    converged: bool
    message: str
    iterations: int


def maximise(work: Workspace, *, max_iter: int = 500, tol: float = 1e-6) -> tuple[float, bool, str, int]:
    """Maximise the joint density over s from the workspace's current times; leaves messages at the maximum."""

    def negative(s: np.ndarray) -> tuple[float, np.ndarray]:
        value = work.density(s)
        return -value, -work.grad

    start = work.logit()
    bounds = [(-LOGIT_LIMIT, LOGIT_LIMIT)] * start.shape[0]
    best, iterations = climb(negative, start, bounds, maxiter=max_iter, m=20, pgtol=tol, ftol=1e-14)
    value = work.density(best)
    slope = float(np.abs(work.grad).max())
    if slope < 1e-3 * max(1.0, abs(value) * 1e-3):
        return value, True, "converged", iterations
    problem = f"the times did not converge in {iterations} iterations (gradient {slope:.1e})"
    return value, False, problem, iterations


@kernel
def branch_couplings(tree: Beliefs, block: int, out: np.ndarray) -> None:
    """G (2n-1, 2n-1) for one block of dimensions that share a variance."""
    parent, child, rest = tree.parent, tree.child, tree.rest
    var, down_var = tree.var[:, block], tree.down_var[:, block]
    n_nodes = parent.shape[0]
    into_child = np.empty(n_nodes)  # from the branch above a node's parent into the node's branch
    into_parent = np.empty(n_nodes)
    into_sibling = np.empty(n_nodes)
    for i in range(n_nodes):
        total = rest_above(parent, rest, i) - rest[i] + var[i] + down_var[i]
        out[i, i] = 0.0 if total == np.inf else 1.0 / total
        if child[i, 0] < 0:
            continue
        above = 1.0 / (down_var[i] + (rest_above(parent, rest, i) - rest[i])) if down_var[i] < np.inf else 0.0
        for side in range(2):
            k = child[i, side]
            other = child[i, 1 - side]
            mine = 1.0 / (var[k] + rest[i] - rest[k]) if var[k] < np.inf else 0.0
            its = 1.0 / (var[other] + rest[i] - rest[other]) if var[other] < np.inf else 0.0
            into_child[k] = mine / (mine + its) if mine + its > 0.0 else 0.0
            into_parent[k] = above / (above + its)
            into_sibling[k] = -its / (above + its)
    stack = np.empty(n_nodes, np.int64)
    for a in range(n_nodes):
        node = a
        stack[0], depth = a, 1
        while True:
            while depth > 0:
                depth -= 1
                i = stack[depth]
                if child[i, 0] >= 0:
                    for side in range(2):
                        k = child[i, side]
                        out[a, k] = out[a, i] * into_child[k]
                        stack[depth] = k
                        depth += 1
            above_node = parent[node]
            if above_node < 0:
                break
            sibling = child[above_node, 0] + child[above_node, 1] - node
            out[a, above_node] = out[a, node] * into_parent[node]
            out[a, sibling] = out[a, node] * into_sibling[node]
            stack[0], depth = sibling, 1
            node = above_node


def _branch_vectors(work: Workspace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """z (2n-1, d) = gap / s of each branch, the branch lengths, and d quad / d length."""
    at = work.beliefs
    length = work.tree.above - work.tree.rest
    s = length[:, None] + at.var + at.down_var
    z = (at.mean - at.down_mean) / np.repeat(s, at.mean.shape[1] // at.var.shape[1], axis=1)
    return z, length, -(z**2).sum(axis=1)


def _to_rest(by_length: np.ndarray, child: np.ndarray, n: int) -> np.ndarray:
    """Turn a derivative over branch lengths (2n-1, ...) into one over the rests of internal nodes (n-1, ...)."""
    return by_length[child[n:, 0]] + by_length[child[n:, 1]] - by_length[n:]


def _rank_one_terms(work: Workspace, grad_quad: np.ndarray) -> np.ndarray:
    """Columns u with -Hessian containing -u u', from integrating sigma2 and c exactly."""
    n, rest = work.n, work.tree.rest
    columns = []
    _, quad, c_sum, _, n_observed, _ = work.sums()
    hyper = work.frame.hyper
    if hyper[0] > 0:
        shape, rate = hyper[1] + 0.5 * n_observed, hyper[2] + 0.5 * quad
        columns.append(math.sqrt(shape) / (2 * rate) * _to_rest(grad_quad, work.tree.child, n))
    if hyper[3] > 0:
        columns.append(math.sqrt(hyper[4] + n - 1) / (hyper[5] - c_sum) * work.jumps() / rest[n:])
    return np.array(columns).reshape(len(columns), n - 1)


def _precision(work: Workspace) -> float:
    """1/sigma2, or its mean given the times."""
    return effective_precision(work.sums()[QUAD], work.frame.n_observed, work.frame.hyper)


def _diagonal_curvature(work: Workspace) -> np.ndarray:
    """Second derivative of the terms of the prior that depend on one rest only."""
    n, rest, child = work.n, work.tree.rest, work.tree.child
    c = effective_c(work.sums()[C_SUM], float(n), work.frame.hyper)
    slope = c * work.jumps() - (child[n:] >= n).sum(axis=1)
    return -slope / rest[n:] ** 2


def negative_hessian(work: Workspace) -> np.ndarray:
    """Minus the Hessian (n-1, n-1) of the joint density (in s) over the rests of the internal nodes, at any times."""
    n, child = work.n, work.tree.child
    z, length, grad_quad = _branch_vectors(work)
    precision = _precision(work)
    q = work.beliefs.var.shape[1]
    g = z.shape[1] // q
    edges = np.zeros((2 * n - 1, 2 * n - 1))
    coupling = np.empty_like(edges)
    for j in range(q):
        branch_couplings(work.beliefs, j, coupling)
        block = z[:, j * g : (j + 1) * g]
        edges += coupling * (0.5 * g * coupling - precision * (block @ block.T))
    internal = np.arange(n, 2 * n - 1)
    edges[internal, internal] -= 1.0 / length[internal] ** 2
    hessian = _to_rest(np.ascontiguousarray(_to_rest(edges, child, n).T), child, n)
    hessian[np.diag_indices(n - 1)] += _diagonal_curvature(work)
    u = _rank_one_terms(work, grad_quad)
    return -hessian - u.T @ u


@kernel
def neighbour_hessian(tree: Beliefs, z: np.ndarray, precision: float, diagonal: np.ndarray, off: np.ndarray) -> None:
    """Data part of the Hessian over rests: its diagonal and the entry between each internal node and its parent."""
    parent, child, rest, _, var, _, down_var = tree
    n = (parent.shape[0] + 1) // 2
    q = var.shape[1]
    g = z.shape[1] // q
    edge = np.empty(5, np.int64)
    coupling = np.empty((3, 5))
    for i in range(n, parent.shape[0]):
        p = parent[i]
        above = rest_above(parent, rest, i)
        edge[0], edge[1], edge[2] = i, child[i, 0], child[i, 1]
        n_edges = 3
        if p >= 0:
            edge[3] = p
            edge[4] = child[p, 0] + child[p, 1] - i
            n_edges = 5
        total_diagonal, total_off = 0.0, 0.0
        for j in range(q):
            v0 = down_var[i, j] + above - rest[i]
            v1 = var[edge[1], j] + rest[i] - rest[edge[1]]
            v2 = var[edge[2], j] + rest[i] - rest[edge[2]]
            p0 = 1.0 / v0 if v0 < np.inf else 0.0
            p1 = 1.0 / v1 if v1 < np.inf else 0.0
            p2 = 1.0 / v2 if v2 < np.inf else 0.0
            total = p0 + p1 + p2
            if p1 + p2 == 0.0:
                continue
            coupling[0, 0] = p0 * (p1 + p2) / total
            coupling[1, 1] = p1 * (p0 + p2) / total
            coupling[2, 2] = p2 * (p0 + p1) / total
            coupling[0, 1] = p0 * p1 / total
            coupling[0, 2] = p0 * p2 / total
            coupling[1, 2] = -p1 * p2 / total
            coupling[1, 0], coupling[2, 0], coupling[2, 1] = coupling[0, 1], coupling[0, 2], coupling[1, 2]
            if p >= 0:
                above_p = rest_above(parent, rest, p)
                s0 = 1.0 / (down_var[p, j] + above_p - rest[p]) if down_var[p, j] < np.inf else 0.0
                s1 = 1.0 / (var[i, j] + rest[p] - rest[i])
                s2 = 1.0 / (var[edge[4], j] + rest[p] - rest[edge[4]]) if var[edge[4], j] < np.inf else 0.0
                coupling[0, 3] = s0 * s1 / (s0 + s1 + s2)
                coupling[0, 4] = -s1 * s2 / (s0 + s1 + s2)
                for a in range(1, 3):
                    for b in range(3, 5):
                        coupling[a, b] = coupling[a, 0] * coupling[0, b] / coupling[0, 0]
            for a in range(3):
                sign_a = -1.0 if a == 0 else 1.0
                for b in range(n_edges):
                    product = 0.0
                    for k in range(j * g, (j + 1) * g):
                        product += z[edge[a], k] * z[edge[b], k]
                    entry = coupling[a, b] * (0.5 * g * coupling[a, b] - precision * product)
                    if b < 3:
                        total_diagonal += sign_a * (-1.0 if b == 0 else 1.0) * entry
                    if b == 0 or b == 4:  # the parent's rest lengthens the branches to i and to its sibling
                        total_off += sign_a * entry
                    if b == 3:
                        total_off -= sign_a * entry
        diagonal[i - n] = total_diagonal
        off[i - n] = total_off if p >= 0 else 0.0


@kernel
def eliminate_tree(
    order: np.ndarray, parent: np.ndarray, diagonal: np.ndarray, off: np.ndarray, right: np.ndarray
) -> tuple[float, bool]:
    """Log determinant of a symmetric matrix M (n-1, n-1), and whether M is positive definite.

    M has entries on its `diagonal` and between a node and its parent (`off`) only, so nodes are eliminated from the
    leaves upwards. `right` (k, n-1) is changed too: afterwards `right @ right.T` is what `right M^-1 right'` was.
    """
    n = (parent.shape[0] + 1) // 2
    log_det = 0.0
    for i in order:
        pivot = diagonal[i - n]
        if not pivot > 0.0:
            return 0.0, False
        log_det += math.log(pivot)
        p = parent[i]
        for k in range(right.shape[0]):
            if p >= 0:
                right[k, p - n] -= off[i - n] / pivot * right[k, i - n]
            right[k, i - n] /= math.sqrt(pivot)
        if p >= 0:
            diagonal[p - n] -= off[i - n] ** 2 / pivot
    return log_det, True


def _log_det_sparse(work: Workspace, scale: np.ndarray) -> tuple[float, bool]:
    n, tree = work.n, work.tree
    z, length, grad_quad = _branch_vectors(work)
    diagonal, off = np.empty(n - 1), np.empty(n - 1)
    neighbour_hessian(work.beliefs, z, _precision(work), diagonal, off)
    gap = np.zeros(2 * n - 1)
    gap[n:] = 1.0 / length[n:] ** 2  # the log(1 - w) terms
    diagonal += _diagonal_curvature(work) - gap[n:] - gap[tree.child[n:, 0]] - gap[tree.child[n:, 1]]
    off += gap[n:]
    above = tree.parent[n:]
    off = np.where(above >= 0, -off * scale * scale[np.maximum(above - n, 0)], 0.0)
    right = np.ascontiguousarray(_rank_one_terms(work, grad_quad) * scale)
    log_det, positive = eliminate_tree(work.frame.order, tree.parent, -diagonal * scale**2, off, right)
    if not positive:
        return 0.0, False
    sign, correction = np.linalg.slogdet(np.eye(right.shape[0]) - right @ right.T)
    return log_det + correction, bool(sign > 0)


def laplace_at_maximum(work: Workspace, *, dense_limit: int = DENSE_LIMIT) -> tuple[float, bool]:
    """The Laplace term (n-1)/2 log 2pi - 1/2 log det(-Hessian in s) at a maximum, and whether the curvature is
    positive.

    At a maximum the Hessian in s is J' (Hessian over rests) J with J triangular, so only J's diagonal enters.
    """
    n, rest, above = work.n, work.tree.rest[work.n :], work.tree.above[work.n :]
    scale = rest * (above - rest) / above
    if n <= dense_limit:
        matrix = negative_hessian(work) * scale * scale[:, None]
        try:
            log_det, positive = 2.0 * float(np.log(np.diag(np.linalg.cholesky(matrix))).sum()), True
        except np.linalg.LinAlgError:
            values = np.linalg.eigvalsh(matrix)
            log_det, positive = float(np.log(np.maximum(values, 1e-3)).sum()), False
    else:
        log_det, positive = _log_det_sparse(work, scale)
    return 0.5 * (n - 1) * math.log(2 * math.pi) - 0.5 * log_det, positive


def log_evidence_laplace(
    tree: Columns, leaves: Leaves, hyper: Hyper, *, max_iter: int = 500, dense_limit: int = DENSE_LIMIT
) -> Evidence:
    """log p(y, structure) by Laplace in logit w, starting from the tree's times.

    >>> from dtree.diffusion.tree import from_nested
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> fit = log_evidence_laplace(from_nested([0, 1], [0.4]), y, Hyper(sigma2=1.0, c=1.0))
    >>> round(fit.log_evidence, 4), fit.converged
    (-2.0405, True)
    """
    work = Workspace(tree, leaves, hyper)
    value, converged, message, iterations = maximise(work, max_iter=max_iter)
    term, positive = laplace_at_maximum(work, dense_limit=dense_limit)
    if not positive:
        converged, message = False, message + "; the curvature at the maximum is not positive"
    return Evidence(value + term, work.tree, value, converged, message, iterations)


def times_around(
    tree: Columns, leaves: Leaves, hyper: Hyper, rng: np.random.Generator, *, dof: float, draws: int
) -> tuple[Workspace, np.ndarray, np.ndarray]:
    """Draws (k, n-1) in s around the times of a maximum, and the log density (k,) they are drawn from.

    A multivariate Student t with the curvature there, from a scrambled Sobol sequence: k is a power of 2.
    """
    work = Workspace(tree, leaves, hyper)
    s = work.logit()
    work.density(s)
    n, rest, parent = work.n, work.tree.rest, work.tree.parent
    below = np.zeros((n - 1, n - 1))  # d rest_k / d s_i for k in the subtree of i
    fraction = 1.0 / (1.0 + np.exp(s))
    for k in range(n, 2 * n - 1):
        i = k
        while i >= 0:
            below[k - n, i - n] = rest[k] * fraction[i - n]
            i = parent[i]
    matrix = below.T @ negative_hessian(work) @ below
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    values = np.maximum(values, 1e-3)
    uniform = np.clip(qmc.Sobol(n, rng=rng).random_base2(max(1, (draws - 1).bit_length())), 1e-12, 1 - 1e-12)
    normal = ndtri(uniform[:, 1:])
    chi = gammaincinv(0.5 * dof, uniform[:, 0]) * 2.0 / dof
    spread = normal / np.sqrt(chi)[:, None]
    points = s + (spread / np.sqrt(values)) @ vectors.T
    m = n - 1
    constant = math.lgamma(0.5 * (dof + m)) - math.lgamma(0.5 * dof) - 0.5 * m * math.log(dof * math.pi)
    constant += 0.5 * np.log(values).sum()
    return work, points, constant - 0.5 * (dof + m) * np.log1p((spread**2).sum(axis=1) / dof)


def importance_correction(
    fit: Evidence, leaves: Leaves, hyper: Hyper, rng: np.random.Generator, *, draws: int = 256
) -> tuple[float, float]:
    """Importance-sampled log p(y, structure) around a Laplace fit, and the effective number of draws.

    The density in s has exponential tails, and polynomial ones of degree shape + n - 1 once c is integrated, which a
    Gaussian would miss: hence the few degrees of freedom.
    """
    dof = 4.0 if hyper.c is not None else min(4.0, hyper.c_prior[0])
    work, points, log_q = times_around(fit.tree, leaves, hyper, rng, dof=dof, draws=draws)
    log_weight = work.densities(points) - log_q
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    return float(top + math.log(weight.mean())), float(weight.sum() ** 2 / (weight**2).sum())
