"""The reference sampler with the probit likelihood: trees, latent values and hyperparameters, without approximation.

A tree that must keep its latent values hardly moves, because they have settled around it. Leaves and small subtrees are
therefore moved together with theirs: many places are drawn from the prior, at each of them the latent values are drawn
leaf by leaf given the rest of the tree, and one candidate (the present state is among them) is taken in proportion to
target over proposal. For a single leaf that ratio is the probability of its bits at the place.
"""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import Leaves, cavity_into, meet, sweep_up
from dtree.diffusion.latents import (
    SIGMA2,
    START,
    C,
    ProbitState,
    draw_latents,
    forget_below,
    latents_below,
    visit_below,
)
from dtree.diffusion.mcmc import log_joint as log_joint_gaussian
from dtree.diffusion.mcmc import log_place_density, move_subtree, propose_place, slice_all_times
from dtree.diffusion.objective import C_SUM, Hyper
from dtree.diffusion.pool import ROOT, Pool, pool_at, refresh
from dtree.diffusion.probit import FIRST_SIGMA2, expectation_propagation
from dtree.diffusion.regraft import attach, detach
from dtree.diffusion.tree import Columns, children_first, depth_first, rest_above

FIRST_C = 1.0  # where a free c starts: the mean of its default prior
CANDIDATES = 20  # places of a leaf; subtrees get more a leaf, because their latent values must fit as well
LARGEST = 8  # leaves of a subtree that moves with its latent values
SETTLING = 20  # rounds of latent values before the first sweep


@kernel
def _log_prior_over_path(pool: Pool, b: int, to: int, rest: float, c: float) -> float:
    """Log prior of the tree with the detached subtree `b` at a place, over the density of a path that leaves there; up
    to a constant of the subtree."""
    if pool.child[b, 0] < 0:
        return 0.0  # a leaf is a path
    above = rest_above(pool.parent, pool.rest, to)
    m = pool.size[b]
    c_sum = pool.table[pool.size[to] + m - 1] * math.log(rest / above) - pool.table[m - 1] * math.log(rest)
    c_sum -= pool.table[pool.size[to] - 1] * math.log(rest / above)
    i = pool.parent[to]
    while i >= 0:
        old = pool.size[i]
        c_sum += (pool.table[old + m - 1] - pool.table[old - 1]) * math.log(
            pool.rest[i] / rest_above(pool.parent, pool.rest, i)
        )
        i = pool.parent[i]
    return c * c_sum - math.log(rest) - log_place_density(pool, c, to, rest)


@kernel
def _hang(pool: Pool, b: int, j: int, to: int, rest: float) -> None:
    """Cavity message of the detached subtree `b`, with nothing seen of it, at a place whose messages are known."""
    pool.parent[b] = j
    pool.rest[j] = rest
    length, below = rest_above(pool.parent, pool.rest, to) - rest, rest - pool.rest[to]
    mean, var = pool.down_mean, pool.down_var
    meet(mean[to], var[to], length, pool.mean[to], pool.var[to], below, mean[b], var[b])
    forget_below(pool, b)


@kernel
def _move_with_latents(state: ProbitState, b: int, rng: np.random.Generator, candidates: int) -> bool:
    """Move the subtree `b` (not the root) with its latent values to one of several places; True if it moved.

    The pool's sums are not kept up: refresh it afterwards.
    """
    pool, c = state.pool, state.numbers[C]
    j = pool.parent[b]
    place = np.empty(candidates, np.int64)
    rest = np.empty(candidates)
    weight = np.empty(candidates)
    latent = np.empty((candidates, pool.size[b], state.signs.shape[1]))
    latents_below(pool, b, latent[0])
    rest[0] = pool.rest[j]
    place[0] = detach(pool, b)
    for i in depth_first(pool.child, pool.meta[ROOT]):
        if i >= 0:
            cavity_into(pool, i)
    pick = 0
    top = -np.inf
    total = 0.0
    for k in range(candidates):
        if k > 0:
            place[k], rest[k] = propose_place(pool, rng, c, pool.rest[b])
        _hang(pool, b, j, place[k], rest[k])
        weight[k] = _log_prior_over_path(pool, b, place[k], rest[k], c)
        weight[k] += visit_below(state, b, rng, latent[k], k > 0)
        top = max(top, weight[k])
    for k in range(candidates):
        share = math.exp(weight[k] - top)
        total += share
        if rng.random() * total < share:
            pick = k
    _hang(pool, b, j, place[pick], rest[pick])
    visit_below(state, b, rng, latent[pick], False)
    pool.parent[b] = -1
    attach(pool, b, j, place[pick], rest[pick])
    return pick > 0


@kernel
def _see(state: ProbitState, order: np.ndarray, z: np.ndarray, scale: float, sigma2: float, start: float) -> float:
    """Let the tree see scale * z (n, d); returns their log density with that of the scaling, up to a constant."""
    pool, signs = state.pool, state.signs
    observed = 0.0
    for i in range(signs.shape[0]):
        for k in range(signs.shape[1]):
            if signs[i, k] != 0.0:
                pool.mean[i, k] = scale * z[i, k] - start
                pool.var[i, k] = 1.0 / sigma2
                observed += 1.0
    log_det, quad = sweep_up(pool, order)
    return observed * math.log(scale) - 0.5 * (observed * math.log(sigma2) + log_det + quad / sigma2)


@kernel
def _log_target(state: ProbitState, order: np.ndarray, z: np.ndarray, x: float, together: bool) -> float:
    """Log density after log sigma2 has moved by x; together: by 2 x, and z (and a free start) by the factor exp(x)."""
    factor = math.exp(x)
    scale = factor if together else 1.0
    sigma2 = state.numbers[SIGMA2] * (factor * factor if together else factor)
    start = state.numbers[START] * (scale if state.free[START] else 1.0)
    value = _see(state, order, z, scale, sigma2, start)
    value -= state.priors[0] * math.log(sigma2) + state.priors[1] / sigma2
    if state.free[START]:
        value += math.log(scale) - 0.5 * (math.log(sigma2) + start * start / sigma2)
    return value


