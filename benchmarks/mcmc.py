"""All samplers on the data of [LC15] from its noisy start and prior: speed, log joint against time, ESS, acceptance.

    python -m benchmarks.mcmc --data DIR [--out DIR] [--only toy-dp,10k-nggp,nips-nggp] [--samplers tgmcmc,gibbs] [--seconds 10]
                              [--seeds 3] [--settled 10]

The log joint is log p(X, partition) under the DP, log p(X, partition, u) under the NGGP. ESS is that of the number of clusters over
the second half of a run. Figures are mean and standard deviation over seeds. "log ratio" is the mean log acceptance ratio of splits and
merges (proposals with an acceptance step) over sweeps after the run, every ratio computed to the end. Samplers take turns within a seed, so that a
noisy machine is noisy for all, and all times are CPU seconds of the chain's one thread. A sweep of tgMCMC in [LC15] is 20 guided moves and a local Gibbs sweep; ours does more (`dtree.mcmc.plan`),
so a sweep of the same size is timed too. With --settled every chain starts where tgMCMC is after so many seconds instead, so that ESS compares
mixing and not the climb. The authors' C++ on one core of such a machine did on toy 39 Gibbs, 26 split-merge and 121 tgMCMC
sweeps per second; on 10k with NGGP 3.5 tgMCMC sweeps per second (-73,880 after 60 s) and one Gibbs sweep in 5 s.
"""

from __future__ import annotations

from pathlib import Path
from time import thread_time as clock  # CPU seconds: a chain is one thread, and machines are shared
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats

from benchmarks.mcmc_figures import draw_figures
from benchmarks.measure import data_folder, load, machine, print_table
from dtree.core.families import Gaussian, Multinomial
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior
from dtree.mcmc import tgmcmc
from dtree.mcmc.plan import PAPER_SIZE
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import SAMPLERS, Checkpoint, Draws, begin_at, begin_chain, run_chain

CASES: dict[str, tuple[str, Prior]] = {
    "toy-dp": ("tgmcmc_toy", DirichletProcess(1.0)),
    "toy-nggp": ("tgmcmc_toy", GeneralizedGamma(1.0, 0.5, 1.0)),
    "10k-nggp": ("tgmcmc_10k", GeneralizedGamma(1.0, 0.5, 1.0)),
    "nips-nggp": ("nips", GeneralizedGamma(1.0, 0.5, 1.0)),
}
STARTS = {"nips-nggp": "incremental"}  # [LC15] 4.3 starts from normal IBHC there
GOALS = {"toy-dp": -1582.0, "toy-nggp": -1582.0, "10k-nggp": -73_880.0}
CPP_SWEEPS = {("toy", "gibbs"): 39.0, ("toy", "split-merge"): 26.0, ("toy", "tgmcmc"): 121.0}
CPP_SWEEPS |= {("10k", "gibbs"): 0.2, ("10k", "tgmcmc"): 3.5}
MARKS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Outcome(NamedTuple):
    """One chain."""

    to_start: float  # seconds before the first sweep
    ess: float
    draws: Draws
    acceptance: np.ndarray  # (3, 3), see Problem.acceptance


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


def warm_up(problem: Problem, sampler: str) -> None:
    """Compile the kernels, and compare what a chain records with the definition."""
    checked, _ = run_chain(problem, sampler, begin_chain(problem, sampler, 0, start="noisy"), 1)
    recorded = problem.log_joint(checked.labels[0].astype(np.int64), problem.prior_at(checked.prior[0]))
    assert abs(recorded - checked.log_joint[0]) < 1e-6 * abs(recorded)


