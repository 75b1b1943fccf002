"""Binary observations: each entry is the sign of a noisy leaf location, approximated by Gaussian sites (EP).

`p(b | x) = Phi(b (start + x))` with b in {-1, +1} and x the location relative to where all paths start: one number for
all features, because rows of mostly zeros are better explained by a start below zero than by as many separate falls.
Every observed entry gets a Gaussian site; given the sites the tree is an ordinary Gaussian one, so belief propagation
gives all cavities in one sweep up and down. At the fixed point the gradient of the EP evidence over times is that of
the Gaussian model with the sites held fixed.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Beliefs, Leaves, beliefs_of, sweep_down, sweep_up
from dtree.diffusion.laplace import Evidence, laplace_at_maximum
from dtree.diffusion.objective import LOGIT_LIMIT, Hyper, Workspace, climb
from dtree.diffusion.predictive import BranchMixture
from dtree.diffusion.tree import Columns, children_first, rest_above

LOG_SQRT_2PI = 0.9189385332046727
LEAST_PRECISION = 1e-10  # of a site: one that says nothing stays proper
FIRST_SIGMA2 = 4.0  # where a free sigma2 starts: latent values that are neither coin tosses nor certainties


@kernel
def log_normal_cdf(z: float) -> float:
    """log Phi(z), accurate in both tails."""
    if z > 5.0:
        return math.log1p(-0.5 * math.erfc(z / math.sqrt(2.0)))
    if z > -30.0:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    inverse = 1.0 / (z * z)
    series = 1.0 - inverse * (1.0 - 3.0 * inverse * (1.0 - 5.0 * inverse * (1.0 - 7.0 * inverse)))
    return -0.5 * z * z - LOG_SQRT_2PI - math.log(-z) + math.log(series)


@kernel
def probit_moments(b: float, mean: float, var: float) -> tuple[float, float, float]:
    """log normaliser, mean and variance of N(x; mean, var) Phi(b x).

    >>> tuple(round(v, 6) for v in probit_moments(1.0, 0.3, 0.8))
    (-0.530232, 0.694261, 0.591991)
    """
    z = b * mean / math.sqrt(1.0 + var)
    log_z = log_normal_cdf(z)
    ratio = math.exp(-0.5 * z * z - LOG_SQRT_2PI - log_z)
    new_mean = mean + b * var * ratio / math.sqrt(1.0 + var)
    new_var = var - var * var * ratio * (z + ratio) / (1.0 + var)
    return log_z, new_mean, new_var


@kernel
def update_sites(signs: np.ndarray, tree: Beliefs, sigma2: float, start: float, damping: float) -> float:
    """One parallel EP update of all sites, the messages of the leaves, from their cavities; returns the largest change.

    signs (n, d): -1, +1, or 0 for missing; sites have means relative to the start and variances in units of sigma2,
    infinite for missing.
    """
    # arrays are taken out of the record before a loop: in it, every access would count references
    parent, _, rest, site_mean, site_var, down_mean, down_var = tree
    change = 0.0
    for i in range(signs.shape[0]):
        length = rest_above(parent, rest, i) - rest[i]
        for k in range(signs.shape[1]):
            if signs[i, k] == 0.0:
                continue
            centre, v = down_mean[i, k], sigma2 * (down_var[i, k] + length)  # given all other entries
            _, mean, var = probit_moments(signs[i, k], start + centre, v)
            mean -= start
            old_var = sigma2 * site_var[i, k]
            precision = max(1.0 / var - 1.0 / v, LEAST_PRECISION)
            shift = mean / var - centre / v
            old_precision = 1.0 / old_var if old_var < np.inf else 0.0
            old_shift = site_mean[i, k] * old_precision
            precision = old_precision + damping * (precision - old_precision)
            shift = old_shift + damping * (shift - old_shift)
            change = max(change, abs(precision - old_precision) + abs(shift - old_shift))
            site_mean[i, k] = shift / precision
            site_var[i, k] = 1.0 / (precision * sigma2)
    return change


@kernel
def site_constants(signs: np.ndarray, tree: Beliefs, sigma2: float, start: float) -> float:
    """Sum of the log constants of the sites, to be added to the Gaussian log marginal with the same sites."""
    parent, _, rest, site_mean, site_var, down_mean, down_var = tree
    constants = 0.0
    for i in range(signs.shape[0]):
        length = rest_above(parent, rest, i) - rest[i]
        for k in range(signs.shape[1]):
            if signs[i, k] == 0.0:
                continue
            centre, v = down_mean[i, k], sigma2 * (down_var[i, k] + length)
            total = v + sigma2 * site_var[i, k]
            constant = log_normal_cdf(signs[i, k] * (start + centre) / math.sqrt(1.0 + v))
            if total < np.inf:
                gap = site_mean[i, k] - centre
                constant += 0.5 * (math.log(2 * math.pi * total) + gap * gap / total)
            constants += constant
    return constants


@kernel
def settle_sites(
    signs: np.ndarray, beliefs: Beliefs, order: np.ndarray, sigma2: float, start: float, max_iter: int, tol: float
) -> tuple[bool, int]:
    """Update the sites until none changes by more than `tol`: whether they settled, and after how many sweeps."""
    damping, last = 1.0, np.inf
    for iteration in range(1, max_iter + 1):
        sweep_up(beliefs, order)
        sweep_down(beliefs, order)
        change = update_sites(signs, beliefs, sigma2, start, damping)
        if change < tol:
            return True, iteration
        if change > 0.9 * last:
            damping = max(0.5 * damping, 0.25)  # parallel updates may overshoot when leaves are very close
        last = change
    return False, max_iter


class Sites(NamedTuple):
    """Gaussian sites mean (n, d) relative to the start, var (n, d) in units of sigma2, the EP log evidence, and how EP
    ended."""

    leaves: Leaves
    log_evidence: float
    converged: bool
    iterations: int


def signs_from_binary(x: np.ndarray) -> np.ndarray:
    """-1 and +1 from 0/1, True/False or -1/+1 entries; NaN (missing) becomes 0.

    >>> signs_from_binary(np.array([[0.0, 1.0, np.nan]]))
    array([[-1.,  1.,  0.]])
    """
    x = np.asarray(x, dtype=np.float64)
    values = np.unique(x[~np.isnan(x)])
    if not (np.isin(values, (0.0, 1.0)).all() or np.isin(values, (-1.0, 1.0)).all()):
        strange = values[~np.isin(values, (-1.0, 0.0, 1.0))]
        found = f"found {strange[0]:g}" if strange.size else "found a mixture of -1 and 0"
        raise ValueError(
            f"The probit likelihood needs binary entries, 0/1 or -1/+1 (NaN for missing), {found}; "
            "use likelihood='gaussian' for real values."
        )
    signs = np.where(x > 0.5, 1.0, -1.0)
    signs[np.isnan(x)] = 0.0
    return np.ascontiguousarray(signs)


def fresh_sites(signs: np.ndarray) -> Leaves:
    """Uninformative sites to start EP from."""
    var = np.where(signs == 0.0, np.inf, 1e10)
    return Leaves(np.zeros_like(signs), var, int(np.count_nonzero(signs)))


def expectation_propagation(
    tree: Columns,
    signs: np.ndarray,
    sigma2: float,
    *,
    start: float = 0.0,
    sites: Leaves | None = None,
    max_iter: int = 100,
    tol: float = 1e-8,
) -> Sites:
    """EP on a tree with given times, warm-started from `sites` when given.

    >>> from dtree.diffusion.tree import from_nested
    >>> ep = expectation_propagation(from_nested([[0, 1], 2], [0.4, 0.7]), np.ones((3, 1)), 1.0)
    >>> round(ep.log_evidence, 6), ep.converged
    (-1.685272, True)
    """
    first = fresh_sites(signs) if sites is None else sites
    n = signs.shape[0]
    beliefs = beliefs_of(tree, first)
    order = children_first(tree.child, tree.root)
    converged, iterations = settle_sites(signs, beliefs, order, sigma2, start, max_iter, tol)
    log_det, quad = sweep_up(beliefs, order)
    sweep_down(beliefs, order)
    constants = site_constants(signs, beliefs, sigma2, start)
    gauss = -0.5 * (first.n_observed * math.log(2 * math.pi * sigma2) + log_det + quad / sigma2)
    leaves = Leaves(beliefs.mean[:n].copy(), beliefs.var[:n].copy(), first.n_observed)
    return Sites(leaves, float(gauss + constants), converged, iterations)


class ProbitFit(NamedTuple):
    """Evidence of one tree under the probit likelihood, with its sites, the diffusion variance and the start used."""

    evidence: Evidence
    sites: Leaves
    sigma2: float
    start: float


@dataclass
class _Objective:
    """What is climbed: the EP evidence over s = logit w, and over log sigma2 and the start where these are learned."""

    work: Workspace
    signs: np.ndarray
    sigma2: float
    start: float
    learn_sigma2: bool
    learn_start: bool
    precision_prior: tuple[float, float]
    sites: Leaves  # at absolute locations and variances: there EP holds them while sigma2 and the start move
    settled: bool = True  # whether EP converged when it was last asked

    def unpack(self, vector: np.ndarray) -> tuple[float, float]:
        """sigma2 and the start."""
        sigma2 = math.exp(vector[self.work.n - 1]) if self.learn_sigma2 else self.sigma2
        return sigma2, float(vector[-1]) if self.learn_start else self.start

    def begin(self) -> tuple[np.ndarray, list[tuple[float, float]]]:
        """Where the climb begins, and its bounds."""
        parts, bounds = [self.work.logit()], [(-LOGIT_LIMIT, LOGIT_LIMIT)] * (self.work.n - 1)
        if self.learn_sigma2:
            parts.append(np.array([math.log(self.sigma2)]))
            bounds.append((math.log(1e-3), math.log(1e4)))
        if self.learn_start:
            parts.append(np.array([self.start]))
            bounds.append((-100.0, 100.0))
        return np.concatenate(parts), bounds

    def negative(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the evidence with the priors of what is learned, and its gradient."""
        work, beliefs, n, (shape, rate) = self.work, self.work.beliefs, self.work.n, self.precision_prior
        s, (sigma2, start) = vector[: n - 1], self.unpack(vector)
        work.frame.hyper[1] = sigma2
        work.density(s)
        relative = self.sites._replace(mean=self.sites.mean - start, var=self.sites.var / sigma2)
        ep = expectation_propagation(work.tree, self.signs, sigma2, start=start, sites=relative)
        self.sites = self.sites._replace(mean=ep.leaves.mean + start, var=ep.leaves.var * sigma2)
        self.settled = ep.converged
        beliefs.mean[:n], beliefs.var[:n] = ep.leaves.mean, ep.leaves.var
        value = work.density(s) + site_constants(self.signs, beliefs, sigma2, start)
        gradient = [work.grad]
        if self.learn_sigma2:
            slope = float(((work.tree.above - work.tree.rest) * work.by_length).sum()) - shape + rate / sigma2
            value += -shape * math.log(sigma2) - rate / sigma2
            if self.learn_start:
                slope += 0.5 * (start * start / sigma2 - 1.0)
            gradient.append(np.array([slope]))
        if self.learn_start:
            root = work.frame.order[-1]
            pull = beliefs.mean[root] / (beliefs.var[root] + 1.0 - beliefs.rest[root])
            value -= 0.5 * (math.log(2 * math.pi * sigma2) + start * start / sigma2)
            gradient.append(np.array([(float(pull.sum()) - start) / sigma2]))
        return -value, -np.concatenate(gradient)


