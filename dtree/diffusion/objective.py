"""The log density of data, structure and times in logit coordinates, with sigma2 and c fixed or integrated exactly.

With `w_i = rest_i / rest_parent` and `s_i = logit w_i`, the joint density in s is a function of four sums over the
tree: log_det and quad (belief propagation), `C = sum H_{m_i - 1} log w_i` and `W = sum log(1 - w_i)`. The factorials
of the branching terms telescope to 1/(n-1)!, whatever the structure. Times are optimised in s because the density in
t itself has no useful maximum (zero-length branches).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import fmin_l_bfgs_b

from dtree.core.jit import kernel
from dtree.diffusion.belief import Beliefs, Leaves, beliefs_of, branch_gradients, sweep_down, sweep_up
from dtree.diffusion.prior import harmonic_table
from dtree.diffusion.tree import Columns, children_first, leaf_counts

LOGIT_LIMIT = 30.0  # of s: beyond, 1 - w is lost in rounding
# positions in the sums of a tree
LOG_DET, QUAD, C_SUM, W_SUM, N_OBSERVED, N_LEAVES = range(6)


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
        value = math.lgamma(hyper[1] + 0.5 * n_observed) - math.lgamma(hyper[1]) + hyper[1] * math.log(hyper[2])
        value -= 0.5 * n_observed * math.log(2 * math.pi)
    else:
        value = -0.5 * n_observed * math.log(2 * math.pi * hyper[1])
    m = n_leaves - 1.0
    if hyper[3] > 0.0:
        value += math.lgamma(hyper[4] + m) - math.lgamma(hyper[4]) + hyper[4] * math.log(hyper[5])
    else:
        value += m * math.log(hyper[4])
    return value - math.lgamma(n_leaves)


@kernel
def varying_part(sums: tuple[float, ...], hyper: np.ndarray) -> float:
    """The part of the joint log density that depends on the tree, from its sums (see `log_density_of_sums`)."""
    value = sums[W_SUM] - 0.5 * sums[LOG_DET]
    if hyper[0] > 0.0:
        value -= (hyper[1] + 0.5 * sums[N_OBSERVED]) * math.log(hyper[2] + 0.5 * sums[QUAD])
    else:
        value -= 0.5 * sums[QUAD] / hyper[1]
    if hyper[3] > 0.0:
        value -= (hyper[4] + sums[N_LEAVES] - 1.0) * math.log(hyper[5] - sums[C_SUM])
    else:
        value += hyper[4] * sums[C_SUM]
    return value


@kernel
def log_density_of_sums(sums: tuple[float, ...], hyper: np.ndarray) -> float:
    """Joint log density of data, structure and times (in s) from (log_det, quad, C, W, n_observed, n_leaves)."""
    return constant_part(sums[N_OBSERVED], sums[N_LEAVES], hyper) + varying_part(sums, hyper)


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
def rest_from_logit(s: np.ndarray, tree: Columns, order: np.ndarray) -> None:
    """Fill `rest` of the internal nodes from s (n-1,)."""
    parent, rest = tree.parent, tree.rest
    n = (parent.shape[0] + 1) // 2
    for i in order[::-1]:
        rest[i] = (rest[parent[i]] if parent[i] >= 0 else 1.0) / (1.0 + math.exp(-s[i - n]))


class Frame(NamedTuple):
    """What stays the same while the times of a tree move: its internal nodes children first (n-1,), the leaves under
    each node (2n-1,), harmonic numbers (n+1,), the number of observed entries, and the hyperparameters (6,)."""

    order: np.ndarray
    size: np.ndarray
    table: np.ndarray
    n_observed: float
    hyper: np.ndarray


@kernel
def prior_sums(tree: Columns, order: np.ndarray, count: np.ndarray, table: np.ndarray) -> tuple[float, float]:
    """C and W of a tree; `table` holds harmonic numbers."""
    parent, rest = tree.parent, tree.rest
    c_sum, w_sum = 0.0, 0.0
    for i in order:
        above = rest[parent[i]] if parent[i] >= 0 else 1.0
        w = rest[i] / above
        c_sum += table[count[i] - 1] * math.log(w)
        w_sum += math.log1p(-w) if w < 0.5 else math.log((above - rest[i]) / above)
    return c_sum, w_sum


@kernel
def sums_of_tree(tree: Beliefs, frame: Frame) -> tuple[float, float, float, float, float, float]:
    """(log_det, quad, C, W, n_observed, n_leaves) at the tree's times; refreshes the upward messages."""
    log_det, quad = sweep_up(tree, frame.order)
    c_sum, w_sum = prior_sums(tree, frame.order, frame.size, frame.table)
    return log_det, quad, c_sum, w_sum, frame.n_observed, float(frame.size[frame.order[-1]])


@kernel
def gradient_over_logit(
    s: np.ndarray, tree: Columns, frame: Frame, by_length: np.ndarray, c: float, proper: float, grad: np.ndarray
) -> None:
    """Gradient over s of the density over s (`proper` = 1) or over times (0), into grad (n-1,).

    by_length (2n-1,): its derivative over the branch lengths, without the prior of times; c: the smoothness.
    """
    order, size, table, child, rest = frame.order, frame.size, frame.table, tree.child, tree.rest
    n = grad.shape[0] + 1
    for i in order:  # children first: grad holds the derivative over log w, accumulated from the subtree
        l, r = child[i, 0], child[i, 1]
        total = rest[i] * (by_length[l] + by_length[r] - by_length[i])
        if l >= n:
            total += grad[l - n]
        if r >= n:
            total += grad[r - n]
        grad[i - n] = total
    for i in order:
        below = size[i] - 1
        w = 1.0 / (1.0 + math.exp(-s[i - n]))
        over_log_w = grad[i - n] + c * table[below] - (1.0 - proper) * below
        grad[i - n] = over_log_w * (1.0 - w) - proper * w


