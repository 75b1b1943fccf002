"""Sweeps over rows that need all responsibilities in memory: counts refreshed after each row, or exact expectations.

`sequential` visits rows in order and refreshes counts after each, q(eta) held fixed; with exact expectations that is
coordinate ascent on the collapsed bound, which then never falls. `parallel` uses the old counts for all rows. Exact
expectations keep the distribution of every count and tail, and take one Bernoulli out and put one in, O(T n) a row.
"""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.variational.label_kernels import _fill_tables, collapsed_weights, conditional_log_prior, softmax_row
from dtree.variational.sums_of_bernoullis import (
    distribution_of_sum,
    exclude_bernoulli,
    expected_value,
    include_bernoulli,
)
from dtree.variational.variants import Variant
from dtree.variational.weights import CountMoments, tail_sums

_ALMOST_ONE = 1.0 - 2.0**-53


@kernel
def _shift_moments(weights, shares, amount):
    """Put `amount` rows with these responsibilities (T,) into the moments of counts (take them out if negative)."""
    tail = 0.0
    for i in range(shares.shape[0] - 1, -1, -1):
        share = shares[i]
        tail += share
        weights.mean[i] += amount * share
        weights.variance[i] += amount * share * (1.0 - share)
        weights.tail[i] += amount * tail
        weights.tail_variance[i] += amount * tail * (1.0 - tail)
        if not weights.sticks:
            weights.log_zero[i] += amount * math.log1p(-min(share, _ALMOST_ONE))


@kernel
def _expanded_sequential(weights, scores, labels, weight):
    prior = np.empty(scores.shape[1])
    for n in range(scores.shape[0]):
        _fill_tables(weights)
        conditional_log_prior(weights, labels[n], prior)
        _shift_moments(weights, labels[n], -weight[n])
        for i in range(prior.shape[0]):
            labels[n, i] = scores[n, i] + prior[i]
        softmax_row(labels[n])
        _shift_moments(weights, labels[n], weight[n])


@kernel
def _clip(p):
    return min(max(p, 0.0), 1.0)


@kernel
def _exact_conditional(sticks, count, own, tails, shares, scratch, values, out):
    """E log p(z = i | other labels) from distributions of counts (T, count + 1) and tails, this row taken out."""
    size = shares.shape[0]
    tail = 0.0
    for i in range(size - 1, -1, -1):
        tail += shares[i]
        out[i] = tail
    before = 0.0
    for i in range(size):
        if not sticks or i < size - 1:
            exclude_bernoulli(own[i], count, _clip(shares[i]), scratch)
            own_term = expected_value(scratch, count, values[0])
        if not sticks:
            out[i] = own_term
            continue
        if i == size - 1:
            out[i] = before
            return
        exclude_bernoulli(tails[i], count, _clip(out[i]), scratch)
        both = expected_value(scratch, count, values[1])
        exclude_bernoulli(tails[i + 1], count, _clip(out[i + 1]), scratch)
        rest = expected_value(scratch, count, values[2])
        out[i] = own_term - both + before
        before += rest - both


@kernel
def _replace(distribution, count, old, new, copies, scratch):
    for c in range(copies):
        exclude_bernoulli(distribution, count - c, _clip(old), scratch)
        distribution[: count - c] = scratch[: count - c]
    for c in range(copies):
        include_bernoulli(distribution, count - copies + c, _clip(new))


@kernel
def _exact_sweep(sticks, scores, labels, weight, values, sequential):
    rows, size = scores.shape
    count = values.shape[1] - 1
    own = np.zeros((size, count + 1))
    tails = np.zeros((size, count + 1))
    tail = np.zeros(rows)
    for i in range(size - 1, -1, -1):
        column = labels[:, i].copy()
        distribution_of_sum(column, weight, own[i])
        if sticks:
            tail += column
            distribution_of_sum(tail, weight, tails[i])
    new = np.empty((1 if sequential else rows, size))
    prior = np.empty(size)
    scratch = np.zeros(count + 1)
    for n in range(rows):
        _exact_conditional(sticks, count, own, tails, labels[n], scratch, values, prior)
        fresh = new[0 if sequential else n]
        for i in range(size):
            fresh[i] = scores[n, i] + prior[i]
        softmax_row(fresh)
        if sequential:
            old_tail = 0.0
            new_tail = 0.0
            for i in range(size - 1, -1, -1):
                _replace(own[i], count, labels[n, i], fresh[i], weight[n], scratch)
                old_tail += labels[n, i]
                new_tail += fresh[i]
                if sticks:
                    _replace(tails[i], count, old_tail, new_tail, weight[n], scratch)
            labels[n] = fresh
    if not sequential:
        labels[:] = new


def exact_sweep(
    variant: Variant, alpha: float, scores: np.ndarray, labels: np.ndarray, weight: np.ndarray, sequential: bool
) -> None:
    """New responsibilities of a collapsed variant from exact expectations, in place in `labels` (n, T).

    `scores` (n, T) are expected log likelihoods, `weight` (n,) integers. O(T n^2), so for small data.
    """
    counts = np.arange(int(weight.sum()) + 1.0)
    share = 1.0 if variant.sticks else alpha / labels.shape[1]
    values = np.log(np.stack([share + counts, 1.0 + alpha + counts, alpha + counts]))
    _exact_sweep(variant.sticks, scores, labels, weight.astype(np.int64), values, sequential)


def expanded_sequential_sweep(
    variant: Variant, alpha: float, scores: np.ndarray, labels: np.ndarray, weight: np.ndarray, corrected: bool
) -> None:
    """The same with second-order expectations and counts refreshed after each row, in place in `labels` (n, T)."""
    tails = tail_sums(labels)
    moments = CountMoments(
        weight @ labels,
        weight @ (labels * (1.0 - labels)),
        weight @ tails,
        weight @ (tails * (1.0 - tails)),
        weight @ np.log1p(-np.minimum(labels, _ALMOST_ONE)),
    )
    _expanded_sequential(collapsed_weights(variant, alpha, moments, corrected), scores, labels, weight)
