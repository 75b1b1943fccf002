"""Observation models: what one cluster looks like. The contract is in `base`; a new one is one line in `FAMILIES`."""

import numpy as np

from dtree.core.checks import named
from dtree.core.families.base import Family, Moments, moments_of
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.multinomial import Multinomial
from dtree.core.families.poisson import Poisson

FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Gaussian, DiagonalGaussian, Bernoulli, Multinomial, Poisson)
}


def family_type(family: str | Family) -> type[Family]:
    """The class of a family given by name or as an object."""
    return type(family) if isinstance(family, Family) else named(FAMILIES, family, "family")


def columns_in_use(family: str | Family, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The columns (d',) that a model uses, from the smallest and largest value (d,) of each.

    A Gaussian given by name leaves out constant columns, of which it can say nothing, unless all are constant.

    >>> columns_in_use("gaussian", np.array([0.0, 5.0, 1.0]), np.array([2.0, 5.0, 3.0])).tolist()
    [0, 2]
    """
    every = np.arange(low.shape[0])
    if isinstance(family, Family) or family_type(family).value_kind != "real":
        return every
    varying = every[low < high]
    return varying if varying.size else every


__all__ = [
    "FAMILIES",
    "Bernoulli",
    "DiagonalGaussian",
    "Family",
    "Gaussian",
    "Moments",
    "Multinomial",
    "Poisson",
    "columns_in_use",
    "family_type",
    "moments_of",
]
