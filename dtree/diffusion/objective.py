"""The log density of data, structure and times in logit coordinates, with sigma2 and c fixed or integrated exactly.

With `w_i = rest_i / rest_parent` and `s_i = logit w_i`, the joint density in s is a function of four sums over the
tree: log_det and quad (belief propagation), `C = sum H_{m_i - 1} log w_i` and `W = sum log(1 - w_i)`. The factorials
of the branching terms telescope to 1/(n-1)!, whatever the structure. Times are optimised in s because the density in
t itself has no useful maximum (zero-length branches).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, against_origin, branch_gradients, sweep_down, sweep_up
from dtree.diffusion.prior import harmonic_table
from dtree.diffusion.tree import Columns, children_first, leaf_counts

LOGIT_LIMIT = 30.0


class Hyper(NamedTuple):
    """How the diffusion variance and the smoothness are treated.

    `sigma2=None` integrates 1/sigma2 ~ Gamma(shape, rate) in closed form, likewise `c=None` with c ~ Gamma(shape,
    rate).

    >>> Hyper(sigma2=2.0, c=1.0).as_array()
    array([0., 2., 0., 0., 1., 0.])
    """

    sigma2: float | None = None
    c: float | None = None
    precision_prior: tuple[float, float] = (2.0, 1.5)
    c_prior: tuple[float, float] = (2.0, 2.0)

    def as_array(self) -> np.ndarray:
        """The form that kernels read: (integrate?, value or shape, rate) for sigma2 and for c."""
        a = (1.0, *self.precision_prior) if self.sigma2 is None else (0.0, self.sigma2, 0.0)
        b = (1.0, *self.c_prior) if self.c is None else (0.0, self.c, 0.0)
        return np.array([*a, *b], dtype=np.float64)


@kernel
def constant_part(n_observed: float, n_leaves: float, hyper: np.ndarray) -> float:
    """The part of the joint log density that depends on sizes and hyperparameters only."""
    if hyper[0] > 0.0:
        value = (
            math.lgamma(hyper[1] + 0.5 * n_observed)
            - math.lgamma(hyper[1])
            + hyper[1] * math.log(hyper[2])
            - 0.5 * n_observed * math.log(2 * math.pi)
        )
    else:
        value = -0.5 * n_observed * math.log(2 * math.pi * hyper[1])
    m = n_leaves - 1.0
    if hyper[3] > 0.0:
        value += math.lgamma(hyper[4] + m) - math.lgamma(hyper[4]) + hyper[4] * math.log(hyper[5])
    else:
        value += m * math.log(hyper[4])
    return value - math.lgamma(n_leaves)


@kernel
def varying_part(
    log_det: float, quad: float, n_observed: float, c_sum: float, w_sum: float, n_leaves: float, hyper: np.ndarray
) -> float:
    """The part of the joint log density that depends on the tree."""
    value = w_sum - 0.5 * log_det
    if hyper[0] > 0.0:
        value -= (hyper[1] + 0.5 * n_observed) * math.log(hyper[2] + 0.5 * quad)
    else:
        value -= 0.5 * quad / hyper[1]
    if hyper[3] > 0.0:
        value -= (hyper[4] + n_leaves - 1.0) * math.log(hyper[5] - c_sum)
    else:
        value += hyper[4] * c_sum
    return value


@kernel
def log_density_of_sums(
    log_det: float, quad: float, n_observed: float, c_sum: float, w_sum: float, n_leaves: float, hyper: np.ndarray
) -> float:
    """Joint log density of data, structure and times (in s) from its four sums."""
    return constant_part(n_observed, n_leaves, hyper) + varying_part(
        log_det, quad, n_observed, c_sum, w_sum, n_leaves, hyper
    )


@kernel
def effective_precision(quad: float, n_observed: float, hyper: np.ndarray) -> float:
    """1/sigma2, or its posterior mean given times when it is integrated: the weight of quad in every gradient."""
    if hyper[0] > 0.0:
        return (hyper[1] + 0.5 * n_observed) / (hyper[2] + 0.5 * quad)
    return 1.0 / hyper[1]


@kernel
def effective_c(c_sum: float, n_leaves: float, hyper: np.ndarray) -> float:
    """c, or its posterior mean given times when it is integrated."""
    if hyper[3] > 0.0:
        return (hyper[4] + n_leaves - 1.0) / (hyper[5] - c_sum)
    return hyper[4]


@kernel
def rest_from_logit(s: np.ndarray, order: np.ndarray, parent: np.ndarray, rest: np.ndarray) -> None:
    """Fill `rest` of the internal nodes from s (n-1,)."""
    n = (parent.shape[0] + 1) // 2
    for k in range(order.shape[0] - 1, -1, -1):
        i = order[k]
        above = rest[parent[i]] if parent[i] >= 0 else 1.0
        rest[i] = above / (1.0 + math.exp(-s[i - n]))


@kernel
def prior_sums(
    order: np.ndarray, parent: np.ndarray, rest: np.ndarray, count: np.ndarray, table: np.ndarray
) -> tuple[float, float]:
    """C and W of a tree; `table` holds harmonic numbers."""
    c_sum = 0.0
    w_sum = 0.0
    for i in order:
        above = rest[parent[i]] if parent[i] >= 0 else 1.0
        w = rest[i] / above
        c_sum += table[count[i] - 1] * math.log(w)
        w_sum += math.log1p(-w) if w < 0.5 else math.log((above - rest[i]) / above)
    return c_sum, w_sum


@kernel
def density_and_gradient(
    s: np.ndarray,
    order: np.ndarray,
    parent: np.ndarray,
    child: np.ndarray,
    count: np.ndarray,
    table: np.ndarray,
    root: int,
    n_observed: float,
    hyper: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    down_mean: np.ndarray,
    down_var: np.ndarray,
    rest: np.ndarray,
    grad: np.ndarray,
    by_length: np.ndarray,
) -> float:
    """Joint log density at s; its gradient over s goes to `grad` (n-1,), that over branch lengths to `by_length`
    (2n-1,).

    `by_length` holds the data part only: the sum of its leaf entries is the derivative over the observation noise.
    """
    n = (parent.shape[0] + 1) // 2
    rest_from_logit(s, order, parent, rest)
    log_det, quad = sweep_up(order, child, rest, root, mean, var)
    sweep_down(order, parent, child, rest, root, mean, var, down_mean, down_var)
    grad_quad = np.empty(parent.shape[0])
    branch_gradients(parent, rest, mean, var, down_mean, down_var, by_length, grad_quad)
    precision = effective_precision(quad, n_observed, hyper)
    for i in range(parent.shape[0]):
        by_length[i] = -0.5 * (by_length[i] + precision * grad_quad[i])
    c_sum = 0.0
    w_sum = 0.0
    for i in order:
        c_sum -= table[count[i] - 1] * math.log1p(math.exp(-s[i - n]))
        w_sum -= math.log1p(math.exp(s[i - n]))
    c = effective_c(c_sum, float(n), hyper)
    for i in order:  # children first: grad holds the derivative over log w, accumulated from the subtree
        l = child[i, 0]
        r = child[i, 1]
        total = rest[i] * (by_length[l] + by_length[r] - by_length[i])
        if l >= n:
            total += grad[l - n]
        if r >= n:
            total += grad[r - n]
        grad[i - n] = total
    for i in order:
        w = 1.0 / (1.0 + math.exp(-s[i - n]))
        grad[i - n] = (grad[i - n] + c * table[count[i] - 1]) * (1.0 - w) - w
    return log_density_of_sums(log_det, quad, n_observed, c_sum, w_sum, float(n), hyper)


@kernel
def densities_at(
    draws: np.ndarray,
    order: np.ndarray,
    parent: np.ndarray,
    child: np.ndarray,
    count: np.ndarray,
    table: np.ndarray,
    root: int,
    n_observed: float,
    hyper: np.ndarray,
    mean: np.ndarray,
    var: np.ndarray,
    rest: np.ndarray,
    out: np.ndarray,
) -> None:
    """Joint log density at each row of `draws` (k, n-1), without gradients."""
    for k in range(draws.shape[0]):
        rest_from_logit(draws[k], order, parent, rest)
        log_det, quad = sweep_up(order, child, rest, root, mean, var)
        c_sum, w_sum = prior_sums(order, parent, rest, count, table)
        out[k] = log_density_of_sums(log_det, quad, n_observed, c_sum, w_sum, float(count[root]), hyper)


class Workspace:
    """One tree with its data, ready to be evaluated at many times: holds the arrays that kernels write into."""

    def __init__(self, tree: Columns, leaves: Leaves, hyper: Hyper) -> None:
        n = tree.n_leaves
        self.n = n
        self.tree = Columns(tree.parent, tree.child, tree.rest.copy())
        self.hyper = hyper
        self.hyper_array = hyper.as_array()
        self.n_observed = float(leaves.n_observed)
        self.root = tree.root
        self.order = children_first(tree.child, self.root)
        self.count = leaf_counts(tree.child, self.order)
        self.table = harmonic_table(n)
        self.mean = np.empty((2 * n - 1, leaves.mean.shape[1]))
        self.var = np.empty((2 * n - 1, leaves.var.shape[1]))
        self.mean[:n], self.var[:n] = leaves.mean, leaves.var
        self.down_mean, self.down_var = np.empty_like(self.mean), np.empty_like(self.var)
        self.grad, self.by_length = np.empty(n - 1), np.empty(2 * n - 1)

    def logit(self) -> np.ndarray:
        """s (n-1,) of the current times."""
        return logit_from_rest(self.tree)

    def density(self, s: np.ndarray) -> float:
        """Joint log density at s; also refreshes messages, `grad`, `by_length` and the tree's times."""
        return density_and_gradient(
            np.clip(s, -LOGIT_LIMIT, LOGIT_LIMIT),
            self.order,
            self.tree.parent,
            self.tree.child,
            self.count,
            self.table,
            self.root,
            self.n_observed,
            self.hyper_array,
            self.mean,
            self.var,
            self.down_mean,
            self.down_var,
            self.tree.rest,
            self.grad,
            self.by_length,
        )

    def densities(self, draws: np.ndarray) -> np.ndarray:
        """Joint log density at each row of draws (k, n-1)."""
        out = np.empty(draws.shape[0])
        # beyond these limits rests coincide or vanish in double precision; the density there is negligible
        inside = (draws < LOGIT_LIMIT).all(axis=1) & (np.minimum(draws, 0.0).sum(axis=1) > -300.0)
        densities_at(
            np.where(inside[:, None], draws, 0.0),
            self.order,
            self.tree.parent,
            self.tree.child,
            self.count,
            self.table,
            self.root,
            self.n_observed,
            self.hyper_array,
            self.mean,
            self.var,
            np.zeros(2 * self.n - 1),
            out,
        )
        return np.where(inside, out, -np.inf)

    def sums(self) -> tuple[float, float, float, float]:
        """log_det, quad, C and W at the current times and upward messages."""
        log_det, quad = sweep_up(self.order, self.tree.child, self.tree.rest, self.root, self.mean, self.var)
        return log_det, quad, *prior_sums(self.order, self.tree.parent, self.tree.rest, self.count, self.table)


def logit_from_rest(tree: Columns) -> np.ndarray:
    """s_i = logit(rest_i / rest_parent) of the internal nodes n..2n-2."""
    n = tree.n_leaves
    above = np.where(tree.parent[n:] >= 0, tree.rest[tree.parent[n:]], 1.0)
    return np.clip(np.log(tree.rest[n:]) - np.log(above - tree.rest[n:]), -LOGIT_LIMIT, LOGIT_LIMIT)


def log_joint_in_logit(tree: Columns, leaves: Leaves, hyper: Hyper) -> float:
    """log p(y, structure, s) at the tree's times, the density taken in s = logit w.

    >>> from dtree.diffusion.tree import from_nested
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> round(log_joint_in_logit(from_nested([0, 1], [0.4]), y, Hyper(sigma2=1.0, c=1.0)), 6)
    -3.553858
    """
    work = Workspace(tree, leaves, hyper)
    log_det, quad, c_sum, w_sum = work.sums()
    return float(log_density_of_sums(log_det, quad, work.n_observed, c_sum, w_sum, float(work.n), work.hyper_array))


__all__ = ["Hyper", "Workspace", "against_origin", "log_joint_in_logit", "logit_from_rest"]
