"""What sets clusters of a table apart, in words by kind: means, rates, shares of categories by name, share missing.

How much a column tells one cluster from the other rows is measured as everywhere: by how many nats the evidence of the
column is better when the cluster is parted from the rest, per row (`cells.column_influence` of two groups).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import DATES, Column, in_words, share
from dtree.core.families import Bent, Categorical, DiagonalGaussian, Gaussian, Mixed
from dtree.core.families.mixed import sums_of_columns, with_holes
from dtree.methods.cells import column_influence
from dtree.methods.facts import Facts

_MUCH_MISSING = 0.1  # a share of missing values that differs by less from that of the other rows is not worth a word


class ClusterWords(NamedTuple):
    """What sets clusters apart."""

    ranking: list[tuple[str, float]]  # columns and the nats per row they contribute, most first
    clusters: list[list[str]]  # (k,) for each cluster a few phrases, most telling first


def cluster_words(
    facts: Facts, columns: Sequence[Column], leaf_clusters: np.ndarray, most: int = 6
) -> ClusterWords | None:
    """The words about every cluster of a cut of the leaves (m,); columns (d',) are those in use.

    None for what is no table of several kinds.
    """
    table = _table_of(facts, columns)
    if table is None or facts.model is None:
        return None
    family, leaves = table
    k = int(leaf_clusters.max()) + 1
    statistics = np.zeros((k, leaves.shape[1]))
    np.add.at(statistics, leaf_clusters, leaves)
    rows = facts.model.counts(statistics)
    influence = column_influence(family, statistics, float(rows.sum()))
    order = np.argsort(-influence, kind="stable")
    ranking = [(columns[j].name, float(influence[j])) for j in order]
    total = statistics.sum(axis=0)
    clusters: list[list[str]] = []
    for c in range(k):
        if k == 1:
            clusters.append([])
            continue
        two = np.stack([statistics[c], total - statistics[c]])
        clusters.append(_most_telling(family, two, columns, most))
    return ClusterWords(ranking, clusters)


def words_between(facts: Facts, columns: Sequence[Column], here: Any, there: Any, most: int) -> list[str] | None:
    """What sets some leaves apart from others, in brackets; both are places of leaves. None as above."""
    table = _table_of(facts, columns)
    if table is None:
        return None
    family, statistics = table
    two = np.stack([statistics[leaves].sum(axis=0) for leaves in (here, there)])
    return _most_telling(family, two, columns, most)


def _table_of(facts: Facts, columns: Sequence[Column]) -> tuple[Mixed, np.ndarray] | None:
    """The family of a table whose columns are told apart and its leaves (m, s), None for anything else.

    Numbers with gaps may have Gaussian components, which are told column by column from their means and variances.
    """
    family = None if facts.model is None else facts.model.family
    if family is None or facts.statistics is None or len(columns) != family.n_features:
        return None
    if isinstance(family, Mixed):
        return None if family.complete_columns.size else (family, facts.statistics)
    if not any(column.missing for column in columns):
        return None
    if isinstance(family, DiagonalGaussian) and facts.present is None:
        return with_holes(family, facts.statistics)
    if not isinstance(family, DiagonalGaussian | Gaussian | Bent):
        return None
    return _column_by_column(family, facts.statistics, facts.present)


def _column_by_column(
    family: DiagonalGaussian | Gaussian | Bent, statistics: np.ndarray, present: np.ndarray | None
) -> tuple[Mixed, np.ndarray]:
    """Components (m, s) of a Gaussian family as independent columns with the same means and variances.

    present : (m, d) how many rows have a value; None for all.
    """
    found, rows = family.posterior_means(statistics), statistics[:, :1]
    means, share = found["means"], rows / rows.sum()
    of_full = "covariances" in found
    variances = np.diagonal(found["covariances"], axis1=1, axis2=2) if of_full else found["variances"]
    centre = (share * means).sum(axis=0)
    spread = np.sqrt((share * (variances + (means - centre) ** 2)).sum(axis=0))
    plain = DiagonalGaussian(centre, 0.1, 2.0, spread**2, origin=centre, unit=spread)
    z = (means - centre) / spread
    held = np.broadcast_to(rows, z.shape) if present is None else present
    parts = [held, held * z, held * (z**2 + variances / spread**2)]
    return Mixed([(plain, np.arange(z.shape[1]))]), np.hstack([rows, *parts])


def _most_telling(family: Mixed, two: np.ndarray, columns: Sequence[Column], most: int) -> list[str]:
    """Phrases about the columns in which two groups of rows (2, s) differ most."""
    apart, phrases = column_influence(family, two, 1.0), _phrases(family, two, columns)
    return [phrases[j] for j in np.argsort(-apart, kind="stable")[:most] if apart[j] > 0]


def _phrases(family: Mixed, two: np.ndarray, columns: Sequence[Column]) -> dict[int, str]:
    """For every column what a cluster holds and, in brackets, what all other rows hold; two (2, s)."""
    found = {}
    for block, parts in family.block_parts(two):
        categories = isinstance(block.family, Categorical)
        sums = None if categories else list(sums_of_columns(block.family, parts))
        for place, j in enumerate(block.columns):
            column, held = columns[j], parts[0][:, place] / block.weight
            if sums is None:
                first: Any = block.family.first
                levels = parts[1][:, first[place] : first[place + 1]] / block.weight
                words = _category(column, levels / np.maximum(held, 1e-300)[:, None])
            else:
                here, there = (sums[place][1] / block.weight) / np.maximum(held, 1e-300)
                words = _number(column, here, there)
            lacking = np.clip(1.0 - held / np.maximum(two[:, 0], 1e-300), 0.0, 1.0)
            if abs(lacking[0] - lacking[1]) > _MUCH_MISSING:
                words += f", {_percent(lacking[0])} missing ({_percent(lacking[1])})"
            found[int(j)] = words
    return found


def _category(column: Column, shares: np.ndarray) -> str:
    """The level of which a cluster has most in excess of the others; shares (2, levels)."""
    level = int(np.argmax(shares[0] - shares[1]))
    name = column.levels[level] if level < len(column.levels) else "another level"
    return f"{column.name} {name}: {_percent(shares[0, level])} ({_percent(shares[1, level])})"


def _number(column: Column, here: float, there: float) -> str:
    if column.kind == "binary":
        name = column.levels[1] if column.levels else "1"
        return f"{column.name} {name}: {_percent(here)} ({_percent(there)})"
    if column.reason.startswith(DATES):
        first, second = in_words(np.array([here, there]), column)
        return f"{column.name}: {first} ({second})"
    return f"{column.name}: {_figures(here, here, there)} ({_figures(there, here, there)})"


def _figures(value: float, *both: float) -> str:
    """A number to four digits of the larger of the two that stand together: what is small beside it is 0.

    >>> _figures(3.5e-11, 3.5e-11, 3.151), _figures(3.151, 3.5e-11, 3.151), _figures(23901.4, 23901.4, 568.4)
    ('0', '3.151', '23901')
    """
    largest = max(abs(one) for one in both)
    if not 1e-4 <= largest < 1e6:
        return f"{value:.4g}"
    decimals = max(0, 3 - int(np.floor(np.log10(largest))))
    shown = f"{value:.{decimals}f}"
    shown = shown.rstrip("0").rstrip(".") if decimals else shown
    return "0" if float(shown) == 0.0 else shown


def _percent(part: float) -> str:
    return share(float(part)) or "0%"
