"""One node of the tree and its three neighbours: everything a search step needs to know about a place.

When the messages from the parent's side and from the two children are held fixed, data and prior depend on the node's
time through three variances and three squared distances only, so trying another time costs O(1) (O(d) when every
dimension has its own variance), whatever the size of the tree. Kernels take a node as four arrays:

place (7,): rest of the parent, the left and the right child, harmonic numbers of the node, the left and the right
    child, and g, how many dimensions share a variance
meeting (6, q): variances of the messages from above, left and right; squared distances between the means of above and
    left, above and right, left and right
base (6,): log_det, quad, C and W of the rest of the tree, n_observed, n_leaves
hyper (6,): the hyperparameters
"""

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.diffusion.objective import varying_part

GOLDEN_RATIO = 0.6180339887498949
GRID = 7  # times tried before golden section: close enough together not to miss a maximum between two of them
LOGIT_END = 5.0  # the grid ends here; beyond, a branch is shorter than 1% of its room
BEYOND = 12.0  # how far past the end of the grid golden section looks when the best time is at its end
CLOSE_ENOUGH = 0.01  # in logit: far below the width of a time's posterior
G = 6  # position in `place`
SMALLEST_CURVATURE = 0.02  # a flatter maximum counts as this flat, or one node could decide the evidence


@kernel
def three_way(rest: float, place: np.ndarray, meeting: np.ndarray) -> tuple[float, float]:
    """log_det and quad of the three messages that meet at the node."""
    log_det = 0.0
    quad = 0.0
    g = place[G]
    for j in range(meeting.shape[1]):
        v0 = meeting[0, j] + place[0] - rest
        v1 = meeting[1, j] + rest - place[1]
        v2 = meeting[2, j] + rest - place[2]
        if v0 < np.inf and v1 < np.inf and v2 < np.inf:
            spread = v1 * v2 + v0 * v2 + v0 * v1
            log_det += g * math.log(spread)
            quad += (meeting[3, j] * v2 + meeting[4, j] * v1 + meeting[5, j] * v0) / spread
        elif v0 < np.inf and v1 < np.inf:
            log_det += g * math.log(v0 + v1)
            quad += meeting[3, j] / (v0 + v1)
        elif v0 < np.inf and v2 < np.inf:
            log_det += g * math.log(v0 + v2)
            quad += meeting[4, j] / (v0 + v2)
        elif v1 < np.inf and v2 < np.inf:
            log_det += g * math.log(v1 + v2)
            quad += meeting[5, j] / (v1 + v2)
    return log_det, quad


@kernel
def sums_without(side: int, place: np.ndarray, meeting: np.ndarray) -> tuple[float, float, float, float]:
    """What the whole branch from above to the left (`side` 0) or right (1) child adds to log_det, quad, C and W when
    the node and its other child are not there."""
    log_det, quad, c_sum, w_sum = 0.0, 0.0, 0.0, 0.0
    above, rest = place[0], place[1 + side]
    length = above - rest
    for j in range(meeting.shape[1]):
        v = meeting[0, j] + meeting[1 + side, j] + length
        if v < np.inf:
            log_det += place[G] * math.log(v)
            quad += meeting[3 + side, j] / v
    if rest > 0.0:
        c_sum = place[4 + side] * math.log(rest / above)
        w_sum = math.log(length / above)
    return log_det, quad, c_sum, w_sum


@kernel
def time_terms(rest: float, place: np.ndarray) -> tuple[float, float]:
    """What a node and its children add to C and W; a child with rest 0 is a leaf and adds nothing."""
    above = place[0]
    c_sum = place[3] * math.log(rest / above)
    w_sum = math.log((above - rest) / above)
    for side in range(2):
        below = place[1 + side]
        if below > 0.0:
            c_sum += place[4 + side] * math.log(below / rest)
            w_sum += math.log((rest - below) / rest)
    return c_sum, w_sum


@kernel
def sums_at(rest: float, place: np.ndarray, meeting: np.ndarray) -> tuple[float, float, float, float]:
    """What the node adds to log_det, quad, C and W when it stands at `rest`."""
    log_det, quad = three_way(rest, place, meeting)
    c_sum, w_sum = time_terms(rest, place)
    return log_det, quad, c_sum, w_sum


