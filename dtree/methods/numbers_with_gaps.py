"""Components of tables of numbers with gaps whose columns depend on each other within a component.

A full Gaussian has no statistics of rows that lack values, so gapped numbers would be fitted with independent columns,
of which a group of slanted shape needs several. Here gaps are filled by draws from what was fitted last, given the
other values of the row, and components are fitted to the completed rows as if they had been complete: data
augmentation, begun by components of independent columns. What is drawn in one round has forgotten how it began after a
few.

Fits of different draws, and the fit of independent columns, are compared by a bound on the evidence of the values that
are there. With q the density that missing values z were drawn from,

    log p(x) >= E_q[log p(x, z) - log q(z)] >= E_q[bound of the completed rows - log q(z)],

of which one draw is an estimate, not exact as that of independent columns. A fit to completed rows is therefore taken
for one draw of the missing values; it is not the exact mixture of the values that are there.
"""

from dataclasses import replace

import numpy as np

from dtree.core.columns import Column
from dtree.core.families import Family, Mixed, has_holes
from dtree.methods.completed_rows import completed
from dtree.methods.components import fit_components, recorded_steps
from dtree.variational.fitting import Fit
from dtree.variational.mixture import Mixture

_ROUNDS = 4  # the first is drawn from independent columns, and the second still shows it
_FULL = ("gaussian", "gaussian-diag")


def are_gapped_numbers(X: np.ndarray, kinds: tuple[Column, ...]) -> bool:
    """Whether all columns of X (n, d) are real, and values are missing."""
    return X.shape[1] > 1 and all(column.kind == "real" for column in kinds) and has_holes(X)


def fit_gapped_numbers(X: np.ndarray, weight: np.ndarray, kinds: tuple[Column, ...], alpha: float, seed: int) -> Fit:
    """The best fit by the bound to rows X (n, d) of numbers with gaps, of weights (n,)."""
    best = last = fit_components(X, weight, ("mixed",), kinds, alpha, seed)
    for number in range(_ROUNDS):
        mixture = Mixture.of(last.sums, last.rule)
        held = np.flatnonzero(mixture.counts >= 0.5)
        rows = completed(mixture, held, X, number)
        log_density = weight @ (mixture.log_density(rows, held) - mixture.log_density(X, held))
        last = fit_components(as_recorded(rows, X), weight, _FULL, kinds, alpha, seed)
        if last.elbo - log_density > best.elbo:
            best = replace(last, elbo=last.elbo - log_density, trace=[one - log_density for one in last.trace])
    return best


def is_of_completed_rows(wanted: object, family: Family, X: np.ndarray) -> bool:
    """Whether a fit to X (n, d) that chose its family by itself is one to completed rows, its bound an estimate."""
    return wanted == "auto" and not isinstance(family, Mixed) and has_holes(X)


def as_recorded(rows: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Completed rows (n, d) with draws rounded to the steps to which the values of X (n, d) were recorded."""
    out = rows.copy()
    for j, column in enumerate(X.T):
        values = column[~np.isnan(column)]
        step = recorded_steps(values[:, None])[0] if values.size else 0.0
        if step > 0.0:
            drawn = np.isnan(column)
            out[drawn, j] = values.min() + step * np.rint((rows[drawn, j] - values.min()) / step)
    return out
