"""The components of a mixture that someone gets who sets nothing: the best of several variational fits, by the bound.

What differs between the fits is the structure (one covariance matrix per component, or independent columns) and where
they start: from k-means with few or many centres, or from the clusters that Bayes K-means finds greedily. Greedy
clusters follow curved groups that k-means cannot see; from there rows still move. Every fit then learns the family's
hyperparameters from its own components, in turn with them, while the bound rises. The best
fit is started once more, from k-means with the hyperparameters that it has learned.
"""

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from dtree.core.columns import Column
from dtree.core.families import Bent, DiagonalGaussian, Family, Gaussian, moments_of
from dtree.core.families.standard_units import StandardUnits
from dtree.core.partition import canonical_labels
from dtree.kmeans.defaults import model_for
from dtree.kmeans.greedy import improved_kmeans
from dtree.kmeans.passes import START_STREAM, stream
from dtree.methods.bends import Bends, chosen_bends
from dtree.methods.variational import Settings
from dtree.variational.defaults import family_from_data
from dtree.variational.fitting import Fit, InMemory, ascend
from dtree.variational.steps import e_step, make_block
from dtree.variational.whole import fit_candidates, fit_if_worth, fit_rows, go_on

_MOST_COMPONENTS = 100  # pairs of components, and what is kept of each pair, grow with the square
_ROWS_PER_COMPONENT = 4  # on average at least, or there are as many parameters as rows
_SPARE = 10  # components that a fit may open besides those it starts from
_GREEDY_FEATURES = 8  # in more, choosing a model for this start takes longer than all other fits together
_EVERY_SHARE = 2  # of the assumed shares of variance within components: what lies between is learned afterwards
_TOLERANCE, _ITERATIONS = 1e-5, 200  # nats a row: components do not move visibly any more; hyperparameters follow
_FAR_BEHIND = 1.0  # nats a row by which a short fit may stay behind: going on rarely wins more back
_BENT_BEHIND = 0.1  # the same for bends of more than _QUICK_ROWS rows, where a fit in vain costs most
_QUICK_ROWS = 2000
_SHORT = 4  # passes from components that are there already
_CLEARLY = math.log(20.0)  # nats: odds of twenty to one are called strong evidence
_AGAIN_NUMBERS = 600_000  # rows times columns squared up to which a last start takes less than a second
_ROUNDS = 3  # of learning hyperparameters or bends: each raises the bound less than the one before
_LAST_ROUNDS = 10  # of the fit that is kept: in many columns three do not get there


