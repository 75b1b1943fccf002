"""Observation models: what one cluster looks like. The contract is in `base`; the names are in `registry`."""

from dtree.core.families.base import Family
from dtree.core.families.bent import Bent
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.categorical import Categorical
from dtree.core.families.choice import Expected, Resolved, columns_in_use, expected, expected_to_predict, resolve
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.mixed import Mixed
from dtree.core.families.moments import Moments, moments_of
from dtree.core.families.multinomial import Multinomial
from dtree.core.families.per_column import PerColumn, has_holes
from dtree.core.families.poisson import Poisson
from dtree.core.families.registry import AUTO, FAMILIES, RECORDED, family_type

__all__ = [
    "AUTO",
    "FAMILIES",
    "RECORDED",
    "Bent",
    "Bernoulli",
    "Categorical",
    "DiagonalGaussian",
    "Expected",
    "Family",
    "Gaussian",
    "Mixed",
    "Moments",
    "Multinomial",
    "PerColumn",
    "Poisson",
    "Resolved",
    "columns_in_use",
    "expected",
    "expected_to_predict",
    "family_type",
    "has_holes",
    "moments_of",
    "resolve",
]
