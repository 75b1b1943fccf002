"""The Dirichlet process: kappa(n) = alpha Gamma(n), the Chinese restaurant process over partitions.

Given the auxiliary variable u of normalised random measures, kappa(n, u) = alpha Gamma(n) (1+u)^-n and
psi(u) = alpha log(1+u); the posterior over partitions does not depend on u, so it is integrated out unless given.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.base import require_positive
from dtree.core.priors.base import CompiledKappa, Prior


@dataclass(frozen=True, repr=False)
class DirichletProcess(Prior):
    """Dirichlet process with concentration alpha.

    >>> DirichletProcess(alpha=2.0).log_kappa([1, 2, 3]).round(4).tolist()
    [0.6931, 0.6931, 1.3863]
    """

    alpha: float = 1.0
    u: float | None = None

    name: ClassVar[str] = "dp"

    def __post_init__(self) -> None:
        require_positive(self.alpha, "alpha")
        if self.u is not None:
            require_positive(self.u, "u")

    def _log_tilt(self) -> float:
        return 0.0 if self.u is None else math.log1p(self.u)

    def log_kappa(self, count: Any) -> np.ndarray:
        count = np.asarray(count, dtype=np.float64)
        return math.log(self.alpha) + gammaln(count) - count * self._log_tilt()

    def psi(self, u: Any) -> np.ndarray:
        """Laplace exponent alpha log(1 + u)."""
        return self.alpha * np.log1p(u)

    def log_normaliser(self, count: float) -> float:
        if self.u is None:
            return float(gammaln(self.alpha) - gammaln(count + self.alpha))
        return float((count - 1.0) * math.log(self.u) - self.psi(self.u) - gammaln(count))

    def compile(self, total_count: float) -> CompiledKappa:
        return CompiledKappa(math.log(self.alpha), 0.0, self._log_tilt(), self.kappa_table(total_count))

    def free_parameters(self) -> np.ndarray:
        return np.array([math.log(self.alpha)])

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        return type(self)(float(np.exp(theta[0])), self.u)

    def gradient(self, counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.array([weights.sum()])

    def normaliser_gradient(self, count: float) -> np.ndarray:
        if self.u is None:
            return np.array([self.alpha * (digamma(self.alpha) - digamma(count + self.alpha))])
        return np.array([-float(self.psi(self.u))])

    def log_hyperprior(self) -> tuple[float, np.ndarray]:
        """alpha ~ Gamma(1, 1), as in [LC15]."""
        return -self.alpha, np.array([-self.alpha])
