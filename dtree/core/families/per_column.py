"""Families whose columns are independent within a cluster, so that any value of a row may be missing (NaN).

A missing value adds nothing to the statistics of its column, and nothing to the column's own count. That is exact when
values are missing at random, and it is still a sum over rows. `Mixed` keeps such counts for every column; here is what
it asks of the families that it is made of. A cluster is given by its `Parts`: one array per kind of statistic, the
count of each column first. In the statistics of a family on its own, one count (k, 1) stands for all columns.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from dtree.core.families.base import Family
from dtree.core.families.moments import Moments

Parts = tuple[np.ndarray, ...]

# Shares of a column's variance within clusters among which the evidence chooses: from no clusters to tight ones.
SHARES = (0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)


def has_holes(X: Any) -> bool:
    """Whether dense rows hold a missing value.

    >>> has_holes(np.array([[1.0, np.nan]]))
    True
    """
    if hasattr(X, "tocsr"):
        return False
    X = np.asarray(X)
    return X.dtype.kind == "f" and bool(np.isnan(X.sum()) and np.isnan(X).any())


def split_holes(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) with 0 where a value is missing, and 1.0 where one is present, 0.0 where not (n, d)."""
    X = np.asarray(X, dtype=np.float64)
    present = ~np.isnan(X)
    return np.where(present, X, 0.0), present.astype(np.float64)


class PerColumn(Family):
    """What a family of independent columns offers beyond the contract of `Family`."""

    takes_holes: ClassVar[bool] = True
    predicts_holes: ClassVar[bool] = True

    @abstractmethod
    def parts(self, statistics: np.ndarray) -> Parts:
        """The statistics (k, s) of complete rows as parts."""

    @abstractmethod
    def parts_of_rows(self, X: Any) -> Parts:
        """Parts of every row of X (n, d), which may hold NaN."""

    @abstractmethod
    def log_columns(self, parts: Parts) -> np.ndarray:
        """Log marginal likelihoods (k, d) of each column of each cluster; their sum is that of the rows."""

    @abstractmethod
    def log_cells(self, X: np.ndarray, parts: Parts) -> np.ndarray:
        """Log predictive densities (n, d) of each value under one cluster (parts of one row); 0 where it is missing."""

    @abstractmethod
    def expected_parts(self, parts: Parts) -> Parts:
        """Coefficients, shaped like the parts: what each statistic of a row adds to E log p(x | cluster)."""

    @abstractmethod
    def gradient_of_parts(self, parts: Parts, weights: np.ndarray) -> np.ndarray:
        """`gradient` at clusters given by parts."""

    @abstractmethod
    def means_of_parts(self, parts: Parts) -> dict[str, np.ndarray]:
        """`posterior_means` of clusters given by parts."""

    def expected_values(self, parts: Parts) -> np.ndarray:
        """E[x_j | cluster] (k, d) of a new row, by default the first of the means; for categories NaN."""
        return next(iter(self.means_of_parts(parts).values()))

    @abstractmethod
    def moments_of_parts(self, parts: Parts) -> Moments:
        """Moments of the values that are there, from the parts of all rows together (one row)."""

    def gradient(self, statistics: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self.gradient_of_parts(self.parts(statistics), weights)

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        return self.means_of_parts(self.parts(statistics))

    def refined_of_parts(self, parts: Parts, weights: np.ndarray) -> Self:
        """`refined` at clusters given by parts, each column for itself: the share of its variance within clusters at
        which sum_k weights[k] log p(column of cluster k) is highest, or what it was.

        Shares are relative to the moments of the whole data, the last cluster, so the units of a column do not matter.
        """
        whole = self.moments_of_parts(tuple(part[-1:] for part in parts))
        return self._best_columns([self, *(type(self).defaults(whole, share) for share in SHARES)], parts, weights)

    def _best_columns(self, candidates: list[Self], parts: Parts, weights: np.ndarray) -> Self:
        """The family made of the best of the candidates for each column."""
        likely = weights > 1e-8 * weights.sum()
        parts, weights = tuple(part[likely] for part in parts), weights[likely]
        scores = np.stack([weights @ candidate.log_columns(parts) for candidate in candidates])
        best = np.argmax(scores, axis=0)  # the first of equal ones: the family as it was
        return self if not best.any() else self.of_columns(candidates, best)

    def of_columns(self, candidates: list[Self], best: np.ndarray) -> Self:
        """The family whose column j is that of candidates[best[j]]: every hyperparameter is a vector (d,)."""
        at = best, np.arange(best.shape[0])
        given = [candidate.parameters() for candidate in candidates]
        return type(self)(**{name: np.stack([one[name] for one in given])[at] for name in given[0]})

    # Rows with holes, for people who want to look -------------------------------------------------------------------

    def log_predictive_of(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        if has_holes(X):
            return self.log_predictive_of_parts(X, self.parts(np.atleast_2d(statistics)))
        return self.log_predictive_complete(X, statistics)

    def log_predictive_complete(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        """`log_predictive_of` for rows without holes."""
        return super().log_predictive_of(X, statistics)

    def log_predictive_of_parts(self, X: Any, parts: Parts) -> np.ndarray:
        """Log density (n, k) of each row under each cluster, what a row lacks marginalised."""
        X = np.asarray(X, dtype=np.float64)
        self._require_features(X.shape)
        one_by_one = [
            self.log_cells(X, tuple(part[k : k + 1] for part in parts)).sum(axis=1) for k in range(parts[-1].shape[0])
        ]
        return np.stack(one_by_one, axis=1)

    def log_marginal(self, X: Any) -> float:
        if not has_holes(X):
            return super().log_marginal(X)
        return float(self.log_columns(self._parts_of_all(X)).sum())

    def log_predictive(self, X_new: Any, X: Any = None) -> np.ndarray:
        if X is None or not has_holes(X):
            return super().log_predictive(X_new, X)
        return self.log_predictive_of_parts(X_new, self._parts_of_all(X))[:, 0]

    def _parts_of_all(self, X: Any) -> Parts:
        self._require_features(np.shape(X))
        return tuple(part.sum(axis=0, keepdims=True) for part in self.parts_of_rows(X))