def settled_state(problem: Problem, start: str, seconds: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Partition and parameters of the prior where tgMCMC is after some seconds."""
    warm_up(problem, "tgmcmc")
    checkpoint = begin_chain(problem, "tgmcmc", seed, start=start)
    _, checkpoint = run_chain(problem, "tgmcmc", checkpoint, 10**9, time_limit=seconds, clock=clock)
    return checkpoint["state_labels"], checkpoint["state_prior"]


def run(problem: Problem, sampler: str, start: str | tuple[np.ndarray, np.ndarray], limit: float, seed: int) -> Outcome:
    """A chain from a named start, or from a partition and the parameters of its prior."""
    warm_up(problem, sampler)
    began = clock()
    if isinstance(start, str):
        checkpoint = begin_chain(problem, sampler, seed, start=start)
    else:
        checkpoint = begin_at(problem, sampler, *start, np.random.default_rng(seed))
    to_start = clock() - began
    draws, checkpoint = run_chain(problem, sampler, checkpoint, 10**9, time_limit=limit, clock=clock)
    problem.acceptance.tally[:] = 0.0
    problem.acceptance.wanted[0] = True
    run_chain(problem, sampler, checkpoint, 50, time_limit=0.05 * limit, clock=clock)
    problem.acceptance.wanted[0] = False
    return Outcome(to_start, effective_draws(draws), draws, problem.acceptance.tally.copy())


def paper_sized_speed(problem: Problem, checkpoint: Checkpoint, limit: float) -> float:
    """Sweeps per second of tgMCMC with as many moves as a sweep of [LC15]."""
    state = tgmcmc.State(*(checkpoint[f"state_{name}"].copy() for name in tgmcmc.State._fields))
    rng, sweeps, began = np.random.default_rng(0), 0, clock()
    while clock() - began < limit:
        state = tgmcmc.sweep(problem, state, PAPER_SIZE, rng)
        sweeps += 1
    return sweeps / (clock() - began)


def spread(values: Any, digits: int = 1) -> str:
    found = np.asarray(values, dtype=float)
    found = found[np.isfinite(found)]
    if found.size == 0:
        return "never"
    return f"{found.mean():,.{digits}f}" + (f" ± {found.std(ddof=1):,.{digits}f}" if found.size > 1 else "")


def time_to(outcome: Outcome, goal: float) -> float:
    reached = np.flatnonzero(outcome.draws.log_joint >= goal)
    return outcome.to_start + float(outcome.draws.seconds[reached[0]]) if reached.size else np.inf


def row_of(case: str, sampler: str, outcomes: list[Outcome]) -> list[str]:
    speed = np.array([o.draws.seconds.shape[0] / o.draws.seconds[-1] for o in outcomes])
    cpp = CPP_SWEEPS.get((case.split("-")[0], sampler))
    row = [sampler, spread(speed), "" if cpp is None else f"{cpp:g} ({speed.mean() / cpp:.1f}x)"]
    if case in GOALS:
        times = [time_to(o, GOALS[case]) for o in outcomes]
        missed = sum(not np.isfinite(t) for t in times)
        row.append(spread(times, 2) + (f" ({missed} of {len(times)} never)" if 0 < missed < len(times) else ""))
    row += [spread([o.draws.log_joint.max() for o in outcomes]), spread([o.draws.n_clusters[-1] for o in outcomes])]
    row.append(spread([o.ess / (0.5 * o.draws.seconds[-1]) for o in outcomes]))
    tally = np.sum([o.acceptance for o in outcomes], axis=0)[0]
    made = tally[0] > 0
    return [*row, f"{tally[2] / tally[0]:.1f}" if made else "", f"{100 * tally[1] / tally[0]:.1f}" if made else ""]


def marks_of(sampler: str, outcomes: list[Outcome], limit: float) -> list[str]:
    row = [sampler]
    for mark in MARKS:
        at = [np.searchsorted(o.draws.seconds, mark) - 1 for o in outcomes]
        values = [o.draws.log_joint[k] if k >= 0 else np.nan for o, k in zip(outcomes, at)]
        row.append(spread(values).replace("never", "") if mark <= limit else "")
    return row


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--only", default="toy-dp,toy-nggp,10k-nggp,nips-nggp")
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--settled", type=float, default=0.0, help="seconds of tgMCMC before every chain")
    arguments = parse()
    print(machine())
    samplers = arguments.samplers.split(",")
    for case in arguments.only.split(","):
        problem, start = problem_for(arguments.data, case), STARTS.get(case, "noisy")
        outcomes: dict[str, list[Outcome]] = {sampler: [] for sampler in samplers}
        for seed in range(arguments.seeds):
            first = settled_state(problem, start, arguments.settled, seed) if arguments.settled else start
            for sampler in samplers:
                outcomes[sampler].append(run(problem, sampler, first, arguments.seconds, seed))
        header = ["sampler", "sweeps/s", "C++", *([f"s to {GOALS[case]:,.0f}"] if case in GOALS else [])]
        header += ["best log joint", "clusters", "ESS/s", "log ratio", "% accepted"]
        title = f"{case}, {arguments.seconds:g} s each, {arguments.seeds} seeds"
        title += f", from where tgMCMC is after {arguments.settled:g} s" if arguments.settled else ""
        print_table(title, header, [row_of(case, s, outcomes[s]) for s in samplers])
        marks = [marks_of(s, outcomes[s], arguments.seconds) for s in samplers]
        print_table(f"{case}: log joint after seconds", ["sampler", *map(str, MARKS)], marks)
        if "tgmcmc" in samplers:
            checkpoint = begin_chain(problem, "tgmcmc", 0, start=start)
            _, checkpoint = run_chain(problem, "tgmcmc", checkpoint, 300, time_limit=3.0)
            speed = paper_sized_speed(problem, checkpoint, min(2.0, arguments.seconds))
            cpp = CPP_SWEEPS.get((case.split("-")[0], "tgmcmc"))
            print(
                f"\ntgmcmc, as many moves as a sweep of [LC15]: {speed:.1f} sweeps/s"
                + ("" if cpp is None else f", {speed / cpp:.1f}x")
            )
        if arguments.settled:
            continue
        curves = {s: [(o.draws.seconds + o.to_start, o.draws.log_joint) for o in outcomes[s]] for s in samplers}
        draw_figures(case, curves, arguments.out)


if __name__ == "__main__":
    main()
