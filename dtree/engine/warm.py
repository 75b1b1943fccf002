"""Compile every kernel of the distributed path once, on tiny data."""

from __future__ import annotations

import numpy as np

from dtree.core.families import FAMILIES, Family, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, Prior
from dtree.hierarchy.bhc import build_tree
from dtree.kmeans.fit import fit_passes, survey_rows
from dtree.kmeans.passes import PassSettings, start_state
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import begin_chain, run_chain


def warm_kernels(families: list[type[Family]] | None = None, prior: Prior | None = None) -> None:
    """Run a tiny fit of each family, so that the machine code of its kernels is in the on-disk cache.

    >>> from dtree.core.families import Poisson
    >>> warm_kernels([Poisson])
    """
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(24, 3))
    for family in families or list(FAMILIES.values()):
        X = rows.astype(np.float64) + (rng.normal(size=rows.shape) if family.value_kind == "real" else 0.0)
        model = Model(family.defaults(moments_of(X)), prior or DirichletProcess(1.0))
        survey = survey_rows(X, family, 0, 8, 12)
        fit = fit_passes(model, X, start_state(model, survey.sample, 0, 24), PassSettings(max_passes=2), chunk_rows=8)
        build_tree(model, fit.state.statistics)


def warm_chain_kernels(family: type[Family], sampler: str) -> None:
    """Run a few sweeps of a sampler on tiny data of a family, for the same reason.

    >>> from dtree.core.families import Poisson
    >>> warm_chain_kernels(Poisson, "gibbs")
    """
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(24, 3))
    X = rows.astype(np.float64) + (rng.normal(size=rows.shape) if family.value_kind == "real" else 0.0)
    model = Model(family.defaults(moments_of(X)), DirichletProcess(1.0))
    problem = Problem(model, model.atoms(X))
    for chain in range(2):  # they start differently
        run_chain(problem, sampler, begin_chain(problem, sampler, 0, chain), 3)
