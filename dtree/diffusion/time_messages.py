"""Gaussian belief propagation over the divergence times of a tree, and the moments of one branch's length.

Every internal node and every branch carries a Gaussian site in natural parameters; sweeping up and down gives the log
integral of all sites, the marginal of every time and the cavity of every branch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel


class TimeSites(NamedTuple):
    """Natural parameters (precision, shift) of the node sites (n-1, 2) and the branch sites (2n-1, 2)."""

    node: np.ndarray
    branch: np.ndarray


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
def gaussian_times(
    order: np.ndarray,
    parent: np.ndarray,
    child: np.ndarray,
    root: int,
    node: np.ndarray,
    branch: np.ndarray,
    up: np.ndarray,
    down: np.ndarray,
) -> tuple[float, bool]:
    """Belief propagation on the tree of times; up[i] from the subtree of i, down[i] at the parent of i from the rest.

    Returns the log integral of all sites and whether every message was proper.
    """
    n = (parent.shape[0] + 1) // 2
    total = 0.0
    for i in order:
        up[i, 0] = node[i - n, 0]
        up[i, 1] = node[i - n, 1]
        for side in range(2):
            k = child[i, side]
            if k < n:  # the far end is at time 1
                up[i, 0] += branch[k, 0]
                up[i, 1] += branch[k, 0] - branch[k, 1]
                total += branch[k, 1] - 0.5 * branch[k, 0]
            else:
                if not up[k, 0] + branch[k, 0] > 0.0:
                    return 0.0, False
                precision, shift, constant = across_branch(up[k, 0], up[k, 1], branch[k, 0], branch[k, 1])
                up[i, 0] += precision
                up[i, 1] += shift
                total += constant
    precision = up[root, 0] + branch[root, 0]
    if not precision > 0.0:
        return 0.0, False
    shift = up[root, 1] + branch[root, 1]
    total += 0.5 * math.log(2 * math.pi / precision) + 0.5 * shift * shift / precision
    for step in range(order.shape[0] - 1, -1, -1):
        i = order[step]
        # what node i knows from above, itself included, without either child
        if parent[i] < 0:
            above_precision = branch[i, 0]
            above_shift = branch[i, 1]
        else:
            if not down[i, 0] + branch[i, 0] > 0.0:
                return 0.0, False
            above_precision, above_shift, _ = across_branch(down[i, 0], down[i, 1], branch[i, 0], -branch[i, 1])
        for side in range(2):
            k = child[i, side]
            other = child[i, 1 - side]
            down[k, 0] = above_precision + node[i - n, 0]
            down[k, 1] = above_shift + node[i - n, 1]
            if other < n:
                down[k, 0] += branch[other, 0]
                down[k, 1] += branch[other, 0] - branch[other, 1]
            else:
                precision, shift, _ = across_branch(up[other, 0], up[other, 1], branch[other, 0], branch[other, 1])
                down[k, 0] += precision
                down[k, 1] += shift
    return total, True


@kernel
def marginals(
    order: np.ndarray, parent: np.ndarray, branch: np.ndarray, up: np.ndarray, down: np.ndarray, out: np.ndarray
) -> None:
    """Mean and variance (n-1, 2) of every internal time under q."""
    n = (parent.shape[0] + 1) // 2
    for i in order:
        if parent[i] < 0:
            precision = up[i, 0] + branch[i, 0]
            shift = up[i, 1] + branch[i, 1]
        else:
            above, pull, _ = across_branch(down[i, 0], down[i, 1], branch[i, 0], -branch[i, 1])
            precision = up[i, 0] + above
            shift = up[i, 1] + pull
        out[i - n, 0] = shift / precision
        out[i - n, 1] = 1.0 / precision


@kernel
def branch_cavity(i: int, parent: np.ndarray, up: np.ndarray, down: np.ndarray) -> tuple[float, float]:
    """Natural parameters (precision, shift) of the length of the branch above i without its own site.

    The precision may be negative: lengths are bounded, so such a cavity is as good as any other.
    """
    n = (parent.shape[0] + 1) // 2
    if parent[i] < 0:
        return up[i, 0], up[i, 1]
    if i < n:  # the far end is at time 1
        return down[i, 0], down[i, 0] - down[i, 1]
    total = up[i, 0] + down[i, 0]
    if total == 0.0:
        return 0.0, 0.0
    return up[i, 0] * down[i, 0] / total, (up[i, 1] * down[i, 0] - down[i, 1] * up[i, 0]) / total


@kernel
def branch_moments(
    cavity_precision: float,
    cavity_shift: float,
    at: float,
    others: np.ndarray,
    gaps: np.ndarray,
    g: int,
    precision: float,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> tuple[float, float, float]:
    """log integral, mean and variance over 0 < length < 1 of exp(-cavity_precision/2 length^2 + cavity_shift length)
    times the branch factor relative to its value at length `at`.

    others (q,) = v_a + v_b and gaps (q,) = squared gap of each block, in units of sigma2.
    """
    low = 0.0
    high = 1.0
    if cavity_precision > 0.0:
        mean = cavity_shift / cavity_precision
        reach = 9.0 / math.sqrt(cavity_precision)
        if mean + reach > 0.0 and mean - reach < 1.0:
            low = max(0.0, mean - reach)
            high = min(1.0, mean + reach)
    # quadrature in a cubic map that crowds nodes near length zero, where the factor is steep
    top = -np.inf
    logs = np.empty(nodes.shape[0])
    lengths = np.empty(nodes.shape[0])
    for k in range(nodes.shape[0]):
        u = 0.5 * (nodes[k] + 1.0)
        length = low + (high - low) * u * u * (3.0 - 2.0 * u)
        value = math.log(0.5 * weights[k] * (high - low) * 6.0 * u * (1.0 - u))
        value += length * (cavity_shift - 0.5 * cavity_precision * length)
        for j in range(others.shape[0]):
            if others[j] < np.inf:
                s = others[j] + length
                s0 = others[j] + at
                value -= 0.5 * (g * math.log(s / s0) + precision * gaps[j] * (1.0 / s - 1.0 / s0))
        logs[k] = value
        lengths[k] = length
        top = max(top, value)
    z = 0.0
    first = 0.0
    for k in range(nodes.shape[0]):
        z += math.exp(logs[k] - top)
        first += math.exp(logs[k] - top) * lengths[k]
    first /= z
    second = 0.0
    for k in range(nodes.shape[0]):
        second += math.exp(logs[k] - top) * (lengths[k] - first) ** 2
    return top + math.log(z), first, second / z
