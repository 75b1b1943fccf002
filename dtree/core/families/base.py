"""The contract of a family: what a method may ask of an observation model.

A family says what one cluster looks like. It has two faces:

- the **Python face**, a subclass of `Family`: hyperparameters with names, statistics of rows, defaults from data;
- the **compiled face**, a NamedTuple returned by `compile`, on whose type the verbs of `dtree.core.verbs` dispatch.

To add a family, write one file with both and register it in `dtree/core/families/__init__.py`:

1. `statistics(X)` returns one row of additive statistics per row of data, `(n, s)` float64, column 0 equal to 1 (the
   count). Everything the marginal likelihood needs must be a sum over rows, constants such as log x! included.
2. `compile(total, coarsening)` returns the NamedTuple: arrays and floats only. `total` (s,) is the sum of all statistics,
   an upper bound for tables.
3. a kernel registered with `@implements(log_marginal, MyCompiled)`: the log marginal likelihood of a statistics row,
   *with all constants*. It must be right for fractional counts too (variational methods use soft counts).
4. optional: a kernel for `log_marginal_merged` when many merges can be scored faster together.

With these BHC and all methods built on atoms run. `defaults(...)` makes the family's string name work;
`free_parameters`, `with_free_parameters` and `gradient` make its hyperparameters learnable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import log_marginal


class Moments(NamedTuple):
    """What `Family.defaults` needs to know of the data: one pass over any number of rows."""

    rows: float
    mean: np.ndarray  # (d,)
    variance: np.ndarray  # (d,), divisor n
    covariance: np.ndarray | None  # (d, d), divisor n; None when not asked for


def moments_of(X: Any, with_covariance: bool = True, weight: np.ndarray | None = None) -> Moments:
    """Moments of the rows of X (n, d), dense or SciPy sparse, optionally weighted by integer counts."""
    weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    count = weight.sum()
    if hasattr(X, "tocsr"):
        X = X.tocsr().astype(np.float64)
        mean = np.asarray(X.T @ weight).ravel() / count
        variance = np.maximum(np.asarray(X.multiply(X).T @ weight).ravel() / count - mean**2, 0.0)
        return Moments(count, mean, variance, None)
    X = np.asarray(X, dtype=np.float64)
    mean = weight @ X / count
    centred = X - mean
    constant = X.min(axis=0) == X.max(axis=0)
    centred[:, constant] = 0.0  # rounding in the mean must not turn a constant column into a varying one
    variance = weight @ centred**2 / count
    covariance = (centred * weight[:, None]).T @ centred / count if with_covariance else None
    return Moments(count, mean, variance, covariance)


@kernel
def _log_marginal_rows(compiled, statistics):
    out = np.empty(statistics.shape[0])
    for i in range(statistics.shape[0]):
        out[i] = log_marginal(compiled, statistics[i])
    return out


class Family(ABC):
    """An observation model with conjugate prior; see the module's docstring for the contract."""

    name: ClassVar[str]
    value_kind: ClassVar[str] = "real"  # "real", "binary" or "count": what the rows may hold
    accepts_sparse: ClassVar[bool] = False
    needs_covariance: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns of the data."""

    @abstractmethod
    def statistics(self, X: Any) -> np.ndarray:
        """Additive statistics (n, s) of the rows of X (n, d); column 0 is 1."""

    @abstractmethod
    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> Any:
        """The NamedTuple that kernels take; `total` (s,) bounds every statistic that will occur."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments by name: `type(family)(**family.parameters())` is the same family."""

    def anchored(self, moments: Moments) -> Self:
        """The same model with its statistics kept in units that do not cancel for data like these."""
        return self

    # Learning from data -----------------------------------------------------------------------------------------

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        """A default family whose clusters hold about `share` of the data's variance."""
        raise ValueError(f"{cls.__name__} has no defaults: give its hyperparameters")

    def refined(self, statistics: np.ndarray, weights: np.ndarray) -> Self:
        """A family at which sum_k weights[k] log p(statistics[k]) is no lower; part of choosing defaults by evidence.

        It must be as equivariant as `defaults`. The last row of `statistics` is the whole data.
        """
        return self

    def free_parameters(self) -> np.ndarray:
        """The hyperparameters as one unconstrained vector (p,); empty when none can be learned."""
        return np.empty(0)

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        """The family at another unconstrained vector."""
        return self

    def gradient(self, statistics: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """d/d theta of sum_k weights[k] log p(statistics[k]), shape (p,)."""
        return np.empty(0)

    # For people who want to look ----------------------------------------------------------------------------------

    def log_marginal_of(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihood (k,) of each row of statistics (k, s)."""
        statistics = np.ascontiguousarray(np.atleast_2d(statistics), dtype=np.float64)
        return _log_marginal_rows(self.compile(statistics.max(axis=0)), statistics)

    def log_marginal(self, X: Any) -> float:
        """Log probability (density) of all rows of X (n, d) as one cluster, parameters integrated out."""
        return float(self.log_marginal_of(self.statistics(X).sum(axis=0))[0])

    def log_predictive_of(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        """Log density (n, k) of each row of X under each cluster summarised in statistics (k, s)."""
        statistics = np.ascontiguousarray(np.atleast_2d(statistics), dtype=np.float64)
        rows = self.statistics(X)
        base = self.log_marginal_of(statistics)
        out = np.empty((rows.shape[0], statistics.shape[0]))
        for k in range(statistics.shape[0]):
            out[:, k] = self.log_marginal_of(rows + statistics[k]) - base[k]
        return out

    def log_predictive(self, X_new: Any, X: Any = None) -> np.ndarray:
        """Log density (t,) of each new row given the rows X as its cluster, or under the prior alone."""
        rows = np.zeros((1, self.statistics(X_new[:1]).shape[1]))
        if X is not None:
            rows = self.statistics(X).sum(axis=0)[None, :]
        return self.log_predictive_of(X_new, rows)[:, 0]

    def __repr__(self) -> str:
        with np.printoptions(precision=4, threshold=6, edgeitems=2):
            inside = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({inside})"


def feature_vector(value: Any, n_features: int | None, name: str) -> np.ndarray:
    """A hyperparameter as a contiguous vector (d,), a scalar repeated when the number of features is known."""
    vector = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if vector.ndim != 1:
        raise ValueError(f"{name} must be a number or one number per feature, not an array of shape {vector.shape}")
    if n_features is not None and vector.shape[0] == 1:
        vector = np.repeat(vector, n_features)
    if n_features is not None and vector.shape[0] != n_features:
        raise ValueError(f"{name} has {vector.shape[0]} entries but there are {n_features} features")
    return np.ascontiguousarray(vector)


def require_positive(value: Any, name: str) -> None:
    """Raise one clear sentence unless every entry is a finite number above zero."""
    if not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0)):
        raise ValueError(f"{name} must be positive and finite")
