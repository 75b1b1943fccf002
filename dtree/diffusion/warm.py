"""Compile the kernels of this room once, on a few rows, so that worker processes load machine code from the cache."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np


def warm_kernels() -> None:
    """Fit and score tiny data of every kind that workers meet.

    >>> warm_kernels()
    """
    from dtree.diffusion.estimator import DiffusionTree

    rows = np.random.default_rng(0).normal(size=(8, 2))
    quick: dict[str, Any] = {"n_permutations": 1, "search_steps": 3, "posterior_sweeps": 1, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, X in (
            (DiffusionTree(**quick), rows),
            (DiffusionTree(likelihood="probit", **quick), (rows > 0).astype(np.float64)),
        ):
            model.fit(X).score_samples(X)
