"""The methods, one file each; `contract` says what a method offers."""

import importlib
from typing import Any

# name -> where it lives. One line makes a method known to runs, `resume`, `predict`, `info` and `report`.
METHODS = {
    "bayes-kmeans": "dtree.methods.bayes_kmeans:BayesKMeans",
    "bayes-kmeans-bhc": "dtree.methods.bayes_kmeans:BayesKMeansBHC",
    "bhc": "dtree.methods.bhc:BHC",
    "incremental": "dtree.methods.incremental:IncrementalBHC",
    "randomized": "dtree.methods.randomized:RandomizedBHC",
    "ddt": "dtree.methods.diffusion:DiffusionTrees",
    "vb": "dtree.methods.variational:Variational",
    "tree-clustering": "dtree.methods.tree_clustering:TreeClustering",
    "chains": "dtree.methods.chains:Chains",
}


def method_named(name: str, run: str = "this") -> Any:
    """The method of a name, or one sentence that there is none."""
    if name not in METHODS:
        raise ValueError(f"{run} was made by a method that this dtree does not know: {name[:40]!r}")
    module, _, attribute = METHODS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)()
