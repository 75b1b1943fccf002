"""The paper's message passing within EM: expectations of locations and hyperparameters, divergence times maximised.

The E-step is exact belief propagation plus the mean-field q(1/sigma2) q(c); both have closed forms given the times.
The M-step maximises Eq. 4 over the times. Three things differ from the printed text.

- b in the message to 1/sigma2 already carries its 1/2 (the printed extra 2 loses many nats).
- Eq. 4 is the density over t, which has no maximum: with observation noise it grows without bound as all divergences
  run to the leaves, and without noise it often does so in part, so EM over t as printed rarely converges. By default
  (`over="logit"`) the density over s = logit w is maximised instead, which is proper and keeps times ordered;
  `over="times"` is the printed one and says so when it runs away.
- EM needs very many steps where a branch shrinks to nothing, each taking a smaller part of what is left. After some
  steps the same bound is climbed by quasi-Newton steps with belief propagation's gradient: EM's fixed points are that
  bound's stationary points, and convergence means that its gradient vanished.

A maximum of a density is not an integral: as an evidence the result is off by some tenths of a nat or more per leaf.
Use it to reproduce the paper, and Laplace (`laplace.py`) otherwise.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, data_sums, expected_squares, log_marginal
from dtree.diffusion.laplace import Evidence
from dtree.diffusion.objective import LOGIT_LIMIT, Frame, Hyper, Workspace, climb, gradient_over_logit, rest_from_logit
from dtree.diffusion.prior import log_structure_prior
from dtree.diffusion.tree import Columns, rest_above

EM_LOGIT_LIMIT = 9.0  # branches shorter than e^-9 of their room count as shrunk to nothing
EM_STEPS = 20  # of EM itself, which starts well and ends slowly, before quasi-Newton steps take over


class MeanField(NamedTuple):
    """q(1/sigma2) and q(c) as (shape, rate), None when fixed, the bound on log p(y, t | T) at the given times, and the
    means of 1/sigma2 and c, or their fixed values."""

    precision: tuple[float, float] | None
    c: tuple[float, float] | None
    bound: float
    mean_precision: float
    mean_c: float


def mean_field_at_times(tree: Columns, leaves: Leaves, hyper: Hyper) -> MeanField:
    """Coordinate-ascent fixed point of q(x) q(1/sigma2) q(c) at the tree's times, in closed form.

    The mean of q(1/sigma2) equals the mean of the exact posterior given the times; its shape is larger (overconfident).
    """
    _, quad = data_sums(tree, leaves)
    n, d = leaves.mean.shape
    precision = None
    if hyper.sigma2 is None:
        a0, b0 = hyper.precision_prior
        wide = d // leaves.var.shape[1]
        n_latent = (n - 1) * d + wide * int(np.count_nonzero(leaves.var > 0))
        shape = a0 + 0.5 * (n_latent + leaves.n_observed)
        mean = (a0 + 0.5 * leaves.n_observed) / (b0 + 0.5 * quad)
        rate = shape / mean
        precision, mean_precision = (shape, rate), shape / rate
        bound = log_marginal(tree, leaves, 1.0 / mean)
        bound += 0.5 * (n_latent + leaves.n_observed) * (digamma(shape) - math.log(rate) - math.log(mean))
        # minus the divergence of q(1/sigma2) from its prior
        bound += a0 * math.log(b0) - gammaln(a0) + (a0 - 1) * (digamma(shape) - math.log(rate)) - b0 * mean
        bound += shape - math.log(rate) + gammaln(shape) + (1 - shape) * digamma(shape)
    else:
        bound, mean_precision = log_marginal(tree, leaves, hyper.sigma2), 1.0 / hyper.sigma2
    log_rest = np.log(tree.rest[n:])
    log_j = float((Workspace(tree, leaves, hyper).jumps() * log_rest).sum())
    # p(t | T) = p(T, t) / p(T); the factorials telescope to 1 / (n-1)!
    bound += -log_rest.sum() - gammaln(n) - log_structure_prior(tree)
    c = None
    if hyper.c is None:
        a0, b0 = hyper.c_prior
        c = (a0 + n - 1, b0 - log_j)
        mean_c = c[0] / c[1]
        bound += a0 * math.log(b0) - gammaln(a0) + gammaln(c[0]) - c[0] * math.log(c[1])
    else:
        mean_c = float(hyper.c)
        bound += (n - 1) * math.log(hyper.c) + hyper.c * log_j
    return MeanField(precision, c, float(bound), mean_precision, mean_c)


class Expected(NamedTuple):
    """What the M-step holds fixed: J of the internal nodes (n-1,), expected squares of the branches (2n-1,), the means
    of 1/sigma2 and c, half the number of dimensions, and `proper`: 1 for the density over s, which has the log
    Jacobian dt/ds = sum of log rest + log(1 - w) in it, 0 for that over times."""

    jumps: np.ndarray
    squares: np.ndarray
    precision: float
    c: float
    half_d: float
    proper: float


@kernel
def m_step_value(s: np.ndarray, tree: Columns, frame: Frame, given: Expected, grad: np.ndarray) -> float:
    """Eq. 4 summed over the tree (with its leaf segments), and its gradient over s = logit w; sets the tree's times."""
    n = grad.shape[0] + 1
    rest_from_logit(s, tree, frame.order)
    parent, rest, squares, jumps = tree.parent, tree.rest, given.squares, given.jumps
    by_length = np.empty(2 * n - 1)
    value = 0.0
    for i in range(2 * n - 1):
        length = max(rest_above(parent, rest, i) - rest[i], 1e-300)
        pull = 0.5 * given.precision * squares[i]
        value -= given.half_d * math.log(length) + pull / length
        by_length[i] = -given.half_d / length + pull / (length * length)
    for i in frame.order:
        power = given.c * jumps[i - n] - 1.0 + given.proper
        value += power * math.log(rest[i]) - given.proper * math.log1p(math.exp(s[i - n]))
    gradient_over_logit(s, tree, frame, by_length, given.c, given.proper, grad)
    return value


