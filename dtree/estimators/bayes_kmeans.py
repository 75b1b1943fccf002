"""`BayesKMeans` and `BayesKMeansBHC`."""

import os
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin

from dtree.core.model import Model
from dtree.estimators.base import DEPRECATED
from dtree.estimators.cells import MixtureEstimator
from dtree.estimators.memberships import ClusterParameters
from dtree.hierarchy.predictive import log_membership, log_mixture_density
from dtree.hierarchy.statistics import cluster_statistics
from dtree.kmeans.passes import Progress
from dtree.kmeans.predictive import log_weights
from dtree.kmeans.scoring import Scorer
from dtree.methods import cells
from dtree.methods.bayes_kmeans import Fitted


class BayesKMeans(ClusterMixin, ClusterParameters, MixtureEstimator):
    """Hard assignment by marginal likelihood; the number of clusters is inferred [XHG09, section 5].

    Parameters
    ----------
    family, prior : an object, or a name for the default fitted to the data.
    init_clusters : how many rows open clusters at the start; None for the square root of the number of rows.
    coarsening : power of the likelihood in (0, 1]; 1 is exact Bayes.
    max_iter, patience, tol : passes stop after so many, or when that many in a row do not raise the objective by the
        relative `tol`.
    random_state : the same number gives the same answer, on one worker or a hundred.
    progress : called with a `Progress` (pass, objective, clusters, rows per second) after every pass.
    client : a `distributed.Client` whose workers do the work.
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.
    sample_rows : rows on which the starting clusters are found; None for as many as take seconds.
    columns : what some columns of a table are, e.g. `{"zip": "category", "id": "skip"}`; the others are found out.

    Attributes
    ----------
    labels_, n_clusters_ : the cluster of every row, and how many there are.
    statistics_ : (k, s) of the clusters.
    log_joint_ : log joint density of rows and clusters.
    family_, prior_ : the model with its hyperparameters.
    trace_ : one `Progress` for every pass.
    columns_ : the columns it uses (a Gaussian given by name leaves out constant ones).
    feature_names_in_, row_names_ : names, when the rows have any.
    means_, covariances_, weights_ : of Gaussian clusters, as scikit-learn's mixtures have them.

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> BayesKMeans(family="gaussian-diag", random_state=0).fit(X).n_clusters_
    2
    """

    _method_name = "bayes-kmeans"
    _old_names: ClassVar[dict[str, str]] = {"max_passes": "max_iter"}

    def __init__(
        self,
        family: Any = "auto",
        prior: Any = "dp",
        init_clusters: int | None = None,
        coarsening: float = 1.0,
        max_iter: int = 50,
        patience: int = 2,
        tol: float = 1e-7,
        random_state: Any = None,
        progress: Callable[[Progress], None] | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        sample_rows: int | None = None,
        max_passes: Any = DEPRECATED,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    def _take(self, fitted: Fitted) -> None:
        self.model_: Model = fitted.model
        self.family_, self.prior_ = fitted.model.family, fitted.model.prior
        self.statistics_ = fitted.statistics
        self.labels_ = self._row_array("labels")
        self.n_clusters_ = int(fitted.leaf_clusters.max()) + 1
        self.log_joint_ = fitted.log_joint
        self.trace_ = fitted.trace
        self.n_passes_ = len(fitted.trace)
        self.n_iter_ = max(1, self.n_passes_)  # weighted rows are clustered at once, without passes

    def predict(self, X: Any) -> np.ndarray:
        """The cluster (n,) that each row of X gains most in."""
        rows = self._used_rows(X)
        return Scorer(self.model_, self.statistics_).assign(rows).best

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row of X, normalised."""
        rows = self._used_rows(X)
        weights, new = log_weights(self.model_, self.statistics_)
        return log_mixture_density(self.family_, rows, self.statistics_, weights, new)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        rows = self._used_rows(X)
        weights, _ = log_weights(self.model_, self.statistics_)
        return np.exp(log_membership(self.family_, rows, self.statistics_, weights))

    def _cell_mixture(self) -> cells.Mixture:
        return cells.with_new_cluster(self.family_, self.statistics_, *log_weights(self.model_, self.statistics_))

    def _cluster_statistics(self) -> np.ndarray:
        return self.statistics_

    def _clusters(self) -> tuple[Model, np.ndarray]:
        return self.model_, self.statistics_


class BayesKMeansBHC(BayesKMeans):
    """Bayes K-means, then exact greedy BHC over its clusters as atoms: the scalable default.

    Takes the parameters of `BayesKMeans` and `cut`: clusters are the highest nodes of the tree with r at least so
    large.

    Attributes
    ----------
    tree_ : over the clusters of Bayes K-means.
    linkage_ : the same for SciPy.
    atom_labels_ : the leaf of every row.
    labels_, n_clusters_ : after cutting the tree.
    log_evidence_bound_ : lower bound on log p(X).

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> model = BayesKMeansBHC(family="gaussian-diag", random_state=0).fit(X)
    >>> model.n_clusters_, model.tree_.n_leaves, bool(model.log_evidence_bound_ >= model.log_joint_)
    (2, 2, True)
    """

    _method_name = "bayes-kmeans-bhc"
    _old_names: ClassVar[dict[str, str]] = {"max_passes": "max_iter", "threshold": "cut"}

    def __init__(
        self,
        family: Any = "auto",
        prior: Any = "dp",
        init_clusters: int | None = None,
        coarsening: float = 1.0,
        cut: float = 0.5,
        max_iter: int = 50,
        patience: int = 2,
        tol: float = 1e-7,
        random_state: Any = None,
        progress: Callable[[Progress], None] | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        sample_rows: int | None = None,
        max_passes: Any = DEPRECATED,
        threshold: Any = DEPRECATED,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    def _take(self, fitted: Fitted) -> None:
        super()._take(fitted)
        assert fitted.tree is not None
        self.tree_, self.linkage_ = fitted.tree, fitted.tree.to_linkage()
        self.log_evidence_bound_ = fitted.log_evidence_bound
        self.leaf_clusters_ = fitted.leaf_clusters
        self.atom_labels_ = self._row_array("leaves")

    def predict(self, X: Any) -> np.ndarray:
        """The cluster (n,) of each row of X after cutting the tree."""
        leaves = super().predict(X)
        return self.leaf_clusters_[leaves]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster after the cut, given that it is in one of them."""
        atoms = super().predict_proba(X)
        out = np.zeros((atoms.shape[0], self.n_clusters_))
        for leaf, cluster in enumerate(self.leaf_clusters_):
            out[:, cluster] += atoms[:, leaf]
        return out

    def _cluster_statistics(self) -> np.ndarray:
        return cluster_statistics(self.leaf_clusters_, self.statistics_)