def log_evidence_probit(
    tree: Columns,
    signs: np.ndarray,
    hyper: Hyper,
    *,
    start: float = 0.0,
    sites: Leaves | None = None,
    learn_sigma2: bool = False,
    learn_start: bool = False,
    max_iter: int = 200,
) -> ProbitFit:
    """log p(b, structure): EP over locations, Laplace in logit w over times, c as in `hyper`.

    sigma2 (`hyper.sigma2`, 1 if None) and the start are held, or moved to their maximum under the precision prior and
    start ~ N(0, sigma2), as if the start had itself diffused for one unit of time.
    """
    sigma2 = hyper.sigma2 if hyper.sigma2 is not None else 1.0
    first = sites if sites is not None else fresh_sites(signs)
    work = Workspace(tree, first, hyper._replace(sigma2=sigma2))
    absolute = Leaves(first.mean + start, first.var * sigma2, first.n_observed)
    at = _Objective(work, signs, sigma2, start, learn_sigma2, learn_start, hyper.precision_prior, absolute)
    best, iterations = climb(at.negative, *at.begin(), maxiter=max_iter, m=20, pgtol=1e-5, ftol=1e-13)
    negative_value, negative_slope = at.negative(best)
    sigma2, start = at.unpack(best)
    slope = float(np.abs(negative_slope).max())
    term, positive = laplace_at_maximum(work)
    problems = []
    if slope > 1e-2:
        problems.append(f"the times did not converge in {iterations} iterations (gradient {slope:.1e})")
    if not at.settled:
        problems.append("expectation propagation did not converge")
    if not positive:
        problems.append("the curvature at the maximum is not positive")
    value, n = -negative_value, work.n
    fit = Evidence(value + term, work.tree, value, not problems, "; ".join(problems) or "converged", iterations)
    found = Leaves(work.beliefs.mean[:n].copy(), work.beliefs.var[:n].copy(), first.n_observed)
    return ProbitFit(fit, found, sigma2, start)


@kernel
def log_probability(signs: np.ndarray, mixture: BranchMixture) -> np.ndarray:
    """Log predictive probability (r,) of binary rows given as signs (r, d), 0 where an entry is left out."""
    out = np.empty(signs.shape[0])
    log_weight, share, spread, top, bottom, _, scale = mixture
    for r in range(signs.shape[0]):
        highest = -np.inf
        total = 0.0
        for e in range(log_weight.shape[0]):
            for k in range(log_weight.shape[1]):
                value = log_weight[e, k]
                if value == -np.inf:
                    continue
                for j in range(signs.shape[1]):
                    if signs[r, j] != 0.0:
                        mean = top[e, j] + share[e, k, j] * (bottom[e, j] - top[e, j])
                        value += log_normal_cdf(signs[r, j] * mean / math.sqrt(1.0 + scale * spread[e, k, j]))
                if value > highest:
                    total = total * math.exp(highest - value) + 1.0
                    highest = value
                else:
                    total += math.exp(value - highest)
        out[r] = highest + math.log(total)
    return out
