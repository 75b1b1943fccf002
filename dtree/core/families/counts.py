"""What families of counts share: statistics that are a few leading columns and then the row itself, dense or sparse."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from dtree.core.families.base import Family, feature_vector, require_positive
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import Parts, PerColumn


class Counts(Family):
    """A family whose statistics are `leading_columns` followed by the row."""

    accepts_sparse: ClassVar[bool] = True

    @abstractmethod
    def leading_columns(self, X: Any) -> list[np.ndarray]:
        """The statistics (n,) before the row itself, the count first, of dense or CSR rows X (n, d)."""

    def statistics(self, X: Any) -> np.ndarray:
        dense = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
        self._require_features(dense.shape)
        return np.column_stack([*self.leading_columns(dense), dense])

    def kept_rows(self, X: Any) -> Any:
        """Statistics of the rows, CSR when the rows are sparse."""
        if not sparse.issparse(X):
            return super().kept_rows(X)
        X = X.tocsr().astype(np.float64)
        leading = sparse.csr_matrix(np.column_stack(self.leading_columns(X)))
        return sparse.csr_matrix(sparse.hstack([leading, X], format="csr"))


class CountsPerFeature(PerColumn, Counts):
    """A family of counts whose hyperparameters are positive vectors (d,), learned by their logarithms in a row."""

    def __post_init__(self) -> None:
        given = self.parameters()
        d = max(np.size(value) for value in given.values())
        for key, value in given.items():
            vector = feature_vector(value, d, key)
            require_positive(vector, key)
            object.__setattr__(self, key, vector)

    def free_parameters(self) -> np.ndarray:
        return np.log(np.concatenate(list(self.parameters().values())))

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        return type(self)(*np.exp(theta).reshape(-1, self.n_features))

    def moments_of_parts(self, parts: Parts) -> Moments:
        mean = parts[1][0] / np.maximum(parts[0][0], 1e-300)  # an empty column has mean 0
        return Moments(parts[0][0], mean, np.zeros_like(mean), None)


def row_sums(X: Any, function: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
    """Sums (n,) over the entries of each row, dense or CSR, or of a function of them that is zero at zero."""
    if not sparse.issparse(X):
        return (X if function is None else function(X)).sum(axis=1)
    if function is not None:
        X = sparse.csr_matrix((function(X.data), X.indices, X.indptr), shape=X.shape)
    return np.asarray(X.sum(axis=1)).ravel()
