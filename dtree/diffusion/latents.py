"""The latent values behind binary observations, drawn given a tree.

Each bit is the sign of `z = start + x + e` with x the location of the leaf and e ~ N(0, 1). Given all z the tree is an
ordinary Gaussian one whose leaves are observed with noise 1, so locations stay integrated out: the pool's messages of
the leaves are `mean = z - start` and `var = 1 / sigma2` (units of sigma2), infinite where the bit is missing.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.belief import cavity_into, message_up
from dtree.diffusion.pool import ROOT, Pool, refresh
from dtree.diffusion.probit import log_normal_cdf
from dtree.diffusion.tree import depth_first, rest_above
from dtree.diffusion.truncated import draw_positive

# positions in `numbers`
SIGMA2, C, START = range(3)


class ProbitState(NamedTuple):
    """The chain: a tree with its messages, signs (n, d), numbers (sigma2, c, start), the Gamma priors of 1 / sigma2
    and c (4,), which numbers move (3,), and (proposed, accepted) moves: subtrees, leaves and subtrees with latent
    values."""

    pool: Pool
    signs: np.ndarray
    numbers: np.ndarray
    priors: np.ndarray
    free: np.ndarray
    counts: np.ndarray


@kernel
def visit_leaf(state: ProbitState, leaf: int, rng: np.random.Generator, latent: np.ndarray, draw: bool) -> float:
    """Let the tree see z of a leaf whose cavity message is known; returns the log probability of its bits before that.

    latent (d,): z - start, drawn now and written there, or read from there.
    """
    pool, signs = state.pool, state.signs
    sigma2, start = state.numbers[SIGMA2], state.numbers[START]
    length = rest_above(pool.parent, pool.rest, leaf) - pool.rest[leaf]
    total = 0.0
    for k in range(signs.shape[1]):
        b = signs[leaf, k]
        if b == 0.0:
            continue
        mean = start + pool.down_mean[leaf, k]
        deviation = math.sqrt(1.0 + sigma2 * (pool.down_var[leaf, k] + length))
        total += log_normal_cdf(b * mean / deviation)
        if draw:
            latent[k] = b * draw_positive(b * mean, deviation, rng) - start
        pool.mean[leaf, k] = latent[k]
        pool.var[leaf, k] = 1.0 / sigma2
    return total


@kernel
def visit_below(state: ProbitState, top: int, rng: np.random.Generator, latent: np.ndarray, draw: bool) -> float:
    """Visit the leaves under `top`, whose cavity message must be known, from left to right, each given those before it
    and all that the tree knows of those after it. latent (leaves under top, d). Returns the log probability of their
    bits.
    """
    pool = state.pool
    if pool.child[top, 0] < 0:
        return visit_leaf(state, top, rng, latent[0], draw)
    at = 0
    total = 0.0
    for i in depth_first(pool.child, top):
        if i < 0:
            message_up(pool, -1 - i)
            continue
        if i != top:
            cavity_into(pool, i)
        if pool.child[i, 0] < 0:
            total += visit_leaf(state, i, rng, latent[at], draw)
            at += 1
    return total


@kernel
def draw_latents(state: ProbitState, rng: np.random.Generator) -> None:
    """z of every leaf in turn, given those of all others; leaves the pool refreshed."""
    root = state.pool.meta[ROOT]
    cavity_into(state.pool, root)
    visit_below(state, root, rng, np.empty(state.signs.shape), True)
    refresh(state.pool)


@kernel
def latents_below(pool: Pool, top: int, out: np.ndarray) -> None:
    """z - start of the leaves under `top` in the order of the visits, into out (leaves under top, d)."""
    at = 0
    for i in depth_first(pool.child, top):
        if i >= 0 and pool.child[i, 0] < 0:
            out[at] = pool.mean[i]
            at += 1


@kernel
def forget_below(pool: Pool, top: int) -> None:
    """Messages of a subtree that say nothing, as before its bits were seen."""
    for i in depth_first(pool.child, top):
        if i >= 0:
            pool.mean[i] = 0.0
            pool.var[i] = np.inf
