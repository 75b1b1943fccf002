"""The one loop of all samplers: a chain is a function (problem, seed, checkpoint) -> (draws, checkpoint).

A checkpoint is a dictionary of plain arrays: the sampler's state, the generator's state and the number of sweeps
done. Running a chain in one go or stopping and resuming it anywhere gives the same draws, bit for bit.
"""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dtree.mcmc.hyperparameters import parameter_vector
from dtree.mcmc.problem import Problem
from dtree.mcmc.start import start_of_chain, starting_point
from dtree.mcmc.sweeps import Block

Checkpoint = dict[str, np.ndarray]


class Sampler(NamedTuple):
    """Where a sampler's functions live: `init`, a step, and `rebuild` if something is rebuilt during warm-up.

    A sampler with a `block` makes several sweeps in one call.
    """

    module: str
    step: str = "step"
    block: str | None = None

    def function(self, name: str) -> Callable[..., Any]:
        return getattr(import_module(self.module), name)


SAMPLERS: dict[str, Sampler] = {
    "tgmcmc": Sampler("dtree.mcmc.tgmcmc", block="block"),
    "tgmcmc-paper": Sampler("dtree.mcmc.tgmcmc_paper"),
    "gibbs": Sampler("dtree.mcmc.gibbs", block="block"),
    "split-merge": Sampler("dtree.mcmc.split_merge", block="block"),
    "slice": Sampler("dtree.mcmc.slice"),
    "gibbs-subset": Sampler("dtree.mcmc.gibbs", "subset_step"),
    "split-merge-subset": Sampler("dtree.mcmc.split_merge", "subset_step"),
}


class Draws(NamedTuple):
    """What a chain recorded, one row per kept sweep."""

    labels: np.ndarray  # (draws, m) canonical, in the smallest unsigned type that holds them
    prior: np.ndarray  # (draws, p) parameters of the prior, in the order of Prior.parameters()
    log_joint: np.ndarray  # (draws,)
    n_clusters: np.ndarray  # (draws,)
    seconds: np.ndarray  # (draws,) since the call began


def sampler_named(name: str) -> Sampler:
    """The sampler with this name, or a sentence that lists them."""
    if name not in SAMPLERS:
        raise ValueError(f"unknown sampler '{name}': use one of {', '.join(SAMPLERS)}")
    return SAMPLERS[name]


def generator_to_array(rng: np.random.Generator) -> np.ndarray:
    """State of a PCG64 generator as six unsigned numbers."""
    state = rng.bit_generator.state
    numbers = [state["state"]["state"], state["state"]["inc"]]
    halves = [half for number in numbers for half in (number % 2**64, number >> 64)]
    return np.array([*halves, state["has_uint32"], state["uinteger"]], dtype=np.uint64)


def generator_from_array(array: np.ndarray) -> np.random.Generator:
    """The generator back again.

    >>> rng = np.random.default_rng(1)
    >>> twin = generator_from_array(generator_to_array(rng))
    >>> rng.random() == twin.random()
    True
    """
    a, b, c, d, has_uint32, uinteger = (int(number) for number in array)
    bits = np.random.PCG64()
    state: Any = {"state": a | b << 64, "inc": c | d << 64}
    bits.state = {"bit_generator": "PCG64", "state": state, "has_uint32": has_uint32, "uinteger": uinteger}
    return np.random.Generator(bits)


def chain_generator(seed: int, chain: int) -> np.random.Generator:
    """The random stream of one chain, keyed by (seed, chain)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(chain,))))


def begin_chain(problem: Problem, sampler: str, seed: int, chain: int = 0, start: str | None = None) -> Checkpoint:
    """The checkpoint before the first sweep."""
    rng = chain_generator(seed, chain)
    return begin_at(problem, sampler, *starting_point(problem, start or start_of_chain(chain), rng), rng, chain)


def begin_at(
    problem: Problem, sampler: str, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator, chain: int = 0
) -> Checkpoint:
    """The checkpoint of a chain that begins with a partition (m,) and a vector of the prior's parameters."""
    state = sampler_named(sampler).function("init")(problem, labels, prior, rng)
    if not np.isfinite(state.log_joint):
        raise ValueError(
            f"chain {chain} cannot start: the log joint of its first partition is {float(state.log_joint)}; "
            "rescale the data, or give a family whose hyperparameters fit them"
        )
    return _checkpoint(state, rng, 0)


