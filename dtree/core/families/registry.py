"""Families by name. A new one is one line in `FAMILIES`."""

from collections import ChainMap
from collections.abc import Mapping

from dtree.core.checks import named
from dtree.core.families.base import Family
from dtree.core.families.bent import Bent
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.categorical import Categorical
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.mixed import Mixed
from dtree.core.families.multinomial import Multinomial
from dtree.core.families.poisson import Poisson

FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Gaussian, DiagonalGaussian, Bernoulli, Multinomial, Poisson, Categorical, Mixed)
}
# What a run may hold: bends come from a fit, not by name. Families that a user adds are found in it too.
RECORDED: Mapping[str, type[Family]] = ChainMap(FAMILIES, {Bent.name: Bent})
AUTO = "auto"  # a Gaussian for complete numbers, else `Mixed`; see `choice`


def family_type(family: str | Family) -> type[Family]:
    """The class of a family given by name or as an object."""
    if isinstance(family, Family):
        return type(family)
    if isinstance(family, str) and family == AUTO:
        raise ValueError("which family 'auto' stands for is known when the rows are: give its name")
    found: type[Family] = named({AUTO: Family, **FAMILIES}, family, "family")
    return found
