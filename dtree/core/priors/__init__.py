"""Priors over partitions. The contract is in `base`; a new prior is one line in `PRIORS`."""

from dtree.core.checks import named
from dtree.core.priors.base import Prior
from dtree.core.priors.dirichlet_process import DirichletProcess
from dtree.core.priors.generalized_gamma import GeneralizedGamma

PRIORS: dict[str, type[Prior]] = {prior.name: prior for prior in (DirichletProcess, GeneralizedGamma)}


def prior_of(prior: str | Prior) -> Prior:
    """A prior given as an object, or the one of a name with its defaults."""
    return prior if isinstance(prior, Prior) else named(PRIORS, prior, "prior")()


__all__ = ["PRIORS", "DirichletProcess", "GeneralizedGamma", "Prior", "prior_of"]