@kernel
def density_and_gradient(s: np.ndarray, tree: Beliefs, frame: Frame, grad: np.ndarray, by_length: np.ndarray) -> float:
    """Joint log density at s; its gradient over s goes to `grad` (n-1,), that over branch lengths to `by_length`
    (2n-1,).

    `by_length` holds the data part only: the sum of its leaf entries is the derivative over the observation noise.
    """
    order, size, table, _, hyper = frame
    n = grad.shape[0] + 1
    rest_from_logit(s, tree, order)
    log_det, quad = sweep_up(tree, order)
    sweep_down(tree, order)
    grad_quad = np.empty(by_length.shape[0])
    branch_gradients(tree, by_length, grad_quad)
    precision = effective_precision(quad, frame.n_observed, hyper)
    for i in range(by_length.shape[0]):
        by_length[i] = -0.5 * (by_length[i] + precision * grad_quad[i])
    c_sum, w_sum = 0.0, 0.0
    for i in order:
        c_sum -= table[size[i] - 1] * math.log1p(math.exp(-s[i - n]))
        w_sum -= math.log1p(math.exp(s[i - n]))
    gradient_over_logit(s, tree, frame, by_length, effective_c(c_sum, float(n), hyper), 1.0, grad)
    return log_density_of_sums((log_det, quad, c_sum, w_sum, frame.n_observed, float(n)), hyper)


@kernel
def densities_at(draws: np.ndarray, tree: Beliefs, frame: Frame) -> np.ndarray:
    """Joint log density (k,) at each row of `draws` (k, n-1), without gradients."""
    out = np.empty(draws.shape[0])
    for k in range(draws.shape[0]):
        rest_from_logit(draws[k], tree, frame.order)
        out[k] = log_density_of_sums(sums_of_tree(tree, frame), frame.hyper)
    return out


class Workspace:
    """One tree with its data, ready to be evaluated at many times: holds the arrays that kernels write into."""

    def __init__(self, tree: Columns, leaves: Leaves, hyper: Hyper) -> None:
        self.n = tree.n_leaves
        self.tree = Columns(tree.parent, tree.child, tree.rest.copy())
        self.beliefs = beliefs_of(self.tree, leaves)
        order = children_first(tree.child, tree.root)
        count, table = leaf_counts(tree.child, order), harmonic_table(self.n)
        self.frame = Frame(order, count, table, float(leaves.n_observed), hyper.as_array())
        self.grad, self.by_length = np.empty(self.n - 1), np.empty(2 * self.n - 1)

    def logit(self) -> np.ndarray:
        """s (n-1,) of the current times."""
        rest, above = self.tree.rest[self.n :], self.tree.above[self.n :]
        return np.clip(np.log(rest) - np.log(above - rest), -LOGIT_LIMIT, LOGIT_LIMIT)

    def density(self, s: np.ndarray) -> float:
        """Joint log density at s; also refreshes messages, `grad`, `by_length` and the tree's times."""
        inside = np.clip(s, -LOGIT_LIMIT, LOGIT_LIMIT)
        return density_and_gradient(inside, self.beliefs, self.frame, self.grad, self.by_length)

    def densities(self, draws: np.ndarray) -> np.ndarray:
        """Joint log density at each row of draws (k, n-1)."""
        # beyond these limits rests coincide or vanish in double precision; the density there is negligible
        inside = (draws < LOGIT_LIMIT).all(axis=1) & (np.minimum(draws, 0.0).sum(axis=1) > -300.0)
        scratch = self.beliefs._replace(rest=np.zeros(2 * self.n - 1))
        return np.where(inside, densities_at(np.where(inside[:, None], draws, 0.0), scratch, self.frame), -np.inf)

    def sums(self) -> tuple[float, ...]:
        """log_det, quad, C, W, n_observed and n_leaves at the current times and leaves."""
        return sums_of_tree(self.beliefs, self.frame)

    def jumps(self) -> np.ndarray:
        """J (n-1,) of Eq. 1, with C = sum J_i log rest_i over the internal nodes."""
        h = self.frame.table[self.frame.size - 1]
        child = self.tree.child[self.n :]
        return h[self.n :] - h[child[:, 0]] - h[child[:, 1]]


def climb(
    negative: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    bounds: Sequence[tuple[float, float]],
    **options: Any,
) -> tuple[np.ndarray, int]:
    """Where a function, given as its negative with its gradient, is largest, by L-BFGS-B; and the iterations it took.

    `ftol` among the options is that of `scipy.optimize.minimize`; the others are those of `fmin_l_bfgs_b`, the older
    name of the same routine, which spares a small tree the checks and copies of bounds that `minimize` makes.

    >>> climb(lambda s: (float(s @ s), 2.0 * s), np.ones(2), [(0.5, 2.0)] * 2)[0]
    array([0.5, 0.5])
    """
    if "ftol" in options:
        options["factr"] = options.pop("ftol") / np.finfo(np.float64).eps
    best, _, found = fmin_l_bfgs_b(negative, start, bounds=bounds, **options)
    return best, int(found["nit"])


def log_joint_in_logit(tree: Columns, leaves: Leaves, hyper: Hyper) -> float:
    """log p(y, structure, s) at the tree's times, the density taken in s = logit w.

    >>> from dtree.diffusion.tree import from_nested
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> round(log_joint_in_logit(from_nested([0, 1], [0.4]), y, Hyper(sigma2=1.0, c=1.0)), 6)
    -3.553858
    """
    work = Workspace(tree, leaves, hyper)
    return float(log_density_of_sums(work.sums(), work.frame.hyper))
