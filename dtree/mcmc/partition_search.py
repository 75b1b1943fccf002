"""The partition with the smallest expected loss over draws, searched among all partitions.

Sweeps move one item after the other to where it costs least (sweetening), clusters are joined while that helps, and
whole clusters are dissolved and placed anew (Dahl, Johnson & Mueller 2022). The search starts from the best draws, from
items placed in random orders, from all items together and from each on its own; the best end is kept.
"""

import numpy as np

from dtree.core.partition import canonical_labels
from dtree.mcmc.partition_kernels import Draws, Loss, best_merge, expected_loss, place, table_of

_TABLE = 2_000_000  # values of g kept in a table: 32 MB with the steps
_CELLS = 60_000_000  # of all tables together, 0.5 GB; with more there are fewer clusters to choose from
_MOST_SWEEPS = 50  # a search ends after 3 to 10 sweeps; this is only an end
_OPERATIONS = 2e9  # of all starts but the first: seconds
_SWEEPS_A_START = 8  # about
_MOST_STARTS = 16


def make_draws(labels: np.ndarray, times: np.ndarray, weight: np.ndarray) -> Draws:
    """Distinct draws (draws, b) of items with weights (b,), the k-th drawn times[k] times, as the kernels read them."""
    width = labels.max(axis=1).astype(np.int64) + 1
    start = np.cumsum(width) - width
    rows = np.ascontiguousarray((labels + start[:, None]).T.astype(np.int32))
    of_row = np.repeat(np.arange(labels.shape[0]), width)
    return Draws(rows, times.astype(np.float64), np.rint(weight).astype(np.int64), of_row)


def make_loss(is_vi: bool, apart_cost: float, total: int) -> Loss:
    """The loss with tables of its values for counts up to `total`, where that is not too many."""
    x = np.arange(total + 2 if total < _TABLE else 0, dtype=np.float64)
    value = x * np.log(np.maximum(x, 1.0)) if is_vi else x * x
    return Loss(is_vi, 2.0 - apart_cost, value, np.diff(value))


class Search:
    """A search among partitions of the items of `draws`; `expected` is in units of the kernels' sum."""

    def __init__(self, draws: Draws, loss: Loss, rng: np.random.Generator) -> None:
        self.draws, self.loss, self.rng = draws, loss, rng
        self.rows, self.items = draws.of_row.shape[0], draws.row.shape[0]
        self.most = max(2, min(self.items, _CELLS // self.rows))  # clusters
        self.usual = int(np.bincount(draws.of_row).max())  # clusters of the draw that has most

    def expected(self, labels: np.ndarray) -> float:
        """What of the expected loss of a partition (b,) depends on it."""
        return expected_loss(self.draws, self.loss, *self._table(labels, int(labels.max()) + 1))

    def _table(self, labels: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        return table_of(self.draws, self.rows, k, labels)

    def best(self, candidates: np.ndarray) -> np.ndarray:
        """The best partition (b,) found from the best of the candidates (c, b) and from starts of its own."""
        known = np.array([self.expected(candidate) for candidate in candidates])
        best = candidates[int(np.argmin(known))].astype(np.int64)
        found, lowest = best, float(known.min())
        for start in self._starts(candidates[np.argsort(known, kind="stable")]):
            improved, value = self._improved(start)
            if value < lowest - 1e-12 * abs(lowest):
                found, lowest = improved, value
        return canonical_labels(found)

    def _starts(self, ordered: np.ndarray) -> list[np.ndarray]:
        """Where searches begin, the best draw first; as many as take seconds."""
        sweep = float(self.items) * self.draws.times.shape[0]  # times the number of clusters
        starts = min(_MOST_STARTS, 1 + int(_OPERATIONS / (_SWEEPS_A_START * sweep * (self.usual + 1))))
        nowhere = np.full(self.items, -1, dtype=np.int64)
        own = [nowhere, np.zeros_like(nowhere), *[nowhere] * _MOST_STARTS]
        if sweep * self.items < _OPERATIONS / _MOST_STARTS:
            own.insert(1, np.arange(self.items) % self.most)
        others = [start for pair in zip(ordered[1:].astype(np.int64), own) for start in pair]
        others += own[max(0, len(ordered) - 1) :]
        return [ordered[0].astype(np.int64), *others[: starts - 1]]

    def _improved(self, start: np.ndarray) -> tuple[np.ndarray, float]:
        labels = start.copy()
        value = now = np.inf
        for _ in range(_MOST_SWEEPS):
            labels = self._swept(labels)
            labels = self._merged(labels)
            labels = self._dissolved(labels)
            now = self.expected(labels)
            if now >= value - 1e-9 * abs(now):
                break
            value = now
        return labels, now

    def _swept(self, labels: np.ndarray) -> np.ndarray:
        """Sweeps over all items in random order until none moves."""
        for _ in range(_MOST_SWEEPS):
            labels, k = _numbered(labels)
            room = k + 2 if labels.min() >= 0 else self.usual + 1
            cells, size = self._table(labels, min(self.most, room))
            if not place(self.draws, self.loss, cells, size, labels, self.rng.permutation(self.items)):
                break
        return _numbered(labels)[0]

    def _merged(self, labels: np.ndarray) -> np.ndarray:
        """Clusters joined, the best pair first, while that lowers the loss."""
        while True:
            labels, k = _numbered(labels)
            if k < 2:
                return labels
            first, second, change = best_merge(self.draws, self.loss, *self._table(labels, k))
            if change >= 0.0:
                return labels
            labels[labels == second] = first

    def _dissolved(self, labels: np.ndarray) -> np.ndarray:
        """Each cluster in turn dissolved and its items placed anew; kept where that lowers the loss."""
        labels, k = _numbered(labels)
        value = self.expected(labels)
        for cluster in self.rng.permutation(k):
            members = self.rng.permutation(np.flatnonzero(labels == cluster))
            if members.shape[0] < 2:
                continue
            tried = labels.copy()
            tried[members] = -1
            cells, size = self._table(tried, min(self.most, k + 2))
            place(self.draws, self.loss, cells, size, tried, members)
            place(self.draws, self.loss, cells, size, tried, members)
            now = expected_loss(self.draws, self.loss, cells, size)
            if now < value - 1e-9 * abs(value):
                labels, value = tried, now
                k = int(labels.max()) + 1
        return labels


def _numbered(labels: np.ndarray) -> tuple[np.ndarray, int]:
    """Labels with no number left out, -1 (nowhere) kept, and how many clusters there are."""
    found, inverse = np.unique(labels, return_inverse=True)
    gap = int(found[0] < 0)
    return inverse.reshape(-1).astype(np.int64) - gap, found.shape[0] - gap
