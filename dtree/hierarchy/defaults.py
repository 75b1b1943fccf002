"""Models for someone who sets nothing: hyperparameters chosen by the evidence.

How tight a cluster is, relative to the spread of the data, is the one delicate choice. For several assumed
within-cluster shares of the variance a tree is grown on (a subsample of) the rows, and alpha is learned on it. For the
most promising shares the family is refined on the tree's nodes where it knows how (`Family.refined`) and the tree grown
anew, in turn; who falls behind is dropped. A model's score is the bound of the
tree that it grows itself, since that is what its user gets. Everything is relative to the data's own moments, so
shifting or rescaling the data, or any affine map for the full Gaussian, changes no tree and no label.
"""

import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import Column
from dtree.core.families import Family, Moments, family_type, moments_of
from dtree.core.families.gaussian import ONE_BLOB
from dtree.core.model import Model
from dtree.core.priors import Prior, prior_of
from dtree.core.progress import report
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.hyperparameters import log_bound, prior_on_tree
from dtree.hierarchy.statistics import node_statistics

_SHARES = (0.8, 0.5, 0.2, 0.1, 0.05, 0.02, 0.005)  # of the variance within clusters: from one blob to tight ones
# Scales are compared under this prior, whatever the prior of the fit: an NGGP whose sigma is near 1 makes clusters of
# single rows for nothing, so noise was as many clusters as rows, drawn from a family that fits the noise.
_OF_SCALES = "dp"
_SHARES_TAKEN_UP = 3  # the most promising
_CLIMBS_FINISHED = 2  # of them, by the score after one round
_ROUNDS = 6  # at most: a climb ends as soon as the bound rises no more
_LEAST_GAIN = 0.1  # of a round that goes on
_STEPS_PER_ROUND = 3
_FEW_ROWS = 2  # rows per feature up to which a covariance matrix is shrunk, not learned: it would fit every row
# Rows: the cost of every tree is quadratic in them. Fewer to rank the shares would save time, but tight clusters need
# rows to show: a spiral of 312 rows looked like one cluster on half of them.
_LARGEST_SUBSAMPLE = 500
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
    if isinstance(prior, str) and prior != _OF_SCALES:
        family = choose_model(X, family, _OF_SCALES, sample_weight, moments, seed, kinds).family
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
    search = _Search(atoms, isinstance(prior, str))
    if isinstance(family, Family) or moments is None:
        return search.grown(Model(candidates[0], start_prior)).model
    # One cluster like the data is no start to climb from: it stands beside the others, and takes the place of none.
    blob = [kind.defaults(moments, ONE_BLOB)] if kind.needs_covariance else []
    found = search.all_grown([Model(candidate, start_prior) for candidate in candidates + blob])
    best, blobs = _best_first(found[: len(candidates)])[:_SHARES_TAKEN_UP], found[len(candidates) :]
    matrix = candidates[0].n_features if candidates[0].needs_covariance else 0
    if moments.rows > _FEW_ROWS * matrix:
        best = search.climbed(best)
    return max(best + blobs, key=lambda fit: fit.score).model


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


def _threads() -> ThreadPoolExecutor:
    """One for every core: kernels let other threads run."""
    return ThreadPoolExecutor(min(len(_SHARES), os.cpu_count() or 1))


class _Fit(NamedTuple):
    score: float  # the bound of the tree, with the hyperprior of what was learned of the prior
    model: Model
    tree: Tree
    statistics: np.ndarray  # (2m-1, s) of its nodes
    over: bool = False  # whether it rises no more


def _best_first(fits: Iterable[_Fit]) -> list[_Fit]:
    return sorted(fits, key=lambda fit: -fit.score)


class _Search(NamedTuple):
    """Where models are compared: atoms (m, s), and whether the prior is learned too."""

    atoms: np.ndarray
    learn_prior: bool

    def grown(self, model: Model) -> _Fit:
        """The tree that a model grows, and the prior learned on it."""
        tree = build_tree(model, self.atoms, threads=1)  # the other cores grow other trees
        return self.on_tree(model, tree, node_statistics(tree, self.atoms))

    def on_tree(self, model: Model, tree: Tree, statistics: np.ndarray) -> _Fit:
        """A model, its prior learned, on a tree that is there."""
        if self.learn_prior:
            found = prior_on_tree(model, tree, statistics)
            return _Fit(found.bound, found.model, tree, statistics)
        tree = tree.with_potentials(model.log_phi_h(statistics))
        return _Fit(log_bound(tree, model, float(model.counts(statistics)[-1])), model, tree, statistics)

    def all_grown(self, models: list[Model]) -> list[_Fit]:
        """Every model with a tree of its own."""
        found: list[_Fit] = []
        with _threads() as pool:
            for fit in pool.map(self.grown, models):
                found.append(fit)
                report("choosing the scale", len(found), len(models) + _SHARES_TAKEN_UP)
        return found

    def climbed(self, starts: list[_Fit]) -> list[_Fit]:
        """One round for every start, then the best of them to the end."""
        with _threads() as pool:
            risen = _best_first(pool.map(self._risen, starts))
            return list(pool.map(self._to_the_end, risen[:_CLIMBS_FINISHED]))

    def _to_the_end(self, fit: _Fit) -> _Fit:
        for _ in range(_ROUNDS - 1):
            if fit.over:
                break
            fit = self._risen(fit)
        return fit

    def _risen(self, best: _Fit) -> _Fit:
        """A round: the family refined on the tree, the prior learned, another tree."""
        refined = _refine(best)
        if refined.family is best.model.family:
            return best._replace(over=True)
        risen = self.grown(self.on_tree(refined, best.tree, best.statistics).model)
        if risen.score < best.score + _LEAST_GAIN:
            return max(best, risen, key=lambda fit: fit.score)._replace(over=True)
        return risen


def _refine(fit: _Fit) -> Model:
    model = fit.model
    for _ in range(_STEPS_PER_ROUND):
        on_tree = fit.tree.with_potentials(model.log_phi_h(fit.statistics))
        family = model.family.refined(fit.statistics, np.exp(on_tree.log_omega))
        if family is model.family:
            break
        model = replace(model, family=family)
    return model