def truncation_for(n: int, d: int, structure: str | Family) -> int:
    """Most components that n rows of d features can tell apart; a covariance matrix needs d + 1 rows to be seen."""
    full = structure == "gaussian" or isinstance(structure, Gaussian)
    each = max(_ROWS_PER_COMPONENT, d + 1) if full else _ROWS_PER_COMPONENT
    return max(2, min(_MOST_COMPONENTS, n // each, n))


def settings_of(family: Any, alpha: float, truncation: int, init: Any = "auto") -> Settings:
    """How one of the fits is made."""
    return Settings(
        variant="TSB",
        family=family,
        alpha=alpha,
        truncation=truncation,
        init=init,
        tol=_TOLERANCE,
        max_iter=_ITERATIONS,
    )


def structures_of(asked: Any, meant: str | Family) -> tuple[str | Family, ...]:
    """The structures that compete: two for plain numbers when nothing was asked for, else what was."""
    return ("gaussian", "gaussian-diag") if asked == "auto" and meant == "gaussian" else (meant,)


def in_own_order(X: Any, weight: np.ndarray, full: bool) -> tuple[Any, np.ndarray]:
    """Distinct rows with their weights, in an order that depends on the values alone.

    So neither the order of the rows nor, for plain numbers (`full`), that of the columns or their units changes what
    random numbers meet: such rows are ordered by their distance from the mean in the data's own metric.
    """
    held = weight > 0
    if sparse.issparse(X):
        return X[held], weight[held]
    distinct, which = np.unique(X[held], axis=0, return_inverse=True)
    weight = np.bincount(which.ravel(), weight[held])
    if full:
        centred = distinct - weight @ distinct / weight.sum()
        spread = np.sqrt(weight @ centred**2 / weight.sum())
        centred /= np.where(spread > 0.0, spread, 1.0)  # or rounding drowns columns of small numbers beside large ones
        metric = np.linalg.pinv((centred * weight[:, None]).T @ centred / weight.sum(), hermitian=True)
        order = np.argsort(np.einsum("na,ab,nb->n", centred, metric, centred), kind="stable")
        distinct, weight = distinct[order], weight[order]
    return np.ascontiguousarray(distinct), weight


def recorded_steps(X: np.ndarray) -> np.ndarray:
    """The step (d,) to which each column of X (n, d) was recorded: 0 unless all its values are multiples of one.

    >>> recorded_steps(np.array([[0.3, 1.0], [0.1, 2.5], [0.2, 2.0], [0.3, 0.12345]])).round(3).tolist()
    [0.1, 0.0]
    """
    steps = np.zeros(X.shape[1])
    for feature, column in enumerate(X.T):
        values = np.unique(column)
        if 1 < values.shape[0] < X.shape[0]:  # a step shows in values that come again
            places = (values - values[0]) / np.diff(values).min()
            if np.all(np.abs(places - np.rint(places)) < 1e-4):  # numbers with two digits are not exact in base two
                steps[feature] = np.diff(values).min()
    return steps


def fit_components(
    X: Any, weight: np.ndarray, structures: tuple[str | Family, ...], kinds: tuple[Column, ...], alpha: float, seed: int
) -> Fit:
    """The best fit by the bound to rows X (n, d) of weights (n,)."""
    full = "gaussian" in structures
    X, weight = in_own_order(X, weight, full)
    fits: list[Fit] = []
    for structure in structures:
        fits += _from_centres(X, weight, structure, kinds, alpha, seed, fits)
    if not full:
        return max(fits, key=_bound)
    if X.shape[1] <= _GREEDY_FEATURES and X.shape[0] > 2:
        fits.append(_from_greedy_clusters(X, weight, alpha, seed))
    fits += _from_bent_scales(X, weight, structures, kinds, alpha, seed, fits)
    best = _bent_to_fit(X, weight, alpha, seed, _finest_of_the_best(fits))
    return _started_again(X, weight, alpha, seed, best) if X.size * X.shape[1] <= _AGAIN_NUMBERS else best


def _from_bent_scales(
    X: np.ndarray,
    weight: np.ndarray,
    structures: tuple[str | Family, ...],
    kinds: tuple[Column, ...],
    alpha: float,
    seed: int,
    straight: list[Fit],
) -> list[Fit]:
    """Fits to plain numbers on scales bent to look like one group, beside those on straight scales."""
    bends, found = chosen_bends(X, weight, np.ones((X.shape[0], 1))), list[Fit]()
    if not bends.straight and _may_bend(X, weight, alpha, max(straight, key=_bound), bends):
        for structure in structures:
            found += _from_centres(X, weight, structure, kinds, alpha, seed, straight + found, bends)
    return found


def _finest_of_the_best(fits: list[Fit]) -> Fit:
    """Of the fits that none is clearly better than, the one with the most components.

    Components without a valley between them are joined afterwards; groups that share one are never parted.
    """
    near = [fit for fit in fits if _bound(fit) >= max(map(_bound, fits)) - _CLEARLY]
    return max(near, key=lambda fit: (_held(fit), _bound(fit)))


def _held(fit: Fit) -> int:
    """How many components hold rows."""
    return int(np.count_nonzero(fit.sums.counts >= 0.5))


def _bound(fit: Fit) -> float:
    """What fits are compared by: the bound, less half the logarithm of the rows for every column that is bent, and less
    what a learned scale matrix costs.

    A bend is found by likelihood, which the bound of bent rows does not charge for. Scales as they were recorded stay
    unless others are clearly better: which of two local optima is a nat higher is chance.
    """
    family = fit.rule.family
    bent = np.count_nonzero(family.bend != 1.0) if isinstance(family, Bent) else 0
    charge = 0.5 * bent * math.log(max(fit.sums.rows, 1.0)) + _CLEARLY if bent else 0.0
    return fit.elbo - charge - _charge_for_scale(family.base if isinstance(family, Bent) else family, fit.sums.counts)


def _charge_for_scale(family: Family, counts: np.ndarray) -> float:
    """What the bound does not charge for a scale matrix that was learned from the rows: half a logarithm for each of
    its covariances, of how many rows say what it is over how many a vague prior on it would be worth.

    That is what integrating over such a parameter, instead of taking its best value, leaves of the evidence (Laplace).
    Independent columns have no covariances, so that these were had for nothing when the two structures were compared. A
    component of n rows says as much of a matrix that is worth `dof` rows as n dof / (n + dof) rows would. The vaguest
    Wishart prior that has a mean is worth d + 2 rows.
    """
    if not isinstance(family, Gaussian):
        return 0.0
    d, counts = family.n_features, counts[counts >= 0.5]
    rows = float(np.sum(counts * family.dof / (counts + family.dof)))
    return 0.25 * d * (d - 1) * math.log(max(rows / (d + 2), 1.0))


def _from_centres(
    X: Any,
    weight: np.ndarray,
    structure: str | Family,
    kinds: tuple[Column, ...],
    alpha: float,
    seed: int,
    fits: list[Fit],
    bends: Bends | None = None,
) -> list[Fit]:
    """The best fit that starts from k-means, on straight or on bent scales; none when it stays far behind `fits`."""
    best = max(fits, key=_bound, default=None)
    settings = settings_of(structure, alpha, truncation_for(X.shape[0], X.shape[1], structure))
    if bends is not None and best is not None:  # a scale that suits the groups better hardly needs more components
        most = _held(best) + _SPARE
        settings = msgspec.structs.replace(settings, truncation=min(most, int(settings.truncation or 2)))
        families = bent_families(structure, X, weight, bends)
    else:
        families = _straight_families(structure, X, weight, kinds)
    behind = _FAR_BEHIND if bends is None or X.shape[0] <= _QUICK_ROWS else _BENT_BEHIND
    worth = -np.inf if best is None else best.elbo / best.sums.rows - behind
    fit = fit_if_worth(X, weight, families, int(settings.truncation or 2), settings, seed, worth, _SPARE)
    if fit is None:
        return []
    return [fit if isinstance(structure, Family) else _learned(X, weight, settings, seed, fit)]


def _straight_families(structure: str | Family, X: Any, weight: np.ndarray, kinds: tuple[Column, ...]) -> list[Family]:
    """Candidates of a structure for rows X (n, d) on the scales on which they were recorded."""
    families = family_from_data(structure, X, weight, kinds)[::_EVERY_SHARE]
    if isinstance(structure, Family) or not isinstance(families[0], StandardUnits):
        return families
    steps = recorded_steps(X)
    return [replace(family, step=steps) for family in families]  # type: ignore[type-var]


def _may_bend(X: np.ndarray, weight: np.ndarray, alpha: float, best: Fit, bends: Bends) -> bool:
    """Whether bent scales are worth a search of their own; of many rows, some decide from the best fit's components.

    Several straight groups look like one that is bent; but then their own components fit worse when bent.
    """
    if X.shape[0] <= _QUICK_ROWS:
        return True
    some = slice(None, None, -(-X.shape[0] // _QUICK_ROWS))  # of rows in order, so of all kinds
    X, weight = X[some], weight[some]
    name, shares = best.rule.family.name, _shares(X, weight, best)

    def reached(family: Family) -> float:
        held, rule = InMemory(make_block(family, X, weight), shares.copy()), replace(best.rule, family=family)
        return ascend(held, held.sums(rule), rule, _SHORT, _TOLERANCE).elbo

    straight = _straight_families(name, X, weight, ())
    return max(map(reached, bent_families(name, X, weight, bends))) >= max(map(reached, straight))


def bent_families(structure: str | Family, X: np.ndarray, weight: np.ndarray, bends: Bends) -> list[Family]:
    """Candidates of a structure for rows X (n, d) on bent scales."""
    d, steps = X.shape[1], recorded_steps(X)
    plain = Bent(DiagonalGaussian(np.zeros(d), 1.0, 2.0, np.ones(d)), *bends)
    bent = plain.kept_rows(X)[:, :d]
    return [Bent(base, *bends, steps) for base in family_from_data(structure, bent, weight)[::_EVERY_SHARE]]


def _bent_to_fit(X: np.ndarray, weight: np.ndarray, alpha: float, seed: int, best: Fit) -> Fit:
    """The fit with bends that suit its own components instead of one group, while that raises the bound."""
    for _ in range(_ROUNDS):
        base = best.rule.family.base if isinstance(best.rule.family, Bent) else best.rule.family
        shares = _shares(X, weight, best)
        bends = chosen_bends(X, weight, shares)
        now = best.rule.family.bend if isinstance(best.rule.family, Bent) else np.ones(X.shape[1])
        if np.array_equal(bends.bend, now):
            break
        size = max(2, min(X.shape[0], shares.shape[1] + _SPARE))
        settings = settings_of(base.name, alpha, size, shares)
        families = bent_families(base.name, X, weight, bends)
        fit = _learned(X, weight, settings, seed, fit_candidates(X, weight, families, size, settings, seed))
        if _bound(fit) < _bound(best) + 0.1:
            break
        best = fit
    return best


def _started_again(X: np.ndarray, weight: np.ndarray, alpha: float, seed: int, best: Fit) -> Fit:
    """The fit with its hyperparameters learned to the end, or a better one that starts from k-means with them.

    Those that earlier starts had to do with are far off in many columns, and what a start finds depends on them.
    """
    size = min(_held(best) + _SPARE, truncation_for(X.shape[0], X.shape[1], best.rule.family))
    settings = settings_of(best.rule.family, alpha, size)
    best = _learned(X, weight, settings, seed, best, _LAST_ROUNDS)
    again = fit_candidates(X, weight, [best.rule.family], size, settings, seed)
    return max(best, _learned(X, weight, settings, seed, again, _LAST_ROUNDS), key=_bound)


def _shares(X: np.ndarray, weight: np.ndarray, fit: Fit) -> np.ndarray:
    """Responsibilities (n, k) of the components that hold rows."""
    shares = np.empty((X.shape[0], fit.sums.counts.shape[0]))
    e_step(make_block(fit.rule.family, X, weight), fit.state, out=shares)
    shares = shares[:, fit.sums.counts > 0.5]
    return shares / shares.sum(axis=1, keepdims=True)


def _from_greedy_clusters(X: np.ndarray, weight: np.ndarray, alpha: float, seed: int) -> Fit:
    moments = moments_of(X, True, weight)
    model = model_for("gaussian", "dp", moments, X, seed, 1.0, weight)
    model = replace(model, family=replace(model.family, step=recorded_steps(X)))  # type: ignore[type-var]
    atoms = model.atoms(X, weight)
    order = stream(seed, START_STREAM, 0, 0).permutation(X.shape[0])
    labels = canonical_labels(improved_kmeans(model, atoms, order).labels)
    size = max(2, min(X.shape[0], int(labels.max()) + 1 + _SPARE))
    settings = settings_of(model.family, alpha, size, labels)
    return _learned(X, weight, settings, seed, fit_rows(X, weight, size, settings, seed))


def _learned(X: Any, weight: np.ndarray, settings: Settings, seed: int, best: Fit, rounds: int = _ROUNDS) -> Fit:
    """The fit with hyperparameters learned from its own components, while that raises the bound."""
    settings = msgspec.structs.replace(settings, split_merge=min(settings.split_merge, 4))
    for _ in range(rounds):
        held = best.sums.statistics[best.sums.counts >= 0.5]
        whole = np.vstack([held, best.sums.statistics.sum(axis=0)])
        family = best.rule.family.refined(whole, np.append(np.ones(held.shape[0]), 0.0))
        if family is best.rule.family:
            break
        fit = go_on(X, weight, settings, seed, replace(best, rule=replace(best.rule, family=family)))
        gained = fit.elbo - best.elbo
        best = fit if gained > 0.0 else best
        if gained < 1.0:  # a nat is no reason to go on
            break
    return best
