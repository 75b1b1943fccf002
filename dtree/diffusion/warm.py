"""Compile the kernels of this room once, on a few rows, so that worker processes load machine code from the cache."""

from __future__ import annotations

import numpy as np

from dtree.diffusion.posterior import mixture_of, posterior_of
from dtree.diffusion.predictive import log_density
from dtree.diffusion.prepare import prepare
from dtree.diffusion.probit import log_probability
from dtree.diffusion.settings import Settings
from dtree.diffusion.walk import finish_walk, plan_of


def warm_kernels() -> None:
    """Fit and score tiny data of every kind that workers meet.

    >>> warm_kernels()
    """
    rows = np.random.default_rng(0).normal(size=(8, 2))
    for likelihood, X in (("gaussian", rows), ("probit", (rows > 0).astype(np.float64))):
        settings = Settings(likelihood=likelihood, n_permutations=1, search_steps=3, posterior_sweeps=1)
        prepared = prepare(X, settings, 0)
        walk = finish_walk(prepared.leaves, prepared.hyper, 0, plan_of(settings, len(X)))
        mixture = mixture_of(posterior_of([walk], prepared, settings).averaged[0], prepared, 4)
        if likelihood == "probit":
            log_probability(prepared.signs, mixture)
        else:
            log_density(rows, [mixture], [0.0])
