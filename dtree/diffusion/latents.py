"""The latent values behind binary observations, drawn given a tree.

Each bit is the sign of `z = start + x + e` with x the location of the leaf and e ~ N(0, 1). Given all z the tree is an
ordinary Gaussian one whose leaves are observed with noise 1, so locations stay integrated out: the pool's messages of the
leaves are `mean = z - start` and `var = 1 / sigma2` (units of sigma2), infinite where the bit is missing.
"""

from __future__ import annotations

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.pool import ROOT, Pool, cavity_into, message_up, refresh, rest_above
from dtree.diffusion.probit import log_normal_cdf
from dtree.diffusion.truncated import draw_positive

# positions in `numbers`
SIGMA2, C, START = range(3)


@kernel
def visit_leaf(
    pool: Pool,
    leaf: int,
    signs: np.ndarray,
    numbers: np.ndarray,
    rng: np.random.Generator,
    latent: np.ndarray,
    draw: bool,
) -> float:
    """Let the tree see z of a leaf whose cavity message is known; returns the log probability of its bits before that.

    latent (d,): z - start, drawn now and written there, or read from there.
    """
    sigma2, start = numbers[SIGMA2], numbers[START]
    length = rest_above(pool, leaf) - pool.rest[leaf]
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
def visit_below(
    pool: Pool,
    top: int,
    signs: np.ndarray,
    numbers: np.ndarray,
    rng: np.random.Generator,
    latent: np.ndarray,
    draw: bool,
) -> float:
    """Visit the leaves under `top`, whose cavity message must be known, from left to right, each given those before it and
    all that the tree knows of those after it. latent (leaves under top, d). Returns the log probability of their bits.
    """
    if pool.child[top, 0] < 0:
        return visit_leaf(pool, top, signs, numbers, rng, latent[0], draw)
    stack = np.empty(pool.parent.shape[0], np.int64)
    visits = np.zeros(pool.parent.shape[0], np.int64)
    stack[0] = top
    depth = 1
    at = 0
    total = 0.0
    while depth > 0:
        i = stack[depth - 1]
        if visits[i] == 2:
            message_up(pool, i)
            depth -= 1
            continue
        k = pool.child[i, visits[i]]
        visits[i] += 1
        cavity_into(pool, k)
        if pool.child[k, 0] < 0:
            total += visit_leaf(pool, k, signs, numbers, rng, latent[at], draw)
            at += 1
        else:
            stack[depth] = k
            depth += 1
    return total


@kernel
def draw_latents(pool: Pool, signs: np.ndarray, numbers: np.ndarray, rng: np.random.Generator) -> None:
    """z of every leaf in turn, given those of all others; leaves the pool refreshed."""
    root = pool.meta[ROOT]
    cavity_into(pool, root)
    visit_below(pool, root, signs, numbers, rng, np.empty(signs.shape), True)
    refresh(pool)


@kernel
def latents_below(pool: Pool, top: int, out: np.ndarray) -> None:
    """z - start of the leaves under `top` in the order of the visits, into out (leaves under top, d)."""
    stack = np.empty(pool.parent.shape[0], np.int64)
    stack[0] = top
    depth = 1
    at = 0
    while depth > 0:
        depth -= 1
        i = stack[depth]
        if pool.child[i, 0] < 0:
            out[at] = pool.mean[i]
            at += 1
        else:
            stack[depth] = pool.child[i, 1]
            stack[depth + 1] = pool.child[i, 0]
            depth += 2


@kernel
def forget_below(pool: Pool, top: int) -> None:
    """Messages of a subtree that say nothing, as before its bits were seen."""
    stack = np.empty(pool.parent.shape[0], np.int64)
    stack[0] = top
    depth = 1
    while depth > 0:
        depth -= 1
        i = stack[depth]
        pool.mean[i] = 0.0
        pool.var[i] = np.inf
        if pool.child[i, 0] >= 0:
            stack[depth] = pool.child[i, 0]
            stack[depth + 1] = pool.child[i, 1]
            depth += 2