def log_evidence_em(
    tree: Columns,
    leaves: Leaves,
    hyper: Hyper,
    *,
    over: Literal["logit", "times"] = "logit",
    max_iter: int = 500,
    tol: float = 1e-6,
) -> Evidence:
    """EM over the divergence times from the tree's times; log p(T) plus the bound at the maximum.

    Converged means that the bound's gradient vanished, except where a branch between divergences has shrunk to
    nothing and would shrink further; the message then names how many. Divergences that ran to the leaves are never
    convergence.

    >>> from dtree.diffusion.tree import from_nested
    >>> from dtree.diffusion.belief import leaves_from_data
    >>> y = leaves_from_data(np.array([[0.855], [0.475]]))
    >>> fit = log_evidence_em(from_nested([0, 1], [0.4]), y, Hyper(sigma2=1.0, c=1.0))
    >>> fit.converged
    True
    """
    proper = 1.0 if over == "logit" else 0.0
    limit = LOGIT_LIMIT if over == "logit" else EM_LOGIT_LIMIT
    work = Workspace(tree, leaves, hyper)
    bounds = [(-limit, limit)] * (work.n - 1)
    iterations = 0
    while iterations < min(max_iter, EM_STEPS):
        iterations += 1
        _em_step(work, leaves, hyper, bounds, proper)
    message = f"EM did not converge in {max_iter} iterations"
    s = np.clip(work.logit(), -limit, limit)
    if max_iter > iterations:
        options = {"maxiter": max_iter - iterations, "m": 20, "pgtol": tol, "ftol": 1e-14}
        s, more = climb(lambda at: _negative_bound(at, work, proper), s, bounds, **options)
        iterations += more
    value, slope = _negative_bound(s, work, proper)
    short, spent = s > limit - 0.5, s < 0.5 - limit
    left = np.abs(np.where((short & (slope < 0)) | (spent & (slope > 0)), 0.0, slope)).max()
    converged = bool(left < 1e-3 * max(1.0, abs(value) * 1e-3))
    if converged:
        message = "converged"
        if short.any():
            message += f"; {int(short.sum())} branches have shrunk to nothing"
    if spent.any():
        converged = False
        message = f"{int(spent.sum())} divergences ran to the leaves, where the density over times has no maximum"
    bound = mean_field_at_times(work.tree, leaves, hyper).bound + proper * _log_jacobian(work, s)
    return Evidence(bound + log_structure_prior(work.tree), work.tree, bound, converged, message, iterations)


def _em_step(work: Workspace, leaves: Leaves, hyper: Hyper, bounds: list[tuple[float, float]], proper: float) -> None:
    """Expectations at the workspace's times, then the times that maximise Eq. 4."""
    columns = work.tree
    field = mean_field_at_times(columns, leaves, hyper)
    squares = expected_squares(columns, leaves, 1.0 / field.mean_precision)
    half_d = 0.5 * leaves.mean.shape[1]
    given = Expected(work.jumps(), squares, field.mean_precision, field.mean_c, half_d, proper)
    trial, grad = columns._replace(rest=np.zeros(2 * work.n - 1)), np.empty(work.n - 1)

    def negative(s: np.ndarray) -> tuple[float, np.ndarray]:
        value = m_step_value(s, trial, work.frame, given, grad)
        return -value, -grad

    start = np.clip(work.logit(), bounds[0][0], bounds[0][1])
    best, _ = climb(negative, start, bounds, maxiter=25)
    rest_from_logit(best, columns, work.frame.order)


def _log_jacobian(work: Workspace, s: np.ndarray) -> float:
    """Log of the product of dt/ds at the workspace's times."""
    return float(np.log(work.tree.rest[work.n :]).sum() - np.log1p(np.exp(s)).sum())


def _negative_bound(s: np.ndarray, work: Workspace, proper: float) -> tuple[float, np.ndarray]:
    """Minus the bound at s, up to a constant, and its gradient; the workspace's times follow.

    With q(1/sigma2) and q(c) at their optimum the bound varies with the times exactly as the joint density over s
    does; for the density over t the Jacobian is taken out again.
    """
    value = work.density(s)
    w = 1.0 / (1.0 + np.exp(-s))
    value -= (1.0 - proper) * _log_jacobian(work, s)
    gradient = work.grad - (1.0 - proper) * ((1.0 - w) * (work.frame.size[work.n :] - 1.0) - w)
    return -value, -gradient
