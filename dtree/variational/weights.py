"""The prior over labels: what the six variants say about mixture weights, as functions of counts.

Sticks: v_i ~ Beta(1, alpha) for i < T, v_T = 1 ([KWT07] Eqs. 1-4). Finite symmetric Dirichlet:
pi ~ Dirichlet(alpha/T, ...). Everything here needs only sums over rows: counts (T,), the Gram matrix of
responsibilities (T, T) for variances of counts and of tails N_{>=i} in any order of labels, and log P(N_i = 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from dtree.variational.sums_of_bernoullis import corrected_log_gamma, exact_log_gamma, taylor_log_gamma
from dtree.variational.variants import Variant

ALPHA_RANGE = (1e-3, 1e3)  # where a learned alpha is looked for


def tail_sums(values: np.ndarray) -> np.ndarray:
    """Sums over labels >= i along the last axis."""
    return np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]


@dataclass(frozen=True)
class CountMoments:
    """Mean and variance under q(z) of the counts N_i and of the tails N_{>=i}, and log P(N_i = 0); each (T,)."""

    mean: np.ndarray
    variance: np.ndarray
    tail: np.ndarray
    tail_variance: np.ndarray
    log_zero: np.ndarray

    @classmethod
    def from_sums(cls, counts: np.ndarray, gram: np.ndarray, log_zero: np.ndarray) -> CountMoments:
        """From counts (T,), sum_n w_n r_n r_n' (T, T) and sum_n w_n log(1 - r_n) (T,)."""
        tail = tail_sums(counts)
        tail_squares = np.diag(tail_sums(tail_sums(gram).T))
        variance = np.maximum(counts - np.diag(gram), 0.0)
        return cls(counts, variance, tail, np.maximum(tail - tail_squares, 0.0), log_zero)


def expected_log_weights(variant: Variant, alpha: float, counts: np.ndarray) -> np.ndarray:
    """E log pi (T,) under q(v) = Beta(1 + N_i, alpha + N_{>i}) or q(pi) = Dirichlet(alpha/T + N)."""
    if not variant.sticks:
        share = alpha / counts.shape[0]
        return digamma(share + counts) - digamma(alpha + counts.sum())
    tail = tail_sums(counts)
    both = digamma(1.0 + alpha + tail[:-1])
    log_break = digamma(1.0 + counts[:-1]) - both
    log_rest = digamma(alpha + tail[1:]) - both
    return np.concatenate([log_break, [0.0]]) + np.concatenate([[0.0], np.cumsum(log_rest)])


def expected_weights(variant: Variant, alpha: float, counts: np.ndarray) -> np.ndarray:
    """Mean of q(v) or q(pi) at expected counts (T,): the predictive weights of all six variants."""
    if not variant.sticks:
        return (alpha / counts.shape[0] + counts) / (alpha + counts.sum())
    tail = tail_sums(counts)
    broken = (1.0 + counts[:-1]) / (1.0 + alpha + tail[:-1])
    rest = np.concatenate([[1.0], np.cumprod((alpha + tail[1:]) / (1.0 + alpha + tail[:-1]))])
    return np.concatenate([broken, [1.0]]) * rest


def log_prior_at_counts(variant: Variant, alpha: float, counts: np.ndarray) -> np.ndarray:
    """log p(z) of [KWT07] Eqs. 10 and 12 at (expected) counts (..., T): the weight term of an uncollapsed bound.

    With the best q(v) or q(pi), E log p(z | weights) - KL(q || p) is exactly this, so a collapsed bound, which takes
    the expectation of the same convex function, is never below the uncollapsed one at the same q(z).
    """
    counts = np.asarray(counts, dtype=np.float64)
    if not variant.sticks:
        share = alpha / counts.shape[-1]
        total = gammaln(alpha) - gammaln(counts.sum(axis=-1) + alpha)
        return total + (gammaln(counts + share) - gammaln(share)).sum(axis=-1)
    tail = tail_sums(counts)
    terms = math.log(alpha) + gammaln(1.0 + counts[..., :-1]) + gammaln(alpha + tail[..., 1:])
    return (terms - gammaln(1.0 + alpha + tail[..., :-1])).sum(axis=-1)


