"""The contract of a prior over partitions: what a method may ask of a mixing measure.

P(partition) is proportional to the product of kappa(n_c) over clusters. A prior has a Python face (a subclass of
`Prior`) and a compiled one (the NamedTuple from `compile`, with `log_kappa` registered for its type). To add one, write
one file with both and register it in `dtree/core/priors/__init__.py`:

1. `log_kappa(n)` and a kernel registered with `@implements(log_kappa, MyCompiled)`: log weight of a cluster of n rows;
2. `log_normaliser(n)`: what turns a sum over partitions of products of phi_h into log p(X) (or log p(X, u));
3. `free_parameters`, `with_free_parameters`, `gradient` and `normaliser_gradient` make it learnable.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dtree.core.families.base import constructor_arguments
from dtree.core.jit import kernel
from dtree.core.tables import counts_of_table, table_index
from dtree.core.verbs import implements, log_kappa


class CompiledKappa(NamedTuple):
    """The weights of both priors: log kappa(n) = log_front + lgamma(n - sigma) - (n - sigma) log_tilt."""

    log_front: float
    sigma: float  # 0 for a Dirichlet process
    log_tilt: float  # log(1 + u), or 0 when u is integrated out
    table: np.ndarray  # log kappa by count; entry 0 is unused


@implements(log_kappa, CompiledKappa)
@kernel(counted=False)
def _log_kappa(prior, count):
    index = table_index(count, 1.0, prior.table.shape[0])
    if index > 0:
        return prior.table[index]
    shifted = count - prior.sigma
    return prior.log_front + math.lgamma(shifted) - shifted * prior.log_tilt


class Prior(ABC):
    """A prior over partitions; see the module's docstring for the contract."""

    name: ClassVar[str]

    @abstractmethod
    def log_kappa(self, count: Any) -> np.ndarray:
        """Log weight of a cluster of `count` rows, elementwise."""

    @abstractmethod
    def log_normaliser(self, count: float) -> float:
        """Log of the factor in front of the sum over partitions of `count` rows."""

    @abstractmethod
    def compile(self, total_count: float) -> Any:
        """The NamedTuple that kernels take; no cluster has more than `total_count` rows."""

    def kappa_table(self, total_count: float) -> np.ndarray:
        """log kappa by count, up to `total_count`, for kernels; entry 0 is unused. Empty when it would be too large."""
        counts = counts_of_table(total_count)
        table = np.zeros(counts.shape[0])
        table[1:] = self.log_kappa(counts[1:])
        return table

    def parameters(self) -> dict[str, Any]:
        """Constructor arguments by name."""
        return constructor_arguments(self)

    @abstractmethod
    def free_parameters(self) -> np.ndarray:
        """Hyperparameters as one unconstrained vector (p,)."""

    @abstractmethod
    def with_free_parameters(self, theta: np.ndarray) -> Self:
        """The prior at another unconstrained vector."""

    @abstractmethod
    def gradient(self, counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """d/d theta of sum_k weights[k] log_kappa(counts[k]), shape (p,)."""

    @abstractmethod
    def normaliser_gradient(self, count: float) -> np.ndarray:
        """d/d theta of log_normaliser(count), shape (p,)."""

    @abstractmethod
    def log_hyperprior(self) -> tuple[float, np.ndarray]:
        """Log density (up to a constant) of the hyperparameters when they are chosen by default, and its gradient (p,).

        Without one, evidence is maximal where every row is a cluster of its own drawn from a prior that fits the data.
        """

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({inside})"
