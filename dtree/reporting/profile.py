"""What the rows under a node have in common: average features, and which of them set it apart from other rows.

What a family says of its leaves is in `dtree.core.families.profile`; here leaves are compared. By kind of value:

| kind | set apart by |
| --- | --- |
| standard | difference of the means |
| share | mutual information between the feature and the side [HG05] |
| token | mutual information between the word and the side [HG05] |
| rate | likelihood ratio of two rates against one |
"""

import numpy as np

from dtree.core.families import Family
from dtree.core.families.profile import Profile


def profile_of(family: Family, atoms: np.ndarray, coarsening: float = 1.0) -> Profile | None:
    """The profile of leaves with statistics atoms (m, s), or None for a family that has nothing to say."""
    return family.profile(atoms if coarsening == 1.0 else atoms / coarsening)


def contrast(kind: str, sums: np.ndarray, exposure: np.ndarray, others: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How strongly each feature (k, d) sets one side apart from the other, signed by which side has more of it.

    >>> words = contrast("share", np.array([[9.0, 5.0]]), np.array([10.0]), np.array([[1.0, 5.0]]), np.array([10.0]))
    >>> words.round(2).tolist()
    [[0.37, 0.0]]
    """
    exposure, other = exposure[:, None], other[:, None]
    here, there = sums / np.maximum(exposure, 1e-300), others / np.maximum(other, 1e-300)
    if kind == "standard":
        return here - there
    if kind == "rate":
        pooled = (sums + others) / np.maximum(exposure + other, 1e-300)
        score = _x_log_ratio(sums, exposure * pooled) + _x_log_ratio(others, other * pooled)
    else:
        score = _mutual_information(sums, exposure, others, other)
    return np.where(here >= there, 1.0, -1.0) * score


def _mutual_information(a: np.ndarray, n: np.ndarray, b: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Mutual information in nats between having a feature and the side: a of n here have it, and b of m there."""
    total = np.maximum(n + m, 1e-300)  # texts may all be empty
    have = (a + b) / total
    out = np.zeros(np.broadcast_shapes(a.shape, n.shape))
    for part, size in ((a, n), (b, m)):
        out += _x_log_ratio(part / total, have * size / total)
        out += _x_log_ratio((size - part) / total, (1.0 - have) * size / total)
    return np.maximum(out, 0.0)


def _x_log_ratio(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x log(x / y), 0 where x is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((x > 0) & (y > 0), x * np.log(x / y), 0.0)


def most_distinct(scores: np.ndarray, keep: int, only_more: bool) -> np.ndarray:
    """Feature numbers (k, keep) with the largest contrast, largest first, -1 where there is none.

    `only_more` takes only what the first side has more of: which words a text lacks says little.
    """
    worth = scores if only_more else np.abs(scores)
    keep = min(keep, scores.shape[1])
    chosen = np.argpartition(-worth, keep - 1, axis=1)[:, :keep] if keep < scores.shape[1] else None
    if chosen is None:
        chosen = np.tile(np.arange(scores.shape[1]), (scores.shape[0], 1))
    values = np.take_along_axis(worth, chosen, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    chosen, values = np.take_along_axis(chosen, order, axis=1), np.take_along_axis(values, order, axis=1)
    return np.where(values > 1e-9, chosen, -1)
