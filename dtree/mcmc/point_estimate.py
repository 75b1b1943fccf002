"""One partition for many draws, and how often rows are together.

Binder's loss counts pairs of rows on which two partitions disagree; the variation of information compares them as
codes and is kinder to partitions with a few stray rows. Both follow from the contingency table of two partitions, so
no n x n matrix is ever made.
"""

import numpy as np
from scipy import sparse

from dtree.core.checks import named
from dtree.core.partition import canonical_labels
from dtree.mcmc.partition_search import Search, make_draws, make_loss

LOSSES = {"vi": True, "binder": False}  # whether g(x) is x log x
# The search compares partitions with all of at most so many draws, evenly chosen: more hardly change the choice, and a
# sweep over 10,000 rows takes a second then. The loss of so many of them is computed to find where to start.
_MOST_DRAWS = 1000
_MOST_CANDIDATES = 100
_MOST_BLOCKS = 20_000  # a matrix of 3 GB
_MOST_PAIRS = 200_000_000  # listed with their rows and shares, another 3 GB


def best_partition(
    labels: np.ndarray, weight: np.ndarray | None = None, loss: str = "vi", apart_cost: float = 1.0
) -> np.ndarray:
    """The partition (n,) with the smallest expected loss over draws (draws, n), searched among all partitions.

    weight : (n,) rows behind each item. apart_cost : what it costs to part two rows that belong together, between 0
    and 2; joining two that do not costs the rest to 2. Above 1 there are fewer clusters. The search is random inside,
    and the same for the same draws.

    >>> best_partition(np.array([[0, 0, 1], [0, 0, 1], [0, 1, 1]])).tolist()
    [0, 0, 1]
    """
    is_vi = named(LOSSES, loss, "loss")
    if not 0.0 < apart_cost < 2.0:
        raise ValueError(f"apart_cost must lie between 0 and 2, got {apart_cost}")
    draws, times = np.unique(labels[evenly(labels.shape[0], _MOST_DRAWS)], axis=0, return_counts=True)
    block, first = inseparable_blocks(draws)
    weight = np.bincount(block, weights=weight).astype(np.float64)
    draws = draws[:, first]
    rng = np.random.default_rng(0)
    search = Search(make_draws(draws, times, weight), make_loss(is_vi, apart_cost, int(weight.sum())), rng)
    candidates = np.argsort(-times, kind="stable")[:_MOST_CANDIDATES]  # those drawn most often, or the first
    return canonical_labels(search.best(draws[candidates])[block])


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
