"""What a fit of a diffusion tree is told: one record for the estimator, the workers and the run on disk."""

import math
from typing import NamedTuple

import numpy as np

from dtree.diffusion.affine import SCALINGS
from dtree.diffusion.objective import Hyper

INFERENCES = ("laplace", "em", "message-passing", "mcmc")
LIKELIHOODS = ("gaussian", "probit")
INITS = ("sequential", "bhc")
NODES = 16  # per branch: densities within 2e-3 of those with 64
SWEEPS = 80  # of the posterior sampler after a search, unless told otherwise: half settle, half are kept


class Settings(NamedTuple):
    """The parameters of `DiffusionTree`, which explains them."""

    inference: str = "laplace"
    likelihood: str = "gaussian"
    n_permutations: int = 3
    init: str = "sequential"
    search_steps: int | None = None
    posterior_sweeps: int | None = None
    n_trees: int = 10
    attachments: int = 3
    beam: int = 12
    sigma2: float | None = None
    c: float | None = None
    start: float | None = None
    precision_prior: tuple[float, float] = (2.0, 1.5)
    c_prior: tuple[float, float] = (2.0, 2.0)
    noise: float | str = "auto"
    scaling: str = "auto"
    max_leaves: int = 2000
    importance_draws: int = 0
    mcmc_draws: int = 100
    mcmc_warmup: int = 100
    n_nodes: int = NODES
    n_clusters: int | None = None

    def hyper(self) -> Hyper:
        """How sigma2 and c are treated."""
        return Hyper(self.sigma2, self.c, self.precision_prior, self.c_prior)

    def check(self) -> None:
        """Raise ValueError with one sentence unless every setting makes sense.

        >>> Settings().check()
        """
        choices = {"inference": INFERENCES, "likelihood": LIKELIHOODS, "init": INITS, "scaling": SCALINGS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.likelihood == "probit" and self.inference not in ("laplace", "mcmc"):
            raise ValueError(
                "The probit likelihood works with inference='laplace' (expectation propagation over locations, Laplace "
                f"over times) or 'mcmc', got inference={self.inference!r}."
            )
        if isinstance(self.noise, str) and self.noise != "auto":
            raise ValueError(f"noise must be 'auto' or a variance >= 0, got {self.noise!r}.")
        if not isinstance(self.noise, str) and not 0 <= self.noise < math.inf:
            raise ValueError(f"noise is a variance and cannot be negative or infinite, got {self.noise}.")
        for name in ("sigma2", "c"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive or None, got {value}.")
        for name in ("precision_prior", "c_prior"):
            value = getattr(self, name)
            if np.shape(value) != (2,) or not all(0 < number < math.inf for number in value):
                raise ValueError(f"{name} must be a pair of positive numbers, shape and rate, got {value!r}.")
        if self.start is not None and not math.isfinite(self.start):
            raise ValueError(f"start must be a number or None, got {self.start}.")
        if self.start is not None and self.likelihood != "probit":
            raise ValueError("start belongs to the probit likelihood; real-valued rows are centred instead.")
