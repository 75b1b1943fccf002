"""All samplers on the data of [LC15] from its noisy start and prior: log joint against time, sweeps and ESS per second.

    python -m benchmarks.mcmc --data DIR [--out DIR] [--only toy-dp,10k-nggp,nips-nggp] [--samplers tgmcmc,gibbs] [--seconds 10] [--repeats 1]

The log joint is log p(X, partition) under the DP, log p(X, partition, u) under the NGGP. ESS is that of the number of clusters over
the second half of the run, per CPU second too, since machines are shared. A sweep of tgMCMC is 20 guided moves and a local Gibbs
sweep, as in the paper (G = 20), and on top 50 births and deaths; four local sweeps in ten are full Gibbs sweeps (fewer beyond 5,000
atoms). The paper's sweep has no full Gibbs sweep, so ours does more. The authors' C++ on one core did on toy 39 Gibbs, 26 split-merge, 121 tgMCMC sweeps per second; on 10k, NGGP, 3.5 tgMCMC
sweeps per second (-73,880 after 60 s) and one Gibbs sweep in 5 s. Figures are drawn when matplotlib is there.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats

from benchmarks.measure import data_folder, load, machine, print_table
from dtree.core.families import Gaussian, Multinomial
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import SAMPLERS, Draws, begin_chain, run_chain

CASES: dict[str, tuple[str, Prior]] = {
    "toy-dp": ("tgmcmc_toy", DirichletProcess(1.0)),
    "toy-nggp": ("tgmcmc_toy", GeneralizedGamma(1.0, 0.5, 1.0)),
    "10k-nggp": ("tgmcmc_10k", GeneralizedGamma(1.0, 0.5, 1.0)),
    "nips-nggp": ("nips", GeneralizedGamma(1.0, 0.5, 1.0)),
}
STARTS = {"nips-nggp": "incremental"}  # [LC15] 4.3 starts from normal IBHC there
MARKS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0)


def problem_for(data: Path, case: str) -> Problem:
    name, prior = CASES[case]
    X: Any = load(data, name)["X"]
    family = Multinomial(np.full(X.shape[1], 0.1)) if name == "nips" else Gaussian.paper_prior(X)
    model = Model(family, prior)
    return Problem(model, model.atoms(X))


def effective_draws(draws: Draws) -> float:
    half = draws.n_clusters[draws.n_clusters.shape[0] // 2 :].astype(float)
    if half.shape[0] < 8 or half.std() == 0.0:
        return float("nan")
    return float(array_stats.ess(half[None, :], chain_axis=0, draw_axis=1))


def run(problem: Problem, sampler: str, start: str, limit: float, seed: int) -> tuple[float, float, Draws]:
    """Seconds to start, CPU seconds of the run, draws. Kernels are compiled and checked on a sweep first."""
    warm = begin_chain(problem, sampler, seed, start="noisy")
    checked, _ = run_chain(problem, sampler, warm, 1)
    recorded = problem.log_joint(checked.labels[0].astype(np.int64), problem.prior_at(checked.prior[0]))
    assert abs(recorded - checked.log_joint[0]) < 1e-6 * abs(recorded)
    started = time.perf_counter()
    checkpoint = begin_chain(problem, sampler, seed, start=start)
    to_start = time.perf_counter() - started
    cpu = time.thread_time()
    draws, _ = run_chain(problem, sampler, checkpoint, 10**9, time_limit=limit)
    return to_start, time.thread_time() - cpu, draws


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--only", default="toy-dp,toy-nggp,10k-nggp,nips-nggp")
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parse()
    print(machine())
    traces: dict[str, dict[str, Draws]] = {}
    for case in arguments.only.split(","):
        problem = problem_for(arguments.data, case)
        table, marks = [], []
        for sampler in arguments.samplers.split(","):
            for seed in range(arguments.repeats):
                start, cpu, draws = run(problem, sampler, STARTS.get(case, "noisy"), arguments.seconds, seed)
                traces.setdefault(case, {})[sampler] = draws
                wall, sweeps = draws.seconds[-1], draws.seconds.shape[0]
                ess = effective_draws(draws)
                table.append([sampler, start, sweeps / wall, sweeps / cpu, draws.log_joint.max(), draws.log_joint[-1]])
                table[-1] += [int(draws.n_clusters[-1]), ess / (0.5 * wall), ess / (0.5 * cpu)]
                at = [np.searchsorted(draws.seconds, mark) - 1 for mark in MARKS if mark <= wall]
                marks.append([sampler, *(float(draws.log_joint[k]) if k >= 0 else float("nan") for k in at)])
                marks[-1] += [""] * (len(MARKS) + 1 - len(marks[-1]))
        header = ["sampler", "start s", "sweeps/s", "sweeps/CPU s", "best log joint", "last", "clusters", "ESS/s"]
        header += ["ESS/CPU s"]
        print_table(case, header, table)
        print_table(f"{case}: log joint after seconds", ["sampler", *map(str, MARKS)], marks)
    draw_figures(traces, arguments.out)


def draw_figures(traces: dict[str, dict[str, Draws]], out: Path) -> None:
    """Log joint against time, one picture per case, like Figures 3 to 5 of [LC15]."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no figures")
        return
    out.mkdir(parents=True, exist_ok=True)
    for case, samplers in traces.items():
        figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for sampler, draws in samplers.items():
            axis.plot(draws.seconds, draws.log_joint, label=sampler, linewidth=1)
        axis.set(xlabel="seconds", ylabel="log joint", title=case, xscale="log")
        axis.legend()
        figure.savefig(out / f"mcmc-{case}.png", dpi=130)
        plt.close(figure)


if __name__ == "__main__":
    main()
