"""The scikit-learn faces: fit, predict, score_samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dtree.core.checks import as_counts
from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.core.tree import Tree
from dtree.engine.inputs import in_memory
from dtree.engine.sharing import SharesClient
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.checked_rows import checked_rows, family_class, informative_columns
from dtree.hierarchy.defaults import choose_model
from dtree.hierarchy.hyperparameters import learn, log_bound
from dtree.hierarchy.predictive import (
    heaviest_nodes,
    log_cluster_weights,
    log_membership,
    log_mixture_density,
    mixture_weights,
)
from dtree.hierarchy.randomized import build_randomized_tree
from dtree.hierarchy.statistics import cluster_statistics, node_statistics

METHODS = ("exact", "randomized")


class BHC(SharesClient, ClusterMixin, BaseEstimator):
    """Bayesian hierarchical clustering [HG05]: the number of clusters, the tree above them, and how sure it is.

    Parameters
    ----------
    family : what one cluster looks like: a name ("gaussian", "gaussian-diag", "bernoulli", "multinomial", "poisson"),
        whose hyperparameters are then chosen by the evidence, or an object such as `dtree.Gaussian(...)`.
    prior : prior over partitions: "dp" or "nggp", fitted likewise, or an object such as `dtree.DirichletProcess(2.0)`.
    method : "exact" scores every pair of nodes; "randomized" is O(n log n) and approximate.
    optimize : learn alpha and all family hyperparameters by climbing the evidence bound.
    coarsening : zeta in (0, 1]; below 1 the likelihood is raised to that power, which gives fewer, coarser clusters when
        real clusters do not follow the family. Bound and density are then those of the coarsened model.
    cut : probability above which a node is one cluster.
    subset : how many rows the randomised method clusters exactly at a time.
    random_state : used by the randomised method only.
    client : a `distributed.Client` whose workers score the pairs of rows of the exact method; the tree is the same.

    Attributes
    ----------
    labels_, n_clusters_ : the clusters, cut where a node's probability of being one cluster reaches `cut`.
    tree_, linkage_ : the `Tree`, and the same as a SciPy linkage matrix.
    log_evidence_bound_ : lower bound on the log evidence of the data.
    family_, prior_ : the model with its hyperparameters. columns_ : the columns it uses.
    atoms_ : statistics (m, s) of the leaves. bound_trace_ : bounds while optimising.
    feature_names_in_, row_names_ : names, when X has any: columns and index of a data frame, `var_names` and `obs_names`
        of an AnnData-like object.

    >>> import numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> model = BHC().fit(X)
    >>> model.n_clusters_
    2
    >>> model.predict([[0.0, 0.5], [11.0, 12.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        family: str | Family = "gaussian",
        prior: str | Prior = "dp",
        *,
        method: str = "exact",
        optimize: bool = False,
        coarsening: float = 1.0,
        cut: float = 0.5,
        subset: int = 500,
        random_state: int | None = None,
        client: Any = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.method = method
        self.optimize = optimize
        self.coarsening = coarsening
        self.cut = cut
        self.subset = subset
        self.random_state = random_state
        self.client = client

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Build the tree over the rows of X (n, d); a row of weight w (a whole number) stands for w equal rows.

        X is an array, a sparse matrix, a data frame, a Dask collection or the path of a data file; it must fit in memory.
        """
        if self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}: choose one of {', '.join(METHODS)}")
        if self.subset < 2:
            raise ValueError(f"subset must be at least 2, got {self.subset}")
        rows = checked_rows(self, in_memory(X), reset=True)
        weight = as_counts(sample_weight, rows.shape[0])
        everything = rows
        if weight is not None and np.any(weight == 0):
            rows, weight = rows[weight > 0], weight[weight > 0]
        self.columns_ = informative_columns(rows, self.family)
        rows = rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows
        if isinstance(self.family, Family) and self.family.n_features != rows.shape[1]:
            raise ValueError(f"the family has {self.family.n_features} features but X has {rows.shape[1]} columns")
        model = choose_model(rows, self.family, self.prior, weight)
        # The scale is chosen without coarsening: under zeta < 1 the bound prefers degenerate scales.
        model = Model(model.family, model.prior, self.coarsening)
        self._fit_tree(model, rows, weight)
        if everything.shape[0] != rows.shape[0]:
            self.labels_ = self.predict(everything)
        return self

    def _fit_tree(self, model: Model, rows: Any, weight: np.ndarray | None) -> None:
        atoms = model.atoms(rows, weight)
        self.bound_trace_: list[float] = []
        if self.optimize:
            learned = learn(model, atoms)
            model, tree, self.bound_trace_ = learned.model, learned.tree, learned.trace
        if self.method == "randomized":
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            tree = build_randomized_tree(model, atoms, rows, np.random.default_rng(seed), self.subset)
        elif not self.optimize:
            tree = self._exact_tree(model, atoms)
        self._set_tree(model, tree, atoms)

    def _exact_tree(self, model: Model, atoms: np.ndarray) -> Tree:
        if self.client is None:
            return build_tree(model, atoms)
        from dtree.engine.blocks import tree_on_workers  # dask is loaded only when it is asked for

        return tree_on_workers(self.client, model, atoms)

    def _set_tree(self, model: Model, tree: Tree, atoms: np.ndarray) -> None:
        """Everything that follows from a model, its atoms and their tree."""
        self.family_, self.prior_, self.atoms_, self.tree_ = model.family, model.prior, atoms, tree
        self.linkage_ = tree.to_linkage()
        self.labels_ = tree.cut(self.cut)
        self.n_clusters_ = int(self.labels_.max()) + 1
        self.log_evidence_bound_ = log_bound(tree, model, float(model.counts(atoms).sum()))
        log_weights, self._log_new = mixture_weights(tree, model)
        nodes = heaviest_nodes(log_weights)
        self._node_log_weights = log_weights[nodes]
        self._node_statistics = node_statistics(tree, atoms)[nodes]
        self._cluster_statistics = cluster_statistics(self.labels_, atoms)

    @property
    def model_(self) -> Model:
        """Family, prior and coarsening as one object."""
        check_is_fitted(self)
        return Model(self.family_, self.prior_, self.coarsening)

    def _rows_used(self, X: Any) -> Any:
        check_is_fitted(self)
        rows = checked_rows(self, in_memory(X), reset=False)
        return rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        rows = self._rows_used(X)
        sizes = self.model_.counts(self._cluster_statistics)
        return log_membership(self.family_, rows, self._cluster_statistics, log_cluster_weights(self.model_, sizes))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster (n,) of each row."""
        return np.argmax(self.predict_log_proba(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row: a mixture over all nodes of the tree and a new cluster, normalised."""
        rows = self._rows_used(X)
        return log_mixture_density(self.family_, rows, self._node_statistics, self._node_log_weights, self._log_new)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X."""
        return float(self.score_samples(X).mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = family_class(self.family)
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind == "count"
        return tags
