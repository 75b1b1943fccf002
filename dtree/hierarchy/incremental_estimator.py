"""IncrementalBHC: hierarchical clustering by sequential insertion, one row or one block of rows at a time."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.core.checks import as_counts, as_rows, require_spread, require_values
from dtree.core.families import FAMILIES, Family
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.core.tree import Tree
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


class IncrementalBHC(ClusterMixin, BaseEstimator):
    """Incremental Bayesian hierarchical clustering (IBHC, [LC15] section 2.3).

    Rows enter a forest of trees one at a time, in O(k + log n) each, so data may come as a stream through `partial_fit`. A name
    of a family is turned into a model on the first rows seen; give an object to fix the model beforehand.

    Parameters
    ----------
    family, prior, coarsening : the model, as for `dtree.BHC`.
    init : "exact" as described; "noisy" puts rows on top of their best tree and never cuts it ([LC15] section 4.1).
    shuffle : insert the rows of each call in random order, since the tree depends on the order.
    balanced : keep the trees shallow; without it they are exactly those of the paper, and slow for large clusters.
    random_state : seed of the shuffling.

    Attributes
    ----------
    labels_, n_clusters_ : clusters of all rows seen so far. log_evidence_bound_ : lower bound on their log evidence.
    tree_, linkage_ : one tree over all rows seen so far. family_, prior_ : the model. n_trees_ : trees in the forest.
    n_seen_ : rows seen so far. columns_ : the columns used (a Gaussian given by name leaves out those that are constant in the first
        rows).

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> model = IncrementalBHC(random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.partial_fit(X[:10] + 100.0).n_clusters_
    3
    """

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
        first = not hasattr(self, "_forest")
        if first:
            self._begin()
        return self._insert(X, sample_weight, reset=first)

    def _begin(self) -> None:
        if self.init not in INITIALISATIONS:
            raise ValueError(f"unknown init {self.init!r}: choose one of {', '.join(INITIALISATIONS)}")
        self._forest: Forest | None = None
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._rng = np.random.default_rng(seed)

    def _insert(self, X: Any, sample_weight: Any, reset: bool) -> Self:
        rows = self._rows(X, reset)
        weight = as_counts(sample_weight, rows.shape[0])
        if weight is not None and np.any(weight == 0):
            raise ValueError("sample_weight has zeros: leave out the rows that were never seen")
        if self._forest is None:
            self.columns_ = self._informative_columns(rows)
            rows = self._used(rows)
            if isinstance(self.family, Family) and self.family.n_features != rows.shape[1]:
                raise ValueError(f"the family has {self.family.n_features} features but X has {rows.shape[1]} columns")
            chosen = choose_model(rows, self.family, self.prior, weight)
            model = Model(chosen.family, chosen.prior, self.coarsening)
            self._forest = Forest(model, noisy=self.init == "noisy", balanced=self.balanced)
            self.family_, self.prior_ = model.family, model.prior
        else:
            rows = self._used(rows)
        order = self._rng.permutation(rows.shape[0]) if self.shuffle else None
        self._forest.insert(self.model_.atoms(rows, weight), order)
        self._derived: dict[str, Any] = {}  # tree, labels and mixture are computed from the forest when asked for
        self.n_seen_ = self._forest.n_atoms
        return self

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

    def _rows(self, X: Any, reset: bool) -> Any:
        kind = type(self.family) if isinstance(self.family, Family) else named(FAMILIES, self.family, "family")
        rows = as_rows(X, accept_sparse=kind.accepts_sparse)
        validate_data(self, X, reset=reset, skip_check_array=True)
        require_values(rows, kind.value_kind, kind.name)
        if reset and kind.value_kind == "real":
            require_spread(rows)
        return rows

    def _informative_columns(self, rows: Any) -> np.ndarray:
        """The columns that a family fitted by name uses: a Gaussian leaves out those that are constant in the first rows."""
        every = np.arange(rows.shape[1])
        if isinstance(self.family, Family) or FAMILIES[self.family].value_kind != "real":
            return every
        varying = rows.min(axis=0) < rows.max(axis=0)
        return every[varying] if varying.any() else every

    def _used(self, rows: Any) -> Any:
        return rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        forest = self._fitted_forest()
        rows = self._used(self._rows(X, reset=False))
        statistics = cluster_statistics(self.labels_, leaf_statistics(forest))
        weights = log_cluster_weights(self.model_, self.model_.counts(statistics))
        return np.exp(log_membership(self.family_, rows, statistics, weights))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster (n,) of each row."""
        return np.argmax(self.predict_proba(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row: a mixture over all nodes of the tree and a new cluster, normalised."""
        forest = self._fitted_forest()
        rows = self._used(self._rows(X, reset=False))
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
        kind = type(self.family) if isinstance(self.family, Family) else named(FAMILIES, self.family, "family")
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind == "count"
        return tags
