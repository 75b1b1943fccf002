"""Exact evidence of small data by summing over all partitions.

By the subset recursion f(S) = sum over T inside S that hold the first row of S of phi_h(T) f(S without T), O(3^n).
"""

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import Model
from dtree.core.tree import log_add

LARGEST_RECURSION = 14  # rows: 3^14 is five million terms, a moment


@kernel
def _sum_subsets(log_phi_h):
    """Log of the sum over all partitions from log phi_h of every subset, subsets as bit masks."""
    total = np.full(log_phi_h.shape[0], -np.inf)
    total[0] = 0.0
    for whole in range(1, log_phi_h.shape[0]):
        first = whole & -whole
        rest = whole ^ first
        part = rest
        while True:  # every subset of `rest` joined with the first row
            total[whole] = log_add(total[whole], log_phi_h[part | first] + total[rest ^ part])
            if part == 0:
                break
            part = (part - 1) & rest
    return total[-1]


def log_phi_h_of_subsets(model: Model, atoms: np.ndarray) -> np.ndarray:
    """log phi_h (2^n,) of every subset of the atoms as a bit mask; entry 0 is unused."""
    n = atoms.shape[0]
    statistics = np.zeros((2**n, atoms.shape[1]))
    for row in range(n):
        statistics[2**row : 2 ** (row + 1)] = statistics[: 2**row] + atoms[row]
    log_phi_h = np.full(2**n, -np.inf)
    log_phi_h[1:] = model.log_phi_h(statistics[1:])
    return log_phi_h


def log_evidence_by_recursion(model: Model, atoms: np.ndarray) -> float:
    """Exact log evidence of at most 14 atoms by the subset recursion."""
    if atoms.shape[0] > LARGEST_RECURSION:
        raise ValueError(
            f"the exact evidence sums over all partitions, which is possible for at most {LARGEST_RECURSION} rows, "
            f"not {atoms.shape[0]}; evidence_bounds gives lower bounds for any number"
        )
    count = float(model.counts(atoms).sum())
    return float(_sum_subsets(log_phi_h_of_subsets(model, atoms))) + model.prior.log_normaliser(count)
