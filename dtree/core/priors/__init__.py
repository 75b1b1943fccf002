"""Priors over partitions. The contract is in `base`; a new prior is one line in `PRIORS`."""

from __future__ import annotations

from dtree.core.priors.base import Prior
from dtree.core.priors.dirichlet_process import DirichletProcess
from dtree.core.priors.generalized_gamma import GeneralizedGamma

PRIORS: dict[str, type[Prior]] = {prior.name: prior for prior in (DirichletProcess, GeneralizedGamma)}

__all__ = ["PRIORS", "DirichletProcess", "GeneralizedGamma", "Prior"]