@kernel
def value_at(rest: float, place: np.ndarray, meeting: np.ndarray, base: np.ndarray, hyper: np.ndarray) -> float:
    """The varying part of the joint log density with the node at `rest`; minus infinity outside the bounds."""
    if not (rest < place[0] and rest > place[1] and rest > place[2]):
        return -np.inf
    log_det, quad, c_sum, w_sum = sums_at(rest, place, meeting)
    sums = (base[0] + log_det, base[1] + quad, base[2] + c_sum, base[3] + w_sum, base[4], base[5])
    return varying_part(sums, hyper)


@kernel
def rest_at(u: float, place: np.ndarray) -> float:
    """The rest whose logit between the bounds of the node is u."""
    low = max(place[1], place[2])
    return low + (place[0] - low) / (1.0 + math.exp(-u))


@kernel
def best_on_grid(
    steps: int, place: np.ndarray, meeting: np.ndarray, base: np.ndarray, hyper: np.ndarray
) -> tuple[float, float]:
    """The best of `steps` times between the bounds, equally spaced in logit: (value, logit)."""
    best = -np.inf
    best_u = 0.0
    for k in range(steps):
        u = -LOGIT_END + 2.0 * LOGIT_END * k / (steps - 1.0)
        value = value_at(rest_at(u, place), place, meeting, base, hyper)
        if value > best:
            best = value
            best_u = u
    return best, best_u


@kernel
def best_time(place: np.ndarray, meeting: np.ndarray, base: np.ndarray, hyper: np.ndarray) -> tuple[float, float]:
    """The best time of the node between its parent and its children: (rest, value), by grid and golden section."""
    # one loop with one call, first over the grid, then by golden section around its best point: the value is computed
    # in place of a call, and compiled code stays small, which matters because every kernel of the search contains it
    reach = 2.0 * LOGIT_END / (GRID - 1.0)
    best, middle = -np.inf, 0.0
    a, b, x1, x2, f1, f2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    turn = 0
    while True:
        if turn < GRID:
            u = -LOGIT_END + 2.0 * LOGIT_END * turn / (GRID - 1.0)
        elif turn == GRID:
            a = middle - (reach if middle > -LOGIT_END else BEYOND)
            b = middle + (reach if middle < LOGIT_END else BEYOND)
            x1 = b - GOLDEN_RATIO * (b - a)
            x2 = a + GOLDEN_RATIO * (b - a)
            u = x1
        elif turn == GRID + 1:
            u = x2
        elif b - a <= CLOSE_ENOUGH:
            break
        elif f1 > f2:
            b, x2, f2 = x2, x1, f1
            x1 = b - GOLDEN_RATIO * (b - a)
            u = x1
        else:
            a, x1, f1 = x1, x2, f2
            x2 = a + GOLDEN_RATIO * (b - a)
            u = x2
        value = value_at(rest_at(u, place), place, meeting, base, hyper)
        if turn < GRID:
            if value > best:
                best, middle = value, u
        elif u == x1:
            f1 = value
        else:
            f2 = value
        turn += 1
    return (rest_at(x1, place), f1) if f1 > f2 else (rest_at(x2, place), f2)


@kernel
def curvature_term(rest: float, place: np.ndarray, meeting: np.ndarray, base: np.ndarray, hyper: np.ndarray) -> float:
    """The node's own share of the Laplace term, 1/2 log 2pi - 1/2 log(-second derivative in logit w)."""
    above = place[0]
    step = 0.02 * min(rest - max(place[1], place[2]), above - rest)
    bend = 0.0
    for side in range(-1, 2):
        value = value_at(rest + side * step, place, meeting, base, hyper)
        bend += 2.0 * value if side == 0 else -value
    slope = rest * (above - rest) / above
    curvature = max(bend / (step * step) * slope * slope, SMALLEST_CURVATURE)
    return 0.5 * math.log(2 * math.pi / curvature)
