"""Models for someone who sets nothing: hyperparameters chosen by the evidence.

How tight a cluster is, relative to the spread of the data, is the one delicate choice. For several assumed
within-cluster shares of the variance a tree is grown on (a subsample of) the data, the family is refined on it where
it knows how (`Family.refined`), alpha follows, and the model with the highest bound wins. Everything is relative to
the data's own moments, so shifting or rescaling the data, or any affine map for the full Gaussian, changes no tree
and no label.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import Column
from dtree.core.families import Family, Moments, family_type, moments_of
from dtree.core.model import Model
from dtree.core.priors import Prior, prior_of
from dtree.core.progress import report
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.hyperparameters import improve_on_tree, log_bound
from dtree.hierarchy.statistics import node_statistics

_SHARES = (0.8, 0.5, 0.2, 0.1, 0.05, 0.02, 0.005)  # of the variance within clusters: from one blob to tight ones
_STARTS_REFINED = 3  # the most promising shares, on which the family is refined
_ROUNDS = 6  # at most: a climb ends as soon as the bound rises no more
_STEPS_PER_ROUND = 3
_LARGEST_SUBSAMPLE = 500  # rows: the cost of every tree grown while choosing is quadratic in them
_SUBSAMPLE_WORK = 3e9  # n^2 d^3 of the trees grown while choosing
_WIDE_WORK = 5e8  # n^2 d where the work is not cubic in d: 200 rows of 12,500 words


def choose_model(
    X: Any,
    family: str | Family = "gaussian",
    prior: str | Prior = "dp",
    sample_weight: np.ndarray | None = None,
    moments: Moments | None = None,
    seed: int = 0,
    kinds: tuple[Column, ...] = (),
) -> Model:
    """A model for rows X (n, d): objects are taken as they are, names are fitted by the evidence.

    `moments` may describe many more rows than X, when X is a subsample of them. `kinds` says what the columns hold.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> choose_model(X).family.name
    'gaussian'
    """
    if isinstance(family, Family) and isinstance(prior, Prior):
        return Model(family, prior)
    start_prior = prior_of(prior)
    if isinstance(family, Family):
        candidates = [family]
    else:
        kind = family_type(family)
        if moments is None:
            moments = moments_of(X, kind.needs_covariance, sample_weight, kinds)
        if moments.rows < 2:
            raise ValueError(
                "X has 1 sample (one row), from which no scale can be learned; give at least 2 rows, or a family "
                "object with its hyperparameters"
            )
        candidates = [kind.defaults(moments, share) for share in _SHARES]
    rows = _subsample(X.shape[0], candidates[0].n_features, candidates[0].needs_covariance, seed)
    # Statistics are in the data's own units, the same for all candidates.
    atoms = Model(candidates[0], start_prior).atoms(X[rows], None if sample_weight is None else sample_weight[rows])
    learn_prior = isinstance(prior, str)
    started = []
    for done, candidate in enumerate(candidates):
        report("choosing the scale", done, len(candidates) + _STARTS_REFINED)
        started.append(_first_tree(Model(candidate, start_prior), atoms, learn_prior))
    started.sort(key=lambda start: -start.score)
    climbed = []
    for done, start in enumerate(started[:_STARTS_REFINED] if isinstance(family, str) else started[:1]):
        report("choosing the scale", len(candidates) + done, len(candidates) + _STARTS_REFINED)
        climbed.append(_climb(start, atoms, learn_prior) if isinstance(family, str) else start)
    return max(climbed, key=lambda end: end.score).model


def _subsample(n: int, d: int, cubic: bool, seed: int) -> np.ndarray:
    """Which rows are looked at while choosing: all of a small set, a random part of a large one."""
    limit = _LARGEST_SUBSAMPLE
    if cubic:
        limit = int(min(limit, max(math.sqrt(_SUBSAMPLE_WORK / d**3), 4 * d, 100)))
    else:
        limit = int(min(limit, max(math.sqrt(_WIDE_WORK / d), 100)))
    if n <= limit:
        return np.arange(n)
    return np.sort(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,))).choice(n, limit, replace=False))


class _Fit(NamedTuple):
    score: float
    model: Model
    tree: Tree


def _first_tree(model: Model, atoms: np.ndarray, learn_prior: bool) -> _Fit:
    tree = build_tree(model, atoms)
    if learn_prior:
        model = improve_on_tree(model, tree, atoms, prior_only=True, hyperprior=True)
        tree = build_tree(model, atoms)
    return _Fit(_score(tree, model, atoms, learn_prior), model, tree)


def _climb(best: _Fit, atoms: np.ndarray, learn_prior: bool) -> _Fit:
    """Alternate hyperparameters and trees while the bound (with the hyperprior of alpha) rises."""
    model, tree = best.model, best.tree
    for _ in range(_ROUNDS):
        refined = _refine(model, tree, atoms)
        if refined.family is model.family:
            break
        model = improve_on_tree(refined, tree, atoms, prior_only=True, hyperprior=True) if learn_prior else refined
        tree = build_tree(model, atoms)
        score = _score(tree, model, atoms, learn_prior)
        if score < best.score + 0.1:
            break
        best = _Fit(score, model, tree)
    return best


def _refine(model: Model, tree: Tree, atoms: np.ndarray) -> Model:
    statistics = node_statistics(tree, atoms)
    for _ in range(_STEPS_PER_ROUND):
        on_tree = tree.with_potentials(model.log_phi_h(statistics))
        family = model.family.refined(statistics, np.exp(on_tree.log_omega))
        if family is model.family:
            break
        model = replace(model, family=family)
    return model


def _score(tree: Tree, model: Model, atoms: np.ndarray, learn_prior: bool) -> float:
    log_hyperprior = model.prior.log_hyperprior()[0] if learn_prior else 0.0
    return log_bound(tree, model, float(model.counts(atoms).sum())) + log_hyperprior
