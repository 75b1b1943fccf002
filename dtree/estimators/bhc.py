"""`BHC`, and what it shares with the other estimators that are one tree over their rows."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin

from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.core.tree import Tree
from dtree.estimators.cells import MixtureEstimator
from dtree.estimators.memberships import ClusterParameters
from dtree.hierarchy.predictive import log_mixture_density
from dtree.hierarchy.statistics import cluster_statistics
from dtree.methods import cells
from dtree.methods.bhc import Fitted
from dtree.methods.tree_predictive import Mixture, log_probabilities, mixture_of


class TreeEstimator(ClusterMixin, ClusterParameters, MixtureEstimator):
    """What follows from a tree over atoms: a subclass has `model_` and `tree_`, and says what its leaves are."""

    model_: Model
    tree_: Tree
    _mixture: Mixture | None  # made when it is first asked for, since a large tree has many nodes

    def _leaves(self) -> tuple[np.ndarray, np.ndarray]:
        """Statistics (m, s) and clusters (m,) of the leaves."""
        raise NotImplementedError

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Log probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        rows = self._used_rows(X)
        atoms, leaf_clusters = self._leaves()
        return log_probabilities(self.model_, cluster_statistics(leaf_clusters, atoms), rows)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster (n,) of each row."""
        return np.argmax(self.predict_log_proba(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row: a mixture over all nodes and a new cluster, normalised."""
        rows = self._used_rows(X)
        return log_mixture_density(self.model_.family, rows, *self._predictive())

    def _predictive(self) -> Mixture:
        if self._mixture is None:
            self._mixture = mixture_of(self.model_, self.tree_, self._leaves()[0])
        return self._mixture

    def _cell_mixture(self) -> cells.Mixture:
        return cells.with_new_cluster(self.model_.family, *self._predictive())

    def _cluster_statistics(self) -> np.ndarray:
        atoms, leaf_clusters = self._leaves()
        return cluster_statistics(leaf_clusters, atoms)

    def _clusters(self) -> tuple[Model, np.ndarray]:
        return self.model_, self._cluster_statistics()


class BHC(TreeEstimator):
    """Bayesian hierarchical clustering [HG05]: the number of clusters, the tree above them, and how sure it is.

    Parameters
    ----------
    family : what one cluster looks like: a name ("gaussian", "gaussian-diag", "bernoulli", "multinomial", "poisson",
        "categorical", "mixed"), whose hyperparameters are then chosen by the evidence, or an object such as
        `dtree.Gaussian(...)`. "auto" is a Gaussian for complete numbers, and "mixed" for tables with other columns or
        missing values (NaN).
    prior : prior over partitions: "dp" or "nggp", fitted likewise, or an object such as `dtree.DirichletProcess(2.0)`.
    method : "exact" knows every pair of nodes; "approximate" knows near pairs only, for up to millions of rows;
        "randomized" splits a sample and sends the other rows down. Both are O(n log n).
    optimize : learn alpha and all family hyperparameters by climbing the evidence bound.
    coarsening : zeta in (0, 1]; below 1 the likelihood is raised to that power, which gives fewer, coarser clusters
        when real clusters do not follow the family. Bound and density are then those of the coarsened model.
    cut : probability above which a node is one cluster.
    subset : how many rows the randomised method clusters exactly at a time.
    random_state : used by the randomised method only.
    client : a `distributed.Client` whose workers compute the blocks of a Dask collection; the tree is grown in this
        process, on its cores, where it is done as soon.
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.
    columns : what some columns of a table are, e.g. `{"zip": "category", "id": "skip"}`; the others are found out.

    Attributes
    ----------
    labels_, n_clusters_ : the clusters, cut where a node's probability of being one cluster reaches `cut`.
    tree_, linkage_ : the `Tree`, and the same as a SciPy linkage matrix.
    log_evidence_bound_ : lower bound on the log evidence of the data.
    family_, prior_ : the model with its hyperparameters.
    means_, covariances_, weights_ : of Gaussian clusters, as scikit-learn's mixtures have them.
    columns_ : the columns it uses.
    atoms_ : statistics (m, s) of the leaves.
    bound_trace_ : bounds while optimising.
    feature_names_in_, row_names_ : names, when X has any: columns and index of a data frame, `var_names` and
        `obs_names` of an AnnData-like object.
    kinds_, left_out_ : what the columns of a table were taken for, and those that are no features, with reasons.

    >>> import numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> model = BHC().fit(X)
    >>> model.n_clusters_
    2
    >>> model.predict([[0.0, 0.5], [11.0, 12.0]]).tolist()
    [0, 1]
    """

    _method_name = "bhc"

    def __init__(
        self,
        family: str | Family = "auto",
        prior: str | Prior = "dp",
        *,
        method: str = "exact",
        optimize: bool = False,
        coarsening: float = 1.0,
        cut: float = 0.5,
        subset: int = 500,
        random_state: int | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    def _take(self, fitted: Fitted) -> None:
        self.model_ = fitted.model
        self.family_, self.prior_ = fitted.model.family, fitted.model.prior
        self.atoms_, self.tree_, self.bound_trace_ = fitted.atoms, fitted.tree, fitted.bound_trace
        self.linkage_ = fitted.tree.to_linkage()
        self.log_evidence_bound_ = fitted.log_evidence_bound
        self._leaf_clusters, self._mixture = fitted.tree.cut(fitted.cut), None
        self.n_clusters_ = int(self._leaf_clusters.max()) + 1
        self.labels_ = self._row_array("labels")
        leaves = self._run.row_array("leaves")
        held = np.arange(self.labels_.shape[0]) if leaves is None else np.flatnonzero(np.asarray(leaves) >= 0)
        # A converted run of version 0.1 with rows of weight 0 does not know which rows its leaves are.
        if held.size and not np.array_equal(self.labels_[held], self._leaf_clusters):
            raise ValueError(f"{self._run.location} is damaged: its labels do not follow from its tree")

    def _leaves(self) -> tuple[np.ndarray, np.ndarray]:
        return self.atoms_, self._leaf_clusters
