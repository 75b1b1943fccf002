"""Hierarchical clustering by sequential insertion, one row or one block of rows at a time, in scikit-learn's manner."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dtree.core.checks import as_counts
from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.names import take_names
from dtree.core.priors import PRIORS, Prior
from dtree.core.tree import Tree
from dtree.hierarchy.checked_rows import checked_atoms, checked_rows, family_class, informative_columns
from dtree.hierarchy.defaults import choose_model, named
from dtree.hierarchy.hyperparameters import log_bound
from dtree.hierarchy.incremental_forest import Forest
from dtree.hierarchy.predictive import (
    heaviest_nodes,
    log_cluster_weights,
    log_membership,
    log_mixture_density,
    mixture_weights,
)
from dtree.hierarchy.statistics import cluster_statistics, node_statistics

INITIALISATIONS = ("exact", "noisy")


def leaf_statistics(forest: Forest) -> np.ndarray:
    """Statistics (m, s) of the atoms a forest holds, in the order in which they were numbered."""
    pool = forest.pool
    assert pool is not None
    leaves = np.flatnonzero(pool.atom >= 0)
    atoms = np.empty((forest.n_atoms, pool.statistics.shape[1]))
    atoms[pool.atom[leaves]] = pool.statistics[leaves]
    return atoms


class InMemoryIncrementalBHC(ClusterMixin, BaseEstimator):
    """Insertion of rows in memory; `dtree.IncrementalBHC`, which says what the parameters mean, adds files and Dask collections."""

    def __init__(
        self,
        family: str | Family = "gaussian",
        prior: str | Prior = "dp",
        *,
        init: str = "exact",
        coarsening: float = 1.0,
        shuffle: bool = True,
        balanced: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.init = init
        self.coarsening = coarsening
        self.shuffle = shuffle
        self.balanced = balanced
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start a new forest with the rows of X (n, d); a row of weight w (a whole number) stands for w equal rows."""
        self._begin()
        return self._insert(X, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Insert more rows into the forest."""
        first = getattr(self, "_forest", None) is None
        if first:
            self._begin()
        return self._insert(X, sample_weight, reset=first)

    def partial_fit_atoms(self, atoms: Any) -> Self:
        """Insert atoms (m, s), rows of additive statistics of `family` (an object): each stands for all rows that were summed
        into it, such as a cluster of `BayesKMeans` over a part of the data, so more rows can be seen than fit in memory."""
        family = self.family
        if not isinstance(family, Family):
            raise ValueError(
                "atoms are statistics of one family: give it as an object, e.g. the family_ of the reduction"
            )
        atoms = checked_atoms(family, atoms)
        if getattr(self, "_forest", None) is None:
            self._begin()
            self.n_features_in_, self.columns_ = family.n_features, np.arange(family.n_features)
            prior = self.prior if isinstance(self.prior, Prior) else named(PRIORS, self.prior, "prior")()
            self._plant(Model(family, prior, self.coarsening))
        self.__dict__.pop("row_names_", None)
        return self._grow(atoms)

    def _begin(self) -> None:
        if self.init not in INITIALISATIONS:
            raise ValueError(f"unknown init {self.init!r}: choose one of {', '.join(INITIALISATIONS)}")
        self._forest: Forest | None = None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._rng = np.random.default_rng(seed)

    def _insert(self, X: Any, sample_weight: Any, reset: bool) -> Self:
        rows = checked_rows(self, X, reset)
        weight = as_counts(sample_weight, rows.shape[0])
        if weight is not None and np.any(weight == 0):
            raise ValueError("sample_weight has zeros: leave out the rows that were never seen")
        if self._forest is None:
            self.columns_ = informative_columns(rows, self.family)
            rows = self._used(rows)
            if isinstance(self.family, Family) and self.family.n_features != rows.shape[1]:
                raise ValueError(f"the family has {self.family.n_features} features but X has {rows.shape[1]} columns")
            chosen = choose_model(rows, self.family, self.prior, weight)
            self._plant(Model(chosen.family, chosen.prior, self.coarsening))
        else:
            rows = self._used(rows)
            self._more_names(take_names(X).row_names)
        return self._grow(self.model_.atoms(rows, weight))

    def _plant(self, model: Model) -> None:
        self._forest = Forest(model, noisy=self.init == "noisy", balanced=self.balanced)
        self.family_, self.prior_ = model.family, model.prior

    def _grow(self, atoms: np.ndarray) -> Self:
        assert self._forest is not None
        order = self._rng.permutation(atoms.shape[0]) if self.shuffle else None
        self._forest.insert(atoms, order)
        self._derived: dict[str, Any] = {}  # tree, labels and mixture are computed from the forest when asked for
        self.n_seen_ = self._forest.n_atoms
        return self

    def _more_names(self, names: np.ndarray | None) -> None:
        """Row names of all blocks, as long as every block has them."""
        known = self.__dict__.pop("row_names_", None)
        if known is not None and names is not None:
            self.row_names_ = np.concatenate([known, names])

    @property
    def model_(self) -> Model:
        """Family, prior and coarsening as one object."""
        return Model(self.family_, self.prior_, self.coarsening)

    def _fitted_forest(self) -> Forest:
        check_is_fitted(self)
        assert self._forest is not None
        return self._forest

    @property
    def n_trees_(self) -> int:
        return self._fitted_forest().n_trees

    @property
    def tree_(self) -> Tree:
        forest = self._fitted_forest()
        if "tree" not in self._derived:
            self._derived["tree"] = forest.tree()
        return self._derived["tree"]

    @property
    def linkage_(self) -> np.ndarray:
        return self.tree_.to_linkage()

    @property
    def labels_(self) -> np.ndarray:
        forest = self._fitted_forest()
        if "labels" not in self._derived:
            self._derived["labels"] = forest.labels() if self.init == "noisy" else self.tree_.cut()
        return self._derived["labels"]

    @property
    def n_clusters_(self) -> int:
        return int(self.labels_.max()) + 1

    @property
    def log_evidence_bound_(self) -> float:
        return log_bound(self.tree_, self.model_, float(self.tree_.size[-1]))

    def _used(self, rows: Any) -> Any:
        return rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        forest = self._fitted_forest()
        rows = self._used(checked_rows(self, X, reset=False))
        statistics = cluster_statistics(self.labels_, leaf_statistics(forest))
        weights = log_cluster_weights(self.model_, self.model_.counts(statistics))
        return np.exp(log_membership(self.family_, rows, statistics, weights))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster (n,) of each row."""
        return np.argmax(self.predict_proba(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row: a mixture over all nodes of the tree and a new cluster, normalised."""
        forest = self._fitted_forest()
        rows = self._used(checked_rows(self, X, reset=False))
        if "mixture" not in self._derived:
            log_weights, log_new = mixture_weights(self.tree_, self.model_)
            nodes = heaviest_nodes(log_weights)
            statistics = node_statistics(self.tree_, leaf_statistics(forest))[nodes]
            self._derived["mixture"] = statistics, log_weights[nodes], log_new
        return log_mixture_density(self.family_, rows, *self._derived["mixture"])

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X."""
        return float(self.score_samples(X).mean())

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_forest", None) is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = family_class(self.family)
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind == "count"
        return tags
