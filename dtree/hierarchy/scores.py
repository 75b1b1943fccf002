"""Pair scores: the log dissimilarity of one node with many.

    log d(a, b) = log phi_t(a) + log phi_t(b) - log phi_h(a u b)

Atoms stand in the columns of a matrix (s, capacity), so that scoring one against many runs through contiguous memory.
"""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import log_kappa, log_marginal_joined

# Scores that agree to 2^-24 (6e-8) are ties. Without a grid the order of exact ties (duplicate rows, data on a lattice)
# would hang on the last bits, and rescaling or rotating the data could change the tree.
TIE_RESOLUTION = 2.0**24


@kernel(counted=False)
def on_tie_grid(score):
    """The score rounded to the grid on which ties are decided."""
    return math.floor(score * TIE_RESOLUTION + 0.5) / TIE_RESOLUTION


@kernel(counted=False)
def log_own_marginal(model, log_phi_h, count):
    """Log marginal likelihood of a node from its log phi_h and its (coarsened) count."""
    return log_phi_h - log_kappa(model.prior, count * model.per_count)


@kernel
def log_own_marginals(model, log_phi_h, counts):
    """The same (m,) for many nodes."""
    out = np.empty(counts.shape[0])
    for j in range(counts.shape[0]):
        out[j] = log_own_marginal(model, log_phi_h[j], counts[j])
    return out


@kernel(counted=False)
def turn_into_scores(model, counts, log_phi_t, own_count, log_phi_t_row, start, stop, out):
    """Turn the log marginals of a row joined with column j into log d, on the tie grid, start <= j < stop."""
    for j in range(start, stop):
        count = (own_count + counts[j]) * model.per_count
        out[j] = on_tie_grid(log_phi_t_row + log_phi_t[j] - out[j] - log_kappa(model.prior, count))


@kernel(inline=True, counted=False)
def score_against(model, columns, log_own, log_phi_t, row, log_phi_t_row, start, stop, out):
    """out[j] = log d of `row` (s,) with column j, on the tie grid, start <= j < stop; log_own are their marginals."""
    log_marginal_joined(model.family, columns, log_own, row, start, stop, out)
    turn_into_scores(model, columns[0], log_phi_t, row[0], log_phi_t_row, start, stop, out)
