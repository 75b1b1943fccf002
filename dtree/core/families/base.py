"""The contract of a family: everything that any method may ask of an observation model.

A family says what one cluster looks like. It has two faces:

- the **Python face**, a subclass of `Family`: hyperparameters with names, statistics of rows, and the optional
  parts below;
- the **compiled face**, a NamedTuple returned by `compile`, on whose type the verbs of `dtree.core.verbs` dispatch.

**Required**, in one file, and every method but the slice sampler then works:

1. `statistics(X)` returns one row of additive statistics per row of data, `(n, s)` float64, column 0 equal to 1 (the
   count). Everything the marginal likelihood needs must be a sum over rows, constants such as log x! included.
2. `compile(total, coarsening)` returns the NamedTuple: arrays and floats only. `total` (s,) is the sum of all
   statistics, an upper bound for tables; soft statistics come with a `total` of zeros and must not be rounded to a
   table's entry.
3. a kernel registered with `@implements(log_marginal, MyCompiled)`: the log marginal likelihood of a statistics row,
   *with all constants*. It must be right for fractional counts too (variational methods use soft counts).

**Optional**, each with a default that is right for every conjugate family, only slower or plainer:

| part | asked by | without it |
| --- | --- | --- |
| `name`, `value_kind`, `accepts_sparse` | checks of rows, saved runs | class name, any number, dense rows only |
| `takes_holes` | checks of rows | every value must be there; see `PerColumn` for families of independent columns |
| `narrowed`, `cells` | rows to predict that lack values | they are refused |
| `needs_covariance` | whoever takes moments of the data | only means and variances are taken |
| `n_features`, `parameters()` | everyone | read from the constructor's arguments, kept under the same names |
| `anchored`, `points` | fits; k-means starts | statistics and rows as they are, square roots of counts |
| `defaults`, `refined` | the family's name in place of an object | a sentence that asks for hyperparameters |
| `free_parameters`, `with_free_parameters`, `gradient` | learning of hyperparameters | they stay as they are |
| kernels for the verbs `log_marginal_merged`, `_joined`, `_pair` | trees, samplers | one `log_marginal` each |
| `dtree.kmeans.scoring` | fast assignment of rows | one `log_marginal` per row and cluster |
| `expected_log_density` | variational mixtures | the gradient of the log marginal, by differences |
| `kept_rows`, `statistics_of_kept` | variational passes over rows | statistics are kept |
| `posterior_means` | variational mixtures, to name components | no named parameters |
| `log_predictive_of` | predictions | differences of log marginals |
| `profile` | reports: what sets a cluster apart | means of the features, where statistics hold their sums |
| `dtree.mcmc.natural` | draws of parameters, slice sampler only | the slice sampler refuses |

To make a family's name work, register the class in `dtree/core/families/__init__.py`.
"""

import inspect
import math
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, ClassVar, Self, cast

import numpy as np

from dtree.core.families.moments import Moments
from dtree.core.families.profile import Profile, feature_columns, plain_profile
from dtree.core.families.slopes import slopes
from dtree.core.jit import kernel
from dtree.core.verbs import log_marginal


@kernel
def _log_marginal_rows(compiled, statistics):
    out = np.empty(statistics.shape[0])
    for i in range(statistics.shape[0]):
        out[i] = log_marginal(compiled, statistics[i])
    return out


@cache
def argument_names(cls: type) -> tuple[str, ...]:
    """What the constructor of a class takes."""
    return tuple(inspect.signature(cls).parameters)


def constructor_arguments(thing: Any) -> dict[str, Any]:
    """The arguments that make `thing` again, from the attributes named like them."""
    kind: Any = type(thing)
    names = argument_names(kind)
    missing = [name for name in names if not hasattr(thing, name)]
    if missing:
        raise TypeError(
            f"{kind.__name__} keeps no attribute {missing[0]!r}: keep it, or give the class a method parameters()"
        )
    return {name: getattr(thing, name) for name in names}


class _ClassName:
    """The name of a family that has given itself none: that of its class."""

    def __get__(self, instance: Any, owner: type) -> str:
        return owner.__name__


MOST_ROUNDING = 0.1  # beyond, a sum of squares may round to nothing and a marginal to anything