@kernel
def _slice_sigma2(
    state: ProbitState, order: np.ndarray, z: np.ndarray, together: bool, rng: np.random.Generator
) -> None:
    """Slice sample sigma2, alone or together with the scale of z, within a window around it."""
    level = _log_target(state, order, z, 0.0, together)
    level += math.log(1.0 - rng.random())
    low = -rng.random()
    high = low + 1.0
    for _ in range(100):  # halved on average every time: by then the window is one point
        x = low + (high - low) * rng.random()
        if _log_target(state, order, z, x, together) >= level:
            factor = math.exp(x)
            state.numbers[SIGMA2] *= factor * factor if together else factor
            if together:
                z *= factor
                if state.free[START]:
                    state.numbers[START] *= factor
            return
        if x < 0.0:
            low = x
        else:
            high = x


@kernel
def _draw_numbers(state: ProbitState, rng: np.random.Generator) -> None:
    """sigma2, the start and c, those that are free; leaves the pool refreshed."""
    pool, numbers, free = state.pool, state.numbers, state.free
    n, d = state.signs.shape
    root = pool.meta[ROOT]
    order = children_first(pool.child, root)
    z = pool.mean[:n] + numbers[START]
    if free[SIGMA2]:
        _slice_sigma2(state, order, z, False, rng)
        _slice_sigma2(state, order, z, True, rng)
    if free[START]:
        _see(state, order, z, 1.0, numbers[SIGMA2], 0.0)
        precision = 1.0  # of start ~ N(0, sigma2), as if it had itself diffused for one unit of time
        shift = 0.0
        for k in range(d):
            v = pool.var[root, k] + 1.0 - pool.rest[root]
            if v < np.inf:
                precision += 1.0 / v
                shift += pool.mean[root, k] / v
        numbers[START] = shift / precision + math.sqrt(numbers[SIGMA2] / precision) * rng.standard_normal()
    _see(state, order, z, 1.0, numbers[SIGMA2], numbers[START])
    refresh(pool)
    if free[C]:
        numbers[C] = rng.gamma(state.priors[2] + n - 1.0, 1.0 / (state.priors[3] - pool.sums[C_SUM]))
    pool.hyper[1] = numbers[SIGMA2]
    pool.hyper[4] = numbers[C]


@kernel
def _sweep(state: ProbitState, rng: np.random.Generator) -> None:
    pool, counts = state.pool, state.counts
    n = state.signs.shape[0]
    for _ in range((n + 1) // 2):
        counts[0] += 1
        counts[1] += move_subtree(pool, rng)
    for _ in range(n):
        counts[2] += 1
        counts[3] += _move_with_latents(state, int(rng.integers(0, n)), rng, CANDIDATES)
    for _ in range(n):
        b = int(rng.integers(n, 2 * n - 1))
        if b != pool.meta[ROOT] and pool.size[b] <= LARGEST:
            counts[4] += 1
            counts[5] += _move_with_latents(state, b, rng, 2 + 3 * CANDIDATES // pool.size[b])
    refresh(pool)
    slice_all_times(pool, rng)
    draw_latents(state, rng)
    _draw_numbers(state, rng)


def init(
    tree: Columns,
    signs: np.ndarray,
    hyper: Hyper,
    start: float | None,
    rng: np.random.Generator,
    *,
    numbers: np.ndarray | None = None,
    latent: np.ndarray | None = None,
) -> ProbitState:
    """A chain that starts at `tree`; what `hyper` and `start` leave open (None) is sampled.

    numbers (sigma2, c, start) and latent (n, d), z - start, carry on a chain; without them it starts from bits alone.
    """
    if numbers is None:
        sigma2 = FIRST_SIGMA2 if hyper.sigma2 is None else hyper.sigma2
        c = FIRST_C if hyper.c is None else hyper.c
        numbers = np.array([sigma2, c, 0.0 if start is None else start])
    first = np.where(signs == 0.0, 0.0, signs - numbers[START]) if latent is None else latent
    var = np.where(signs == 0.0, np.inf, 1.0 / numbers[SIGMA2])
    leaves = Leaves(first, var, int(np.count_nonzero(signs)))
    pool = pool_at(tree, leaves, Hyper(float(numbers[SIGMA2]), float(numbers[C])))
    free = np.array([hyper.sigma2 is None, hyper.c is None, start is None])
    priors = np.array([*hyper.precision_prior, *hyper.c_prior], dtype=np.float64)
    state = ProbitState(pool, signs, numbers.copy(), priors, free, np.zeros(6, np.int64))
    for _ in range(SETTLING if latent is None else 0):
        draw_latents(state, rng)
    return state


def step(state: ProbitState, rng: np.random.Generator) -> ProbitState:
    """One sweep over structures, times, latent values and what is free. Changes `state` in place and returns it."""
    _sweep(state, rng)
    return state


def log_joint(tree: Columns, signs: np.ndarray, hyper: Hyper, start: float, sites: Leaves) -> float:
    """Log density (over rests) of bits, structure and times, latent values integrated by expectation propagation."""
    nothing = Leaves(np.zeros(signs.shape), np.full(signs.shape, np.inf), 0)
    assert hyper.sigma2 is not None  # learned before a walk begins
    ep = expectation_propagation(tree, signs, hyper.sigma2, start=start, sites=sites)
    return log_joint_gaussian(tree, nothing, hyper) + ep.log_evidence
