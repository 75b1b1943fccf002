"""Estimators with valid settings drawn at random, and how many rows each may be given so that a case takes seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import dtree
from tests.soak.rows import Drawn

SAMPLERS = ("tgmcmc", "gibbs", "split-merge", "slice", "gibbs-subset", "split-merge-subset", "tgmcmc-paper")
VARIANTS = ("TSB", "O-TSB", "CTSB", "O-CTSB", "FSD", "CFSD")


class Kind(NamedTuple):
    """A kind of case."""

    most_rows: int
    settings: Callable[[np.random.Generator, Drawn], dict[str, Any]]
    estimator: type


def pick(rng: np.random.Generator, *values: Any, first: float = 0.5) -> Any:
    """The first value, the default, in half of the cases; else one of the others."""
    return values[0] if rng.random() < first else values[1 + rng.integers(len(values) - 1)]


def family(rng: np.random.Generator, drawn: Drawn) -> str:
    return str(rng.choice(drawn.families))


def _of_trees(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    coarsening = pick(rng, 1.0, 0.3, 0.7, first=0.8)
    return {"family": family(rng, drawn), "prior": pick(rng, "dp", "nggp", first=0.7), "coarsening": coarsening}


def _bhc(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    return _of_trees(rng, drawn) | {"optimize": bool(rng.random() < 0.2), "cut": pick(rng, 0.5, 0.0, 0.1, 0.9, 1.0)}


def _randomized(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    subset = int(pick(rng, 500, 2, 10, 50))
    return _of_trees(rng, drawn) | {"method": "randomized", "subset": subset, "random_state": _seed(rng)}


def _passes(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    return _of_trees(rng, drawn) | {
        "init_clusters": pick(rng, None, 1, 5), "max_iter": pick(rng, 50, 1, 3), "patience": pick(rng, 2, 1),
        "tol": pick(rng, 1e-7, 0.0, 1e-2), "sample_rows": pick(rng, None, 2, 20, first=0.7),
        "random_state": _seed(rng),
    }  # fmt: skip


def _passes_and_tree(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    return _passes(rng, drawn) | {"cut": pick(rng, 0.5, 0.01, 0.99)}


def _incremental(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    switches = {"init": pick(rng, "exact", "noisy"), "shuffle": pick(rng, True, False)}
    return _of_trees(rng, drawn) | switches | {"balanced": pick(rng, True, False), "random_state": _seed(rng)}


def _chains(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    return _of_trees(rng, drawn) | {
        "sampler": pick(rng, *SAMPLERS, first=0.3), "chains": int(rng.integers(1, 4)),
        "draws": int(rng.integers(1, 30)), "warmup": int(rng.integers(0, 30)),
        "thin": pick(rng, 1, 3), "loss": pick(rng, "vi", "binder"),
        "resample_hyperparameters": pick(rng, True, False), "random_state": _seed(rng),
    }  # fmt: skip


def _variational(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    n = drawn.shape[0]
    held = n if drawn.weight is None else int(drawn.weight.sum())
    return {
        "variant": str(rng.choice(VARIANTS)), "family": family(rng, drawn),
        "truncation": pick(rng, None, *(size for size in (2, 5, 10) if size <= held)),
        "alpha": pick(rng, 1.0, 0.01, 20.0), "learn_alpha": pick(rng, False, True, first=0.8),
        "max_iter": pick(rng, 100, 1, 10), "tol": pick(rng, 1e-6, 0.0, 1e-2), "n_init": pick(rng, 1, 2, first=0.8),
        "init": pick(rng, "auto", "kmeans", "random"), "order": pick(rng, "best", "size"),
        "expectation": pick(rng, "corrected", "taylor", "exact" if held <= 60 else "corrected"),
        "schedule": pick(rng, "parallel", "sequential", first=0.8), "split_merge": pick(rng, 20, 0, 2),
        "sample_rows": pick(rng, 20_000, 10, 40, first=0.8), "random_state": _seed(rng),
    }  # fmt: skip


def _tree_clustering(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    return {
        "level": pick(rng, "auto", "components", 0.0, 0.7, 5.0, first=0.7),
        "family": "auto" if rng.random() < 0.5 and "auto" in drawn.families else family(rng, drawn),
        "alpha": pick(rng, 1.0, 0.1, 10.0, first=0.8), "max_iter": pick(rng, 4, 1), "tol": pick(rng, 1e-3, 0.0),
        "sample_rows": pick(rng, None, 10, 100, first=0.8), "random_state": _seed(rng),
    }  # fmt: skip


def _diffusion(rng: np.random.Generator, drawn: Drawn) -> dict[str, Any]:
    inference = pick(rng, "laplace", "em", "message-passing", "mcmc", first=0.4)
    bits = "bernoulli" in drawn.families and rng.random() < 0.7
    if bits and inference in ("em", "message-passing"):
        inference = "laplace"
    return {
        "inference": inference, "likelihood": "probit" if bits else "gaussian",
        "n_permutations": int(rng.integers(1, 3)), "init": pick(rng, "sequential", "bhc", first=0.7),
        "search_steps": int(pick(rng, 10, 0, 30)), "posterior_sweeps": pick(rng, None, 0, 4, first=0.3),
        "n_trees": pick(rng, 10, 1), "sigma2": None if bits else pick(rng, None, 1.0, 0.2),
        "c": pick(rng, None, 1.0, 3.0), "noise": pick(rng, "auto", 0.01, 1.0),
        "scaling": pick(rng, "auto", "whiten", "standardize", "none"), "max_leaves": pick(rng, 2000, 5, first=0.8),
        "importance_draws": pick(rng, 0, 10, first=0.9), "mcmc_draws": 5, "mcmc_warmup": 5,
        "n_clusters": pick(rng, None, 2), "random_state": _seed(rng),
    }  # fmt: skip


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(0, 1000))


KINDS = {
    "TreeClustering": Kind(30_000, _tree_clustering, dtree.TreeClustering),
    "BHC": Kind(250, _bhc, dtree.BHC),
    "randomized": Kind(3000, _randomized, dtree.BHC),
    "BayesKMeans": Kind(30_000, _passes, dtree.BayesKMeans),
    "BayesKMeansBHC": Kind(30_000, _passes_and_tree, dtree.BayesKMeansBHC),
    "IncrementalBHC": Kind(1500, _incremental, dtree.IncrementalBHC),
    "DPMixtureVB": Kind(2000, _variational, dtree.DPMixtureVB),
    "DPMixtureMCMC": Kind(120, _chains, dtree.DPMixtureMCMC),
    "DiffusionTree": Kind(24, _diffusion, dtree.DiffusionTree),
}
