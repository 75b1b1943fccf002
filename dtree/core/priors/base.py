"""The contract of a prior over partitions: what a method may ask of a mixing measure.

P(partition) is proportional to the product of kappa(n_c) over clusters. A prior has a Python face (a subclass of `Prior`)
and a compiled one (the NamedTuple from `compile`, with `log_kappa` registered for its type). To add one, write one file with
both and register it in `dtree/core/priors/__init__.py`:

1. `log_kappa(n)` and a kernel registered with `@implements(log_kappa, MyCompiled)`: log weight of a cluster of n rows;
2. `log_normaliser(n)`: what turns a sum over partitions of products of phi_h into log p(X) (or log p(X, u));
3. `free_parameters`, `with_free_parameters`, `gradient` and `normaliser_gradient` make it learnable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np


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

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Constructor arguments by name."""

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
