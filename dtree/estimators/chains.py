"""`DPMixtureMCMC`."""

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Self

import msgspec
import numpy as np
from scipy import sparse
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dtree.core.families import DiagonalGaussian, Family  # noqa: F401  (the example needs the first)
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, Prior
from dtree.core.tree import Tree
from dtree.estimators.base import Estimator, seed_of
from dtree.estimators.memberships import ClusterParameters, Memberships
from dtree.estimators.rows import checked_atoms
from dtree.hierarchy.statistics import cluster_statistics
from dtree.mcmc.credibility import Credibility, node_credibility
from dtree.mcmc.point_estimate import coclustering, sparse_coclustering
from dtree.mcmc.posterior import as_datatree, summary_of, tree_at_medians
from dtree.mcmc.predictive import log_density_over_draws, log_membership_at
from dtree.methods.chain_records import Fitted
from dtree.methods.chains import Settings
from dtree.runs.run import is_run

_MOST_ROWS_TOGETHER = 20_000  # an n x n matrix of 3 GB


class DPMixtureMCMC(ClusterMixin, ClusterParameters, Memberships, Estimator):
    """Mixture with an unknown number of clusters, sampled by MCMC over partitions.

    Parameters
    ----------
    sampler : "tgmcmc" (guided by a tree, exact), "gibbs", "split-merge", "slice", "gibbs-subset", "split-merge-subset",
        or "tgmcmc-paper" (as printed in [LC15], biased).
    family, prior : names, whose hyperparameters are then chosen by the evidence, or objects, as for `dtree.BHC`. When
        `fit` is given the path of a run of Bayes K-means, whose clusters are then the leaves, the model is that run's.
    chains, draws, warmup, thin : how many chains, kept draws per chain, sweeps before the first (None: half of draws,
        at least 100), and sweeps per kept draw.
    resample_hyperparameters : sample alpha (and sigma) along with the partition; u is always sampled.
    coarsening : power of the likelihood in (0, 1]; below 1 all results are those of the coarsened posterior.
    loss : what `labels_` minimises in expectation, "vi" or "binder".
    n_jobs : chains run at the same time, in threads. Results do not depend on it.
    random_state : seed; the same seed gives the same draws, bit for bit, in this process or on any number of workers.
    client : a `distributed.Client` whose workers run the chains, each a task that can be resumed.
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none.
        Workers must see it under the same name.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.
    columns : what some columns of a table are, e.g. `{"zip": "category", "id": "skip"}`; the others are found out.

    Attributes
    ----------
    posterior_ : xarray DataTree in ArviZ's schema: n_clusters, log_joint and the prior's parameters by chain and draw.
    partitions_ : (chain, draw, row) labels, -1 for a row of weight 0, which is in no draw.
    labels_, n_clusters_ : the point estimate.
    checkpoints_ : where each chain stopped, as plain arrays; `more_draws` goes on from there.
    family_, prior_ : the model the chains started from.
    columns_ : the columns it uses (a Gaussian given by name leaves out constant ones).
    atoms_ : statistics (m, s) of the leaves.
    tree_ : a tree over the leaves; `credibility()` says how often the leaves below each of its nodes were one cluster.
    means_, covariances_, weights_ : of Gaussian clusters of `labels_`, as scikit-learn's mixtures have them.
    feature_names_in_, row_names_ : names, when the rows have any: columns and index of a frame, header and names of a
        file.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (15, 2)) for c in (0.0, 12.0)])
    >>> family = DiagonalGaussian(mean=[6.0, 6.0], strength=0.05, shape=3.0, rate=[3.0, 3.0])
    >>> model = DPMixtureMCMC(family=family, chains=2, draws=30, warmup=20, random_state=0).fit(X)
    >>> model.n_clusters_, model.partitions_.shape
    (2, (2, 30, 30))
    >>> {"n_clusters", "log_joint", "alpha"} <= set(model.posterior_["posterior"].data_vars), "r_hat" in model.summary()
    (True, True)
    >>> together = model.coclustering()  # (30, 30); coclustering(least=0.1) is sparse
    >>> bool(together[:15, :15].mean() > 0.9), bool(together[:15, 15:].mean() < 0.1)
    (True, True)
    >>> model.set_params(loss="binder").fit(X).n_clusters_
    2
    >>> bool(model.credibility().cluster.max() > 0.5)  # the share of draws in which a branch of tree_ is one cluster
    True
    """

    _method_name = "chains"

    def __init__(
        self,
        sampler: str = "tgmcmc",
        family: str | Family = "auto",
        prior: str | Prior = "dp",
        *,
        chains: int = 4,
        draws: int = 1000,
        warmup: int | None = None,
        thin: int = 1,
        resample_hyperparameters: bool = True,
        coarsening: float = 1.0,
        loss: str = "vi",
        n_jobs: int = 1,
        random_state: int | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    def _settings_for(self, X: Any) -> Settings:
        """A run of Bayes K-means has a model of its own: of it only what was left at its default is asked for."""
        settings = self._settings()
        if not (isinstance(X, str | os.PathLike) and is_run(X)):
            return settings
        known = type(self)().get_params(deep=False)
        own = [name for name in ("family", "prior", "coarsening") if getattr(settings, name) == known[name]]
        return msgspec.structs.replace(settings, **dict.fromkeys(own))

    def fit_atoms(self, atoms: Any) -> Self:
        """Run the chains over atoms (m, s), rows of additive statistics of `family` (an object), such as the
        `statistics_` of a `BayesKMeans` with the same family and coarsening: any number of rows as a few thousand
        leaves."""
        from dtree.engine.drive import Given, Place, drive  # dask is loaded only when it is asked for

        settings = msgspec.structs.replace(self._settings(), family=None, coarsening=None)
        family: Any = self.family
        atoms = checked_atoms(family, atoms)
        self._forget()
        model = Model(family, DirichletProcess(), self.coarsening)  # the settings have a prior of their own
        # Leaves that are no rows, with what a run of Bayes K-means says of its clusters.
        leaves = SimpleNamespace(statistics=atoms, model=model, columns=np.arange(family.n_features))
        place = Place(self.out, client=self.client)
        with self._stores():
            run = drive(self._method, settings, Given(None, reduction=leaves), place, seed_of(self.random_state))
            return self._become(run)

    def more_draws(self, draws: int) -> Self:
        """Go on from where the chains stopped; the draws are those of a run that never stopped.

        The model is then one of the rows with a positive weight, and is kept in memory; a run in `out` stays as it is.
        """
        check_is_fitted(self)
        if self.client is not None:
            raise ValueError("more_draws goes on in this process: set client to None first")
        if draws < 1:
            raise ValueError(f"draws must be at least 1, got {draws}")
        from dtree.engine.drive import go_on

        fitted, held = self._fitted, self._row_array("leaves") >= 0
        settings = msgspec.structs.replace(
            self._run.store.get("settings", Settings),
            draws=fitted.draws.log_joint.shape[1] + draws, warmup=fitted.warmup, loss=self.loss, n_jobs=self.n_jobs,
        )  # fmt: skip
        names = getattr(self, "row_names_", None)
        header = msgspec.structs.replace(
            self._run.header, n_rows=int(held.sum()), row_names=None if names is None else list(names[held])
        )
        return self._become(go_on(header, settings, *self._method.again(fitted)))

    def _take(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self._tree: Tree | None = None
        self.model_: Model = fitted.model
        self.family_, self.prior_, self.atoms_ = fitted.model.family, fitted.model.prior, fitted.atoms
        self.partitions_ = self._of_rows(fitted.draws.labels)
        self.posterior_ = as_datatree(fitted.model.prior, fitted.draws)
        self.checkpoints_ = fitted.stops
        self.labels_ = self._row_array("labels")
        self.n_clusters_ = int(fitted.leaf_clusters.max()) + 1

    def _of_rows(self, labels: np.ndarray) -> np.ndarray:
        """Labels (chains, draws, n) of the rows for those (chains, draws, m) of the leaves."""
        leaves = self._row_array("leaves")
        held = leaves >= 0
        if held.all():
            return labels
        wide = np.full((*labels.shape[:2], leaves.shape[0]), -1)
        wide[:, :, held] = labels[:, :, leaves[held]]
        return wide

    @classmethod
    def from_run(cls, run: Any) -> Self:
        """The fitted estimator of a finished run; what its settings left open is what the run found."""
        model = super().from_run(run)
        open_ones = [name for name in ("family", "prior", "coarsening") if getattr(model, name) is None]
        return model.set_params(**{name: getattr(model.model_, name) for name in open_ones})

    # After the fit --------------------------------------------------------------------------------------------------

    def summary(self) -> Any:
        """Mean, deviation, R-hat and effective sample sizes of the scalar draws, by arviz_stats."""
        check_is_fitted(self)
        return summary_of(self.posterior_)

    def coclustering(self, rows: Any = None, least: float | None = None) -> Any:
        """Posterior probability that two rows are in one cluster, for all rows or those with the given numbers.

        An array (n, n); with `least` a SciPy sparse array of the probabilities that are at least so large, which has
        room for far more rows. Over atoms, it is the matrix of the atoms. A row of weight 0 is in no draw: NaN, or not
        there.
        """
        check_is_fitted(self)
        leaves = self._row_array("leaves")
        leaves = leaves if rows is None else leaves[np.asarray(rows)]
        n, held = leaves.shape[0], np.flatnonzero(leaves >= 0)
        labels = self._fitted.partitions[:, leaves[held]]
        if least is not None:
            found = sparse_coclustering(labels, least)
            if held.shape[0] == n:
                return found
            found = found.tocoo()
            return sparse.csr_array((found.data, (held[found.row], held[found.col])), shape=(n, n))
        if n > _MOST_ROWS_TOGETHER:
            raise ValueError(
                f"a matrix of {n} x {n} is too large: pass the numbers of at most "
                f"{_MOST_ROWS_TOGETHER} rows, or least=0.1 for a sparse matrix"
            )
        together = np.full((n, n), np.nan)
        together[np.ix_(held, held)] = coclustering(labels)
        return together

    @property
    def tree_(self) -> Tree:
        """A tree over all leaves, at the medians of the sampled hyperparameters: exact BHC, or incremental beyond 5,000
        leaves."""
        check_is_fitted(self)
        if self._tree is None:
            self._tree = tree_at_medians(self.model_, self.atoms_, self._fitted.priors)
        return self._tree

    def credibility(self, tree: Tree | None = None) -> Credibility:
        """For every node of a tree over the leaves (by default `tree_`), the share of the draws in which all leaves
        below it are in one cluster (`together`), and in which they are a cluster by themselves (`cluster`)."""
        check_is_fitted(self)
        return node_credibility(self.tree_ if tree is None else tree, self._fitted.partitions)

    def _cluster_statistics(self) -> np.ndarray:
        return cluster_statistics(self._fitted.leaf_clusters, self.atoms_)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster of `labels_`, given that it belongs to one."""
        rows = self._used_rows(X)
        return np.exp(log_membership_at(self.model_, self.atoms_, self._fitted.leaf_clusters, rows))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster (n,) of each row among those of `labels_`."""
        return np.argmax(self.predict_proba(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row, averaged over (at most 100, evenly chosen) draws."""
        rows = self._used_rows(X)
        return log_density_over_draws(self.model_, self.atoms_, self._fitted.partitions, self._fitted.priors, rows)
