"""A family for someone who names only its kind: hyperparameters from the data, the delicate one from the bound.

How tight clusters are relative to the spread of the data decides how many there are. A handful of shares is tried with
short fits on at most a few thousand rows, and the one with the highest bound wins, so nothing has to be set by hand.
"""

from typing import Any

import numpy as np

from dtree.core.columns import Column
from dtree.core.families import Family, Moments, family_type, has_holes, moments_of, resolve
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.starts import kmeans_labels, one_hot
from dtree.variational.steps import Rule, make_block
from dtree.variational.variants import Variant

SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
_ROWS = 2000
_ITERATIONS = 12
_CENTRES = (2, 4, 8, 16, 32, 64)
_MISSES = 2  # numbers of centres in a row that bring nothing: far more of them bring less still


def family_from_data(
    kind: str | Family, X: Any, weight: np.ndarray | None = None, kinds: tuple[Column, ...] = ()
) -> list[Family]:
    """The family itself, anchored at the data, or the defaults of its kind for several shares of variance.

    `kinds` says what the columns hold. All columns are used.
    """
    every = np.zeros(X.shape[1]), np.ones(X.shape[1])  # columns that say nothing have been left out before
    kind, _, kinds = resolve(kind, kinds, *every, has_holes(X))
    with_covariance = not isinstance(kind, Family) and family_type(kind).needs_covariance
    return family_from_moments(kind, moments_of(X, with_covariance, weight, kinds))


def family_from_moments(kind: str | Family, moments: Moments) -> list[Family]:
    """The same for data of which only the moments are known.

    >>> moments = Moments(10.0, np.zeros(2), np.ones(2), None)
    >>> len(family_from_moments("gaussian-diag", moments)) == len(SHARES)
    True
    """
    if isinstance(kind, Family):
        if kind.n_features != moments.mean.shape[0]:
            raise ValueError(f"the family has {kind.n_features} features but the data have {moments.mean.shape[0]}")
        return [kind.anchored(moments)]
    return [family_type(kind).defaults(moments, share) for share in SHARES]


def choose_by_bound(
    candidates: list[Family],
    X: Any,
    variant: Variant,
    size: int,
    alpha: float,
    random: np.random.Generator,
    weight: np.ndarray | None = None,
) -> tuple[Family, int, float]:
    """The candidate family, and the number of k-means centres to start from, whose short fit has the highest bound;
    and that bound, in nats a row.

    Starts with few and with many centres are tried, because a fit rarely leaves a start with far too many. Candidates
    come in order, the widest clusters first: with more centres, none that is wider than the best so far is tried again.
    """
    rows = X.shape[0]
    chosen = slice(None) if rows <= _ROWS else np.sort(random.choice(rows, _ROWS, replace=False))
    sample = X[chosen]
    sample_weight = None if weight is None else weight[chosen]
    size = min(size, sample.shape[0])
    plain = variant._replace(collapsed=False)  # its bound is exact and costs nothing
    best, misses = (-np.inf, 0, size), 0
    for centres in sorted({min(number, size) for number in _CENTRES} | {size}):
        if misses == _MISSES:
            break
        misses += 1
        # Sticks behind the first empty one change next to nothing and cost as much as full ones.
        width = min(size, centres + 1) if variant.sticks else size
        start = one_hot(kmeans_labels(candidates[0], sample, centres, random, sample_weight), width)
        for place in range(best[1], len(candidates)):
            family = candidates[place]
            held, rule = InMemory(make_block(family, sample, sample_weight), start.copy()), Rule(family, plain, alpha)
            bound = ascend(held, held.sums(rule), rule, _ITERATIONS, 1e-3).elbo
            if bound > best[0]:
                best, misses = (bound, place, centres), 0
    rows = sample.shape[0] if sample_weight is None else float(sample_weight.sum())
    return candidates[best[1]], best[2], best[0] / rows
