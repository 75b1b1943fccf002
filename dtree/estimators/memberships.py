"""What people expect of a clusterer beside labels: memberships as features, and the parameters of Gaussian clusters."""

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted


class Memberships(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """`transform` gives the probabilities of the clusters, for a pipeline; `set_output(transform="pandas")` names them.

    >>> import dtree
    >>> X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)
    >>> model = dtree.BHC("gaussian-diag").set_output(transform="pandas").fit(X)
    >>> model.transform(X[:2]).round(3).columns.tolist()
    ['bhc0', 'bhc1']
    """

    def transform(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster: `predict_proba`, as new features."""
        check_is_fitted(self)
        return self.predict_proba(X)  # type: ignore[attr-defined]

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_  # type: ignore[attr-defined]


def named_means(family: Any, statistics: np.ndarray) -> dict[str, np.ndarray]:
    """Posterior means of clusters (k, s) by the name of the attribute; a diagonal Gaussian's variances are its
    covariances too, as in scikit-learn's mixtures with `covariance_type="diag"`."""
    found = {f"{name}_": values for name, values in family.posterior_means(statistics).items()}
    if "variances_" in found:
        found["covariances_"] = found["variances_"]
    return found


class ClusterParameters:
    """Means, covariances and shares of the clusters; for families without such a thing the attribute is not there."""

    def _cluster_statistics(self) -> np.ndarray:
        """Statistics (k, s) of the clusters of `labels_`."""
        raise NotImplementedError

    def _parameter(self, name: str) -> np.ndarray:
        check_is_fitted(self)
        found = named_means(self.family_, self._cluster_statistics())  # type: ignore[attr-defined]
        if name not in found:
            family = type(self.family_).__name__  # type: ignore[attr-defined]
            raise AttributeError(f"clusters of the family {family} have no {name}")
        return found[name]

    @property
    def means_(self) -> np.ndarray:
        """Posterior means (k, d) of the clusters, in the columns of `columns_`."""
        return self._parameter("means_")

    @property
    def covariances_(self) -> np.ndarray:
        """Posterior mean covariances of Gaussian clusters, (k, d, d), or (k, d) when they are diagonal."""
        return self._parameter("covariances_")

    @property
    def weights_(self) -> np.ndarray:
        """Shares (k,) of the rows that each cluster holds."""
        check_is_fitted(self)
        counts = self.model_.counts(self._cluster_statistics())  # type: ignore[attr-defined]
        return counts / counts.sum()
