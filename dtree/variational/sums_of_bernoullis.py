"""Expectations of log(a + M) and log Gamma(a + M), M a sum of independent Bernoullis.

Collapsed variants need them because counts of labels are such sums under q(z). Three ways, by name:

- `exact`: from the distribution of M, O(n^2) to build, one Bernoulli added or taken away in O(n);
- `taylor`: [KWT07] Eq. 28, second order about the mean. Bad when a and E[M] are both small (error -2.9 at a = 1/30);
- `corrected`: M = 0 is treated exactly and the expansion is about E[M | M > 0]. It also needs P(M = 0).
"""

import math

import numpy as np
from scipy.special import gammaln, polygamma

from dtree.core.jit import kernel

_NEVER = 1e-20  # a probability that changes no expectation


@kernel
def taylor_log(a, mean, variance):
    """E log(a + M) to second order about the mean."""
    shifted = a + mean
    return math.log(shifted) - 0.5 * max(variance, 0.0) / (shifted * shifted)


@kernel
def corrected_log(a, mean, variance, log_zero):
    """E log(a + M) with M = 0, of log probability `log_zero`, treated exactly."""
    zero = math.exp(min(log_zero, 0.0))
    some = 1.0 - zero
    if some <= 1e-15 or mean <= 0.0:
        return math.log(a)
    mean_some = mean / some
    variance_some = (max(variance, 0.0) + mean * mean) / some - mean_some * mean_some
    if mean_some < 1.0:  # M >= 1 whenever it is not 0; rounding must not lead outside
        mean_some, variance_some = 1.0, 0.0
    return zero * math.log(a) + some * taylor_log(a, mean_some, variance_some)


@kernel
def include_bernoulli(distribution, size, p):
    """Turn the distribution (size + 1 entries) of M into that of M + Bernoulli(p) (size + 2 entries), in place."""
    distribution[size + 1] = 0.0
    for m in range(size + 1, 0, -1):
        distribution[m] = (1.0 - p) * distribution[m] + p * distribution[m - 1]
    distribution[0] *= 1.0 - p


@kernel
def exclude_bernoulli(distribution, size, p, out):
    """The distribution (size entries) of M - Bernoulli(p) from that of M (size + 1 entries).

    Solved from the end where errors shrink: upwards for p <= 1/2, downwards for p > 1/2.
    """
    if p <= 0.5:
        previous = 0.0
        for m in range(size):
            previous = max((distribution[m] - p * previous) / (1.0 - p), 0.0)
            out[m] = previous
    else:
        previous = 0.0
        for m in range(size, 0, -1):
            previous = max((distribution[m] - (1.0 - p) * previous) / p, 0.0)
            out[m - 1] = previous


@kernel
def distribution_of_sum(probabilities, weight, distribution):
    """Distribution of a sum of Bernoullis; row i counts `weight[i]` times. Returns how many were added."""
    distribution[:] = 0.0
    distribution[0] = 1.0
    size = 0
    for i in range(probabilities.shape[0]):
        p = min(max(probabilities[i], 0.0), 1.0)
        for _ in range(weight[i]):
            include_bernoulli(distribution, size, p)
            size += 1
    return size


@kernel
def expected_value(distribution, size, values):
    """sum_m P(M = m) values[m] over the first `size` entries."""
    total = 0.0
    for m in range(size):
        total += distribution[m] * values[m]
    return total


def exact_log_gamma(a: float, probabilities: np.ndarray, weight: np.ndarray) -> float:
    """E log Gamma(a + M) from the exact distribution of M; row i of `probabilities` (n,) counts `weight[i]` times.

    >>> round(exact_log_gamma(1.0, np.array([0.5, 0.5]), np.array([1, 1])), 6)  # log 2! with probability 1/4
    0.173287
    """
    sure = probabilities >= 1.0
    open_ = (probabilities > _NEVER) & ~sure  # rows that are surely in or out need no convolution
    certain = int(weight[sure].sum())
    copies = weight[open_]
    distribution = np.empty(int(copies.sum()) + 1)
    size = distribution_of_sum(probabilities[open_], copies, distribution)
    return float(expected_value(distribution, size + 1, gammaln(a + certain + np.arange(size + 1.0))))


def taylor_log_gamma(a: float, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """E log Gamma(a + M) to second order about the mean, elementwise."""
    return gammaln(a + mean) + 0.5 * polygamma(1, a + mean) * np.maximum(variance, 0.0)


def corrected_log_gamma(a: float, mean: np.ndarray, variance: np.ndarray, log_zero: np.ndarray) -> np.ndarray:
    """E log Gamma(a + M) with M = 0 treated exactly, elementwise."""
    zero = np.exp(np.minimum(log_zero, 0.0))
    some = np.maximum(1.0 - zero, 1e-15)
    mean_some = np.maximum(mean / some, 1.0)
    variance_some = np.maximum((np.maximum(variance, 0.0) + mean**2) / some - mean_some**2, 0.0)
    return zero * gammaln(a) + (1.0 - zero) * taylor_log_gamma(a, mean_some, variance_some)
