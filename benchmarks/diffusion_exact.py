"""What the evidence of a probit tree is without approximation, and which groups of leaves exact sampling finds
together.

The evidence of a structure is expectation propagation over locations and Laplace over times. Both are put right by
importance sampling: times are drawn around their maximum, and at some of them the probability of the bits is estimated
without bias by drawing the latent values leaf by leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion import prior, probit_mcmc
from dtree.diffusion.belief import Beliefs, Leaves, meet, sweep_up
from dtree.diffusion.laplace import times_around
from dtree.diffusion.mcmc import tree_of
from dtree.diffusion.objective import Hyper, log_joint_in_logit
from dtree.diffusion.probit import ProbitFit, expectation_propagation, log_normal_cdf
from dtree.diffusion.tree import Columns, children_first, structure_key
from dtree.diffusion.truncated import draw_positive


@kernel
def _log_estimates(
    order: np.ndarray,
    tree: Columns,
    root: int,
    bits: np.ndarray,
    site_mean: np.ndarray,
    site_var: np.ndarray,
    sigma2: float,
    start: float,
    rng: np.random.Generator,
    out: np.ndarray,
) -> None:
    """Unbiased estimates of the probability of one feature's bits (n,), as logs into out (draws,).

    Latent values are drawn leaf by leaf from left to right given those before and the Gaussian sites of those after,
    and weighted by their density under the tree over that of the draw.
    """
    n = bits.shape[0]
    mean, var = np.empty((2 * n - 1, 1)), np.empty((2 * n - 1, 1))
    down_mean, down_var = np.zeros((2 * n - 1, 1)), np.zeros((2 * n - 1, 1))
    first_mean, first_var = np.empty((2 * n - 1, 1)), np.empty((2 * n - 1, 1))
    first_mean[:n, 0], first_var[:n, 0] = site_mean, site_var
    sweep_up(Beliefs(tree.parent, tree.child, tree.rest, first_mean, first_var, down_mean, down_var), order)
    beliefs = Beliefs(tree.parent, tree.child, tree.rest, mean, var, down_mean, down_var)
    stack = np.empty(2 * n - 1, np.int64)
    visits = np.empty(2 * n - 1, np.int64)
    observed = np.count_nonzero(bits)
    for draw in range(out.shape[0]):
        mean[:], var[:] = first_mean, first_var
        log_q = 0.0
        stack[0], visits[root], depth = root, 0, 1
        while depth > 0:
            i = stack[depth - 1]
            l, r = tree.child[i, 0], tree.child[i, 1]
            if visits[i] == 2:
                to_l, to_r = tree.rest[i] - tree.rest[l], tree.rest[i] - tree.rest[r]
                meet(mean[l], var[l], to_l, mean[r], var[r], to_r, mean[i], var[i])
                depth -= 1
                continue
            k, other = (l, r) if visits[i] == 0 else (r, l)
            visits[i] += 1
            above = (tree.rest[tree.parent[i]] if tree.parent[i] >= 0 else 1.0) - tree.rest[i]
            beside = tree.rest[i] - tree.rest[other]
            meet(down_mean[i], down_var[i], above, mean[other], var[other], beside, down_mean[k], down_var[k])
            if k >= n:
                stack[depth], visits[k] = k, 0
                depth += 1
            elif bits[k] == 0.0:
                var[k, 0] = np.inf
            else:
                m = start + down_mean[k, 0]
                deviation = math.sqrt(1.0 + sigma2 * (down_var[k, 0] + tree.rest[i] - tree.rest[k]))
                z = bits[k] * draw_positive(bits[k] * m, deviation, rng)
                log_q -= (
                    0.5 * ((z - m) / deviation) ** 2 + math.log(deviation) + log_normal_cdf(bits[k] * m / deviation)
                )
                mean[k, 0], var[k, 0] = z - start, 1.0 / sigma2
        log_det, quad = sweep_up(beliefs, order)
        out[draw] = -0.5 * (observed * math.log(sigma2) + log_det + quad / sigma2) - log_q


def log_probability_of_bits(
    tree: Columns,
    signs: np.ndarray,
    sites: Leaves,
    sigma2: float,
    start: float,
    rng: np.random.Generator,
    draws: int = 500,
) -> tuple[float, float]:
    """log p(bits | structure, times) and its standard error; features are independent given the tree."""
    order = children_first(tree.child, tree.root)
    total, variance = 0.0, 0.0
    out = np.empty(draws)
    for k in range(signs.shape[1]):
        column = [np.ascontiguousarray(values[:, k]) for values in (signs, sites.mean, sites.var)]
        _log_estimates(order, tree, tree.root, *column, sigma2, start, rng, out)
        top = out.max()
        share = np.exp(out - top)
        total += float(top + math.log(share.mean()))
        variance += float(share.var() / share.mean() ** 2 / draws)
    return total, math.sqrt(variance)


class Corrected(NamedTuple):
    """Log evidence of one structure: as approximated, with times put right, with bits put right too, its standard
    error, and the effective number of draws of times."""

    approximate: float
    times_corrected: float
    corrected: float
    standard_error: float
    effective_draws: float


def corrected_evidence(
    fit: ProbitFit, signs: np.ndarray, hyper: Hyper, rng: np.random.Generator, *, times: int = 1024, checked: int = 16
) -> Corrected:
    """Importance sampling around the fit of one structure: `times` draws, the bits recomputed at `checked` of them."""
    tree = fit.evidence.tree
    known = hyper._replace(sigma2=fit.sigma2)
    work, points, log_q = times_around(tree, fit.sites, known, rng, dof=12.0, draws=times)
    times = len(points)
    nothing = Leaves(np.zeros(signs.shape), np.full(signs.shape, np.inf), 0)
    log_weight, moved, by_ep = np.empty(times), [], np.empty(times)
    for k, point in enumerate(points):
        work.density(point)
        at = Columns(tree.parent, tree.child, work.tree.rest.copy())
        ep = expectation_propagation(at, signs, fit.sigma2, start=fit.start, sites=fit.sites)
        by_ep[k] = ep.log_evidence
        log_weight[k] = ep.log_evidence + log_joint_in_logit(at, nothing, hyper) - log_q[k]
        moved.append((at, ep.leaves))
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    times_corrected = float(top + math.log(weight.mean()))
    error = weight.std() / weight.mean() / math.sqrt(times)
    # draws of times in proportion to their weight: how far expectation propagation is off there
    gaps = []
    for k in rng.choice(times, checked, p=weight / weight.sum()):
        exact, _ = log_probability_of_bits(moved[k][0], signs, moved[k][1], fit.sigma2, fit.start, rng)
        gaps.append(exact - by_ep[k])
    off = float(np.log(np.mean(np.exp(gaps))))
    return Corrected(
        fit.evidence.log_evidence,
        times_corrected,
        times_corrected + off,
        math.hypot(error, float(np.std(gaps, ddof=1)) / math.sqrt(checked)),
        float(weight.sum() ** 2 / (weight**2).sum()),
    )


def clade_probabilities(
    signs: np.ndarray,
    groups: Mapping[str, frozenset[int]],
    *,
    seeds: int = 4,
    warmup: int = 200,
    sweeps: int = 1000,
    tell: Callable[[str], None] = print,
) -> tuple[dict[str, list[float]], np.ndarray]:
    """Posterior probability that each group is a whole subtree, with its standard error, and the posterior mean of
    (sigma2, c, start); chains from trees of the prior, sigma2, c and the start sampled as well."""
    shares, numbers = [], []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 1])
        chain = probit_mcmc.init(prior.sample_tree(signs.shape[0], 1.0, rng), signs, Hyper(), None, rng)
        for k in range(warmup + sweeps):
            probit_mcmc.step(chain, rng)
            if k >= warmup:
                clades = structure_key(tree_of(chain.pool))
                shares.append([members in clades for members in groups.values()])
                numbers.append(chain.numbers.copy())
        share = dict(zip(groups, np.mean(shares[-sweeps:], axis=0).round(2).tolist(), strict=True))
        tell(f"chain {seed}: {share}")
    found = np.array(shares, dtype=float)
    blocks = found.reshape(seeds * 5, -1, len(groups)).mean(axis=1)  # five stretches of each chain
    error = blocks.std(axis=0, ddof=1) / math.sqrt(len(blocks))
    told = {
        kind: [round(float(a), 3), round(float(b), 3)]
        for kind, a, b in zip(groups, found.mean(axis=0), error, strict=True)
    }
    return told, np.mean(numbers, axis=0)
