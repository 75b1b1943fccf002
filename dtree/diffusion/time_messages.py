"""Gaussian belief propagation over the divergence times of a tree, and the moments of one branch's length.

Every internal node and every branch carries a Gaussian site in natural parameters; sweeping up and down gives the log
integral of all sites, the marginal of every time and the cavity of every branch.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from dtree.core.jit import kernel
from dtree.diffusion.tree import Columns

NODES, WEIGHTS = leggauss(48)  # exact to rounding for the smooth integrands here


class TimeSites(NamedTuple):
    """Natural parameters (precision, shift) of the node sites (n-1, 2) and the branch sites (2n-1, 2)."""

    node: np.ndarray
    branch: np.ndarray


class TimeMessages(NamedTuple):
    """Messages over times: up[i] (2n-1, 2) from the subtree of i, down[i] (2n-1, 2) at the parent of i from the rest,
    both (precision, shift), and moments (n-1, 2), mean and variance of every internal time."""

    up: np.ndarray
    down: np.ndarray
    moments: np.ndarray


class BranchFactors(NamedTuple):
    """What the data say about the lengths of the branches (2n-1,): others (2n-1, q) = v_a + v_b and gaps (2n-1, q), the
    squared gap of each block of g dimensions, in units of sigma2; the present lengths; the mean of 1/sigma2."""

    others: np.ndarray
    gaps: np.ndarray
    lengths: np.ndarray
    g: int
    precision: float


@kernel
def across_branch(
    precision: float, shift: float, site_precision: float, site_shift: float
) -> tuple[float, float, float]:
    """Integrate the far end of a branch with site exp(-tau/2 delta^2 + nu delta), delta = t_far - t_near.

    The far end has the message (precision, shift); returns precision, shift and log constant in the near end.
    """
    total = precision + site_precision
    pull = shift + site_shift
    return (
        site_precision * precision / total,
        site_precision * pull / total - site_shift,
        0.5 * math.log(2 * math.pi / total) + 0.5 * pull * pull / total,
    )


@kernel
def from_below(k: int, up: np.ndarray, branch: np.ndarray) -> tuple[float, float, float]:
    """Precision, shift and log constant of what the subtree of node k says about the time of its parent."""
    if k < (up.shape[0] + 1) // 2:  # a leaf is at time 1
        return branch[k, 0], branch[k, 0] - branch[k, 1], branch[k, 1] - 0.5 * branch[k, 0]
    return across_branch(up[k, 0], up[k, 1], branch[k, 0], branch[k, 1])


@kernel
def from_above(i: int, parent: np.ndarray, down: np.ndarray, branch: np.ndarray) -> tuple[float, float]:
    """Precision and shift of what everything above node i says about its time; the origin is at time 0."""
    if parent[i] < 0:
        return branch[i, 0], branch[i, 1]
    precision, shift, _ = across_branch(down[i, 0], down[i, 1], branch[i, 0], -branch[i, 1])
    return precision, shift


@kernel
def gaussian_times(tree: Columns, order: np.ndarray, sites: TimeSites, messages: TimeMessages) -> tuple[float, bool]:
    """Belief propagation on the tree of times into `messages` (without the moments); `order` is children first.

    Returns the log integral of all sites and whether every message was proper.
    """
    parent, child = tree.parent, tree.child
    node, branch = sites.node, sites.branch
    up, down = messages.up, messages.down
    n = (parent.shape[0] + 1) // 2
    root = order[-1]
    total = 0.0
    for i in order:
        up[i] = node[i - n]
        for k in child[i]:
            if k >= n and not up[k, 0] + branch[k, 0] > 0.0:
                return 0.0, False
            precision, shift, constant = from_below(k, up, branch)
            up[i, 0] += precision
            up[i, 1] += shift
            total += constant
    precision = up[root, 0] + branch[root, 0]
    if not precision > 0.0:
        return 0.0, False
    shift = up[root, 1] + branch[root, 1]
    total += 0.5 * math.log(2 * math.pi / precision) + 0.5 * shift * shift / precision
    for i in order[::-1]:
        if parent[i] >= 0 and not down[i, 0] + branch[i, 0] > 0.0:
            return 0.0, False
        above_precision, above_shift = from_above(i, parent, down, branch)
        for side in range(2):
            k = child[i, side]
            precision, shift, _ = from_below(child[i, 1 - side], up, branch)
            down[k, 0] = above_precision + node[i - n, 0] + precision
            down[k, 1] = above_shift + node[i - n, 1] + shift
    return total, True


@kernel
def marginals(tree: Columns, branch: np.ndarray, messages: TimeMessages) -> None:
    """Mean and variance of every internal time under q, into the moments of `messages`."""
    up, down, out = messages.up, messages.down, messages.moments
    n = out.shape[0] + 1
    for i in range(n, 2 * n - 1):
        above, pull = from_above(i, tree.parent, down, branch)
        precision = up[i, 0] + above
        out[i - n, 0] = (up[i, 1] + pull) / precision
        out[i - n, 1] = 1.0 / precision


@kernel
def branch_cavity(i: int, tree: Columns, messages: TimeMessages) -> tuple[float, float]:
    """Natural parameters (precision, shift) of the length of the branch above i without its own site.

    The precision may be negative: lengths are bounded, so such a cavity is as good as any other.
    """
    up, down = messages.up, messages.down
    n = (tree.parent.shape[0] + 1) // 2
    if tree.parent[i] < 0:
        return up[i, 0], up[i, 1]
    if i < n:  # the far end is at time 1
        return down[i, 0], down[i, 0] - down[i, 1]
    total = up[i, 0] + down[i, 0]
    if total == 0.0:
        return 0.0, 0.0
    return up[i, 0] * down[i, 0] / total, (up[i, 1] * down[i, 0] - down[i, 1] * up[i, 0]) / total


@kernel
def branch_moments(
    i: int, cavity_precision: float, cavity_shift: float, factors: BranchFactors
) -> tuple[float, float, float]:
    """log integral, mean and variance over 0 < length < 1 of exp(-cavity_precision/2 length^2 + cavity_shift length)
    times the factor of the branch above node i relative to its value at the present length.
    """
    others, gaps, at = factors.others[i], factors.gaps[i], factors.lengths[i]
    g, precision = factors.g, factors.precision
    count = NODES.shape[0]
    low, high = 0.0, 1.0
    if cavity_precision > 0.0:
        mean = cavity_shift / cavity_precision
        reach = 9.0 / math.sqrt(cavity_precision)
        if mean + reach > 0.0 and mean - reach < 1.0:
            low = max(0.0, mean - reach)
            high = min(1.0, mean + reach)
    # quadrature in a cubic map that crowds nodes near length zero, where the factor is steep
    top = -np.inf
    logs = np.empty(count)
    lengths = np.empty(count)
    for k in range(count):
        u = 0.5 * (NODES[k] + 1.0)
        length = low + (high - low) * u * u * (3.0 - 2.0 * u)
        value = math.log(0.5 * WEIGHTS[k] * (high - low) * 6.0 * u * (1.0 - u))
        value += length * (cavity_shift - 0.5 * cavity_precision * length)
        for j in range(others.shape[0]):
            if others[j] < np.inf:
                s = others[j] + length
                s0 = others[j] + at
                value -= 0.5 * (g * math.log(s / s0) + precision * gaps[j] * (1.0 / s - 1.0 / s0))
        logs[k] = value
        lengths[k] = length
        top = max(top, value)
    z, first = 0.0, 0.0
    for k in range(count):
        z += math.exp(logs[k] - top)
        first += math.exp(logs[k] - top) * lengths[k]
    first /= z
    second = 0.0
    for k in range(count):
        second += math.exp(logs[k] - top) * (lengths[k] - first) ** 2
    return top + math.log(z), first, second / z


@kernel
def all_branches(tree: Columns, messages: TimeMessages, factors: BranchFactors) -> tuple[np.ndarray, np.ndarray]:
    """Cavity (2n-1, 2) of every branch, and log integral, mean and variance (2n-1, 3) of its length in that cavity."""
    size = tree.parent.shape[0]
    cavities, moments = np.empty((size, 2)), np.empty((size, 3))
    for i in range(size):
        cavities[i] = branch_cavity(i, tree, messages)
        moments[i] = branch_moments(i, cavities[i, 0], cavities[i, 1], factors)
    return cavities, moments
