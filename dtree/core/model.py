"""Model(family, prior, coarsening): what a set of rows is worth as one cluster.

    log phi_h(c) = log kappa(n_c) + log p(X_c)

Coarsening (Miller & Dunson 2019) lets the likelihood enter to a power zeta in (0, 1]. For a conjugate family that is
multiplying the additive statistics by zeta, while kappa keeps the true counts. Inside dtree statistics are multiplied
once, when atoms are made (`Model.atoms`); a compiled model turns column 0 back into the true count.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families import Family
from dtree.core.jit import kernel
from dtree.core.priors import Prior
from dtree.core.verbs import log_kappa, log_marginal


class CompiledModel(NamedTuple):
    """What kernels take: compiled family and prior, and 1/zeta."""

    family: Any
    prior: Any
    per_count: float


@kernel
def log_phi_h(model, statistics):
    """Log worth of one cluster from its (coarsened) statistics (s,)."""
    return log_kappa(model.prior, statistics[0] * model.per_count) + log_marginal(model.family, statistics)


@kernel
def _log_phi_h_rows(model, statistics):
    out = np.empty(statistics.shape[0])
    for k in range(statistics.shape[0]):
        out[k] = log_phi_h(model, statistics[k])
    return out


@dataclass(frozen=True)
class Model:
    """A family, a prior over partitions and a coarsening.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [1.0]), DirichletProcess(1.0))
    >>> model.log_phi_h(model.atoms([[2], [3]])).round(4).tolist()
    [-2.0794, -2.7726]
    """

    family: Family
    prior: Prior
    coarsening: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.coarsening <= 1.0:
            raise ValueError(f"coarsening must be above 0 and at most 1, got {self.coarsening}")

    def atoms(self, X: Any, sample_weight: np.ndarray | None = None) -> np.ndarray:
        """Coarsened statistics (n, s) of the rows of X; a row of weight w stands for w equal rows."""
        statistics = self.family.statistics(X)
        if sample_weight is not None:
            statistics *= np.asarray(sample_weight, dtype=np.float64)[:, None]
        if self.coarsening != 1.0:
            statistics *= self.coarsening
        return np.ascontiguousarray(statistics)

    def counts(self, atoms: np.ndarray) -> np.ndarray:
        """True counts (m,) of atoms (m, s)."""
        return atoms[:, 0] / self.coarsening

    def compile(self, total: np.ndarray) -> CompiledModel:
        """The model for kernels; `total` (s,) is the sum of all atoms."""
        return CompiledModel(
            self.family.compile(total, self.coarsening),
            self.prior.compile(total[0] / self.coarsening),
            1.0 / self.coarsening,
        )

    def log_phi_h(self, atoms: np.ndarray) -> np.ndarray:
        """Log worth (m,) of each row of atoms (m, s) as one cluster."""
        atoms = np.ascontiguousarray(np.atleast_2d(atoms), dtype=np.float64)
        return _log_phi_h_rows(self.compile(atoms.max(axis=0)), atoms)
