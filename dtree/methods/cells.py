"""Single values of a table under a fitted mixture: what is missing, what is surprising, and which columns matter.

For clusters k with weights, over a family of independent columns,

    E[x_j | x_obs] = sum_k p(k | x_obs) E[x_j | cluster k],      surprisal of x_j = -log p(x_j | x_rest),

with p(k | x_obs) proportional to the weight times the density of what a row holds. A block of weight w counts w times
when clusters are weighed, but a value's own density is never raised to a power.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from dtree.core.families import Categorical, Family, Mixed, PerColumn
from dtree.core.families.mixed import with_holes

_CELLS_PER_BLOCK = 4_000_000  # rows x clusters x columns looked at together


class Mixture(NamedTuple):
    """Clusters (k, s) and their log weights (k,)."""

    family: Family
    statistics: np.ndarray
    log_weights: np.ndarray


def with_new_cluster(family: Family, statistics: np.ndarray, log_weights: np.ndarray, log_new: float) -> Mixture:
    """Clusters (k, s) with log weights (k,), and a new one with weight exp(log_new)."""
    everything = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    return Mixture(family, everything, np.append(log_weights, log_new))


class Imputed(NamedTuple):
    """Rows with their missing values filled in."""

    values: np.ndarray  # (n, d) means of numbers and counts, the most probable category
    probability: np.ndarray  # (n, d) of a category that was filled in; NaN elsewhere


def by_columns(mixture: Mixture) -> tuple[Mixed, np.ndarray]:
    """The family and clusters (k, s) of a mixture as those of a `Mixed`; one sentence if columns depend on another."""
    family, statistics = mixture.family, mixture.statistics
    if isinstance(family, PerColumn):
        return with_holes(family, statistics)
    if isinstance(family, Mixed) and not family.complete_columns.size:
        return family, statistics
    raise ValueError(
        f"the {family.name} family has columns that depend on each other within a cluster, so single values cannot be "
        "told apart: fit with family='mixed' or another family of independent columns"
    )


def impute(mixture: Mixture, X: np.ndarray) -> Imputed:
    """Fill in what the rows of X (n, d) lack.

    >>> from dtree.core.families import DiagonalGaussian
    >>> family = DiagonalGaussian([0.0, 0.0], 0.01, 2.0, [1.0, 1.0])
    >>> clusters = np.stack([family.statistics(np.full((20, 2), centre)).sum(axis=0) for centre in (0.0, 9.0)])
    >>> impute(Mixture(family, clusters, np.log([0.5, 0.5])), np.array([[9.0, np.nan]])).values.round(1).tolist()
    [[9.0, 9.0]]
    """
    family, statistics = by_columns(mixture)
    values, probability = np.array(X, dtype=np.float64), np.full(X.shape, np.nan)
    expected = [_expected(one.family, parts) for one, parts in family.block_parts(statistics)]
    for rows, log_cells, weights in _blocks(family, statistics, values):
        log_joint = (log_cells @ weights) + mixture.log_weights
        share = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
        part, holes = values[rows], np.isnan(values[rows])
        for block, of_clusters in zip(family.blocks, expected, strict=True):
            for j, each in zip(block.columns, of_clusters, strict=True):
                lacking = np.flatnonzero(holes[:, j])
                found = share[lacking] @ each  # (b, 1) means, or (b, levels) probabilities
                if not isinstance(block.family, Categorical):
                    part[lacking, j] = found[:, 0]
                elif lacking.size:
                    part[lacking, j] = found.argmax(axis=1)
                    probability[rows.start + lacking, j] = found.max(axis=1)
        values[rows] = part
    return Imputed(values, probability)


def _expected(family: PerColumn, parts: Any) -> list[np.ndarray]:
    """For each column what every cluster expects: means (k, 1), or probabilities of the levels (k, l)."""
    if isinstance(family, Categorical):
        return np.split(family.means_of_parts(parts)["level_probabilities"], family.first[1:-1], axis=1)
    return list(family.expected_values(parts).T[:, :, None])


def surprisal(mixture: Mixture, X: np.ndarray) -> np.ndarray:
    """-log p(x_j | x_rest) (n, d) of every value of the rows X (n, d); NaN where it is missing."""
    family, statistics = by_columns(mixture)
    X = np.asarray(X, dtype=np.float64)
    out = np.empty(X.shape)
    for rows, log_cells, weights in _blocks(family, statistics, X):
        log_joint = (log_cells @ weights) + mixture.log_weights
        for j in range(X.shape[1]):
            rest = log_joint - weights[j] * log_cells[:, :, j]
            out[rows, j] = logsumexp(rest, axis=1) - logsumexp(rest + log_cells[:, :, j], axis=1)
    return np.where(np.isnan(X), np.nan, out)


def _blocks(family: Mixed, statistics: np.ndarray, X: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Some rows at a time: which, log densities (b, k, d) of their values in the clusters, weights (d,) of columns."""
    weights = np.empty(X.shape[1])
    for block in family.blocks:
        weights[block.columns] = block.weight
    k = statistics.shape[0]
    step = max(1, _CELLS_PER_BLOCK // max(1, k * X.shape[1]))
    held = list(family.block_parts(statistics))
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        out = np.empty((rows.stop - start, k, X.shape[1]))
        for block, parts in held:
            for c in range(k):
                one = tuple(part[c : c + 1] for part in parts)
                out[:, c, block.columns] = block.family.log_cells(X[rows][:, block.columns], one)
        yield rows, out, weights


def column_influence(family: Family, clusters: np.ndarray, rows: float) -> np.ndarray:
    """Nats per row (d,) that each column contributes to telling clusters (k, s) of so many rows apart.

    sum over clusters of log p(column j of its rows) less log p(column j of all rows as one cluster), over the rows: how
    much better the clusters explain a column than one cluster would. Below 0: the column is the same in all clusters.
    """
    mixed, statistics = by_columns(Mixture(family, clusters, np.zeros(clusters.shape[0])))
    out = np.empty(mixed.n_features)
    whole = mixed.block_parts(statistics.sum(axis=0, keepdims=True))
    for (block, parts), (_, together) in zip(mixed.block_parts(statistics), whole, strict=True):
        apart = block.family.log_columns(parts).sum(axis=0)
        out[block.columns] = (apart - block.family.log_columns(together)[0]) / rows
    return out
