"""The clusters of a Bayes-K-means run as leaves of a diffusion tree: the way to trees over any number of rows.

Every cluster has a count, a mean and a scatter, which is all a leaf needs; the rows themselves are not read again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dtree.diffusion.affine import Affine
from dtree.diffusion.atoms import atoms_from_moments
from dtree.diffusion.objective import Hyper
from dtree.diffusion.prepare import Prepared, prepare_atoms
from dtree.engine.runs import Run

FAMILIES_WITH_MOMENTS = ("gaussian", "gaussian-diag")


def is_clustering(data: Any) -> bool:
    """Whether `data` is the folder of a Bayes-K-means run."""
    if not isinstance(data, str | os.PathLike) or not (Path(data) / "zarr.json").exists():
        return False
    try:
        return Run(data).attributes.get("method") == "bayes-kmeans"
    except ValueError:
        return False


def open_clustering(path: str | os.PathLike[str]) -> Run:
    """A Bayes-K-means run whose clusters can be leaves, or one sentence why not."""
    run = Run(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it first")
    family = run.model().family.name
    if family not in FAMILIES_WITH_MOMENTS:
        raise ValueError(
            f"{run.path} was fitted with the {family} family; a diffusion tree needs means and variances: fit it with "
            "gaussian or gaussian-diag"
        )
    return run


def prepare_clustering(path: str | os.PathLike[str], hyper: Hyper, seed: int) -> Prepared:
    """Leaves, units and noise from the statistics of a run's clusters (at least two)."""
    run = open_clustering(path)
    model: Any = run.model()
    group: Any = zarr.open_group(str(run.path / "statistics"), mode="r")
    statistics = np.asarray(group["clusters"][...])
    if statistics.shape[0] < 2:
        raise ValueError(f"{run.path} has one cluster only; a diffusion tree needs at least two leaves")
    d, family = run.source.shape[1], model.family
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
    scatter = (count[:, None] * variance / scale**2).sum(axis=1)
    atoms = atoms_from_moments(count, (mean - centre) / scale, scatter)
    affine = Affine(family.origin + centre * family.unit, scale * family.unit)
    log_volume = float(count.sum() * np.log(affine.basis).sum())
    return prepare_atoms(atoms, hyper, seed)._replace(affine=affine, log_volume=log_volume)
