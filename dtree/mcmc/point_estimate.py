"""One partition out of many draws: the draw with the smallest expected loss against all of them.

Binder's loss counts pairs of rows on which two partitions disagree; the variation of information compares them as
codes and is kinder to partitions with a few stray rows. Both follow from the contingency table of two partitions, so
no n x n matrix is ever made.
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.special import xlogy

from dtree.core.checks import named

LOSSES: dict[str, Callable[..., np.ndarray]] = {"vi": lambda counts: xlogy(counts, counts), "binder": np.square}
# Comparing all candidates with all draws costs their product; more of either hardly changes the choice.
_MOST_CANDIDATES = 200
_MOST_DRAWS = 400
_MOST_BLOCKS = 20_000  # a matrix of 3 GB
_MOST_PAIRS = 200_000_000  # listed with their rows and shares, another 3 GB


def best_partition(labels: np.ndarray, weight: np.ndarray | None = None, loss: str = "vi") -> np.ndarray:
    """The draw of labels (draws, n) with the smallest mean distance to all draws.

    Many draws are thinned evenly: at most _MOST_CANDIDATES are candidates, compared with at most _MOST_DRAWS.

    >>> best_partition(np.array([[0, 0, 1], [0, 0, 1], [0, 1, 1]])).tolist()
    [0, 0, 1]
    """
    value = named(LOSSES, loss, "loss")
    draws, times = np.unique(labels[evenly(labels.shape[0], _MOST_DRAWS)], axis=0, return_counts=True)
    candidates = np.unique(labels[evenly(labels.shape[0], _MOST_CANDIDATES)], axis=0)
    block, first = inseparable_blocks(np.vstack([draws, candidates]))
    weight = np.bincount(block, weights=weight).astype(np.float64)
    costs = _costs(candidates[:, first], draws[:, first], times, weight, value)
    return candidates[int(np.argmin(costs))].astype(np.int64)


def _costs(
    candidates: np.ndarray, draws: np.ndarray, times: np.ndarray, weight: np.ndarray, value: Callable[..., np.ndarray]
) -> list[float]:
    """What of the summed distances to draws (d, b), the k-th seen times[k] times, depends on the candidate (c, b).

    One sparse product gives the tables of a candidate against all draws: columns are the clusters of all draws.
    """
    widths = draws.max(axis=1) + 1
    of_draw = draws + (np.cumsum(widths) - widths)[:, None]
    blocks = np.arange(weight.shape[0])
    entries = np.tile(weight, draws.shape[0]), (np.tile(blocks, draws.shape[0]), of_draw.ravel())
    all_draws = sparse.csr_array(entries, shape=(blocks.shape[0], int(widths.sum())))
    times_of_column = np.repeat(times, widths).astype(np.float64)
    costs = []
    for labels in candidates:
        members = sparse.csr_array((np.ones(blocks.shape[0]), (labels, blocks)))
        tables = members @ all_draws
        alone = value(np.bincount(labels, weights=weight)).sum() * times.sum()
        costs.append(float(alone - 2.0 * times_of_column[tables.indices] @ value(tables.data)))
    return costs


def evenly(total: int, most: int) -> np.ndarray:
    """The numbers of at most so many of `total` draws, evenly chosen."""
    return np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(np.int64))


def coclustering(labels: np.ndarray) -> np.ndarray:
    """Share (n, n) of the draws (draws, n) in which two rows are in one cluster.

    >>> coclustering(np.array([[0, 0, 1], [0, 1, 1]])).tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    draws, n = labels.shape
    total = np.zeros((n, n))
    for row in labels:
        member = sparse.csr_array((np.ones(n), (np.arange(n), row)), shape=(n, int(row.max()) + 1))
        total += (member @ member.T).toarray()
    return total / draws


def inseparable_blocks(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that no draw parts: the block (n,) of each row, and one row of each block (b,).

    >>> block, first = inseparable_blocks(np.array([[0, 0, 1, 1], [0, 0, 1, 0]]))
    >>> block.tolist(), first.tolist()
    ([0, 0, 2, 1], [0, 3, 2])
    """
    _, first, block = np.unique(np.ascontiguousarray(labels.T), axis=0, return_index=True, return_inverse=True)
    return block.reshape(-1), first


def sparse_coclustering(labels: np.ndarray, least: float) -> sparse.csr_array:
    """The entries of `coclustering` that are at least so large, as a sparse matrix (n, n).

    Rows that no draw parts share a row of the matrix, so only the blocks of such rows are compared with each other.

    >>> sparse_coclustering(np.array([[0, 0, 1], [0, 1, 1]]), 0.5).toarray().tolist()
    [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
    """
    block, first = inseparable_blocks(labels)
    if first.shape[0] > _MOST_BLOCKS:
        raise ValueError(
            f"the draws part the rows into {first.shape[0]} blocks, too many to compare: "
            "pass the numbers of some rows, or thin the draws"
        )
    between = coclustering(labels[:, first])
    between[between < least] = 0.0
    size = np.bincount(block)
    pairs = float(size @ (between > 0.0) @ size)
    if pairs > _MOST_PAIRS:
        raise ValueError(
            f"{pairs:.3g} pairs are that often together, too many to list: ask for more, or for fewer rows"
        )
    member = sparse.csr_array((np.ones(block.shape[0]), (np.arange(block.shape[0]), block)))
    return (member @ sparse.csr_array(between) @ member.T).tocsr()