def approximate_log_prior(variant: Variant, alpha: float, moments: CountMoments, corrected: bool) -> float:
    """E log p(z) of a collapsed variant from means and variances of counts: an approximation, not a bound.

    It has been seen above the exact evidence by some nats, so it is never reported as a bound.
    """
    size = moments.mean.shape[0]
    if not variant.sticks:
        share = alpha / size
        if corrected:
            terms = corrected_log_gamma(share, moments.mean, moments.variance, moments.log_zero)
        else:
            terms = taylor_log_gamma(share, moments.mean, moments.variance)
        total = gammaln(alpha) - gammaln(moments.mean.sum() + alpha)
        return float(total + terms.sum() - size * gammaln(share))
    own = taylor_log_gamma(1.0, moments.mean[:-1], moments.variance[:-1])
    rest = taylor_log_gamma(alpha, moments.tail[1:], moments.tail_variance[1:])
    both = taylor_log_gamma(1.0 + alpha, moments.tail[:-1], moments.tail_variance[:-1])
    return float((math.log(alpha) + own + rest - both).sum())


def exact_log_prior(variant: Variant, alpha: float, responsibilities: np.ndarray, weight: np.ndarray) -> float:
    """E log p(z) of a collapsed variant from the exact distributions of counts, O(T n^2): a true bound's weight term.

    `responsibilities` (n, T); `weight` (n,) integers, how many equal rows each stands for.
    """
    size = responsibilities.shape[1]
    total_count = float(weight.sum())
    columns = np.ascontiguousarray(responsibilities.T)
    if not variant.sticks:
        share = alpha / size
        total = gammaln(alpha) - gammaln(total_count + alpha) - size * gammaln(share)
        return float(total + sum(exact_log_gamma(share, column, weight) for column in columns))
    tails = np.ascontiguousarray(tail_sums(responsibilities).T)
    total = (size - 1) * math.log(alpha) - gammaln(1.0 + alpha + total_count)  # the first tail holds every row
    for i in range(size - 1):
        total += exact_log_gamma(1.0, columns[i], weight) + exact_log_gamma(alpha, tails[i + 1], weight)
        if i > 0:
            total -= exact_log_gamma(1.0 + alpha, tails[i], weight)
    return float(total)


def label_order(alpha: float, counts: np.ndarray, rule: str = "best") -> np.ndarray:
    """The order of labels (T,) that a stick-breaking prior likes most.

    `size`: decreasing counts, as [KWT07] section 3.4 has it. That is optimal for alpha <= 1 only, because the last
    label takes the whole remaining stick; `best` also tries every label last with the others decreasing.

    >>> label_order(3.0, np.array([5.0, 3.0, 2.0, 1.0])).tolist()
    [1, 2, 3, 0]
    """
    decreasing = np.argsort(-counts, kind="stable")
    if rule == "size" or alpha <= 1.0:
        return decreasing
    size = counts.shape[0]
    candidates = np.array([[*np.delete(decreasing, i), decreasing[i]] for i in range(size - 1, -1, -1)])
    candidates = np.vstack([np.arange(size), candidates])  # staying as it is wins ties
    sticks = Variant("", sticks=True, collapsed=False, ordered=True)
    return candidates[int(np.argmax(log_prior_at_counts(sticks, alpha, counts[candidates])))]


def learned_alpha(log_prior: Callable[[float], float], alpha: float) -> float:
    """The alpha in `ALPHA_RANGE` with the highest weight term `log_prior(alpha)`; the old one when none is better."""
    from scipy.optimize import minimize_scalar  # slow to load, and only fits need it

    found = minimize_scalar(
        lambda log_alpha: -log_prior(math.exp(log_alpha)),
        bounds=np.log(ALPHA_RANGE),
        method="bounded",
        options={"xatol": 1e-4},
    )
    better = math.exp(float(found.x))
    return better if log_prior(better) > log_prior(alpha) else alpha