def _checkpoint(state: Any, rng: np.random.Generator, sweep: int) -> Checkpoint:
    arrays = {f"state_{name}": np.array(value) for name, value in state._asdict().items()}
    return {**arrays, "generator": generator_to_array(rng), "sweep": np.array(sweep)}


def _with_new_guide(
    problem: Problem, rebuild: Callable[..., Any], state: Any, rng: np.random.Generator, warming: bool
) -> Any:
    """The state with a new guide: in the warm-up at its own hyperparameters, later at those of the model.

    A guide that knew of the state would no longer leave the posterior invariant.
    """
    if warming:
        return rebuild(problem, state, rng)
    fixed = state._replace(prior=parameter_vector(problem.model.prior))
    return rebuild(problem, fixed, rng)._replace(prior=state.prior, log_joint=state.log_joint)


def run_chain(
    problem: Problem,
    sampler: str,
    checkpoint: Checkpoint,
    sweeps: int,
    warmup: int = 0,
    thin: int = 1,
    time_limit: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Draws, Checkpoint]:
    """Run `sweeps` more sweeps; those from sweep number `warmup` on are recorded, every `thin`-th.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.model import Model
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> problem = Problem(model, model.atoms([[1], [0], [30], [31]]))
    >>> draws, checkpoint = run_chain(problem, "gibbs", begin_chain(problem, "gibbs", seed=0), sweeps=20)
    >>> draws.labels.shape, int(checkpoint["sweep"])
    ((20, 4), 20)
    """
    rule = sampler_named(sampler)
    state_type: Any = rule.function("State")
    rng = generator_from_array(checkpoint["generator"])
    state = state_type(*(checkpoint[f"state_{name}"].copy() for name in state_type._fields))
    first = int(checkpoint["sweep"])
    # The first guide knows the hyperparameters of the start only, and a greedy tree may hide a cluster, but seldom
    # twice: so there is a second, at a sweep that is fixed in advance. More would cost more than they find, since a
    # guide takes as long as ten sweeps over wide rows and as hundreds over narrow ones.
    guided = hasattr(import_module(rule.module), "rebuild")
    rebuilds = {max(20, min(60, warmup // 2))} if guided else set()
    kept: list[Draws] = []
    began = clock()
    sweep, last, elapsed = first, first + sweeps, 0.0
    while sweep < last and (time_limit is None or elapsed <= time_limit):
        if sweep in rebuilds:
            state = _with_new_guide(problem, rule.function("rebuild"), state, rng, sweep < warmup)
        most = min(stop for stop in (*rebuilds, last) if stop > sweep) - sweep
        block, before = _next_sweeps(rule, problem, state, most, rng), elapsed
        state, elapsed, made = block.state, clock() - began, block.labels.shape[0]
        wanted = [each for each in range(made) if sweep + each >= warmup and (sweep + each - warmup) % thin == 0]
        if wanted:
            labels = block.labels[wanted]
            log_joint = np.array([block.log_joint(each) for each in wanted])
            seconds = before + (elapsed - before) * (np.array(wanted) + 1.0) / made
            highest = labels.max(axis=1)
            labels = labels.astype(np.min_scalar_type(highest.max()))
            kept.append(Draws(labels, block.prior[wanted], log_joint, highest + 1, seconds))
        sweep += made
    m, p = problem.m, state.prior.shape[0]
    none = Draws(np.empty((0, m), np.uint8), np.empty((0, p)), np.empty(0), np.empty(0, np.int64), np.empty(0))
    draws = Draws(*(np.concatenate(values) for values in zip(*kept))) if kept else none
    return draws, _checkpoint(state, rng, sweep)


def _next_sweeps(rule: Sampler, problem: Problem, state: Any, most: int, rng: np.random.Generator) -> Block:
    if rule.block is not None:
        return rule.function(rule.block)(problem, state, most, rng)
    state = rule.function(rule.step)(problem, state, rng)
    return Block(state, state.labels[None], state.prior[None], lambda sweep: float(state.log_joint))
