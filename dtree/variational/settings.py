"""Bad settings of a variational mixture get one sentence each."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from dtree.variational.sums_of_bernoullis import EXPECTATIONS
from dtree.variational.variants import variant_named

_CHOICES = {
    "expectation": tuple(EXPECTATIONS),
    "schedule": ("parallel", "sequential"),
    "order": ("best", "size"),
}


def check_settings(model: Any) -> None:
    """Raise one clear sentence unless the parameters of a `DPMixtureVB` make sense, whatever the data."""
    variant_named(model.variant)
    for name, choices in _CHOICES.items():
        if getattr(model, name) not in choices:
            raise ValueError(f"unknown {name} {getattr(model, name)!r}: choose one of {', '.join(choices)}")
    if not (isinstance(model.alpha, Real) and math.isfinite(model.alpha) and float(model.alpha) > 0):
        raise ValueError(f"alpha must be a positive number, got {model.alpha!r}")
    if not (isinstance(model.tol, Real) and float(model.tol) >= 0):
        raise ValueError(f"tol must be a number of at least 0, got {model.tol!r}")
    for name, least in (("max_iter", 1), ("n_init", 1), ("split_merge", 0)):
        value = getattr(model, name)
        if not isinstance(value, Integral | bool) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if model.truncation is not None and (not isinstance(model.truncation, Integral) or model.truncation < 2):
        raise ValueError(
            f"truncation must be at least 2, got {model.truncation!r}: with one component there is nothing to infer"
        )
    if isinstance(model.init, str) and model.init not in ("auto", "kmeans", "random"):
        raise ValueError(f"unknown init {model.init!r}: give 'auto', 'kmeans', 'random', labels or responsibilities")


def checked_weight(sample_weight: Any, rows: int) -> np.ndarray:
    """`sample_weight` as finite numbers (n,) of which not all are zero; ones when it is None.

    >>> checked_weight([0, 0], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight sums to zero: give at least one row a positive weight
    """
    if sample_weight is None:
        return np.ones(rows)
    weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
    if weight.shape != (rows,):
        raise ValueError(f"sample_weight must have one number per row ({rows}), not shape {weight.shape}")
    if not np.all(np.isfinite(weight)) or weight.min() < 0:
        raise ValueError(
            "sample_weight must be finite and not negative: it says how many equal rows each row stands for"
        )
    if weight.sum() <= 0:
        raise ValueError("sample_weight sums to zero: give at least one row a positive weight")
    return weight
