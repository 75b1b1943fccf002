"""All samplers on the data of [LC15] from its noisy start and prior: speed, log joint against time, ESS, acceptance.

    python -m benchmarks.mcmc --data DIR [--out DIR] [--only toy-dp,10k-nggp,nips-nggp] [--samplers tgmcmc,gibbs]
    [--seconds 10]
                              [--seeds 3] [--first-seed 0] [--settled 10] [--pieces DIR]

The log joint is log p(X, partition) under the DP, log p(X, partition, u) under the NGGP. ESS is that of the number of
clusters over the second half of a run. Figures are mean and standard deviation over seeds. "log ratio" is the mean log
acceptance ratio of splits and merges (proposals with an acceptance step) over sweeps after the run, every ratio
computed to the end. All samplers of a seed start from the same partition, made once, whose seconds count for each; they
take turns within a seed, so that a noisy machine is noisy for all, and all times are CPU seconds of the chain's one
thread. A sweep of tgMCMC in [LC15] is 20 guided moves and a local Gibbs sweep; ours does more (`dtree.mcmc.plan`), so a
sweep of the same size is timed too. With --settled every chain starts where tgMCMC is after so many seconds instead, so
that ESS, then of all but the first tenth of a run, compares mixing and not the climb. With --pieces every chain is kept
in a file when it is done and read from there the next time, so that long runs can be made in parts: delete the folder
when the samplers have changed. The authors' C++ on one core of such a machine did on toy 39 Gibbs, 26 split-merge and
121 tgMCMC sweeps per second; on 10k with NGGP 3.5 tgMCMC sweeps per second (-73,880 after 60 s) and one Gibbs sweep in
5 s.
"""

from __future__ import annotations

from argparse import Namespace
from functools import cache, lru_cache
from pathlib import Path
from time import thread_time as clock  # CPU seconds: a chain is one thread, and machines are shared
from typing import Any, NamedTuple

import numpy as np
from arviz_stats.base import array_stats

from benchmarks.mcmc_figures import draw_figures
from benchmarks.mcmc_tables import CPP_SWEEPS, MARKS, Outcome, header_of, marks_of, paired_row, row_of
from benchmarks.measure import data_folder, load, machine, print_table
from dtree.core.families import Gaussian, Multinomial
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess, GeneralizedGamma, Prior
from dtree.mcmc import tgmcmc
from dtree.mcmc.plan import PAPER_SIZE
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import (
    SAMPLERS,
    Checkpoint,
    Draws,
    begin_at,
    chain_generator,
    generator_from_array,
    generator_to_array,
    run_chain,
)
from dtree.mcmc.start import starting_point

CASES: dict[str, tuple[str, Prior]] = {
    "toy-dp": ("tgmcmc_toy", DirichletProcess(1.0)),
    "toy-nggp": ("tgmcmc_toy", GeneralizedGamma(1.0, 0.5, 1.0)),
    "10k-nggp": ("tgmcmc_10k", GeneralizedGamma(1.0, 0.5, 1.0)),
    "nips-nggp": ("nips", GeneralizedGamma(1.0, 0.5, 1.0)),
}
STARTS = {"nips-nggp": "incremental"}  # [LC15] 4.3 starts from normal IBHC there
_FEW_ATOMS = 40


class Start(NamedTuple):
    """Where all chains of a seed begin."""

    labels: np.ndarray  # (m,)
    prior: np.ndarray  # parameters of the prior
    generator: np.ndarray  # state of the random stream
    seconds: float  # that it took
    settled: bool = False

    def begin(self, problem: Problem, sampler: str) -> Checkpoint:
        return begin_at(problem, sampler, self.labels, self.prior, generator_from_array(self.generator))


def problem_for(data: Path, case: str) -> Problem:
    name, prior = CASES[case]
    X: Any = load(data, name)["X"]
    family = Multinomial(np.full(X.shape[1], 0.1)) if name == "nips" else Gaussian.paper_prior(X)
    model = Model(family, prior)
    return Problem(model, model.atoms(X))


