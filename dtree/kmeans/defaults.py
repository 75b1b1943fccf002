"""The model of a fit: objects are taken as they are, names are fitted by the evidence on a sample of the rows."""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dtree.core.families import Family, Moments
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.hierarchy.defaults import choose_model


def model_for(
    family: str | Family,
    prior: str | Prior,
    moments: Moments,
    sample: Any,
    seed: int = 0,
    coarsening: float = 1.0,
    sample_weight: np.ndarray | None = None,
) -> Model:
    """The model for data with these moments, of which `sample` holds some rows; statistics are in the data's own units.

    One BLAS thread, so that the last bits of what is chosen do not depend on the machine's number of cores.

    >>> from dtree.core.families import moments_of
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> model_for("gaussian-diag", "dp", moments_of(X), X).family.name
    'gaussian-diag'
    """
    if isinstance(family, Family):
        if family.n_features != moments.mean.shape[0]:
            raise ValueError(f"the family has {family.n_features} features but the data have {moments.mean.shape[0]}")
        family = family.anchored(moments)
    with threadpool_limits(1):
        chosen = choose_model(sample, family, prior, sample_weight, moments, seed)
    return Model(chosen.family, chosen.prior, coarsening)
