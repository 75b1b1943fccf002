"""The numerics stand alone: run with only NumPy, SciPy, numba, scikit-learn and msgspec installed (`make
test-numerics`).

A small fit of every kind of method, without dask, distributed, zarr or pandas; importing any of them is an error.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import tests.kept_kernels  # noqa: F401  (what this compiles, the other tests need not)

FORBIDDEN = ("dask", "distributed", "zarr", "pandas", "xarray", "typer", "rich")
ROOMS = ("core", "hierarchy", "kmeans", "mcmc", "variational", "diffusion")


class Refuse:
    """An importer that finds nothing and says so for the packages that numerics must not need."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.split(".")[0] in FORBIDDEN:
            raise ImportError(f"the numerics imported {name}")


def main() -> None:
    """Import every module of the numerical rooms, then fit something with each."""
    sys.meta_path.insert(0, Refuse())  # type: ignore[arg-type]
    import numpy as np

    import dtree
    from dtree.core.families import DiagonalGaussian, moments_of
    from dtree.core.model import Model
    from dtree.core.priors import DirichletProcess
    from dtree.diffusion.objective import Hyper
    from dtree.diffusion.prepare import prepare
    from dtree.diffusion.walk import Plan, finish_walk
    from dtree.hierarchy.bhc import build_tree
    from dtree.kmeans.greedy import improved_kmeans
    from dtree.mcmc.problem import Problem
    from dtree.mcmc.run import begin_chain, run_chain
    from dtree.variational.fitting import InMemory, ascend
    from dtree.variational.steps import Rule, make_block
    from dtree.variational.variants import variant_named

    for room in ROOMS:
        package = importlib.import_module(f"dtree.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"dtree.{room}."):
            importlib.import_module(module.name)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + np.repeat([[0.0], [12.0]], 20, axis=0)
    model = Model(DiagonalGaussian.defaults(moments_of(X)), DirichletProcess(1.0))
    atoms = model.atoms(X)
    assert build_tree(model, atoms).cut().max() == 1
    assert improved_kmeans(model, atoms, np.arange(40)).labels.max() == 1
    problem = Problem(model, atoms)
    draws, _ = run_chain(problem, "gibbs", begin_chain(problem, "gibbs", 0, 0), 30)
    assert draws.n_clusters[-1] >= 2
    rule = Rule(model.family, variant_named("FSD"), 1.0, True, "best")
    start = np.full((40, 3), 1 / 3) + 0.1 * rng.random((40, 3))
    rows = InMemory(make_block(model.family, X, np.ones(40)), start, "corrected", "parallel")
    assert np.isfinite(ascend(rows, rows.sums(rule), rule, 20, 1e-6, False).elbo)
    prepared = prepare(X, 0, Hyper(), noise="auto", scaling="auto", max_leaves=100)
    walk = finish_walk(prepared.leaves, prepared.hyper, 0, Plan(2, 0, 0), prepared.bits)
    assert np.isfinite(walk.log_score)
    loaded = sorted(name for name in FORBIDDEN if name in sys.modules)
    assert not loaded, loaded
    print(f"{len(ROOMS)} rooms of numerics stand alone in dtree {dtree.__version__}")


if __name__ == "__main__":
    main()
