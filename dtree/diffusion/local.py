"""One node of the tree and its three neighbours: everything a search step needs to know about a place.

When the messages from the parent's side and from the two children are held fixed, data and prior depend on the node's
time through three variances and three squared distances only, so trying another time costs O(1) (O(d) when every
dimension has its own variance), whatever the size of the tree.
"""

from __future__ import annotations

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.objective import varying_part

GOLDEN_RATIO = 0.6180339887498949
GRID = 7


@kernel
def squared_gaps(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Squared distances between two means, one per block of dimensions that share a variance."""
    q = out.shape[0]
    g = a.shape[0] // q
    for j in range(q):
        total = 0.0
        for k in range(j * g, (j + 1) * g):
            gap = a[k] - b[k]
            total += gap * gap
        out[j] = total


@kernel
def three_way(
    rest: float,
    above: float,
    rest_l: float,
    rest_r: float,
    var_up: np.ndarray,
    var_l: np.ndarray,
    var_r: np.ndarray,
    gaps: np.ndarray,
    g: int,
) -> tuple[float, float]:
    """log_det and quad of three messages that meet at a node; gaps (3, q) holds up-left, up-right, left-right."""
    log_det = 0.0
    quad = 0.0
    for j in range(var_up.shape[0]):
        v0 = var_up[j] + above - rest
        v1 = var_l[j] + rest - rest_l
        v2 = var_r[j] + rest - rest_r
        if v0 < np.inf and v1 < np.inf and v2 < np.inf:
            spread = v1 * v2 + v0 * v2 + v0 * v1
            log_det += g * math.log(spread)
            quad += (gaps[0, j] * v2 + gaps[1, j] * v1 + gaps[2, j] * v0) / spread
        elif v0 < np.inf and v1 < np.inf:
            log_det += g * math.log(v0 + v1)
            quad += gaps[0, j] / (v0 + v1)
        elif v0 < np.inf and v2 < np.inf:
            log_det += g * math.log(v0 + v2)
            quad += gaps[1, j] / (v0 + v2)
        elif v1 < np.inf and v2 < np.inf:
            log_det += g * math.log(v1 + v2)
            quad += gaps[2, j] / (v1 + v2)
    return log_det, quad


@kernel
def two_way(length: float, var_up: np.ndarray, var_down: np.ndarray, gap: np.ndarray, g: int) -> tuple[float, float]:
    """log_det and quad of two messages that meet across a branch."""
    log_det = 0.0
    quad = 0.0
    for j in range(var_up.shape[0]):
        v = var_up[j] + var_down[j] + length
        if v < np.inf:
            log_det += g * math.log(v)
            quad += gap[j] / v
    return log_det, quad


@kernel
def time_terms(
    rest: float, above: float, rest_l: float, rest_r: float, h: float, h_l: float, h_r: float
) -> tuple[float, float]:
    """What a node and its children add to C and W; a child with rest 0 is a leaf and adds nothing."""
    c_sum = h * math.log(rest / above)
    w_sum = math.log((above - rest) / above)
    if rest_l > 0.0:
        c_sum += h_l * math.log(rest_l / rest)
        w_sum += math.log((rest - rest_l) / rest)
    if rest_r > 0.0:
        c_sum += h_r * math.log(rest_r / rest)
        w_sum += math.log((rest - rest_r) / rest)
    return c_sum, w_sum


@kernel
def value_at(
    rest: float,
    place: np.ndarray,
    var_up: np.ndarray,
    var_l: np.ndarray,
    var_r: np.ndarray,
    gaps: np.ndarray,
    g: int,
    base: np.ndarray,
    hyper: np.ndarray,
) -> float:
    """The varying part of the joint log density with the node at `rest`.

    place = (above, rest_l, rest_r, H of node, H of left, H of right); base = the sums of the rest of the tree
    (log_det, quad, C, W) with n_observed and n_leaves at positions 4 and 5. Minus infinity outside the bounds.
    """
    if not (rest < place[0] and rest > place[1] and rest > place[2]):
        return -np.inf
    log_det, quad = three_way(rest, place[0], place[1], place[2], var_up, var_l, var_r, gaps, g)
    c_sum, w_sum = time_terms(rest, place[0], place[1], place[2], place[3], place[4], place[5])
    return varying_part(base[0] + log_det, base[1] + quad, base[4], base[2] + c_sum, base[3] + w_sum, base[5], hyper)


@kernel
def best_on_grid(
    steps: int,
    place: np.ndarray,
    var_up: np.ndarray,
    var_l: np.ndarray,
    var_r: np.ndarray,
    gaps: np.ndarray,
    g: int,
    base: np.ndarray,
    hyper: np.ndarray,
) -> tuple[float, float]:
    """The best of `steps` times between the bounds, equally spaced in logit from -5 to 5: (value, logit)."""
    low = max(place[1], place[2])
    width = place[0] - low
    best = -np.inf
    best_u = 0.0
    for k in range(steps):
        u = -5.0 + 10.0 * k / (steps - 1.0)
        value = value_at(low + width / (1.0 + math.exp(-u)), place, var_up, var_l, var_r, gaps, g, base, hyper)
        if value > best:
            best = value
            best_u = u
    return best, best_u


@kernel
def best_time(
    place: np.ndarray,
    var_up: np.ndarray,
    var_l: np.ndarray,
    var_r: np.ndarray,
    gaps: np.ndarray,
    g: int,
    base: np.ndarray,
    hyper: np.ndarray,
) -> tuple[float, float]:
    """The best time of the node between its parent and its children: (rest, value), by grid and golden section."""
    low = max(place[1], place[2])
    width = place[0] - low
    # one loop and one call, first over a grid in logit, then golden section around its best point: compiled code stays
    # small, which matters because every kernel of the search contains this function
    best = -np.inf
    middle = 0.0
    a = 0.0
    b = 0.0
    x1 = 0.0
    x2 = 0.0
    f1 = 0.0
    f2 = 0.0
    turn = 0
    while True:
        if turn < GRID:
            u = -5.0 + 10.0 * turn / (GRID - 1.0)
        elif turn == GRID:
            reach = 10.0 / (GRID - 1.0)
            a = middle - (reach if middle > -5.0 else 12.0)
            b = middle + (reach if middle < 5.0 else 12.0)
            x1 = b - GOLDEN_RATIO * (b - a)
            x2 = a + GOLDEN_RATIO * (b - a)
            u = x1
        elif turn == GRID + 1:
            u = x2
        elif b - a <= 0.01:
            break
        elif f1 > f2:
            b = x2
            x2 = x1
            f2 = f1
            x1 = b - GOLDEN_RATIO * (b - a)
            u = x1
        else:
            a = x1
            x1 = x2
            f1 = f2
            x2 = a + GOLDEN_RATIO * (b - a)
            u = x2
        value = value_at(low + width / (1.0 + math.exp(-u)), place, var_up, var_l, var_r, gaps, g, base, hyper)
        if turn < GRID:
            if value > best:
                best = value
                middle = u
        elif u == x1:
            f1 = value
        else:
            f2 = value
        turn += 1
    if f1 > f2:
        return low + width / (1.0 + math.exp(-x1)), f1
    return low + width / (1.0 + math.exp(-x2)), f2


@kernel
def curvature_term(
    rest: float,
    place: np.ndarray,
    var_up: np.ndarray,
    var_l: np.ndarray,
    var_r: np.ndarray,
    gaps: np.ndarray,
    g: int,
    base: np.ndarray,
    hyper: np.ndarray,
) -> float:
    """The node's own share of the Laplace term, 1/2 log 2pi - 1/2 log(-second derivative in logit w)."""
    low = max(place[1], place[2])
    step = 0.02 * min(rest - low, place[0] - rest)
    bend = 0.0
    for side in range(-1, 2):
        value = value_at(rest + side * step, place, var_up, var_l, var_r, gaps, g, base, hyper)
        bend += 2.0 * value if side == 0 else -value
    slope = rest * (place[0] - rest) / place[0]
    curvature = max(bend / (step * step) * slope * slope, 0.02)
    return 0.5 * math.log(2 * math.pi / curvature)
