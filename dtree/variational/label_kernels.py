"""Compiled softmax over labels, for uncollapsed weights and for collapsed ones with the row's own share taken away.

Collapsed variants need, for every row, E log p(z_n = i | the other labels) ([KWT07] Eqs. 21-23): counts without that
row. A row's responsibilities are nearly 0 for most labels, and the tails t_i = sum_{j>=i} r_j nearly 0 or 1, so these
expectations come from tables filled once a pass; only the few labels in between are computed.

Eq. 22 holds for i < T; for i = T there is no own factor, because v_T = 1.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.variational.sums_of_bernoullis import corrected_log, taylor_log
from dtree.variational.variants import Variant
from dtree.variational.weights import CountMoments

_NEGLIGIBLE = 1e-15  # a share of a row that changes no count
_LOG_NEGLIGIBLE = -104.0  # responsibilities below e^-104 are zero
_LOG_LOST = -44.0  # hundreds of numbers below e^-44 are lost when they are added to one
_ALMOST_ONE = 1.0 - 2.0**-53
_REFINEMENTS = 30  # most rounds of taking the row's own share away when its last responsibilities were not kept
_AGREEMENT = 1e-12  # two or three rounds agree to this unless a component holds only a few rows


class CollapsedWeights(NamedTuple):
    """Moments of counts and the tables that kernels read; each array (T,)."""

    sticks: bool
    corrected: bool
    alpha: float
    mean: np.ndarray
    variance: np.ndarray
    tail: np.ndarray
    tail_variance: np.ndarray
    log_zero: np.ndarray
    own_without_row: np.ndarray  # E log(1 + N_i) (sticks) or E log(alpha/T + N_i) when the row's share of i is 0
    both_without_none: np.ndarray  # E log(1 + alpha + N_{>=i}) when the row's tail is 0
    both_without_row: np.ndarray  # ... when it is 1
    rest_without_none: np.ndarray  # E log(alpha + N_{>i}) when the row's tail is 0
    rest_without_row: np.ndarray  # ... when it is 1


@kernel
def _own(weights, i, share):
    variance = weights.variance[i] - share * (1.0 - share)
    mean = max(weights.mean[i] - share, 0.0)
    if weights.sticks:
        return taylor_log(1.0, mean, variance)
    a = weights.alpha / weights.mean.shape[0]
    if weights.corrected:
        return corrected_log(a, mean, variance, weights.log_zero[i] - math.log1p(-min(share, _ALMOST_ONE)))
    return taylor_log(a, mean, variance)


@kernel
def _tail(weights, i, share, a):
    """E log(a + N_{>=i}) without a row whose share of that tail is `share`."""
    variance = weights.tail_variance[i] - share * (1.0 - share)
    return taylor_log(a, max(weights.tail[i] - share, 0.0), variance)


@kernel
def _fill_tables(weights):
    size = weights.mean.shape[0]
    for i in range(size):
        weights.own_without_row[i] = _own(weights, i, 0.0)
        if weights.sticks:
            a = 1.0 + weights.alpha
            weights.both_without_none[i] = _tail(weights, i, 0.0, a)
            weights.both_without_row[i] = _tail(weights, i, 1.0, a)
            if i + 1 < size:
                weights.rest_without_none[i] = _tail(weights, i + 1, 0.0, weights.alpha)
                weights.rest_without_row[i] = _tail(weights, i + 1, 1.0, weights.alpha)


def collapsed_weights(variant: Variant, alpha: float, moments: CountMoments, corrected: bool) -> CollapsedWeights:
    """Moments of counts with their tables filled."""
    size = moments.mean.shape[0]
    tables = [np.zeros(size) for _ in range(5)]
    fields = (moments.mean, moments.variance, moments.tail, moments.tail_variance, moments.log_zero)
    arrays = [np.ascontiguousarray(field) for field in fields]
    weights = CollapsedWeights(variant.sticks, corrected and not variant.sticks, float(alpha), *arrays, *tables)
    _fill_tables(weights)
    return weights


@kernel
def conditional_log_prior(weights, shares, out):
    """out[i] = E log p(z = i | other labels), the row's own `shares` (T,) taken out of the counts; up to a constant."""
    size = shares.shape[0]
    if not weights.sticks:
        for i in range(size):
            out[i] = weights.own_without_row[i] if shares[i] < _NEGLIGIBLE else _own(weights, i, shares[i])
        return
    tail = 0.0
    for i in range(size - 1, -1, -1):  # out holds the row's tails first
        tail += shares[i]
        out[i] = tail
    before = 0.0
    for i in range(size):
        tail = out[i]
        if i == size - 1:
            out[i] = before
            return
        # Written out: a call for every label, which hands the tables on, takes eight times as long.
        if tail < _NEGLIGIBLE:
            both = weights.both_without_none[i]
        elif tail > 1.0 - _NEGLIGIBLE:
            both = weights.both_without_row[i]
        else:
            both = _tail(weights, i, tail, 1.0 + weights.alpha)
        after = out[i + 1]
        if after < _NEGLIGIBLE:
            rest = weights.rest_without_none[i]
        elif after > 1.0 - _NEGLIGIBLE:
            rest = weights.rest_without_row[i]
        else:
            rest = _tail(weights, i + 1, after, weights.alpha)
        own = weights.own_without_row[i] if shares[i] < _NEGLIGIBLE else _own(weights, i, shares[i])
        out[i] = own - both + before
        before += rest - both


