"""What the rows under a node have in common: average features, and which of them set it apart from other rows.

All families keep sums over rows, so the profile of any set of leaves is a sum of rows of one table. Four kinds of value:

| kind | from | a node's value | set apart by |
| --- | --- | --- | --- |
| standard | Gaussians | mean, in standard deviations of the whole data from its mean | difference of the means |
| share | Bernoulli | share of the rows that are 1 | mutual information between the feature and the side [HG05] |
| token | multinomial | share of all words | mutual information between the word and the side [HG05] |
| rate | Poisson | mean count | likelihood ratio of two rates against one |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtree.core.families import Family


@dataclass(frozen=True, eq=False)
class Profile:
    """Sums (m, d) over the rows of each leaf, and what they are divided by, (m,): rows, or words for the kind "token".

    centre, spread : (d,) turn a value of the kind "standard" back into the units of the data.
    """

    kind: str
    sums: np.ndarray
    exposure: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @property
    def means(self) -> np.ndarray:
        """Values (m, d) of the leaves."""
        return self.sums / np.maximum(self.exposure, 1e-300)[:, None]

    def of(self, groups: np.ndarray, n_groups: int) -> Profile:
        """Profile (k, d) of groups of leaves, given the group (m,) of each; leaves of group -1 are left out."""
        held = groups >= 0
        sums, exposure = np.zeros((n_groups, self.sums.shape[1])), np.zeros(n_groups)
        np.add.at(sums, groups[held], self.sums[held])
        np.add.at(exposure, groups[held], self.exposure[held])
        return Profile(self.kind, sums, exposure, self.centre, self.spread)

    def in_data_units(self) -> np.ndarray:
        """Values (m, d) as the data have them."""
        return self.centre + self.spread * self.means


def profile_of(family: Family, atoms: np.ndarray, coarsening: float = 1.0) -> Profile | None:
    """The profile of leaves with statistics atoms (m, s), or None for a family this file does not know."""
    d = family.n_features
    atoms = atoms if coarsening == 1.0 else atoms / coarsening
    zero, one = np.zeros(d), np.ones(d)
    if family.name in ("gaussian", "gaussian-diag"):
        return _standardised(family, atoms)
    if family.name == "bernoulli":
        return Profile("share", atoms[:, 1 : 1 + d], atoms[:, 0], zero, one)
    if family.name == "multinomial":
        return Profile("token", atoms[:, 3 : 3 + d], atoms[:, 2], zero, one)
    if family.name == "poisson":
        return Profile("rate", atoms[:, 2 : 2 + d], atoms[:, 0], zero, one)
    return None


def _standardised(family: Any, atoms: np.ndarray) -> Profile:
    d = family.n_features
    count, first = atoms[:, 0], atoms[:, 1 : 1 + d]
    if family.name == "gaussian":
        a, b = np.triu_indices(d)
        second = atoms[:, 1 + d :][:, a == b]
    else:
        second = atoms[:, 1 + d : 1 + 2 * d]
    total = count.sum()
    mean = first.sum(axis=0) / total
    variance = np.maximum(second.sum(axis=0) / total - mean**2, 0.0)
    deviation = np.where(variance > 1e-14, np.sqrt(variance), 1.0)
    sums = (first - count[:, None] * mean) / deviation
    return Profile("standard", sums, count, family.origin + family.unit * mean, family.unit * deviation)


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
        pooled = (sums + others) / (exposure + other)
        score = _x_log_ratio(sums, exposure * pooled) + _x_log_ratio(others, other * pooled)
    else:
        score = _mutual_information(sums, exposure, others, other)
    return np.where(here >= there, 1.0, -1.0) * score


def _mutual_information(a: np.ndarray, n: np.ndarray, b: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Mutual information in nats between having a feature and the side: a of n here have it, and b of m there."""
    total = n + m
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
