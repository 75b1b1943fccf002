"""A model for someone who sets nothing: defaults from the data, their one delicate choice made by the evidence.

How tight a cluster is, relative to the spread of the data, is chosen from a ladder of shares by the joint probability of the data
and the best partition found greedily on a small sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dtree.core.families import FAMILIES, Family, Moments
from dtree.core.model import Model
from dtree.core.priors import PRIORS, Prior
from dtree.kmeans.greedy import improved_kmeans
from dtree.kmeans.passes import START_STREAM, atoms_that_fit, stream

SHARES = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.004)
_ROWS = 800


def family_type(family: str | Family) -> type[Family]:
    """The class of a family given by name or as an object."""
    if isinstance(family, Family):
        return type(family)
    if family not in FAMILIES:
        raise ValueError(f"there is no family {family!r}: choose from {', '.join(sorted(FAMILIES))}")
    return FAMILIES[family]


def prior_of(prior: str | Prior) -> Prior:
    """A prior given by name or as an object."""
    if isinstance(prior, Prior):
        return prior
    if prior not in PRIORS:
        raise ValueError(f"there is no prior {prior!r}: choose from {', '.join(sorted(PRIORS))}")
    return PRIORS[prior]()


def model_for(
    family: str | Family, prior: str | Prior, moments: Moments, sample: Any, seed: int = 0, coarsening: float = 1.0
) -> Model:
    """The model with everything that was not given fitted to the data; statistics are kept in the data's own units.

    >>> from dtree.core.families import moments_of
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model_for("gaussian-diag", "dp", moments_of(X), X).family.name
    'gaussian-diag'
    """
    kind, mixing = family_type(family), prior_of(prior)
    if isinstance(family, Family):
        if family.n_features != moments.mean.shape[0]:
            raise ValueError(f"the family has {family.n_features} features but the data have {moments.mean.shape[0]}")
        return Model(family.anchored(moments), mixing, coarsening)
    best, best_joint = kind.defaults(moments), -np.inf
    rng = stream(seed, START_STREAM, 1, 0)
    for share in SHARES:
        candidate = kind.defaults(moments, share)
        model = Model(candidate, mixing)
        width = candidate.statistics(sample[:1]).shape[1]
        atoms = model.atoms(sample[: atoms_that_fit(width, _ROWS)])
        order = rng.permutation(atoms.shape[0])
        joint = improved_kmeans(model, atoms, order, sweeps=3).objective
        if joint > best_joint:
            best, best_joint = candidate, joint
    return Model(best, mixing, coarsening)