@kernel
def softmax_row(scores):
    """Scores (T,) become responsibilities in place; returns their entropy."""
    size = scores.shape[0]
    top = scores[0]
    for i in range(1, size):
        top = max(top, scores[i])
    total = 0.0
    moment = 0.0
    for i in range(size):
        below = scores[i] - top
        if below > _LOG_NEGLIGIBLE:
            value = math.exp(below)
            total += value
            moment += value * below
            scores[i] = value
        else:
            scores[i] = 0.0
    inverse = 1.0 / total
    for i in range(size):
        scores[i] *= inverse
    return math.log(total) - moment * inverse


@kernel
def softmax_rows(scores, weight):
    """Scores (n, T) become responsibilities in place; returns the weighted sum of entropies."""
    entropy = 0.0
    for n in range(scores.shape[0]):
        entropy += weight[n] * softmax_row(scores[n])
    return entropy


@kernel
def best_and_share(scores, group):
    """The best label (n,) of each row, and the share (n,) that all labels of its group have in the row.

    scores : (n, T), up to a constant of a row. group : (T,) of the labels.
    """
    best, share = np.empty(scores.shape[0], dtype=np.int64), np.empty(scores.shape[0])
    for n in range(scores.shape[0]):
        row = scores[n]
        own, top = 0, row[0]
        for i in range(1, row.shape[0]):
            if row[i] > top:
                own, top = i, row[i]
        total, inside = 0.0, 0.0
        for i in range(row.shape[0]):
            below = row[i] - top
            if below > _LOG_LOST:
                value = math.exp(below)
                total += value
                inside += value if group[i] == group[own] else 0.0
        best[n], share[n] = own, inside / total
    return best, share


@kernel
def collapsed_rows(weights, scores, shares, shares_known, weight, log_zero):
    """Expected log likelihoods `scores` (n, T) become responsibilities of a collapsed variant, in place.

    `shares` (n, T) are each row's responsibilities inside the counts. When they were not kept (`shares_known` false),
    the responsibilities that agree with their own removal are found instead: the same fixed points, no memory of rows.
    Adds sum_n w_n log(1 - r_n) to `log_zero` (T,) and returns the weighted sum of entropies.
    """
    size = scores.shape[1]
    prior = np.empty(size)
    guess = np.empty(size)
    fresh = np.empty(size)
    entropy = 0.0
    for n in range(scores.shape[0]):
        row = scores[n]
        if shares_known:
            conditional_log_prior(weights, shares[n], prior)
        else:
            guess[:] = 0.0
            for _ in range(_REFINEMENTS):
                conditional_log_prior(weights, guess, prior)
                for i in range(size):
                    fresh[i] = row[i] + prior[i]
                softmax_row(fresh)
                change = 0.0
                for i in range(size):
                    change = max(change, abs(fresh[i] - guess[i]))
                    guess[i] = fresh[i]
                if change < _AGREEMENT:
                    break
            conditional_log_prior(weights, guess, prior)
        for i in range(size):
            row[i] += prior[i]
        entropy += weight[n] * softmax_row(row)
        if not weights.sticks:
            for i in range(size):
                share = row[i]
                if share > 0.0:
                    log_zero[i] += weight[n] * (-share if share < 1e-9 else math.log1p(-min(share, _ALMOST_ONE)))
    return entropy
