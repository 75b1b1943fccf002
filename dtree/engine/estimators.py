"""`BayesKMeans` and `BayesKMeansBHC`: arrays in this process, and files, Dask collections or a cluster through the engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dtree.core.tree import Tree
from dtree.engine.sharing import SharesClient
from dtree.hierarchy.bhc import build_tree
from dtree.kmeans.estimators import InMemoryBayesKMeans
from dtree.kmeans.passes import Progress


class BayesKMeans(SharesClient, InMemoryBayesKMeans):
    """Hard assignment by marginal likelihood; the number of clusters is inferred [XHG09, section 5].

    Parameters
    ----------
    family, prior : an object, or a name for the default fitted to the data.
    init_clusters : how many rows open clusters at the start; None for the square root of the number of rows.
    coarsening : power of the likelihood in (0, 1]; 1 is exact Bayes.
    max_passes, patience, tol : passes stop after so many, or when that many in a row do not raise the objective by the relative `tol`.
    random_state : the same number gives the same answer, on one worker or a hundred.
    progress : called with a `Progress` (pass, objective, clusters, rows per second) after every pass.
    client : a `distributed.Client` whose workers do the work.
    out : folder for the run when the engine works (paths, Dask collections, or a client); None for a temporary one.

    Attributes
    ----------
    labels_, n_clusters_, statistics_ (k, s), log_joint_, family_, prior_, trace_ (one `Progress` per pass)

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> BayesKMeans(family="gaussian-diag", random_state=0).fit(X).n_clusters_
    2
    """

    def __init__(
        self,
        family: Any = "gaussian",
        prior: Any = "dp",
        init_clusters: int | None = None,
        coarsening: float = 1.0,
        max_passes: int = 50,
        patience: int = 2,
        tol: float = 1e-7,
        random_state: Any = None,
        progress: Callable[[Progress], None] | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(family, prior, init_clusters, coarsening, max_passes, patience, tol, random_state, progress)
        self.client = client
        self.out = out

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesKMeans:
        """Cluster the rows of X: an array, a sparse matrix, a frame, a Dask collection or a path."""
        if self.client is not None or self.out is not None or isinstance(X, str | os.PathLike) or hasattr(X, "dask"):
            if sample_weight is not None:
                raise ValueError("sample_weight works for arrays in this process only: leave out client, out and paths")
            if self.out is not None:
                self._fit_engine(X, Path(self.out))
            else:
                with tempfile.TemporaryDirectory(prefix="dtree-run-") as folder:
                    self._fit_engine(X, Path(folder) / "run")
            return self
        super().fit(X, y, sample_weight)
        return self

    def _fit_engine(self, X: Any, out: Path) -> None:
        # dask, distributed and zarr are loaded only when the engine is asked for
        from dtree.engine.fit import fit_dataset, read_result
        from dtree.engine.runs import Run

        seed = self._seed()
        fit_dataset(
            X, out, self.family, self.prior, coarsening=self.coarsening, init_clusters=self.init_clusters,
            max_passes=self.max_passes, patience=self.patience, tolerance=self.tol, seed=seed, tree=False,
            client=self.client, progress=self.progress,
        )  # fmt: skip
        self._take(Run(out), read_result(out).trace)

    def _take(self, run: Any, trace: list[Progress]) -> None:
        """Become the estimator of a finished run."""
        import zarr

        self.n_features_in_ = run.source.shape[1]
        leaves = np.asarray(zarr.open_array(str(run.path / "leaves"), mode="r")[...]).astype(np.int64)
        self._keep(run.model(), leaves, run.clusters(), trace)


class BayesKMeansBHC(BayesKMeans):
    """Bayes K-means, then exact greedy BHC over its clusters as atoms: the scalable default.

    Takes the parameters of `BayesKMeans` and `threshold`: clusters are the highest nodes of the tree with r at least so large.

    Attributes
    ----------
    tree_ : over the clusters of Bayes K-means. linkage_ : the same for SciPy.
    atom_labels_ : the leaf of every row. labels_, n_clusters_ : after cutting the tree.
    log_evidence_bound_ : lower bound on log p(X).

    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> model = BayesKMeansBHC(family="gaussian-diag", random_state=0).fit(X)
    >>> model.n_clusters_, model.tree_.n_leaves, bool(model.log_evidence_bound_ >= model.log_joint_)
    (2, 2, True)
    """

    def __init__(
        self,
        family: Any = "gaussian",
        prior: Any = "dp",
        init_clusters: int | None = None,
        coarsening: float = 1.0,
        threshold: float = 0.5,
        max_passes: int = 50,
        patience: int = 2,
        tol: float = 1e-7,
        random_state: Any = None,
        progress: Callable[[Progress], None] | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            family, prior, init_clusters, coarsening, max_passes, patience, tol, random_state, progress, client, out
        )
        self.threshold = threshold

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> BayesKMeansBHC:
        """Cluster the rows of X and build the tree over the clusters."""
        super().fit(X, y, sample_weight)
        self._grow()
        return self

    def _grow(self, tree: Tree | None = None) -> None:
        self.tree_ = build_tree(self.model_, self.statistics_) if tree is None else tree
        self.linkage_ = self.tree_.to_linkage()
        count = float(self.tree_.size[-1])
        self.log_evidence_bound_ = self.prior_.log_normaliser(count) + float(self.tree_.log_phi_t[-1])
        self.atom_labels_ = self.labels_
        self.leaf_clusters_ = self.tree_.cut(self.threshold)
        self.labels_ = self.leaf_clusters_[self.atom_labels_]
        self.n_clusters_ = int(self.leaf_clusters_.max()) + 1

    def predict(self, X: Any) -> np.ndarray:
        """The cluster (n,) of each row of X after cutting the tree."""
        atoms = super().predict(X)
        return self.leaf_clusters_[atoms]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster after cutting the tree, given that it is in one of them."""
        atoms = super().predict_proba(X)
        out = np.zeros((atoms.shape[0], self.n_clusters_))
        for leaf, cluster in enumerate(self.leaf_clusters_):
            out[:, cluster] += atoms[:, leaf]
        return out


def open_run(path: str | os.PathLike[str]) -> BayesKMeans:
    """The fitted estimator of a finished run: `BayesKMeansBHC`, or `BayesKMeans` when no tree was asked for.

    Its labels are read into memory; for more rows than that allows, open the zarr array `labels` in the folder instead.
    """
    from dtree.engine.fit import read_result
    from dtree.engine.runs import Run

    result, run = read_result(path), Run(path)
    model = run.model()
    options: dict[str, Any] = {
        "family": model.family,
        "prior": model.prior,
        "coarsening": model.coarsening,
        "out": str(path),
    }
    tree = run.attributes["tree_wanted"]
    estimator = BayesKMeansBHC(**options, threshold=run.attributes["threshold"]) if tree else BayesKMeans(**options)
    estimator._take(run, result.trace)
    if isinstance(estimator, BayesKMeansBHC):
        estimator._grow()
    return estimator
