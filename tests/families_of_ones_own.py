"""A family with nothing but what the contract requires: waiting times, exponential with a gamma prior on the rate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families import Family
from dtree.core.jit import kernel
from dtree.core.verbs import implements, log_marginal


class CompiledWaiting(NamedTuple):
    shape: float
    rate: float


@implements(log_marginal, CompiledWaiting)
@kernel
def _log_marginal(family, statistics):
    total = 0.0
    for column in range(1, statistics.shape[0]):
        a, b = family.shape + statistics[0], family.rate + statistics[column]
        total += family.shape * math.log(family.rate) - math.lgamma(family.shape) + math.lgamma(a) - a * math.log(b)
    return total


@dataclass(frozen=True, eq=False, repr=False)
class Waiting(Family):
    """Two columns of waiting times."""

    shape: float = 1.0
    rate: float = 1.0
    name = "waiting"
    n_features = 2

    def statistics(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=float)
        return np.hstack([np.ones((X.shape[0], 1)), X])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledWaiting:
        return CompiledWaiting(self.shape, self.rate)
