"""Rows with gaps as they might be without: one draw of what they lack, from the mixture that was fitted to them.

How far two components overlap is asked of complete rows. A row that lacks half of its values is in doubt for want of
them, and rows in doubt would join components that lie well apart. So a component is drawn for such a row by its
probabilities, and the missing values from that component: completed rows are draws from what the mixture says of the
table without gaps, and components that overlap there still do.

Tables of numbers may have Gaussian components, also bent; then what is drawn follows the other values of the row.

The draws come from a hash of what a row holds, in standard units: they depend neither on the order of the rows nor on
chunks, workers or the units of a column.
"""

from typing import Any

import numpy as np

from dtree.core.families import Bent, Bernoulli, Categorical, DiagonalGaussian, Gaussian, Mixed, Poisson
from dtree.core.families.bent import unbend
from dtree.core.families.some_columns import patterns
from dtree.variational.mixture import Mixture

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the steps of the splitmix64 generator, whose finaliser `_mixed_up` is


def completed(mixture: Mixture, held: np.ndarray, X: np.ndarray, number: int = 0) -> np.ndarray:
    """The rows X (n, d) with their gaps filled by draws, of a `Mixed` family or of Gaussian components.

    held : (k,) components that may be drawn. number : another one gives other draws.
    """
    family, statistics = mixture.family, mixture.statistics[held]
    X = np.array(X, dtype=np.float64)
    if not isinstance(family, Mixed):
        return _completed_by_gaussians(mixture, held, X, number)
    lacking = np.flatnonzero(np.isnan(X).any(axis=1))
    rows, chance = X[lacking], _chances(family, X[lacking], number)
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
    from scipy.stats import nbinom, t  # a slow import that only tables with gaps need

    if isinstance(family, DiagonalGaussian):
        count, mean, shape, rate = family.posterior_of_parts(parts)
        strength = family.strength + count
        spread = np.sqrt(rate * (strength + 1.0) / (strength * shape))
        return family.origin + family.unit * (mean + spread * t.ppf(chance, 2.0 * shape))
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


def _completed_by_gaussians(mixture: Mixture, held: np.ndarray, X: np.ndarray, number: int) -> np.ndarray:
    """The same for full, diagonal and bent Gaussian components: draws given the other values of the row.

    A row falls to a component by the density of what it holds, and its missing values are drawn from the Student t
    that the component expects of them given the others. So log density of the completed rows less that of the rows
    with gaps is the log density of the draws.
    """
    lacking = np.flatnonzero(np.isnan(X).any(axis=1))
    rows, d = X[lacking], X.shape[1]
    z, base, statistics = _on_gaussian_scales(mixture, held, rows)
    chance = _spread(z, d + 2, number)
    log_joint = mixture.family.log_predictive_of(rows, mixture.statistics[held]) + np.log(mixture.weights()[held])
    shares = np.cumsum(np.exp(log_joint - log_joint.max(axis=1, keepdims=True)), axis=1)
    drawn = np.minimum((shares <= chance[:, -1:] * shares[:, -1:]).sum(axis=1), held.shape[0] - 1)
    for component in np.unique(drawn):
        mine = np.flatnonzero(drawn == component)
        one = statistics[component : component + 1]
        if isinstance(base, DiagonalGaussian):
            values = (_quantiles(base, base.parts(one), chance[mine, :d]) - base.origin) / base.unit
            z[mine] = np.where(np.isnan(z[mine]), values, z[mine])
        else:
            z[mine] = _given_the_others(base, one, z[mine], chance[mine, :d], chance[mine, d])
    values = base.origin + base.unit * z
    if isinstance(mixture.family, Bent):
        values = mixture.family.centre + mixture.family.unit * unbend(values, mixture.family.bend)
    X[lacking] = np.where(np.isnan(rows), values, rows)
    return X


def _on_gaussian_scales(mixture: Mixture, held: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, Any, np.ndarray]:
    """Rows X (n, d) in the units in which components are Gaussian, the family there, its statistics (k, s)."""
    family: Any = mixture.family
    statistics = mixture.statistics[held]
    if isinstance(family, Bent):
        known = np.where(np.isnan(X), family.centre, X)
        X = np.where(np.isnan(X), np.nan, family.kept_rows(known)[:, : family.n_features])
        family, statistics = family.base, statistics[:, :-1]
    return (X - family.origin) / family.unit, family, statistics


def _given_the_others(
    family: Gaussian, statistics: np.ndarray, z: np.ndarray, chance: np.ndarray, scatter: np.ndarray
) -> np.ndarray:
    """Rows z (n, d) in standard units with what they lack drawn from one cluster (1, s) of a full Gaussian.

    chance : (n, d) of normal numbers; scatter : (n,) of the chi-square number that makes a Student t of them.
    """
    from scipy.stats import chi2, norm  # a slow import that only tables with gaps need

    (strength,), (dof,), (mean,), (scale,) = family.posterior(statistics)
    freedom = dof + 1.0 - z.shape[1]
    scale = scale * (strength + 1.0) / (strength * freedom)
    normal, out = norm.ppf(chance), z.copy()
    for rows, there in patterns(z):
        gone = np.setdiff1d(np.arange(z.shape[1]), there)
        off = z[np.ix_(rows, there)] - mean[there]
        slope = np.linalg.solve(scale[np.ix_(there, there)], scale[np.ix_(there, gone)])
        rest = scale[np.ix_(gone, gone)] - scale[np.ix_(gone, there)] @ slope
        distance = np.einsum("ij,ij->i", off, np.linalg.solve(scale[np.ix_(there, there)], off.T).T)
        spread = np.sqrt((freedom + distance) / chi2.ppf(scatter[rows], freedom + there.size))
        moved = normal[np.ix_(rows, gone)] @ np.linalg.cholesky(0.5 * (rest + rest.T)).T
        out[np.ix_(rows, gone)] = mean[gone] + off @ slope + spread[:, None] * moved
    return out


def _chances(family: Mixed, X: np.ndarray, number: int = 0) -> np.ndarray:
    """Numbers (n, d + 1) spread evenly over (0, 1), from what each of the rows X (n, d) holds."""
    cells = X.copy()
    for block in family.blocks:
        if isinstance(block.family, DiagonalGaussian):
            cells[:, block.columns] = block.family.points(X[:, block.columns])
    return _spread(cells, X.shape[1] + 1, number)


def _spread(cells: np.ndarray, width: int, number: int) -> np.ndarray:
    """Numbers (n, width) spread evenly over (0, 1), from what each row of cells (n, d) holds and a number."""
    bits = np.where(np.isnan(cells), 0.0, cells + 0.0).view(np.uint64)  # + 0.0: there is one zero only
    out = np.empty((cells.shape[0], width))
    with np.errstate(over="ignore"):
        seed = np.full(cells.shape[0], number, dtype=np.uint64)
        for j in range(cells.shape[1]):
            seed = _mixed_up(seed + bits[:, j] + np.uint64(j + 1) * _GOLDEN)
        for j in range(width):
            out[:, j] = _mixed_up(seed + np.uint64(j + 1) * _GOLDEN) >> np.uint64(11)
    return (out + 0.5) * 2.0**-53


def _mixed_up(bits: np.ndarray) -> np.ndarray:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
