"""Single values of a table under a fitted mixture: what is missing, what is surprising, and which columns matter.

For clusters k with weights,

    E[x_j | x_obs] = sum_k p(k | x_obs) E[x_j | x_obs, cluster k],      surprisal of x_j = -log p(x_j | x_rest),

with p(k | x_obs) proportional to the weight times the density of what a row holds. Where columns are independent within
a cluster, E[x_j | x_obs, k] is the cluster's own; in a full Gaussian the other values of the row have a say. On a bent
scale the middle of the cluster stands for its mean. A block of weight w counts w times when clusters are weighed, but a
value's own density is never raised to a power.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from dtree.core.families import Bent, Categorical, Family, Gaussian, Mixed, PerColumn
from dtree.core.families.mixed import Block, with_holes

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


def blocks_of(mixture: Mixture) -> list[tuple[Block, Any]]:
    """The blocks of columns of a mixture with their parts of its clusters (k, ...); a sentence where there are none.

    Blocks are independent within a cluster. Those of a full Gaussian have one part, their statistics.
    """
    family, statistics = mixture.family, mixture.statistics
    if isinstance(family, PerColumn):
        family, statistics = with_holes(family, statistics)
    if isinstance(family, Mixed):
        return list(family.block_parts(statistics))
    if isinstance(family, Gaussian | Bent):
        return [(Block(family, np.arange(family.n_features)), (statistics,))]
    raise ValueError(
        f"the {family.name} family says nothing of single values: fit with family='mixed' or another family of columns"
    )


def impute(mixture: Mixture, X: np.ndarray) -> Imputed:
    """Fill in what the rows of X (n, d) lack.

    >>> from dtree.core.families import DiagonalGaussian
    >>> family = DiagonalGaussian([0.0, 0.0], 0.01, 2.0, [1.0, 1.0])
    >>> clusters = np.stack([family.statistics(np.full((20, 2), centre)).sum(axis=0) for centre in (0.0, 9.0)])
    >>> impute(Mixture(family, clusters, np.log([0.5, 0.5])), np.array([[9.0, np.nan]])).values.round(1).tolist()
    [[9.0, 9.0]]
    """
    held = blocks_of(mixture)
    values, probability = np.array(X, dtype=np.float64), np.full(X.shape, np.nan)
    of_clusters = [_expected(block.family, parts) for block, parts in held if isinstance(block.family, PerColumn)]
    for rows, told in _told(held, mixture.log_weights, values):
        share = np.exp(told.log_joint - logsumexp(told.log_joint, axis=1, keepdims=True))
        part, holes, independent = values[rows], np.isnan(values[rows]), iter(of_clusters)
        for block, _ in held:
            if not isinstance(block.family, PerColumn):
                means = np.einsum("ik,ikj->ij", share, told.expected[:, :, block.columns])
                part[:, block.columns] = np.where(holes[:, block.columns], means, part[:, block.columns])
                continue
            for j, each in zip(block.columns, next(independent), strict=True):
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
    held = blocks_of(mixture)
    X = np.asarray(X, dtype=np.float64)
    out = np.empty(X.shape)
    for rows, told in _told(held, mixture.log_weights, X):
        for block, _ in held:
            for j in block.columns:
                rest = told.log_joint - block.weight * told.own[:, :, j]
                out[rows, j] = logsumexp(rest, axis=1) - logsumexp(rest + told.own[:, :, j], axis=1)
    return np.where(np.isnan(X), np.nan, out)


class _Told(NamedTuple):
    """What clusters say of some rows."""

    log_joint: np.ndarray  # (b, k) log weight of the cluster times the density of what the row holds
    own: np.ndarray  # (b, k, d) log density of a value given the others of its row
    expected: np.ndarray  # (b, k, d) of values given the others, for columns that depend on each other; else 0


def _told(held: list[Any], log_weights: np.ndarray, X: np.ndarray) -> Iterator[tuple[slice, _Told]]:
    """Some rows at a time: which, and what the clusters of these blocks say of them."""
    k, d = log_weights.shape[0], X.shape[1]
    step = max(1, _CELLS_PER_BLOCK // max(1, k * d))
    for start in range(0, X.shape[0], step):
        rows = slice(start, min(start + step, X.shape[0]))
        size = rows.stop - start
        told = _Told(np.tile(log_weights, (size, 1)), np.empty((size, k, d)), np.zeros((size, k, d)))
        for (family, columns, weight), parts in held:
            values = X[rows][:, columns]
            for c in range(k):
                one = tuple(part[c : c + 1] for part in parts)
                if isinstance(family, PerColumn):
                    own = family.log_cells(values, one)
                    told.log_joint[:, c] += weight * own.sum(axis=1)
                else:
                    log_density, own, told.expected[:, c, columns] = family.cells(values, *one)
                    told.log_joint[:, c] += weight * log_density
                told.own[:, c, columns] = own
        yield rows, told


def column_influence(family: Family, clusters: np.ndarray, rows: float) -> np.ndarray:
    """Nats per row (d,) that each column contributes to telling clusters (k, s) of so many rows apart.

    sum over clusters of log p(column j of its rows) less log p(column j of all rows as one cluster), over the rows: how
    much better the clusters explain a column than one cluster would. Below 0: the column is the same in all clusters.
    """
    out = np.empty(family.n_features)
    for block, parts in blocks_of(Mixture(family, clusters, np.zeros(clusters.shape[0]))):
        together = tuple(part.sum(axis=0, keepdims=True) for part in parts)
        if isinstance(block.family, PerColumn):
            apart, whole = block.family.log_columns(parts).sum(axis=0), block.family.log_columns(together)[0]
        else:  # each column alone: as if the others were not there
            alone = [block.family.narrowed(np.array([j])) for j in range(block.columns.shape[0])]
            apart = np.array([one.soft_log_marginal_of(parts[0][:, at]).sum() for one, at in alone])
            whole = np.array([one.soft_log_marginal_of(together[0][:, at])[0] for one, at in alone])
        out[block.columns] = (apart - whole) / rows
    return out
