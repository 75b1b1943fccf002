"""One permutation from beginning to end: build a tree, search, then sample around what was found.

A walk is plain arrays, a Generator and a count of what is done, so it can stop after any step, be written down
(`arrays_of_walk`) and go on elsewhere (`walk_from_arrays`): the result is the same to the last bit however it was cut
into pieces. Walks know nothing of each other and may run anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dtree.diffusion import mcmc, probit_mcmc
from dtree.diffusion.belief import Leaves
from dtree.diffusion.first_tree import bhc_tree
from dtree.diffusion.objective import Hyper
from dtree.diffusion.pool import Pool
from dtree.diffusion.search import BestTrees, SearchState, best_columns, build, search_step, settle, start_from
from dtree.diffusion.settings import SWEEPS, Settings
from dtree.diffusion.tree import Columns


class Plan(NamedTuple):
    """How long a walk is: search steps, then sweeps of the sampler, the last `draws` of which are kept."""

    search_steps: int
    sweeps: int
    draws: int
    n_trees: int = 10
    attachments: int = 3
    beam: int = 12
    init: str = "sequential"

    @property
    def length(self) -> int:
        """Steps and sweeps together."""
        return self.search_steps + self.sweeps


class Bits(NamedTuple):
    """What the sampler must know of binary rows: signs (n, d), 0 where missing, and where all paths start."""

    signs: np.ndarray
    start: float


class Walk(NamedTuple):
    """Where a walk stands: steps and sweeps done, the search, the sampler's tree, the draws so far, the Generator.

    Of binary rows also the sampler's latent values (n, d), its numbers (sigma2, c, start), and the latent values of the
    draws (draws, n, d); empty otherwise.
    """

    done: int
    state: SearchState
    chain: Columns | None
    draws: Columns
    log_joint: np.ndarray
    rng: np.random.Generator
    latent: np.ndarray
    numbers: np.ndarray
    drawn_latent: np.ndarray

    @property
    def log_score(self) -> float:
        """The best score of the search so far."""
        return float(self.state.best.score.max())


def plan_of(settings: Settings, n_leaves: int) -> Plan:
    """What the settings ask of each walk over n_leaves leaves.

    >>> plan_of(Settings(), 50).search_steps
    150
    """
    keep = (settings.n_trees, settings.attachments, settings.beam, settings.init)
    if settings.inference == "mcmc":
        return Plan(0, settings.mcmc_warmup + settings.mcmc_draws, settings.mcmc_draws, *keep)
    steps = 100 + n_leaves if settings.search_steps is None else int(settings.search_steps)
    sweeps = settings.posterior_sweeps
    if sweeps is None:
        sweeps = SWEEPS if settings.inference == "laplace" else 0
    if settings.likelihood == "probit":
        sweeps = 0  # its sampler is slow: it is used when asked for
    return Plan(steps, sweeps, sweeps - sweeps // 2, *keep)


def start_walk(leaves: Leaves, hyper: Hyper, seed: int, plan: Plan, bits: Bits | None = None) -> Walk:
    """Build a tree in a random order of the leaves, or start from that of BHC."""
    rng = np.random.default_rng(seed)
    if plan.init == "bhc":
        state = start_from(bhc_tree(leaves), leaves, hyper, keep=plan.n_trees)
    else:
        state = build(leaves, hyper, rng, keep=plan.n_trees, attachments=plan.attachments, beam=plan.beam)
    m = state.pool.parent.shape[0]
    k = plan.draws
    nothing = Columns(np.full((k, m), -1), np.full((k, m, 2), -1), np.full((k, m), np.nan))
    shape = (0, 0) if bits is None else bits.signs.shape
    return Walk(
        0, state, None, nothing, np.full(k, np.nan), rng, np.zeros(shape), np.zeros(3), np.full((k, *shape), np.nan)
    )


def advance(walk: Walk, leaves: Leaves, hyper: Hyper, plan: Plan, units: int, bits: Bits | None = None) -> Walk:
    """At most `units` more steps or sweeps. Changes the arrays of `walk` in place and returns its new standing."""
    state, rng, done = walk.state, walk.rng, walk.done
    end = min(done + units, plan.length)
    while done < min(end, plan.search_steps):
        search_step(state, rng, attachments=plan.attachments, beam=plan.beam)
        done += 1
        if done == plan.search_steps:
            settle(state)
    if done == end:
        return walk._replace(done=done)
    start = best_columns([state], 1)[0][1] if walk.chain is None else walk.chain
    if bits is not None:
        return _sample_bits(walk._replace(done=done), start, leaves, hyper, plan, end - done, bits)
    chain = mcmc.init(start, leaves, hyper)
    while done < end:
        chain = mcmc.step(chain, rng)
        done += 1
        k = done - plan.length + plan.draws - 1
        if k >= 0:
            drawn = mcmc.tree_of(chain)
            walk.draws.parent[k], walk.draws.child[k], walk.draws.rest[k] = drawn
            walk.log_joint[k] = mcmc.log_joint(drawn, leaves, hyper)
    pool = chain.pool
    return walk._replace(done=done, chain=Columns(pool.parent.copy(), pool.child.copy(), pool.rest.copy()))


def _sample_bits(walk: Walk, start: Columns, sites: Leaves, hyper: Hyper, plan: Plan, sweeps: int, bits: Bits) -> Walk:
    """More sweeps of the sampler of binary rows from the tree `start`; sigma2 and the start of paths stay as learned."""
    known = {} if walk.chain is None else {"numbers": walk.numbers, "latent": walk.latent}
    chain = probit_mcmc.init(start, bits.signs, hyper, bits.start, walk.rng, **known)
    n = bits.signs.shape[0]
    done = walk.done
    for _ in range(sweeps):
        probit_mcmc.step(chain, walk.rng)
        done += 1
        k = done - plan.length + plan.draws - 1
        if k >= 0:
            drawn = probit_mcmc.tree_of(chain)
            walk.draws.parent[k], walk.draws.child[k], walk.draws.rest[k] = drawn
            walk.drawn_latent[k] = chain.pool.mean[:n]
            walk.log_joint[k] = probit_mcmc.log_joint(drawn, bits.signs, hyper, bits.start, sites)
    pool = chain.pool
    now = Columns(pool.parent.copy(), pool.child.copy(), pool.rest.copy())
    return walk._replace(done=done, chain=now, latent=pool.mean[:n].copy(), numbers=chain.numbers)


def finish_walk(leaves: Leaves, hyper: Hyper, seed: int, plan: Plan, bits: Bits | None = None) -> Walk:
    """A whole walk in one go.

    >>> from dtree.diffusion.belief import leaves_from_data
    >>> leaves = leaves_from_data(np.array([[-2.0], [2.0], [-2.1], [2.1]]))
    >>> walk = finish_walk(leaves, Hyper(), 0, Plan(5, 2, 1))
    >>> walk.done, walk.draws.rest.shape
    (7, (1, 7))
    """
    return advance(start_walk(leaves, hyper, seed, plan, bits), leaves, hyper, plan, plan.length, bits)


def drawn_trees(walk: Walk) -> list[Columns]:
    """The trees that the sampler kept."""
    return [Columns(*columns) for columns in zip(*walk.draws, strict=True)]


def arrays_of_walk(walk: Walk) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A walk as named arrays and JSON."""
    arrays = {f"pool.{name}": values for name, values in walk.state.pool._asdict().items()}
    arrays |= {f"best.{name}": values for name, values in walk.state.best._asdict().items()}
    arrays |= {f"draws.{name}": values for name, values in walk.draws._asdict().items()}
    arrays |= {name: getattr(walk, name) for name in ("log_joint", "latent", "numbers", "drawn_latent")}
    if walk.chain is not None:
        arrays |= {f"chain.{name}": values for name, values in walk.chain._asdict().items()}
    return arrays, {"done": walk.done, "generator": json.dumps(walk.rng.bit_generator.state)}


def walk_from_arrays(arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> Walk:
    """The walk that `arrays_of_walk` was given."""

    def part(name: str, fields: tuple[str, ...]) -> list[np.ndarray]:
        return [np.array(arrays[f"{name}.{field}"]) for field in fields]

    rng = np.random.default_rng()
    rng.bit_generator.state = json.loads(attributes["generator"])
    chain = Columns(*part("chain", Columns._fields)) if "chain.rest" in arrays else None
    state = SearchState(Pool(*part("pool", Pool._fields)), BestTrees(*part("best", BestTrees._fields)))
    draws = Columns(*part("draws", Columns._fields))
    others = {name: np.array(arrays[name]) for name in ("log_joint", "latent", "numbers", "drawn_latent")}
    return Walk(int(attributes["done"]), state, chain, draws, rng=rng, **others)