def effective_draws(draws: Draws, values: np.ndarray | None = None, skip: float = 0.5) -> float:
    """Effective draws of the number of clusters (or of other values of a draw) after a share `skip` of the run."""
    values = draws.n_clusters if values is None else values
    kept = values[int(skip * values.shape[0]) :].astype(float)
    if kept.shape[0] < 8 or kept.std() == 0.0:
        return float("nan")
    return float(array_stats.ess(kept[None, :], chain_axis=0, draw_axis=1))


@cache
def warm_up(problem: Problem, sampler: str) -> None:
    """Compile the kernels on a few atoms, and compare what a chain records with the definition."""
    few = Problem(problem.model, problem.atoms[:: max(1, problem.m // _FEW_ATOMS)])
    for start in ("noisy", "incremental"):
        checked, _ = run_chain(few, sampler, common_start(few, start, 0).begin(few, sampler), 3)
        recorded = few.log_joint(checked.labels[-1].astype(np.int64), few.prior_at(checked.prior[-1]))
        assert abs(recorded - checked.log_joint[-1]) < 1e-6 * abs(recorded)


@lru_cache(maxsize=8)
def common_start(problem: Problem, start: str, seed: int) -> Start:
    """The named start of all chains of a seed."""
    rng, began = chain_generator(seed, 0), clock()
    labels, prior = starting_point(problem, start, rng)
    return Start(labels, prior, generator_to_array(rng), clock() - began)


@lru_cache(maxsize=8)
def settled_start(problem: Problem, start: str, seconds: float, seed: int) -> Start:
    """Where tgMCMC is some seconds after the named start."""
    warm_up(problem, "tgmcmc")
    checkpoint = common_start(problem, start, seed).begin(problem, "tgmcmc")
    _, checkpoint = run_chain(problem, "tgmcmc", checkpoint, 10**9, time_limit=seconds, clock=clock)
    generator = generator_to_array(np.random.default_rng(seed))
    return Start(checkpoint["state_labels"], checkpoint["state_prior"], generator, 0.0, settled=True)


def run(problem: Problem, sampler: str, start: str, limit: float, seed: int, settled: float = 0.0) -> Outcome:
    """A chain from the start that all samplers of a seed share."""
    warm_up(problem, sampler)
    first = settled_start(problem, start, settled, seed) if settled else common_start(problem, start, seed)
    began = clock()
    checkpoint = first.begin(problem, sampler)
    to_start = first.seconds + clock() - began
    draws, checkpoint = run_chain(problem, sampler, checkpoint, 10**9, time_limit=limit, clock=clock)
    problem.acceptance.tally[:] = 0.0
    problem.acceptance.wanted[0] = True
    run_chain(problem, sampler, checkpoint, 50, time_limit=0.05 * limit, clock=clock)
    problem.acceptance.wanted[0] = False
    skip = 0.1 if settled else 0.5
    ess, ess_log_joint = effective_draws(draws, skip=skip), effective_draws(draws, draws.log_joint, skip)
    counted = (1.0 - skip) * float(draws.seconds[-1])
    return Outcome(to_start, ess, draws, problem.acceptance.tally.copy(), ess_log_joint, counted)


def write_piece(file: Path, outcome: Outcome) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers = np.array([outcome.to_start, outcome.ess, outcome.ess_log_joint, outcome.counted])
    draws = outcome.draws
    columns = {"seconds": draws.seconds, "log_joint": draws.log_joint, "n_clusters": draws.n_clusters}
    np.savez(file, numbers=numbers, acceptance=outcome.acceptance, **columns)


def read_piece(file: Path) -> Outcome:
    """A chain without its labels and priors."""
    with np.load(file) as found:
        to_start, ess, ess_log_joint, counted = found["numbers"].tolist()
        draws = Draws(np.empty((0, 0)), np.empty((0, 0)), found["log_joint"], found["n_clusters"], found["seconds"])
        return Outcome(to_start, ess, draws, found["acceptance"], ess_log_joint, counted)


def paper_sized_speed(problem: Problem, start: str, limit: float) -> float:
    """Sweeps per second of tgMCMC with as many moves as a sweep of [LC15], after 300 sweeps or three seconds."""
    warm_up(problem, "tgmcmc")
    checkpoint = common_start(problem, start, 0).begin(problem, "tgmcmc")
    _, checkpoint = run_chain(problem, "tgmcmc", checkpoint, 300, time_limit=3.0)
    state = tgmcmc.State(*(checkpoint[f"state_{name}"].copy() for name in tgmcmc.State._fields))
    rng, sweeps, began = np.random.default_rng(0), 0, clock()
    while clock() - began < limit:
        made = tgmcmc.sweeps(problem, state, PAPER_SIZE, 10**9, rng)
        state, sweeps = made.state, sweeps + made.labels.shape[0]
    return sweeps / (clock() - began)


def run_case(case: str, arguments: Namespace) -> dict[str, list[Outcome]]:
    """All chains of a case, by sampler."""
    problem, start = problem_for(arguments.data, case), STARTS.get(case, "noisy")
    samplers = arguments.samplers.split(",")
    outcomes: dict[str, list[Outcome]] = {sampler: [] for sampler in samplers}
    limit, settled = arguments.seconds, arguments.settled
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for sampler in samplers:
            file = None
            if arguments.pieces is not None:
                file = arguments.pieces / f"{case}-{sampler}-{limit:g}s-settled-{settled:g}s-seed-{seed}.npz"
            if file is not None and file.exists():
                outcomes[sampler].append(read_piece(file))
                continue
            outcome = run(problem, sampler, start, limit, seed, settled)
            outcomes[sampler].append(outcome)
            if file is not None:
                write_piece(file, outcome)
    if "tgmcmc" in samplers and not settled:
        speed, cpp = paper_sized_speed(problem, start, min(2.0, limit)), CPP_SWEEPS.get((case.split("-")[0], "tgmcmc"))
        words = f"\n{case}: tgmcmc, as many moves as a sweep of [LC15]: {speed:.1f} sweeps/s"
        print(words + ("" if cpp is None else f", {speed / cpp:.1f}x"))
    return outcomes


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--only", default="toy-dp,toy-nggp,10k-nggp,nips-nggp")
    parser.add_argument("--samplers", default=",".join(SAMPLERS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--settled", type=float, default=0.0, help="seconds of tgMCMC before every chain")
    parser.add_argument("--pieces", type=Path, help="folder where chains are kept, and found again")
    arguments = parse()
    print(machine())
    for case in arguments.only.split(","):
        outcomes = run_case(case, arguments)
        title = f"{case}, {arguments.seconds:g} s each, {arguments.seeds} seeds"
        title += f", from where tgMCMC is after {arguments.settled:g} s" if arguments.settled else ""
        print_table(title, header_of(case), [row_of(case, s, found) for s, found in outcomes.items()])
        marks = [marks_of(s, found, arguments.seconds) for s, found in outcomes.items()]
        print_table(f"{case}: log joint after seconds", ["sampler", *map(str, MARKS)], marks)
        if "tgmcmc" in outcomes:
            paired = [paired_row(s, found, outcomes["tgmcmc"]) for s, found in outcomes.items() if s != "tgmcmc"]
            header = ["sampler", "ESS/s", "tgmcmc ahead by, ± s.e.", "seeds with tgmcmc ahead"]
            print_table(f"{case}: effective draws of the number of clusters, paired over seeds", header, paired)
        if not arguments.settled:
            curves = {
                s: [(o.draws.seconds + o.to_start, o.draws.log_joint) for o in found] for s, found in outcomes.items()
            }
            draw_figures(case, curves, arguments.out)


if __name__ == "__main__":
    main()
