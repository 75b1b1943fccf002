"""What the scikit-learn faces of Bayes K-means share: rows in memory, in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.core.families import moments_of
from dtree.core.model import Model
from dtree.core.partition import canonical_labels
from dtree.hierarchy.predictive import log_membership, log_mixture_density
from dtree.kmeans.defaults import family_type, model_for
from dtree.kmeans.fit import fit_passes, rows_per_chunk, sample_size, survey_rows
from dtree.kmeans.greedy import improved_kmeans, sum_by_label
from dtree.kmeans.passes import START_STREAM, PassSettings, Progress, start_state, stream
from dtree.kmeans.predictive import log_weights
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.survey import check_rows


class InMemoryBayesKMeans(ClusterMixin, BaseEstimator):
    """Bayes K-means on arrays in this process; `dtree.BayesKMeans` adds files, Dask collections and clusters."""

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
    ) -> None:
        self.family = family
        self.prior = prior
        self.init_clusters = init_clusters
        self.coarsening = coarsening
        self.max_passes = max_passes
        self.patience = patience
        self.tol = tol
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = family_type(self.family)
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind != "real"
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InMemoryBayesKMeans:
        """Cluster the rows of X (n, d); a row of integer weight w stands for w equal rows."""
        rows = self._rows(X, reset=True)
        seed = self._seed()
        if sample_weight is None:
            self._fit_passes(rows, seed)
        else:
            self._fit_atoms(rows, np.asarray(sample_weight, dtype=np.float64), seed)
        return self

    def _rows(self, X: Any, reset: bool) -> Any:
        kind = family_type(self.family)
        rows = validate_data(
            self, X, reset=reset, accept_sparse="csr" if kind.accepts_sparse else False, dtype=(np.float64, np.float32)
        )
        check_rows(rows, kind)
        return sparse.csr_array(rows) if sparse.issparse(rows) else rows

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _settings(self, seed: int) -> PassSettings:
        return PassSettings(seed, self.max_passes, self.patience, self.tol)

    def _fit_passes(self, X: Any, seed: int) -> None:
        kind = family_type(self.family)
        n, d = X.shape
        width = kind.defaults(moments_of(X[:2], kind.needs_covariance)).statistics(X[:1]).shape[1]
        chunk_rows = rows_per_chunk(d)
        survey = survey_rows(X, kind, seed, chunk_rows, sample_size(d, width, n))
        moments = survey.moments(kind.needs_covariance)
        model = model_for(self.family, self.prior, moments, survey.sample, seed, self.coarsening)
        start = start_state(model, survey.sample, seed, n, self.init_clusters)
        fit = fit_passes(model, X, start, self._settings(seed), chunk_rows, self.progress)
        self._keep(model, fit.labels, fit.state.statistics, fit.trace)

    def _fit_atoms(self, X: Any, weight: np.ndarray, seed: int) -> None:
        """Weighted rows are atoms: the greedy moves in memory, without passes."""
        if weight.shape != (X.shape[0],) or np.any(weight < 0) or np.any(weight != np.floor(weight)):
            raise ValueError("sample_weight must hold one whole number of 0 or more for each row")
        held = np.flatnonzero(weight > 0)
        if held.size == 0:
            raise ValueError("all sample weights are zero: there is nothing to fit")
        kind = family_type(self.family)
        moments = moments_of(X[held], kind.needs_covariance, weight[held])
        model = model_for(self.family, self.prior, moments, X[held], seed, self.coarsening, weight[held])
        atoms = model.atoms(X[held], weight[held])
        order = stream(seed, START_STREAM, 0, 0).permutation(held.size)
        found = improved_kmeans(model, atoms, order, self.init_clusters, sweeps=self.max_passes)
        labels = canonical_labels(found.labels)
        statistics = sum_by_label(atoms, labels, labels.max() + 1)
        everyone = np.empty(X.shape[0], dtype=np.int64)
        everyone[held] = labels
        rest = np.flatnonzero(weight == 0)
        if rest.size:
            everyone[rest] = Scorer(model, statistics).assign(X[rest]).best
        self._keep(model, everyone, statistics, [])

    def _keep(self, model: Model, labels: np.ndarray, statistics: np.ndarray, trace: list[Progress]) -> None:
        self.model_ = model
        self.family_ = model.family
        self.prior_ = model.prior
        self.labels_ = labels
        self.statistics_ = statistics
        self.n_clusters_ = statistics.shape[0]
        count = float(np.rint(model.counts(statistics)).sum())
        self.log_joint_ = float(model.log_phi_h(statistics).sum()) + model.prior.log_normaliser(count)
        self.trace_ = trace
        self.n_passes_ = len(trace)

    def predict(self, X: Any) -> np.ndarray:
        """The cluster (n,) that each row of X gains most in."""
        check_is_fitted(self)
        return Scorer(self.model_, self.statistics_).assign(self._rows(X, reset=False)).best

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row of X, normalised."""
        check_is_fitted(self)
        weights, new = log_weights(self.model_, self.statistics_)
        return log_mixture_density(self.family_, self._rows(X, reset=False), self.statistics_, weights, new)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster, given that it belongs to one of them."""
        check_is_fitted(self)
        weights, _ = log_weights(self.model_, self.statistics_)
        return np.exp(log_membership(self.family_, self._rows(X, reset=False), self.statistics_, weights))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X."""
        return float(self.score_samples(X).mean())
