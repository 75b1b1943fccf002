"""Pair scores: the log dissimilarity of one node with many.

    log d(a, b) = log phi_t(a) + log phi_t(b) - log phi_h(a u b)

Atoms stand in the columns of a matrix (s, capacity), so that scoring one against many runs through contiguous memory.
"""

from __future__ import annotations

import math

from dtree.core.jit import kernel
from dtree.core.verbs import log_kappa, log_marginal_merged

# Scores that agree to 2^-24 (6e-8) are ties. Without a grid the order of exact ties (duplicate rows, data on a lattice)
# would hang on the last bits, and rescaling or rotating the data could change the tree.
TIE_RESOLUTION = 2.0**24


@kernel
def on_tie_grid(score):
    """The score rounded to the grid on which ties are decided."""
    return math.floor(score * TIE_RESOLUTION + 0.5) / TIE_RESOLUTION


@kernel
def score_against(model, columns, log_phi_t, row, log_phi_t_row, start, stop, out):
    """out[j] = log d of `row` (s,) with column j, on the tie grid, for start <= j < stop."""
    log_marginal_merged(model.family, columns, row, start, stop, out)
    for j in range(start, stop):
        count = (row[0] + columns[0, j]) * model.per_count
        out[j] = on_tie_grid(log_phi_t_row + log_phi_t[j] - out[j] - log_kappa(model.prior, count))
