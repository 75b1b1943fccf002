"""Where a fit starts: k-means with few and with many centres, each with hyperparameters of its own.

What share of the variance lies within components, and how alike they are, is another thing for three components than
for thirty. Starts that are compared under hyperparameters that suit neither are judged by that: under a wide prior
few components win. So every rung of the ladder learns its own, in turn with its components, and is thinned: components
that are better off together are joined, all at once, while the bound rises.
"""

import numpy as np

from dtree.core.families import Family
from dtree.variational.fitting import Fit, InMemory, ascend
from dtree.variational.starts import kmeans_labels, one_hot
from dtree.variational.steps import Rule, make_block, sums_of
from dtree.variational.variants import Variant, variant_named
from dtree.variational.weights import log_prior_at_counts

_ROWS = 2000  # tell starts apart; the chosen one goes on with all rows
_CENTRES = (2, 4, 8, 16, 32, 64)
_MISSES = 2  # rungs in a row that bring nothing: far more centres bring less still
_ITERATIONS, _TOLERANCE = 8, 1e-4  # between two looks at the hyperparameters; nats a row
_ROUNDS = 2  # of learning hyperparameters on a rung
_OCCUPIED = 0.5  # expected rows below which a component counts as empty
_WORST_JOIN = -10.0  # nats that joining hard labels may lose and still be tried: soft labels often win them back


def best_start(
    candidates: list[Family],
    X: np.ndarray,
    weight: np.ndarray,
    variant: Variant,
    most: int,
    alpha: float,
    random: np.random.Generator,
) -> Fit:
    """The short fit with the highest bound, to at most some thousand of the rows X (n, d) of weights (n,).

    candidates : one family with several shares of variance within components, in the same units.
    """
    if X.shape[0] > _ROWS:
        chosen = np.sort(random.choice(X.shape[0], _ROWS, replace=False))
        X, weight = X[chosen], weight[chosen]
    most = min(most, X.shape[0])
    best: Fit | None = None
    misses = 0
    for centres in sorted({min(number, most) for number in _CENTRES} | {most}):
        if misses == _MISSES:
            break
        labels = kmeans_labels(candidates[0], X, centres, random, weight)
        start = one_hot(labels, centres + 1)
        family = most_likely(candidates, X, weight, start)
        fit = _thinned(X, weight, *_learned(X, weight, Rule(family, variant, alpha), start))
        misses += 1
        if best is None or fit.elbo > best.elbo:
            best, misses = fit, 0
    assert best is not None
    return best


def most_likely(candidates: list[Family], X: np.ndarray, weight: np.ndarray, shares: np.ndarray) -> Family:
    """The candidate under which components with responsibilities (n, T), as they are, are most likely."""
    plain = Rule(candidates[0], variant_named("TSB"), 1.0)
    statistics = sums_of(make_block(candidates[0], X, weight), shares, plain).statistics
    return max(candidates, key=lambda family: float(family.soft_log_marginal_of(statistics).sum()))


def _learned(X: np.ndarray, weight: np.ndarray, rule: Rule, start: np.ndarray) -> tuple[Fit, np.ndarray]:
    """A short fit from responsibilities (n, T), hyperparameters in turn with components; and where its rows are."""
    best: tuple[Fit, np.ndarray] | None = None
    for _ in range(_ROUNDS):
        rows = InMemory(make_block(rule.family, X, weight), start)
        fit = ascend(rows, rows.sums(rule), rule, _ITERATIONS, _TOLERANCE)
        if best is not None and fit.elbo <= best[0].elbo:
            break
        best = fit, rows.responsibilities
        held = fit.sums.statistics[fit.sums.counts >= _OCCUPIED]
        whole = np.vstack([held, held.sum(axis=0)])
        family = rule.family.refined(whole, np.append(np.ones(held.shape[0]), 0.0))
        if family is rule.family:
            break
        rule, start = Rule(family, rule.variant, rule.alpha), rows.responsibilities.copy()
    assert best is not None
    return best


def _thinned(X: np.ndarray, weight: np.ndarray, fit: Fit, shares: np.ndarray) -> Fit:
    """The fit with components joined while that raises the bound."""
    while True:
        joins = _joins(fit)
        if not joins:
            return fit
        start = shares.copy()
        for into, gone in joins:
            start[:, into] += start[:, gone]
            start[:, gone] = 0.0
        occupied = weight @ start >= _OCCUPIED
        occupied[np.flatnonzero(~occupied)[:1]] = True  # one empty place, as in the beginning
        joined, where = _learned(X, weight, fit.rule, np.ascontiguousarray(start[:, occupied]))
        if joined.elbo <= fit.elbo:
            return fit
        fit, shares = joined, where


def _joins(fit: Fit) -> list[tuple[int, int]]:
    """Pairs of components, none in two of them, that would lose next to nothing as one, the best first."""
    statistics, counts, family = fit.sums.statistics, fit.sums.counts, fit.rule.family
    held = np.flatnonzero(counts >= _OCCUPIED)
    first, second = (held[place] for place in np.triu_indices(held.shape[0], 1))
    if first.shape[0] == 0:
        return []
    alone = family.soft_log_marginal_of(statistics)
    gain = family.soft_log_marginal_of(statistics[first] + statistics[second]) - alone[first] - alone[second]
    sizes = np.repeat(counts[None], first.shape[0], axis=0)
    pairs = np.arange(first.shape[0])
    sizes[pairs, first] += counts[second]
    sizes[pairs, second] = 0.0
    gain += log_prior_at_counts(fit.rule.variant, fit.rule.alpha, sizes)
    gain -= log_prior_at_counts(fit.rule.variant, fit.rule.alpha, counts)
    joins: list[tuple[int, int]] = []
    taken: set[int] = set()
    for pair in np.argsort(-gain, kind="stable"):
        into, gone = int(first[pair]), int(second[pair])
        if gain[pair] < _WORST_JOIN:
            break
        if not taken & {into, gone}:
            joins.append((into, gone))
            taken |= {into, gone}
    return joins
