"""The clusters of a Bayes-K-means run as leaves of a diffusion tree: the way to trees over any number of rows.

Every cluster has a count, a mean and a scatter, which is all a leaf needs; the rows themselves are not read again.
"""

from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.diffusion.affine import Affine
from dtree.diffusion.atoms import atoms_from_moments
from dtree.diffusion.objective import Hyper
from dtree.diffusion.prepare import Prepared, prepare_atoms

FAMILIES_WITH_MOMENTS = ("gaussian", "gaussian-diag")
SMALLEST_SPREAD = 1e-7  # relative to the mean: the square root of what rounding leaves of a difference of squares


def prepare_clusters(model: Model, statistics: np.ndarray, hyper: Hyper, seed: int, run: str) -> Prepared:
    """Leaves, units and noise from the statistics (k, s) of the clusters of `run`, at least two; or one sentence."""
    family: Any = model.family
    if family.name not in FAMILIES_WITH_MOMENTS:
        raise ValueError(
            f"{run} was fitted with the {family.name} family; a diffusion tree needs means and variances: fit it with "
            "gaussian or gaussian-diag"
        )
    if statistics.shape[0] < 2:
        raise ValueError(f"{run} has one cluster only; a diffusion tree needs at least two leaves")
    d = family.n_features
    weight, first, second = statistics[:, 0], statistics[:, 1 : 1 + d], statistics[:, 1 + d :]
    if family.name == "gaussian":  # products of all pairs of columns: the squares are on the diagonal
        a, b = np.triu_indices(d)
        second = second[:, a == b]
    count = model.counts(statistics)
    mean = first / weight[:, None]
    variance = np.maximum(second / weight[:, None] - mean**2, 0.0)
    # statistics are in the family's units; the tree's are those of columns at unit variance
    centre = np.average(mean, axis=0, weights=count)
    scale = np.sqrt(np.average(variance + (mean - centre) ** 2, axis=0, weights=count))
    # a variance is a difference of squares: a spread this small beside the mean is rounding, and the column constant
    varies = scale > SMALLEST_SPREAD * np.abs(centre)
    if not varies.any():
        raise ValueError(f"{run} was fitted to constant columns only, which have no density")
    used = scale[varies]
    scatter = (count[:, None] * variance[:, varies] / used**2).sum(axis=1)
    atoms = atoms_from_moments(count, (mean - centre)[:, varies] / used, scatter)
    offset = family.origin + centre * family.unit
    affine = Affine(offset[varies], (scale * family.unit)[varies])
    log_volume = float(count.sum() * np.log(affine.basis).sum())
    found = prepare_atoms(atoms, hyper, seed)
    return found._replace(affine=affine, log_volume=log_volume, constants=np.where(varies, np.nan, offset))
