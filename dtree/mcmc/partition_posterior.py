"""How far draws of partitions spread around one of them, which rows and clusters are unsure, and how two posteriors
differ.

Distances are the variation of information in nats ("vi"), or the share of pairs of rows on which two partitions
disagree ("binder"); rows may have weights.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import xlogy

from dtree.core.checks import named
from dtree.core.partition import canonical_labels
from dtree.mcmc.partition_kernels import agreement, pair_tables
from dtree.mcmc.point_estimate import LOSSES, best_partition, evenly

_MOST_COMPARED = 100  # draws of each of two posteriors: all pairs of them are compared


class Bound(NamedTuple):
    """A draw at the edge of a credible ball."""

    labels: np.ndarray  # (n,)
    n_clusters: int
    distance: float  # from the estimate


class CredibleBall(NamedTuple):
    """The partitions around an estimate that hold a share of the posterior (Wade & Ghahramani 2018), by draws.

    The bounds are draws in the ball: `horizontal` is as far from the estimate as any, `upper` has as few clusters as
    any and is the furthest of those, `lower` has as many as any and is the furthest of those.
    """

    estimate: np.ndarray  # (n,)
    level: float
    radius: float  # the smallest that holds a share of at least `level` of the draws
    held: float  # the share that it holds
    distances: np.ndarray  # (draws,) of each draw from the estimate
    horizontal: Bound
    upper: Bound
    lower: Bound


class Uncertainty(NamedTuple):
    """How sure the clusters of an estimate are, by draws."""

    row_loss: np.ndarray  # (n,) each row's part of the expected variation of information, which is their weighted mean
    row_overlap: np.ndarray  # (n,) mean overlap of its cluster with that of a draw: rows in both over rows in either
    cluster_overlap: np.ndarray  # (k,) the weighted mean of that over its rows
    cluster_found: np.ndarray  # (k,) mean overlap with the cluster of each draw that is most like it
    cluster_exact: np.ndarray  # (k,) share of the draws that have exactly this cluster


class Comparison(NamedTuple):
    """Two posteriors of partitions of the same rows."""

    between: float  # mean distance of a draw of one and a draw of the other
    within: tuple[float, float]  # mean distance of two draws of the same one
    excess: float  # 2 between - within - within: 0 when they are the same, up to the noise of finite draws
    estimates_apart: float  # distance of their point estimates
    row_shift: np.ndarray  # (n,) root mean square change of the probabilities to be together with the other rows


def distances_between(
    first: np.ndarray, second: np.ndarray, weight: np.ndarray | None = None, loss: str = "vi"
) -> np.ndarray:
    """Distances (a, c) of every two partitions first (a, n) and second (c, n).

    >>> distances_between(np.array([[0, 0, 1, 1]]), np.array([[1, 1, 0, 0], [0, 0, 0, 0]])).round(4).tolist()
    [[0.0, 0.6931]]
    """
    return _compared(first, second, _weight(weight, first.shape[1]), named(LOSSES, loss, "loss"))[0]


def _weight(weight: np.ndarray | None, n: int) -> np.ndarray:
    return np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)


def _compared(first: np.ndarray, second: np.ndarray, weight: np.ndarray, is_vi: bool) -> tuple[np.ndarray, np.ndarray]:
    """Distances (a, c), and by row (n,) the mean weight that its clusters in two draws share."""
    first, second = np.ascontiguousarray(first, dtype=np.int64), np.ascontiguousarray(second, dtype=np.int64)
    logs, squares, shared = pair_tables(first, second, weight)
    total = weight.sum()
    ours, theirs = (np.array([_sum_of_sizes(part, weight, is_vi) for part in parts]) for parts in (first, second))
    apart = ours[:, None] + theirs[None, :] - 2.0 * (logs if is_vi else squares)
    return np.maximum(apart / (total if is_vi else total**2), 0.0), shared / (first.shape[0] * second.shape[0])


def _sum_of_sizes(labels: np.ndarray, weight: np.ndarray, is_vi: bool) -> float:
    size = np.bincount(labels, weights=weight)
    return float(xlogy(size, size).sum() if is_vi else size @ size)


def credible_ball(
    labels: np.ndarray,
    estimate: np.ndarray,
    weight: np.ndarray | None = None,
    level: float = 0.95,
    loss: str = "vi",
) -> CredibleBall:
    """The credible ball of draws (draws, n) around an estimate (n,).

    >>> draws = np.array([[0, 0, 1, 1]] * 8 + [[0, 0, 0, 0], [0, 1, 2, 3]])
    >>> ball = credible_ball(draws, draws[0], level=0.9)
    >>> round(ball.radius, 4), ball.upper.labels.tolist(), ball.lower.n_clusters
    (0.6931, [0, 0, 0, 0], 4)
    """
    if not 0.0 < level <= 1.0:
        raise ValueError(f"level must be above 0 and at most 1, got {level}")
    distances = distances_between(labels, estimate[None], weight, loss)[:, 0]
    order = np.sort(distances)
    radius = float(order[int(np.ceil(level * order.shape[0] - 1e-9)) - 1])
    inside = np.flatnonzero(distances <= radius + 1e-12)
    clusters = np.array([np.unique(labels[draw]).shape[0] for draw in inside])

    def furthest(among: np.ndarray) -> Bound:
        place = int(np.argmax(np.where(among, distances[inside], -1.0)))
        draw = inside[place]
        return Bound(canonical_labels(labels[draw]), int(clusters[place]), float(distances[draw]))

    bounds = (clusters > 0, clusters == clusters.min(), clusters == clusters.max())
    held = inside.shape[0] / labels.shape[0]
    return CredibleBall(canonical_labels(estimate), level, radius, held, distances, *map(furthest, bounds))


def uncertainty(labels: np.ndarray, estimate: np.ndarray, weight: np.ndarray | None = None) -> Uncertainty:
    """How sure the rows and clusters of an estimate (n,) are, by draws (draws, n).

    >>> found = uncertainty(np.array([[0, 0, 1], [0, 1, 1]]), np.array([0, 0, 1]))
    >>> found.cluster_exact.tolist(), found.row_overlap.round(3).tolist()
    ([0.5, 0.5], [0.75, 0.667, 0.75])
    """
    weight = _weight(weight, estimate.shape[0])
    estimate = np.ascontiguousarray(estimate, dtype=np.int64)
    loss, overlap, found, exact = agreement(np.ascontiguousarray(labels, dtype=np.int64), estimate, weight)
    mean = np.bincount(estimate, weights=weight * overlap) / np.bincount(estimate, weights=weight)
    return Uncertainty(np.maximum(loss, 0.0), overlap, mean, found, exact)


def compare(first: np.ndarray, second: np.ndarray, weight: np.ndarray | None = None, loss: str = "vi") -> Comparison:
    """How two posteriors of partitions differ, by draws first (a, n) and second (c, n) of the same rows.

    At most _MOST_COMPARED draws of each, evenly chosen, are compared in pairs; a draw is not compared with itself.
    """
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"the posteriors are of {first.shape[1]} and {second.shape[1]} rows, not of the same ones")
    weight, is_vi = _weight(weight, first.shape[1]), named(LOSSES, loss, "loss")
    a, b = (draws[evenly(draws.shape[0], _MOST_COMPARED)] for draws in (first, second))
    between, across = _compared(a, b, weight, is_vi)
    within, alone = zip(*(_within(draws, weight, is_vi) for draws in (a, b)))
    excess = 2.0 * float(between.mean()) - sum(within)
    ours, theirs = (best_partition(draws, weight, loss)[None] for draws in (a, b))
    apart = float(_compared(ours, theirs, weight, is_vi)[0][0, 0])
    shift = np.sqrt(np.maximum(alone[0] + alone[1] - 2.0 * across, 0.0) / weight.sum())
    return Comparison(float(between.mean()), (within[0], within[1]), excess, apart, shift)


def _within(draws: np.ndarray, weight: np.ndarray, is_vi: bool) -> tuple[float, np.ndarray]:
    """Mean distance of two different draws, and by row the mean weight that its clusters in any two share."""
    distances, shared = _compared(draws, draws, weight, is_vi)
    pairs = max(1, draws.shape[0] * (draws.shape[0] - 1))
    return float(distances.sum() / pairs), shared
