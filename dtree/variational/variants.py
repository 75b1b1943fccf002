"""The six variational mixtures of [KWT07] and what tells them apart.

| variant | prior of the weights | weights | labels |
| --- | --- | --- | --- |
| `TSB`, `O-TSB` | truncated stick-breaking | have their own q(v) | as they come / kept in the best order |
| `CTSB`, `O-CTSB` | truncated stick-breaking | integrated out | as they come / kept in the best order |
| `FSD` | finite symmetric Dirichlet(alpha/T) | have their own q(pi) | exchangeable |
| `CFSD` | finite symmetric Dirichlet(alpha/T) | integrated out | exchangeable |
"""

from typing import Literal, NamedTuple

from dtree.core.checks import named

VariantName = Literal["TSB", "O-TSB", "CTSB", "O-CTSB", "FSD", "CFSD"]


class Variant(NamedTuple):
    """One of the six: its name and its three switches."""

    name: str
    sticks: bool  # truncated stick-breaking, otherwise a finite symmetric Dirichlet
    collapsed: bool  # mixture weights integrated out
    ordered: bool  # labels kept in the best order


VARIANTS: dict[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("TSB", True, False, False),
        Variant("O-TSB", True, False, True),
        Variant("CTSB", True, True, False),
        Variant("O-CTSB", True, True, True),
        Variant("FSD", False, False, False),
        Variant("CFSD", False, True, False),
    )
}


def variant_named(name: str) -> Variant:
    """The variant called `name`, or one sentence that lists the six.

    >>> variant_named("CFSD").collapsed
    True
    """
    return named(VARIANTS, name, "variant")