class Family(ABC):
    """An observation model with conjugate prior; see the module's docstring for the contract."""

    name: ClassVar[str] = cast(str, _ClassName())
    value_kind: ClassVar[str] = "real"  # "real", "binary", "count", "category" or "mixed": what the rows may hold
    accepts_sparse: ClassVar[bool] = False
    needs_covariance: ClassVar[bool] = False
    takes_holes: ClassVar[bool] = False  # whether values may be missing (NaN)
    predicts_holes: ClassVar[bool] = False  # whether values of rows to predict may, of a fit to complete ones

    # Required -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def statistics(self, X: Any) -> np.ndarray:
        """Additive statistics (n, s) of the rows of X (n, d); column 0 is 1."""

    @abstractmethod
    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> Any:
        """The NamedTuple that kernels take; `total` (s,) bounds every statistic that will occur."""

    # What it is made of -------------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, Any]:
        """Constructor arguments by name: `type(family)(**family.parameters())` is the same family."""
        return constructor_arguments(self)

    @property
    def n_statistics(self) -> int:
        """How many statistics s a row has."""
        return int(self.statistics_of_kept(self.kept_rows(np.zeros((1, self.n_features)))).shape[1])

    @property
    def n_features(self) -> int:
        """Number of columns of the data: the length of the longest hyperparameter, 1 when all are single numbers."""
        return max((len(value) for value in self.parameters().values() if np.ndim(value) > 0), default=1)

    def anchored(self, moments: Moments) -> Self:
        """The same model with its statistics kept in units that do not cancel for data like these."""
        return self

    def _require_features(self, shape: tuple[int, ...]) -> None:
        """Raise unless rows of this shape have the family's features: kernels do not look where an array ends."""
        if len(shape) != 2 or shape[1] != self.n_features:
            raise ValueError(f"the family has {self.n_features} features but the rows have shape {shape}")

    def points(self, X: Any) -> Any:
        """The rows of X (n, d), dense or sparse, where Euclidean distance makes sense: square roots of counts."""
        X = X.astype(np.float64) if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        if self.value_kind != "count":
            return X
        return X.sqrt() if hasattr(X, "tocsr") else np.sqrt(X)

    def narrowed(self, columns: np.ndarray) -> tuple[Any, np.ndarray]:
        """The same model of some columns (c,) alone, and the places of its statistics among those of all columns.

        Asked of families with `predicts_holes` only.
        """
        raise NotImplementedError

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

    # Soft assignment ------------------------------------------------------------------------------------------------

    def soft_log_marginal_of(self, statistics: np.ndarray) -> np.ndarray:
        """Log marginal likelihoods (k,) of soft statistics (k, s).

        The family is compiled without tables: they snap counts within 1e-9 of an integer to it, which is harmless for
        whole rows but makes a bound jump by as much when responsibilities creep towards 1.
        """
        return _log_marginal_rows(self.compile(np.zeros(statistics.shape[1])), np.ascontiguousarray(statistics))

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        """Coefficients (k, s): `self.statistics(X) @ coefficients.T` is E log p(x | cluster k), shape (n, k).

        The expectation is over the parameters of cluster k given its soft statistics (k, s). For a conjugate family it
        is the derivative of the log marginal at these statistics in the direction of the row's, which is linear in
        them: the coefficients are the gradient of the log marginal.
        """
        try:
            return slopes(self.soft_log_marginal_of, statistics)
        except FloatingPointError as error:
            raise ValueError(
                f"the log marginal of {type(self).__name__} has no derivative by statistic {error} at a component's "
                "soft statistics: it must be smooth and right for fractional counts, or the family needs a method "
                "expected_log_density of its own"
            ) from None

    def kept_rows(self, X: Any) -> Any:
        """What is kept of the rows of X (n, d) between passes over them; it can be sliced by rows."""
        return np.ascontiguousarray(self.statistics(X))

    def statistics_of_kept(self, rows: Any) -> Any:
        """Statistics (b, s), dense or CSR, of some of the kept rows."""
        return rows

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior means of the parameters of clusters with statistics (k, s), by name."""
        return {}

    # Reporting ------------------------------------------------------------------------------------------------------

    def profile(self, statistics: np.ndarray) -> Profile | None:
        """What is characteristic of leaves with statistics (m, s), in true counts; None when nothing can be said.

        By default the means of the features, read from the statistics that are sums of a feature.
        """
        columns = feature_columns(self.statistics, self.n_features, self.value_kind)
        return None if columns is None else plain_profile(self.value_kind, statistics[:, columns], statistics[:, 0])

    # For people who want to look ----------------------------------------------------------------------------------

    def rounding(self, total: np.ndarray) -> float:
        """Error of a cluster's sum of squares by rounding, relative to what the prior adds, when all clusters sum to
        `total` (s,); 0 where statistics are counts."""
        return 0.0

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
            inside = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items() if value is not None)
        return f"{type(self).__name__}({inside})"


class KeptAsRows(Family):
    """A family whose rows are kept as they are between passes: their statistics, which are longer, would fill the
    memory."""

    def kept_rows(self, X: Any) -> np.ndarray:
        rows = np.ascontiguousarray(X, dtype=np.float64)
        self._require_features(rows.shape)
        return rows

    def statistics_of_kept(self, rows: np.ndarray) -> np.ndarray:
        return self.statistics(rows)


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
    if isinstance(value, float):  # chains make a prior for every sweep
        positive = 0.0 < value < math.inf
    else:
        positive = bool(np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0))
    if not positive:
        raise ValueError(f"{name} must be positive and finite")
