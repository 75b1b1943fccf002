"""Observation models: what one cluster looks like. The contract is in `base`; a new family is one line in `FAMILIES`."""

from __future__ import annotations

from dtree.core.families.base import Family, Moments, moments_of
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.multinomial import Multinomial
from dtree.core.families.poisson import Poisson

FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Gaussian, DiagonalGaussian, Bernoulli, Multinomial, Poisson)
}

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "DiagonalGaussian",
    "Family",
    "Gaussian",
    "Moments",
    "Multinomial",
    "Poisson",
    "moments_of",
]
