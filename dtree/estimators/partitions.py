"""What draws of partitions say: one partition for them all, how far they spread, what is unsure, how two sets differ.

Each takes draws as labels (draws, n) or (chains, draws, n), of any sampler, or a fitted `DPMixtureMCMC`, whose leaves
(the rows, or the clusters of a reduction) then count with their weights.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dtree.core.partition import canonical_labels
from dtree.estimators.chains import DPMixtureMCMC
from dtree.mcmc import partition_posterior
from dtree.mcmc.partition_posterior import Comparison, CredibleBall, Uncertainty
from dtree.mcmc.point_estimate import best_partition


def point_estimate(draws: Any, loss: str = "vi", apart_cost: float = 1.0, weight: Any = None) -> np.ndarray:
    """The partition (n,) with the smallest expected loss, searched among all partitions, not only the draws.

    Parameters
    ----------
    draws : labels (draws, n) or (chains, draws, n), or a fitted `DPMixtureMCMC`.
    loss : "vi" (variation of information) or "binder" (pairs of rows).
    apart_cost : what it costs to part rows that belong together, between 0 and 2; joining rows that do not costs the
        rest to 2. At 1 the losses are the usual ones; above 1 there are fewer clusters (generalised VI and Binder).
    weight : (n,) whole numbers, rows behind each item; those of the model if there is one.

    >>> point_estimate([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1]]).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    return best_partition(*_read(draws, weight), loss, apart_cost)


def credible_ball(
    draws: Any, estimate: Any = None, level: float = 0.95, loss: str = "vi", weight: Any = None
) -> CredibleBall:
    """The smallest ball of partitions around an estimate (n,) that holds a share `level` of the draws, with its bounds.

    estimate : by default the `point_estimate` of the loss, or that of the model. See `CredibleBall` for what is in it.

    >>> ball = credible_ball([[0, 0, 1, 1]] * 18 + [[0, 0, 0, 0], [0, 1, 2, 2]])
    >>> ball.estimate.tolist(), ball.lower.n_clusters, round(ball.radius, 3)
    ([0, 0, 1, 1], 3, 0.347)
    """
    labels, counts = _read(draws, weight)
    return partition_posterior.credible_ball(
        labels, _estimate(draws, estimate, labels, counts, loss), counts, level, loss
    )


def partition_uncertainty(draws: Any, estimate: Any = None, weight: Any = None) -> Uncertainty:
    """How sure every row and every cluster of an estimate (n,) is, by the draws; see `Uncertainty`.

    >>> partition_uncertainty([[0, 0, 1], [0, 0, 1], [0, 1, 1]]).cluster_exact.round(2).tolist()
    [0.67, 0.67]
    """
    labels, counts = _read(draws, weight)
    return partition_posterior.uncertainty(labels, _estimate(draws, estimate, labels, counts, "vi"), counts)


def compare_posteriors(first: Any, second: Any, loss: str = "vi", weight: Any = None) -> Comparison:
    """How two posteriors of partitions of the same rows differ; see `Comparison`.

    >>> found = compare_posteriors([[0, 0, 1, 1]] * 5, [[0, 1, 1, 1]] * 5)
    >>> found.within, round(found.excess, 3), int(found.row_shift.argmax())
    ((0.0, 0.0), 1.648, 1)
    """
    one, counts = _read(first, weight)
    other, others = _read(second, weight)
    if counts is not None and others is not None and not np.array_equal(counts, others):
        raise ValueError("the two posteriors are of rows with different weights")
    return partition_posterior.compare(one, other, counts if counts is not None else others, loss)


def partition_distance(first: Any, second: Any, loss: str = "vi", weight: Any = None) -> float:
    """Variation of information of two partitions (n,) in nats, or the share of pairs on which they disagree.

    >>> partition_distance([0, 0, 1, 1], [0, 0, 1, 2], "binder")
    0.125
    """
    labels, counts = _read([canonical_labels(first), canonical_labels(second)], weight)
    return float(partition_posterior.distances_between(labels[:1], labels[1:], counts, loss)[0, 0])


def _read(draws: Any, weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Labels (draws, n), each draw numbered 0, 1, 2, ..., and weights (n,) if there are any."""
    if isinstance(draws, DPMixtureMCMC):
        check_is_fitted(draws)
        if weight is not None:
            raise ValueError("a fitted model knows the weights of its leaves: leave out weight")
        return draws._fitted.partitions, draws.model_.counts(draws.atoms_)
    labels = np.asarray(draws)
    if labels.ndim == 3:
        labels = labels.reshape(-1, labels.shape[2])
    if labels.ndim != 2 or 0 in labels.shape or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError("draws are whole numbers, not negative, of shape (draws, rows) or (chains, draws, rows)")
    labels = np.stack([canonical_labels(draw) for draw in labels])
    return labels, None if weight is None else _weights(weight, labels.shape[1])


def _weights(weight: Any, n: int) -> np.ndarray:
    weight = np.asarray(weight, dtype=np.float64)
    if weight.shape != (n,) or not np.all(weight > 0) or not np.array_equal(weight, np.rint(weight)):
        raise ValueError(f"weight must be {n} whole numbers above 0, one for each row")
    return weight


def _estimate(draws: Any, given: Any, labels: np.ndarray, weight: np.ndarray | None, loss: str) -> np.ndarray:
    if given is None:
        is_its_own = isinstance(draws, DPMixtureMCMC) and draws.loss == loss
        return draws._fitted.leaf_clusters if is_its_own else best_partition(labels, weight, loss)
    given = np.asarray(given)
    if given.shape != labels.shape[1:]:
        raise ValueError(f"the estimate must be a label for each of {labels.shape[1]} rows, got shape {given.shape}")
    return canonical_labels(given)
