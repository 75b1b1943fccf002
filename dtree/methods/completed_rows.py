"""Rows with gaps as they might be without: one draw of what they lack, from the mixture that was fitted to them.

How far two components overlap is asked of complete rows. A row that lacks half of its values is in doubt for want of
them, and rows in doubt would join components that lie well apart. So a component is drawn for such a row by its
probabilities, and the missing values from that component: completed rows are draws from what the mixture says of the
table without gaps, and components that overlap there still do.

The draws come from a hash of what a row holds, in standard units: they depend neither on the order of the rows nor on
chunks, workers or the units of a column.
"""

from typing import Any

import numpy as np

from dtree.core.families import Bernoulli, Categorical, DiagonalGaussian, Mixed, Poisson
from dtree.variational.mixture import Mixture

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the steps of the splitmix64 generator, whose finaliser `_mixed_up` is


def completed(mixture: Mixture, held: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The rows X (n, d) of a mixture of a `Mixed` family with their gaps filled by draws; `held` (k,) may be drawn."""
    family, statistics = mixture.family, mixture.statistics[held]
    assert isinstance(family, Mixed)
    X = np.array(X, dtype=np.float64)
    lacking = np.flatnonzero(np.isnan(X).any(axis=1))
    rows, chance = X[lacking], _chances(family, X[lacking])
    shares = np.cumsum(mixture.responsibilities(rows, held), axis=1)
    drawn = np.minimum((shares <= chance[:, -1:] * shares[:, -1:]).sum(axis=1), held.shape[0] - 1)
    for block, parts in family.block_parts(statistics):
        if not block.family.takes_holes:  # such a block is complete
            continue
        for component in np.unique(drawn):
            mine = np.flatnonzero(drawn == component)
            place = np.ix_(mine, block.columns)
            values = _quantiles(block.family, tuple(part[component : component + 1] for part in parts), chance[place])
            rows[place] = np.where(np.isnan(rows[place]), values, rows[place])
    X[lacking] = rows
    return X


def _quantiles(family: Any, parts: Any, chance: np.ndarray) -> np.ndarray:
    """The values (n, d) below which one cluster expects such shares (n, d) of new ones."""
    from scipy.stats import nbinom  # takes a second to load, and most tables are complete
    from scipy.stats import t as student

    if isinstance(family, DiagonalGaussian):
        count, mean, shape, rate = family.posterior_of_parts(parts)
        strength = family.strength + count
        spread = np.sqrt(rate * (strength + 1.0) / (strength * shape))
        return family.origin + family.unit * (mean + spread * student.ppf(chance, 2.0 * shape))
    if isinstance(family, Poisson):
        count, total = parts[0], parts[1]
        rate = family.rate + count
        return nbinom.ppf(chance, family.shape + total, rate / (rate + 1.0))
    if isinstance(family, Bernoulli):
        return (chance >= 1.0 - family.expected_values(parts)).astype(np.float64)
    assert isinstance(family, Categorical)
    levels = np.split(family.means_of_parts(parts)["level_probabilities"][0], family.first[1:-1])
    ends = [np.cumsum(one)[:-1] for one in levels]  # what lies beyond the last is the last level
    found = [np.searchsorted(end, chance[:, j], side="right") for j, end in enumerate(ends)]
    return np.stack(found, axis=1).astype(np.float64)


def _chances(family: Mixed, X: np.ndarray) -> np.ndarray:
    """Numbers (n, d + 1) spread evenly over (0, 1), from what each of the rows X (n, d) holds."""
    cells = X.copy()
    for block in family.blocks:
        if isinstance(block.family, DiagonalGaussian):
            cells[:, block.columns] = block.family.points(X[:, block.columns])
    bits = np.where(np.isnan(cells), 0.0, cells + 0.0).view(np.uint64)  # + 0.0: there is one zero only
    out = np.empty((X.shape[0], X.shape[1] + 1))
    with np.errstate(over="ignore"):
        seed = np.zeros(X.shape[0], dtype=np.uint64)
        for j in range(X.shape[1]):
            seed = _mixed_up(seed + bits[:, j] + np.uint64(j + 1) * _GOLDEN)
        for j in range(X.shape[1] + 1):
            out[:, j] = _mixed_up(seed + np.uint64(j + 1) * _GOLDEN) >> np.uint64(11)
    return (out + 0.5) * 2.0**-53


def _mixed_up(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
