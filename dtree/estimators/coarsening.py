"""The coarsening path: how clusters and tree change as the likelihood is trusted less (Miller & Dunson 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from dtree.core.progress import report
from dtree.core.tree import Tree
from dtree.estimators.bhc import BHC

_ZETAS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


@dataclass(frozen=True)
class CoarseningPath:
    """One fitted clustering per zeta, from exact Bayes (1) downwards."""

    zetas: np.ndarray  # (p,)
    n_clusters: np.ndarray  # (p,)
    labels: np.ndarray  # (p, n)
    trees: list[Tree]


def coarsening_path(X: Any, zetas: Sequence[float] = _ZETAS, **parameters: Any) -> CoarseningPath:
    """Fit `BHC(**parameters)` at each zeta, the scale of the model chosen once at zeta = 1.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> path = coarsening_path(X, zetas=(1.0, 0.5))
    >>> path.n_clusters.tolist()
    [2, 2]
    """
    zetas = tuple(zetas)
    if not zetas:
        raise ValueError("give at least one zeta")
    first = BHC(**parameters, coarsening=1.0).fit(X)
    fixed = clone(first).set_params(family=first.family_, prior=first.prior_, optimize=False)
    rows = np.asarray(X)[:, first.columns_] if first.columns_.shape[0] < first.n_features_in_ else X
    fits = []
    for done, zeta in enumerate(zetas):
        report("coarsening", done, len(zetas))
        fits.append(clone(fixed).set_params(coarsening=zeta).fit(rows))
    return CoarseningPath(
        np.array(zetas, dtype=np.float64),
        np.array([fit.n_clusters_ for fit in fits]),
        np.stack([fit.labels_ for fit in fits]),
        [fit.tree_ for fit in fits],
    )
