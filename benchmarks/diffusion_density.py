"""Density estimation: skulls in the protocol of the macaque experiment, and gene expression."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dtree
from dtree.diffusion import mcmc
from dtree.diffusion.prepare import prepare
from dtree.diffusion.tree import Columns
from dtree.diffusion.walk import finish_walk
from dtree.methods.diffusion import Settings, joined
from dtree.methods.diffusion_records import Prepared

# build + 200 steps and the best trees, as in the paper; the noise is learned on each split's own training rows
GENES: dict[str, Any] = {
    "n_permutations": 1, "search_steps": 200, "posterior_sweeps": 0, "n_trees": 2, "scaling": "standardize"
}  # fmt: skip
SPLITS = (2000, 2001, 2002, 2003, 2004)  # seeds; settings were chosen on the splits of seeds from 1000


def kernel_density(train: np.ndarray, test: np.ndarray) -> float:
    """Gaussian kernels with one bandwidth per column, chosen by leave-one-out likelihood."""
    from scipy.optimize import minimize

    scale = train.std(axis=0)
    z, t = train / scale, test / scale
    n = len(z)

    def scores(points: np.ndarray, h: np.ndarray, leave_out: bool) -> np.ndarray:
        gap = (points[:, None, :] - z[None]) / h
        logs = -0.5 * (gap**2).sum(axis=2) - np.log(h).sum() - 0.5 * z.shape[1] * np.log(2 * np.pi)
        if leave_out:
            np.fill_diagonal(logs, -np.inf)
        return np.logaddexp.reduce(logs, axis=1) - np.log(n - leave_out)

    start = np.full(z.shape[1], np.log(n ** (-1.0 / (z.shape[1] + 4))))
    best = minimize(lambda lh: -scores(z, np.exp(lh), True).mean(), start, method="L-BFGS-B")
    return float((scores(t, np.exp(best.x), False) - np.log(scale).sum()).mean())


def _show(experiment: str, split: int, values: dict[str, list[float]]) -> None:
    """The latest scores, for whoever waits."""
    told = ", ".join(f"{name} {found[-1]:.4f}" for name, found in values.items())
    print(f"{experiment}, split {split}: {told}", file=sys.stderr, flush=True)


def run_skulls(data: Path, out: Path) -> dict:
    """Density estimation, 200 training and 28 test rows in 10 dimensions, five splits; differences are paired."""
    from sklearn.covariance import LedoitWolf

    rows = np.load(data / "howells_skulls_substitute.npz")["X"][:, :10]
    result: dict[str, list[float]] = {}
    spent: dict[str, float] = {}

    def axes(train: np.ndarray, test: np.ndarray) -> float:
        # an orthogonal change of basis leaves densities comparable and gives kernels the axes they need
        centre, basis = train.mean(axis=0), np.linalg.eigh(np.cov(train.T))[1]
        return kernel_density((train - centre) @ basis, (test - centre) @ basis)

    def scored(make: Callable[[], Any]) -> Callable[[np.ndarray, np.ndarray], float]:
        return lambda train, test: float(make().fit(train).score_samples(test).mean())

    methods: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
        "diffusion tree": scored(lambda: dtree.DiffusionTree(random_state=0)),
        "diffusion tree, best trees only": scored(lambda: dtree.DiffusionTree(random_state=0, posterior_sweeps=0)),
        "diffusion tree, mcmc": scored(lambda: dtree.DiffusionTree("mcmc", random_state=0)),
        "BHC": scored(dtree.BHC),
        "variational mixture": scored(lambda: dtree.DPMixtureVB(random_state=0)),
        "kernel density": kernel_density,
        "kernel density, axes": axes,
        "one Gaussian": lambda train, test: float(LedoitWolf().fit(train).score(test)),
    }
    for split in SPLITS:
        chosen = np.random.default_rng(split).permutation(len(rows))[:228]
        train, test = rows[chosen[:200]], rows[chosen[200:]]
        for name, score in methods.items():
            began = time.process_time()
            result.setdefault(name, []).append(score(train, test))
            spent[name] = spent.get(name, 0.0) + time.process_time() - began
        _show("skulls", split, result)
    best = max(result, key=lambda name: float(np.mean(result[name])))
    behind = {name: np.subtract(result[best], values) for name, values in result.items()}
    root = np.sqrt(len(SPLITS))
    return {
        "mean_log_density": {k: round(float(np.mean(v)), 3) for k, v in result.items()},
        "standard_error": {k: round(float(np.std(v, ddof=1) / root), 3) for k, v in result.items()},
        "best": best,
        "behind_the_best": {k: round(float(v.mean()), 3) for k, v in behind.items()},
        "standard_error_paired": {k: round(float(v.std(ddof=1) / root), 3) for k, v in behind.items()},
        "processor_seconds_per_fit": {k: round(v / len(SPLITS), 2) for k, v in spent.items()},
    }


def run_genes(data: Path, out: Path) -> dict:
    """Gene expression, four 90/10 splits, build + 200 search steps; score per test row and dimension."""
    from sklearn.mixture import BayesianGaussianMixture

    rows = np.load(data / "prostate_yu2004.npz")["X"]
    rows = (rows - rows.mean()) / rows.std()
    scores: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    for split in range(4):
        order = np.random.default_rng(split).permutation(len(rows))
        cut = int(0.9 * len(rows))
        train, test = rows[order[:cut]], rows[order[cut:]]
        settings, clock = Settings(**GENES), [time.perf_counter()]
        prepared = prepare(train, 0, settings.hyper(), **settings.for_rows())
        clock.append(time.perf_counter())
        walk = finish_walk(prepared.leaves, prepared.hyper, 0, settings.plan(len(train)))
        clock.append(time.perf_counter())
        fitted = joined([walk], Prepared.of(prepared, ""), settings)
        clock.append(time.perf_counter())
        scores.setdefault("diffusion tree", []).append(float(fitted.log_density(test).mean()) / rows.shape[1])
        spent.setdefault("noise", []).append(float(prepared.noise[0]))
        for name, seconds in zip(("learning the noise", "build and search", "evidence"), np.diff(clock), strict=True):
            spent.setdefault(name, []).append(float(seconds))
        rival = BayesianGaussianMixture(n_components=30, covariance_type="diag", max_iter=300, random_state=0)
        began = time.perf_counter()
        rival.fit(train)
        spent.setdefault("DP mixture", []).append(time.perf_counter() - began)
        scores.setdefault("DP mixture", []).append(float(rival.score_samples(test).mean()) / rows.shape[1])
        _show("genes", split, scores)
    best = walk.state.best
    k = int(best.score.argmax())
    chain = mcmc.init(Columns(best.parent[k], best.child[k], best.rest[k]), prepared.leaves, prepared.hyper)
    rng = np.random.default_rng(0)
    mcmc.step(chain, rng, moves=1)  # warm
    began = time.perf_counter()
    for _ in range(3):
        chain = mcmc.step(chain, rng)
    per_sweep = (time.perf_counter() - began) / 3
    search = float(np.mean(spent["build and search"]))
    return {
        "rows": list(rows.shape),
        "score_per_row_and_dimension": {k: round(float(np.mean(v)), 4) for k, v in scores.items()},
        "standard_deviation": {k: round(float(np.std(v)), 4) for k, v in scores.items()},
        "each_split": {k: [round(x, 4) for x in v] for k, v in scores.items()},
        "noise_and_seconds_each_split": {k: [round(x, 4) for x in v] for k, v in spent.items()},
        "build_and_search_seconds": round(search, 2),
        "mcmc_seconds_per_sweep": round(per_sweep, 2),
        "mcmc_100_sweeps_over_build_and_search": round(100 * per_sweep / search, 1),
    }
