"""This version against an older one: the same fits in two processes, turn by turn, in CPU seconds.

    python -m benchmarks.versions OLD [--only ddt-em tgmcmc-full] [--repeats 7]

OLD is a folder that holds the source of the older version. Both answer with a number, and a ratio is told only where the
numbers are equal. The least of the repeats counts, after one that compiles; beside the ratio of the leasts stands the median
of the ratios of neighbours in time, which tells how much a busy machine may have disturbed it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parents[1]


def blobs(n: int, d: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(k, d)) * 4)[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def family(kind: str, d: int) -> Any:
    import dtree

    if kind == "full":
        return dtree.Gaussian(mean=np.zeros(d), strength=0.05, dof=d + 2.0, scale=np.eye(d))
    return dtree.DiagonalGaussian(mean=np.zeros(d), strength=0.05, shape=np.full(d, 2.0), rate=np.ones(d))


def diffusion(inference: str = "laplace", likelihood: str = "gaussian", **more: Any) -> float:
    import dtree

    rows = blobs(60, 3, 4)
    rows = (rows > 0).astype(float) if likelihood == "probit" else rows
    plan = {"n_permutations": 1, "search_steps": 30, "posterior_sweeps": 3, "random_state": 0, **more}
    model = dtree.DiffusionTree(inference=inference, likelihood=likelihood, **plan).fit(rows)
    return float(model.score_samples(rows).sum())


def chain(sampler: str, kind: str) -> Callable[[], float]:
    import dtree
    from dtree.core.model import Model
    from dtree.mcmc.problem import Problem
    from dtree.mcmc.run import begin_chain, run_chain

    model = Model(family(kind, 4), dtree.DirichletProcess(1.0))
    problem = Problem(model, model.atoms(blobs(600, 4, 12)))
    first = begin_chain(problem, sampler, seed=0)
    return lambda: float(run_chain(problem, sampler, first, sweeps=200)[0].log_joint.sum())


def one_pass(kind: str, n: int = 100_000, d: int = 8, k: int = 32) -> Callable[[], float]:
    """Every row to its best cluster, and the statistics of the clusters: what a pass of the engine does to rows."""
    import dtree
    from dtree.core.model import Model
    from dtree.kmeans.scoring import Scorer

    model, rows = Model(family(kind, d), dtree.DirichletProcess(1.0)), blobs(n, d, k)
    labels = np.random.default_rng(1).integers(0, k, n)
    empty = Scorer(model, np.zeros((0, model.atoms(rows[:1]).shape[1])))
    scorer = Scorer(model, empty.accumulate(rows, labels, k))
    return lambda: float(np.sum(scorer.accumulate(rows, scorer.assign(rows, labels).best, k)[0]))


def variational(kind: str, variant: str) -> Callable[[], float]:
    """Twenty iterations that nothing ends before."""
    import dtree

    rows, few = blobs(20_000, 6, 8), {"max_iter": 20, "tol": 0.0, "split_merge": 0, "random_state": 0}
    model = dtree.DPMixtureVB(variant, family(kind, 6), 12, **few)
    return lambda: float(model.fit(rows).elbo_)


def cases() -> dict[str, Callable[[], Callable[[], float]]]:
    """What is measured: a name, and what makes the fit ready."""
    import dtree

    found: dict[str, Callable[[], Callable[[], float]]] = {
        "ddt-laplace": lambda: diffusion,
        "ddt-em": lambda: lambda: diffusion("em"),
        "ddt-message-passing": lambda: lambda: diffusion("message-passing", search_steps=6),
        "ddt-mcmc": lambda: lambda: diffusion("mcmc", mcmc_draws=30, mcmc_warmup=10),
        "ddt-probit": lambda: lambda: diffusion(likelihood="probit", search_steps=20),
    }
    for kind in ("full", "diagonal"):
        bhc, few, many = family(kind, 6), family(kind, 5), blobs(1500, 6, 8)
        found |= {
            f"bhc-{kind}": lambda f=bhc: (
                lambda: dtree.BHC(f, dtree.DirichletProcess(1.0)).fit(blobs(600, 6, 8)).log_evidence_bound_
            ),
            f"incremental-{kind}": lambda f=bhc, X=many: (
                lambda: dtree.IncrementalBHC(family=f, random_state=0).fit(X).log_evidence_bound_
            ),
            f"bounds-{kind}": lambda f=few: lambda: sum(dtree.evidence_bounds(blobs(300, 5, 6), family=f).values()),
        }
        found[f"pass-{kind}"] = lambda k=kind: one_pass(k)
        for variant in ("TSB", "O-CTSB"):
            found[f"vb-{variant}-{kind}"] = lambda k=kind, v=variant: variational(k, v)
        for sampler in ("tgmcmc", "tgmcmc-paper", "gibbs", "split-merge"):
            found[f"{sampler}-{kind}"] = lambda s=sampler, k=kind: chain(s, k)
    return found


def serve() -> None:
    """Read names of cases, and answer each by seconds and a number."""
    warnings.simplefilter("ignore")
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a fit says does not mix with answers
    known, ready = cases(), {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            ready[name] = known[name]()
            ready[name]()
        began = time.process_time()
        value = float(ready[name]())
        print(json.dumps([time.process_time() - began, value]), file=out, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    told = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    running: dict[str, Any] = {}
    for name, folder in (("old", given.old.resolve()), ("new", HERE)):
        code = f"import sys; sys.path.insert(0, {str(folder)!r}); import dtree, runpy; assert dtree.__file__.startswith({str(folder)!r})"
        running[name] = subprocess.Popen(
            [sys.executable, "-c", f"{code}; runpy.run_path({__file__!r})['serve']()"],
            cwd=folder,
            env={**os.environ, **one},
            **told,
        )
    for case in given.only or cases():
        seconds: dict[str, list[float]] = {"old": [], "new": []}
        values = {}
        for turn in range(given.repeats):
            for name in ("old", "new") if turn % 2 == 0 else ("new", "old"):
                running[name].stdin.write(case + "\n")
                running[name].stdin.flush()
                spent, values[name] = json.loads(running[name].stdout.readline())
                seconds[name].append(spent)
        if not np.isclose(values["old"], values["new"], rtol=1e-9):
            print(f"{case:24s} no ratio, the answers differ: {values['old']!r} -> {values['new']!r}", flush=True)
            continue
        old, new = min(seconds["old"]), min(seconds["new"])
        pairs = float(np.median(np.divide(seconds["new"], seconds["old"])))
        ratios = f"ratio {new / old:.2f}, of neighbours {pairs:.2f}"
        print(f"{case:24s} {1e3 * old:9.1f} ms -> {1e3 * new:9.1f} ms  {ratios}", flush=True)
    for process in running.values():
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
