"""dtree finds the tree in your data: tree-based Bayesian nonparametric clustering.

Public names are loaded when they are first used, so that importing the package is quick and compiles nothing. Type
checkers read them in `__init__.pyi`.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_NAMES_IN = {
    "core.families": ("Bernoulli", "Categorical", "DiagonalGaussian", "Gaussian", "Mixed", "Multinomial", "Poisson"),
    "core.priors": ("DirichletProcess", "GeneralizedGamma"),
    "core.tree": ("Tree",),
    "estimators.bayes_kmeans": ("BayesKMeans", "BayesKMeansBHC"),
    "estimators.bhc": ("BHC",),
    "estimators.cells": ("column_influence",),
    "estimators.chains": ("DPMixtureMCMC",),
    "estimators.coarsening": ("coarsening_path",),
    "estimators.diffusion": ("DiffusionTree",),
    "estimators.evidence": ("evidence_bounds", "exact_log_evidence"),
    "estimators.incremental": ("IncrementalBHC",),
    "estimators.labelled": ("as_dataset",),
    "estimators.levels": ("levels",),
    "estimators.partitions": (
        "compare_posteriors",
        "credible_ball",
        "partition_distance",
        "partition_uncertainty",
        "point_estimate",
    ),
    "estimators.saving": ("open", "save"),
    "estimators.tree_clustering": ("TreeClustering",),
    "estimators.variational": ("DPMixtureVB",),
    "hierarchy.purity": ("dendrogram_purity",),
    "reporting.html": ("report",),
    "reporting.plots": ("plot_coarsening_path", "plot_tree"),
    "reporting.plots_runs": ("plot_bounds", "plot_clusters", "plot_coclustering", "plot_traces"),
}
_HOME = {name: f"dtree.{module}" for module, names in _NAMES_IN.items() for name in names}
_ROOMS = {"pl": "dtree.scverse.pl", "tl": "dtree.scverse.tl"}  # modules, called as scanpy calls its own

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _ROOMS:
        return import_module(_ROOMS[name])
    raise AttributeError(f"module 'dtree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
