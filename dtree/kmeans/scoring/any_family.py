"""Assignment scores of any family from its log marginal alone, one atom at a time: slower, and right for every family.

Atoms may carry weights (many equal rows, or whole clusters), which the fast kernels cannot.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel, Model, log_phi_h
from dtree.core.verbs import log_kappa, log_marginal_merged


class AtomTables(NamedTuple):
    model: CompiledModel
    statistics: np.ndarray  # (k, s)
    columns: np.ndarray  # (s, k) the same, transposed
    worth: np.ndarray  # (k,) log phi_h


def atom_tables(model: Model, statistics: np.ndarray) -> AtomTables:
    """Tables of clusters (k, s) for `assign_atoms`."""
    compiled = model.compile(2.0 * statistics.sum(axis=0))
    worth = model.log_phi_h(statistics) if statistics.shape[0] else np.empty(0)
    return AtomTables(compiled, statistics, np.ascontiguousarray(statistics.T), worth)


@kernel
def assign_atoms(tables, atoms, own, best, unexplained):
    """For each atom (n, s) the best cluster, and whether a new one would gain more; see `assign_gaussian`."""
    model = tables.model
    k, s = tables.statistics.shape
    joined = np.empty(k)
    rest = np.empty(s)
    for i in range(atoms.shape[0]):
        row = atoms[i]
        alone = log_phi_h(model, row)
        log_marginal_merged(model.family, tables.columns, row, 0, k, joined)
        where, top = -1, -np.inf
        for c in range(k):
            if c != own[i]:
                count = (row[0] + tables.statistics[c, 0]) * model.per_count
                gain = joined[c] + log_kappa(model.prior, count) - tables.worth[c]
                if gain > top:
                    where, top = c, gain
        c = own[i]
        if c >= 0:
            stay = alone
            if tables.statistics[c, 0] - row[0] > 1e-9 * row[0]:  # counts are whole: anything less is rounding
                for j in range(s):
                    rest[j] = tables.statistics[c, j] - row[j]
                stay = tables.worth[c] - log_phi_h(model, rest)
                stay = -np.inf if math.isnan(stay) else stay  # the statistics have lost what stays behind
            if stay >= top:
                where, top = c, stay
        best[i] = where
        unexplained[i] = alone > top
