"""One permutation from beginning to end: build a tree, search, then sample around what was found.

A walk is plain arrays and a count of what is done, so it can stop after any step, be written down together with its
Generator and go on elsewhere: the result is the same to the last bit however it was cut into pieces. Walks know nothing
of each other and may run anywhere.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.diffusion import mcmc, probit_mcmc
from dtree.diffusion.belief import Leaves
from dtree.diffusion.first_tree import bhc_tree
from dtree.diffusion.objective import Hyper
from dtree.diffusion.pool import columns_of
from dtree.diffusion.search import SearchState, best_columns, build, search_step, settle, start_from
from dtree.diffusion.tree import Columns, unlinked


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
    """Where a walk stands: steps and sweeps done, the search, the sampler's tree, the draws so far.

    Of binary rows also the sampler's latent values (n, d), its numbers (sigma2, c, start), and the latent values of the
    draws (draws, n, d); empty otherwise.
    """

    done: int
    state: SearchState
    chain: Columns | None
    draws: Columns
    log_joint: np.ndarray
    latent: np.ndarray
    numbers: np.ndarray
    drawn_latent: np.ndarray

    @property
    def log_score(self) -> float:
        """The best score of the search so far."""
        return float(self.state.best.score.max())


def start_walk(leaves: Leaves, hyper: Hyper, plan: Plan, rng: np.random.Generator, bits: Bits | None = None) -> Walk:
    """Build a tree in a random order of the leaves, or start from that of BHC."""
    if plan.init == "bhc":
        state = start_from(bhc_tree(leaves), leaves, hyper, keep=plan.n_trees)
    else:
        state = build(leaves, hyper, rng, keep=plan.n_trees, attachments=plan.attachments, beam=plan.beam)
    return Walk(0, state, None, *nothing_drawn(plan, state.pool.parent.shape[0], bits))


class Drawn(NamedTuple):
    """The last fields of a `Walk`: what the sampler fills."""

    draws: Columns
    log_joint: np.ndarray
    latent: np.ndarray
    numbers: np.ndarray
    drawn_latent: np.ndarray


def nothing_drawn(plan: Plan, nodes: int, bits: Bits | None) -> Drawn:
    """Room for the draws of a walk over trees with so many nodes."""
    k, shape = plan.draws, (0, 0) if bits is None else bits.signs.shape
    trees = unlinked(k, nodes)._replace(rest=np.full((k, nodes), np.nan))
    return Drawn(trees, np.full(k, np.nan), np.zeros(shape), np.zeros(3), np.full((k, *shape), np.nan))


def advance(
    walk: Walk, leaves: Leaves, hyper: Hyper, plan: Plan, units: int, rng: np.random.Generator, bits: Bits | None = None
) -> Walk:
    """At most `units` more steps or sweeps. Changes the arrays of `walk` in place and returns its new standing."""
    state, done = walk.state, walk.done
    end = min(done + units, plan.length)
    while done < min(end, plan.search_steps):
        search_step(state, rng, attachments=plan.attachments, beam=plan.beam)
        done += 1
        if done == plan.search_steps:
            settle(state)
    if done == end:
        return walk._replace(done=done)
    start = best_columns([state], 1)[0][1] if walk.chain is None else walk.chain
    sampler: Any = mcmc if bits is None else probit_mcmc
    if bits is None:
        chain = sampler.init(start, leaves, hyper)
    else:  # sigma2 and the start of paths stay as learned
        known = {} if walk.chain is None else {"numbers": walk.numbers, "latent": walk.latent}
        chain = sampler.init(start, bits.signs, hyper, bits.start, rng, **known)
    latent = chain.pool.mean[: walk.latent.shape[0]]
    while done < end:
        sampler.step(chain, rng)
        done += 1
        k = done - plan.length + plan.draws - 1
        if k < 0:
            continue
        drawn = mcmc.tree_of(chain.pool)
        walk.draws.parent[k], walk.draws.child[k], walk.draws.rest[k] = drawn
        if bits is None:
            walk.log_joint[k] = mcmc.log_joint(drawn, leaves, hyper)
        else:
            walk.drawn_latent[k] = latent
            walk.log_joint[k] = probit_mcmc.log_joint(drawn, bits.signs, hyper, bits.start, leaves)
    if bits is not None:
        walk = walk._replace(latent=latent.copy(), numbers=chain.numbers)
    return walk._replace(done=done, chain=columns_of(chain.pool))


def finish_walk(leaves: Leaves, hyper: Hyper, seed: int, plan: Plan, bits: Bits | None = None) -> Walk:
    """A whole walk in one go.

    >>> from dtree.diffusion.belief import leaves_from_data
    >>> leaves = leaves_from_data(np.array([[-2.0], [2.0], [-2.1], [2.1]]))
    >>> walk = finish_walk(leaves, Hyper(), 0, Plan(5, 2, 1))
    >>> walk.done, walk.draws.rest.shape
    (7, (1, 7))
    """
    rng = np.random.default_rng(seed)
    return advance(start_walk(leaves, hyper, plan, rng, bits), leaves, hyper, plan, plan.length, rng, bits)


def drawn_trees(walk: Walk) -> list[Columns]:
    """The trees that the sampler kept."""
    return [Columns(*columns) for columns in zip(*walk.draws, strict=True)]
