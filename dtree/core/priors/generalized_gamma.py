"""The normalised generalised gamma process given its auxiliary variable u (NGGP).

kappa(n, u) = alpha sigma Gamma(n - sigma) / Gamma(1 - sigma) (1 + u)^(sigma - n), psi(u) = alpha ((1 + u)^sigma - 1).
The Dirichlet process is the limit sigma -> 0 with alpha sigma held fixed.
Joint: u^(n-1) e^-psi(u) / Gamma(n) prod kappa p.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, expit, gammaln, logit

from dtree.core.families.base import require_positive
from dtree.core.priors.base import CompiledKappa, Prior


@dataclass(frozen=True, repr=False)
class GeneralizedGamma(Prior):
    """Normalised generalised gamma process with mass alpha and index sigma, at the auxiliary variable u.

    >>> GeneralizedGamma(alpha=1.0, sigma=0.5, u=1.0).log_kappa([1, 2]).round(4).tolist()
    [-1.0397, -2.426]
    """

    alpha: float = 1.0
    sigma: float = 0.5
    u: float = 1.0

    name: ClassVar[str] = "nggp"

    def __post_init__(self) -> None:
        require_positive(self.alpha, "alpha")
        require_positive(self.u, "u")
        if not 0.0 < self.sigma < 1.0:
            raise ValueError(f"sigma must lie between 0 and 1, got {self.sigma}")

    def _log_front(self) -> float:
        """log(alpha sigma / Gamma(1 - sigma))."""
        return math.log(self.alpha * self.sigma) - math.lgamma(1.0 - self.sigma)

    def log_kappa(self, count: Any) -> np.ndarray:
        shifted = np.asarray(count, dtype=np.float64) - self.sigma
        return self._log_front() + gammaln(shifted) - shifted * math.log1p(self.u)

    def psi(self, u: Any) -> np.ndarray:
        """Laplace exponent alpha ((1 + u)^sigma - 1)."""
        return self.alpha * np.expm1(self.sigma * np.log1p(u))

    def log_normaliser(self, count: float) -> float:
        return float((count - 1.0) * math.log(self.u) - self.psi(self.u) - gammaln(count))

    def compile(self, total_count: float) -> CompiledKappa:
        return CompiledKappa(self._log_front(), self.sigma, math.log1p(self.u), self.kappa_table(total_count))

    # Unconstrained parameters: log alpha, logit sigma, log u.

    def free_parameters(self) -> np.ndarray:
        return np.array([math.log(self.alpha), float(logit(self.sigma)), math.log(self.u)])

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        sigma = float(np.clip(expit(theta[1]), 1e-9, 1.0 - 1e-9))
        return type(self)(float(np.exp(theta[0])), sigma, float(np.exp(theta[2])))

    def gradient(self, counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
        shifted = counts - self.sigma
        by_sigma = 1.0 / self.sigma + digamma(1.0 - self.sigma) - digamma(shifted) + math.log1p(self.u)
        by_u = -shifted / (1.0 + self.u)
        by_logit_sigma = self.sigma * (1.0 - self.sigma) * (weights @ by_sigma)
        return np.array([weights.sum(), by_logit_sigma, self.u * (weights @ by_u)])

    def normaliser_gradient(self, count: float) -> np.ndarray:
        log_tilt = math.log1p(self.u)
        power = math.exp(self.sigma * log_tilt)
        by_sigma = -self.alpha * power * log_tilt
        by_u = (count - 1.0) / self.u - self.alpha * self.sigma * power / (1.0 + self.u)
        return np.array([-float(self.psi(self.u)), self.sigma * (1.0 - self.sigma) * by_sigma, self.u * by_u])

    def log_hyperprior(self) -> tuple[float, np.ndarray]:
        """alpha ~ Gamma(1, 1) and sigma ~ Beta(1.5, 1.5), as in [LC15]."""
        sigma = self.sigma
        value = -self.alpha + 0.5 * math.log(sigma * (1.0 - sigma))
        return value, np.array([-self.alpha, 0.5 * (1.0 - 2.0 * sigma), 0.0])
