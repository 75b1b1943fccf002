"""The paper's message passing within EM: expectations of locations and hyperparameters, divergence times maximised.

The E-step is exact belief propagation plus the mean-field q(1/sigma2) q(c); both have closed forms given the times.
The M-step maximises Eq. 4 over the times. Two things differ from the printed text: b in the message to 1/sigma2
already carries its 1/2 (the printed extra 2 loses many nats), and times are optimised in logit w, which keeps them
ordered (the paper leaves that to the 1/(t_i - t_p) terms). The result maximises a density over t and is therefore too
high as an evidence, the more so the fewer dimensions there are; use it to reproduce the paper, and Laplace
(`laplace.py`) otherwise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, gammaln

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, expected_squares, log_marginal, up_messages
from dtree.diffusion.laplace import Evidence
from dtree.diffusion.objective import Hyper, Workspace, rest_from_logit
from dtree.diffusion.prior import log_structure_prior
from dtree.diffusion.tree import Columns

EM_LOGIT_LIMIT = 9.0  # branches shorter than e^-9 of their room count as shrunk to nothing


class MeanField(NamedTuple):
    """q(1/sigma2) and q(c) as (shape, rate), None when fixed, and the bound on log p(y, t | T) at the given times."""

    precision: tuple[float, float] | None
    c: tuple[float, float] | None
    bound: float


def mean_field_at_times(tree: Columns, leaves: Leaves, hyper: Hyper) -> MeanField:
    """Coordinate-ascent fixed point of q(x) q(1/sigma2) q(c) at the tree's times, in closed form.

    The mean of q(1/sigma2) equals the mean of the exact posterior given the times; its shape is larger (overconfident).
    """
    _, _, _, quad = up_messages(tree, leaves)
    n, d = leaves.mean.shape
    precision = None
    if hyper.sigma2 is None:
        a0, b0 = hyper.precision_prior
        wide = d // leaves.var.shape[1]
        n_latent = (n - 1) * d + wide * int(np.count_nonzero(leaves.var > 0))
        shape = a0 + 0.5 * (n_latent + leaves.n_observed)
        mean = (a0 + 0.5 * leaves.n_observed) / (b0 + 0.5 * quad)
        rate = shape / mean
        precision = (shape, rate)
        bound = log_marginal(tree, leaves, 1.0 / mean)
        bound += 0.5 * (n_latent + leaves.n_observed) * (digamma(shape) - math.log(rate) - math.log(mean))
        # minus the divergence of q(1/sigma2) from its prior
        bound += a0 * math.log(b0) - gammaln(a0) + (a0 - 1) * (digamma(shape) - math.log(rate)) - b0 * mean
        bound += shape - math.log(rate) + gammaln(shape) + (1 - shape) * digamma(shape)
    else:
        bound = log_marginal(tree, leaves, hyper.sigma2)
    work = Workspace(tree, leaves, hyper)
    slopes = _jumps(work)
    log_rest = np.log(tree.rest[n:])
    log_j = float((slopes * log_rest).sum())
    # p(t | T) = p(T, t) / p(T); the factorials telescope to 1 / (n-1)!
    bound += -log_rest.sum() - gammaln(n) - log_structure_prior(tree)
    c = None
    if hyper.c is None:
        a0, b0 = hyper.c_prior
        c = (a0 + n - 1, b0 - log_j)
        bound += a0 * math.log(b0) - gammaln(a0) + gammaln(c[0]) - c[0] * math.log(c[1])
    else:
        bound += (n - 1) * math.log(hyper.c) + hyper.c * log_j
    return MeanField(precision, c, float(bound))


def _jumps(work: Workspace) -> np.ndarray:
    """J of Eq. 1 for the internal nodes."""
    h = work.table[work.count - 1]
    child = work.tree.child[work.n :]
    return h[work.n :] - h[child[:, 0]] - h[child[:, 1]]


@kernel
def m_step_value(
    s: np.ndarray,
    order: np.ndarray,
    parent: np.ndarray,
    child: np.ndarray,
    jumps: np.ndarray,
    squares: np.ndarray,
    precision: float,
    c: float,
    half_d: float,
    rest: np.ndarray,
    grad: np.ndarray,
) -> float:
    """Eq. 4 summed over the tree (with its leaf segments), and its gradient over s = logit w."""
    n = (parent.shape[0] + 1) // 2
    rest_from_logit(s, order, parent, rest)
    by_length = np.empty(parent.shape[0])
    value = 0.0
    for i in range(parent.shape[0]):
        length = (rest[parent[i]] if parent[i] >= 0 else 1.0) - rest[i]
        length = max(length, 1e-300)
        pull = 0.5 * precision * squares[i]
        value -= half_d * math.log(length) + pull / length
        by_length[i] = -half_d / length + pull / (length * length)
    for i in order:
        value += (c * jumps[i - n] - 1.0) * math.log(rest[i])
        l = child[i, 0]
        r = child[i, 1]
        total = rest[i] * (by_length[l] + by_length[r] - by_length[i]) + c * jumps[i - n] - 1.0
        if l >= n:
            total += grad[l - n]
        if r >= n:
            total += grad[r - n]
        grad[i - n] = total
    for i in order:
        grad[i - n] /= 1.0 + math.exp(s[i - n])
    return value


def log_evidence_em(tree: Columns, leaves: Leaves, hyper: Hyper, *, max_iter: int = 60, tol: float = 1e-5) -> Evidence:
    """EM over the divergence times from the tree's times; log p(T) plus the bound at the maximum.

    >>> from dtree.diffusion.tree import from_nested
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> fit = log_evidence_em(from_nested([0, 1], [0.4]), y, Hyper(sigma2=1.0, c=1.0))
    >>> fit.converged
    True
    """
    work = Workspace(tree, leaves, hyper)
    n = work.n
    jumps = _jumps(work)
    rest, grad = np.zeros(2 * n - 1), np.empty(n - 1)
    bounds = [(-EM_LOGIT_LIMIT, EM_LOGIT_LIMIT)] * (n - 1)
    columns = work.tree
    last, converged, iterations = -np.inf, False, 0
    field = mean_field_at_times(columns, leaves, hyper)
    while iterations < max_iter and not converged:
        iterations += 1
        precision = 1.0 / (hyper.sigma2 or 1.0) if field.precision is None else field.precision[0] / field.precision[1]
        c = float(hyper.c or 1.0) if field.c is None else field.c[0] / field.c[1]
        squares = expected_squares(columns, leaves, 1.0 / precision)

        def negative(
            s: np.ndarray, squares: np.ndarray = squares, precision: float = precision, c: float = c
        ) -> tuple[float, np.ndarray]:
            value = m_step_value(
                s,
                work.order,
                columns.parent,
                columns.child,
                jumps,
                squares,
                precision,
                c,
                0.5 * leaves.mean.shape[1],
                rest,
                grad,
            )
            return -value, -grad

        start = np.clip(work.logit(), -EM_LOGIT_LIMIT, EM_LOGIT_LIMIT)
        result = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 25})
        rest_from_logit(result.x, work.order, columns.parent, columns.rest)
        field = mean_field_at_times(columns, leaves, hyper)
        converged = abs(field.bound - last) < tol * (1.0 + abs(field.bound))
        last = field.bound
    stuck = int(np.count_nonzero(np.abs(work.logit()) > EM_LOGIT_LIMIT - 0.5))
    message = "converged" if converged else f"EM did not converge in {max_iter} iterations"
    if stuck:
        converged = False
        message += f"; {stuck} branches shrank to nothing, where the density over times has no maximum"
    total = field.bound + log_structure_prior(columns)
    return Evidence(total, columns, field.bound, converged, message, iterations)
