"""`TreeClustering`: the front door."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dtree.core.levels import canonical_by_size
from dtree.core.model import Model
from dtree.estimators.cells import MixtureEstimator
from dtree.estimators.memberships import named_means
from dtree.methods import cells
from dtree.methods.tree_clustering import Fitted
from dtree.methods.tree_clustering_facts import levels_frame
from dtree.methods.variational import used_floats


class TreeClustering(ClusterMixin, MixtureEstimator):
    """Clusters for someone who sets nothing: any table, any size.

    Components are fitted by evidence, with the structure that it prefers; skewed columns are bent (Yeo and Johnson's
    curve) where that raises the evidence. Components without a valley of the density
    between them are joined, so that a cluster may have any shape. The answer comes with the tree over the components,
    other levels to cut it at, and how sure it is.

    Parameters
    ----------
    level : `"auto"`, `"components"` (nothing is joined), or how deep a valley between two clusters must be, in nats:
        0.7 means that the density falls to half of the lower peak.
    family : what a component looks like; `"auto"` chooses by the columns and by evidence.
    alpha : concentration of the Dirichlet process; more means more components.
    max_iter, tol, patience : of the passes over data of more than `sample_rows` rows: how many at most, and when to
        stop: after so many in a row that each change the bound by less than `tol` nats per row.
    random_state : the same number gives the same answer, on one worker or a hundred.
    client : a `distributed.Client` whose workers make the passes.
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.
    sample_rows : more rows are fitted in passes that start from a fit of so many of them. None for 5,000; but up to
        10,000 rows of fewer than ten features are fitted whole.
    columns : what some columns of a table are, e.g. `{"zip": "category", "id": "skip"}`; the others are found out.

    Attributes
    ----------
    labels_ : (n,) clusters, the largest is 0.
    n_clusters_ : how many.
    component_labels_ : (n,) the component of each row.
    n_components_ : how many.
    leaf_clusters_ : the cluster of each.
    components_ : dict of named posterior means of the components (`means`, `covariances`, ...), also as
        attributes (`means_`, ...).
    weights_ : shares.
    tree_ : over the components, with `cut`, `to_linkage` and `to_newick`.
    linkage_ : the same for SciPy.
    level_ : where it was cut.
    level_reason_ : why, in a sentence.
    levels_ : a table of the cuts worth a look.
    confidence_ : (n,) the probability that each row belongs to its cluster, given the model: the responsibilities of
        the components of the cluster added up. Near 1 away from boundaries, about a half between two clusters. It says
        nothing of whether the clusters are real: that is what the depths in `levels_` are for.
    cluster_confidence_ : (k,) its mean over the rows of each cluster.
    cluster_stability_ : (k,) how well the cluster is found again when the valleys are measured on half of the rows
        (rows in both over rows in either; 1: exactly).
    outlier_score_ : (n,) how many nats less likely a row is than the average row of its component.
    log_evidence_bound_ : lower bound on log p(X); an estimate of one where numbers with gaps have Gaussian components,
        see `dtree.guide.tables`.
    family_ : with the hyperparameters that were learned.

    >>> import numpy as np
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 1000)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)]) * np.repeat([1.0, 5.0], 500)[:, None]
    >>> model = TreeClustering(random_state=0).fit(ring + np.random.default_rng(1).normal(0, 0.1, ring.shape))
    >>> model.n_clusters_, model.n_components_ > 4
    (2, True)
    """

    _method_name = "tree-clustering"

    def __init__(
        self,
        level: Any = "auto",
        family: Any = "auto",
        alpha: float = 1.0,
        *,
        max_iter: int = 4,
        tol: float = 1e-3,
        random_state: Any = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        sample_rows: int | None = None,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        patience: int = 1,
    ) -> None:
        self._keep(locals())

    def _take(self, fitted: Fitted) -> None:
        mixture, held = fitted.mixture, fitted.held
        self._fitted = fitted
        self.family_, self.model_ = mixture.family, fitted.model
        self.statistics_ = mixture.statistics[held]
        self.components_, self.weights_ = mixture.parameters(held), mixture.weights()[held]
        for name, values in named_means(mixture.family, self.statistics_).items():
            setattr(self, name, values)
        self.component_labels_, self.labels_ = self._row_array("leaves"), self._row_array("labels")
        self.leaf_clusters_, self.n_components_ = fitted.leaf_clusters, held.shape[0]
        self.n_clusters_ = int(fitted.leaf_clusters.max()) + 1
        self.tree_, self.linkage_ = fitted.tree, fitted.tree.to_linkage()
        self.level_, self.level_reason_ = fitted.level, fitted.reason
        self.levels_ = levels_frame(fitted.levels)
        self.confidence_ = np.asarray(self._run.row_array("confidence"), dtype=np.float64)
        self.outlier_score_ = np.asarray(self._run.row_array("outlier_score"), dtype=np.float64)
        self.cluster_confidence_, self.cluster_stability_ = fitted.cluster_confidence, fitted.cluster_stability
        self.log_evidence_bound_ = fitted.log_evidence_bound
        self.converged_, self.n_iter_ = fitted.components.converged, fitted.components.n_iter

    # Other levels ----------------------------------------------------------------------------------------------------

    def at_level(self, level: float) -> np.ndarray:
        """Labels (n,) when only valleys deeper than `level` nats part clusters."""
        check_is_fitted(self)
        return self._labels_of(self.tree_.cut(level=level))

    def at_clusters(self, n_clusters: int) -> np.ndarray:
        """Labels (n,) of a cut into so many clusters, the deepest valleys first."""
        check_is_fitted(self)
        return self._labels_of(self.tree_.cut(n_clusters=n_clusters))

    def _labels_of(self, leaf_clusters: np.ndarray) -> np.ndarray:
        return canonical_by_size(leaf_clusters, self.tree_.size[: self.n_components_])[self.component_labels_]

    # New rows --------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """The cluster (n,) of each row of X: that of its most probable component."""
        check_is_fitted(self)
        return self.leaf_clusters_[self._fitted.mixture.best(self._mixture_rows(X), self._fitted.held)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster: summed over its components."""
        check_is_fitted(self)
        shares = self._fitted.mixture.responsibilities(self._mixture_rows(X), self._fitted.held)
        out = np.zeros((shares.shape[0], self.n_clusters_))
        np.add.at(out.T, self.leaf_clusters_, (shares / shares.sum(axis=1, keepdims=True)).T)
        return out

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row."""
        check_is_fitted(self)
        return self._fitted.mixture.log_density(self._mixture_rows(X), self._fitted.held)

    def _cell_mixture(self) -> cells.Mixture:
        return cells.Mixture(self.family_, self.statistics_, np.log(self.weights_ / self.weights_.sum()))

    def _clusters(self) -> tuple[Model, np.ndarray]:
        clusters = np.zeros((self.n_clusters_, self.statistics_.shape[1]))
        np.add.at(clusters, self.leaf_clusters_, self.statistics_)
        return self.model_, clusters

    def _mixture_rows(self, X: Any) -> Any:
        return used_floats(self._rows(X), self.columns_)
