"""dtree finds the tree in your data: tree-based Bayesian nonparametric clustering.

Public names are loaded when they are first used, so that importing the package is quick and compiles nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "BHC": "dtree.estimators",
    "BayesKMeans": "dtree.engine.estimators",
    "BayesKMeansBHC": "dtree.engine.estimators",
    "Bernoulli": "dtree.core.families",
    "DiagonalGaussian": "dtree.core.families",
    "DPMixtureMCMC": "dtree.engine.chain_estimator",
    "DPMixtureVB": "dtree.engine.variational_estimator",
    "DiffusionTree": "dtree.diffusion.estimator",
    "DirichletProcess": "dtree.core.priors",
    "Gaussian": "dtree.core.families",
    "GeneralizedGamma": "dtree.core.priors",
    "IncrementalBHC": "dtree.engine.incremental_estimator",
    "Multinomial": "dtree.core.families",
    "Poisson": "dtree.core.families",
    "Tree": "dtree.core.tree",
    "coarsening_path": "dtree.coarsening",
    "dendrogram_purity": "dtree.hierarchy.purity",
    "evidence_bounds": "dtree.evidence",
    "exact_log_evidence": "dtree.evidence",
    "open": "dtree.runs",
    "plot_bounds": "dtree.reporting.plots_runs",
    "plot_clusters": "dtree.reporting.plots_runs",
    "plot_coarsening_path": "dtree.reporting.plots",
    "plot_coclustering": "dtree.reporting.plots_runs",
    "plot_traces": "dtree.reporting.plots_runs",
    "plot_tree": "dtree.reporting.plots",
    "report": "dtree.reporting.html",
    "save": "dtree.runs",
}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from dtree.coarsening import coarsening_path as coarsening_path
    from dtree.core.families import Bernoulli as Bernoulli
    from dtree.core.families import DiagonalGaussian as DiagonalGaussian
    from dtree.core.families import Gaussian as Gaussian
    from dtree.core.families import Multinomial as Multinomial
    from dtree.core.families import Poisson as Poisson
    from dtree.core.priors import DirichletProcess as DirichletProcess
    from dtree.core.priors import GeneralizedGamma as GeneralizedGamma
    from dtree.core.tree import Tree as Tree
    from dtree.diffusion.estimator import DiffusionTree as DiffusionTree
    from dtree.engine.chain_estimator import DPMixtureMCMC as DPMixtureMCMC
    from dtree.engine.estimators import BayesKMeans as BayesKMeans
    from dtree.engine.estimators import BayesKMeansBHC as BayesKMeansBHC
    from dtree.engine.incremental_estimator import IncrementalBHC as IncrementalBHC
    from dtree.engine.variational_estimator import DPMixtureVB as DPMixtureVB
    from dtree.estimators import BHC as BHC
    from dtree.evidence import evidence_bounds as evidence_bounds
    from dtree.evidence import exact_log_evidence as exact_log_evidence
    from dtree.hierarchy.purity import dendrogram_purity as dendrogram_purity
    from dtree.reporting.html import report as report
    from dtree.reporting.plots import plot_coarsening_path as plot_coarsening_path
    from dtree.reporting.plots import plot_tree as plot_tree
    from dtree.reporting.plots_runs import plot_bounds as plot_bounds
    from dtree.reporting.plots_runs import plot_clusters as plot_clusters
    from dtree.reporting.plots_runs import plot_coclustering as plot_coclustering
    from dtree.reporting.plots_runs import plot_traces as plot_traces
    from dtree.runs import open as open
    from dtree.runs import save as save


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dtree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
