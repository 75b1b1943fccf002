"""Categories: each column is one of a few levels, the Dirichlet-categorical family, columns independent in a cluster.

x_j ~ Categorical(p_j), p_j ~ Dirichlet(concentration_j). A value is the code 0, 1, ... of its level, NaN where it is
missing. Statistics of a row: [1, 1 if x_j is present (d), one indicator for each level of each column].

When hyperparameters are chosen by the evidence, a column gets one level more than were seen: the reserved level, to
which every level that training rows do not have belongs. So new rows may hold anything, at the price of a little mass.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.families.base import KeptAsRows, require_positive
from dtree.core.families.column_tables import CompiledColumns
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import Parts, PerColumn
from dtree.core.families.profile import Profile


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(PerColumn, KeptAsRows):
    """Dirichlet-categorical family for rows of codes of levels.

    Parameters
    ----------
    concentration : one vector for each column, the Dirichlet prior over its levels 0, 1, ...; give one entry more than
        there are levels to leave room for levels that training rows do not have.
    levels : (d,) how many entries of `concentration` belong to each column, when it is one vector for all of them.

    >>> family = Categorical([[1.0, 1.0, 1.0], [0.5, 0.5]])
    >>> round(family.log_marginal([[0, 1], [0, 0], [2, np.nan]]), 6)
    -5.480639
    """

    concentration: Any
    levels: Any = None

    name: ClassVar[str] = "categorical"
    value_kind: ClassVar[str] = "category"

    def __post_init__(self) -> None:
        given = self.concentration
        if self.levels is not None:
            sizes = np.atleast_1d(np.asarray(self.levels, dtype=np.int64))
            if np.ndim(given) != 1 or sizes.ndim != 1 or np.any(sizes < 1) or sizes.sum() != len(given):
                raise ValueError("levels must say how many entries of concentration belong to each column")
            given = np.split(np.asarray(given, dtype=np.float64), np.cumsum(sizes)[:-1])
        columns = [np.ascontiguousarray(np.atleast_1d(np.asarray(one, float))) for one in given]
        if not columns or any(one.ndim != 1 or one.size == 0 for one in columns):
            raise ValueError("concentration must hold one vector for each column, with one entry for each level")
        for j, one in enumerate(columns):
            require_positive(one, f"the concentration of column {j}")
        object.__setattr__(self, "concentration", columns)
        object.__setattr__(self, "levels", np.array([one.size for one in columns]))
        object.__setattr__(self, "first", np.concatenate([[0], np.cumsum(self.levels)]).astype(np.int64))

    first: ClassVar[np.ndarray]  # (d + 1,) the first cell of each column among the cells of all

    def parameters(self) -> dict[str, Any]:
        return {"concentration": self._flat, "levels": self.levels}

    @property
    def n_features(self) -> int:
        return len(self.concentration)

    @property
    def n_levels(self) -> np.ndarray:
        """How many codes each column may hold (d,)."""
        return np.diff(self.first)

    @property
    def _flat(self) -> np.ndarray:
        return np.concatenate(self.concentration)

    @property
    def _totals(self) -> np.ndarray:
        return np.array([one.sum() for one in self.concentration])

    def _by_column(self, cells: np.ndarray) -> np.ndarray:
        """Sums (k, d) over the cells (k, l) of each column."""
        return np.add.reduceat(cells, self.first[:-1], axis=1)

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        # A value drawn from a cluster has within-cluster variance c/(c+1) of its variance over clusters: share.
        levels = moments.levels or tuple(np.ones(2) for _ in moments.mean)
        frequency = [(counts + 0.5) / (counts + 0.5).sum() for counts in levels]
        return cls([share / (1.0 - share) * one for one in frequency])

    def statistics(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=np.float64)
        self._require_features(X.shape)
        return np.column_stack([np.ones(X.shape[0]), *self.parts_of_rows(X)])

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> CompiledColumns:
        compiled: CompiledColumns = self._as_mixed().compile(total, coarsening)
        return compiled

    # Parts: counts (k, d), counts of the levels (k, l).

    def parts(self, statistics: np.ndarray) -> Parts:
        d = self.n_features
        return statistics[:, 1 : 1 + d], statistics[:, 1 + d :]

    def parts_of_rows(self, X: Any) -> Parts:
        codes, present = self._codes(X)
        cells = np.zeros((codes.shape[0], self.first[-1]))
        rows, columns = np.nonzero(present)
        cells[rows, (self.first[:-1] + codes)[rows, columns]] = 1.0
        return present.astype(np.float64), cells

    def _codes(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Codes (n, d), 0 where missing, and where they are present."""
        X = np.asarray(X, dtype=np.float64)
        present = ~np.isnan(X)
        codes = np.where(present, X, 0.0).astype(np.int64)
        if np.any((codes < 0) | (codes >= self.n_levels)):
            row, j = (int(i) for i in np.argwhere((codes < 0) | (codes >= self.n_levels))[0])
            raise ValueError(
                f"row {row} holds the code {codes[row, j]} in column {j}, of which the family knows {self.n_levels[j]} "
                "levels: give its concentration an entry for every level, and one for levels not seen before"
            )
        return codes, present

    def log_columns(self, parts: Parts) -> np.ndarray:
        count, cells = parts
        gained = self._by_column(gammaln(self._flat + cells) - gammaln(self._flat))
        return gained + gammaln(self._totals) - gammaln(self._totals + count)

    def log_cells(self, X: np.ndarray, parts: Parts) -> np.ndarray:
        codes, present = self._codes(X)
        log_level = np.log(self._flat + parts[1][0])
        return np.where(present, log_level[self.first[:-1] + codes] - np.log(self._totals + parts[0]), 0.0)

    def expected_parts(self, parts: Parts) -> Parts:
        return -digamma(self._totals + parts[0]), digamma(self._flat + parts[1])

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        return np.hstack([np.zeros((statistics.shape[0], 1)), *self.expected_parts(self.parts(statistics))])

    def means_of_parts(self, parts: Parts) -> dict[str, np.ndarray]:
        total = np.repeat(self._totals + parts[0], self.n_levels, axis=1)
        return {"level_probabilities": (self._flat + parts[1]) / total}

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        """The most probable code of each column (k, d), and its probability."""
        found = self._as_mixed().posterior_means(statistics)
        return {name: found[name] for name in ("modes", "mode_probabilities")}

    def _as_mixed(self) -> Any:
        """The same family as a block of its own, with the same statistics."""
        from dtree.core.families.mixed import Mixed  # which imports this module

        return Mixed([(self, np.arange(self.n_features))])

    def expected_values(self, parts: Parts) -> np.ndarray:
        return np.full(parts[0].shape, np.nan)

    def moments_of_parts(self, parts: Parts) -> Moments:
        nothing = np.zeros(self.n_features)
        return Moments(parts[0][0], nothing, nothing, None, levels=tuple(np.split(parts[1][0], self.first[1:-1])))

    def of_columns(self, candidates: list[Self], best: np.ndarray) -> Self:
        return type(self)([candidates[b].concentration[j] for j, b in enumerate(best)])

    def refined(self, statistics: np.ndarray, weights: np.ndarray) -> Self:
        return self.refined_of_parts(self.parts(statistics), weights)

    def points(self, X: Any) -> np.ndarray:
        """One indicator for each level; two rows that differ in a column are 1 apart in it. Missing: prior means."""
        present, cells = self.parts_of_rows(X)
        prior = self._flat / np.repeat(self._totals, self.n_levels)
        return np.sqrt(0.5) * np.where(np.repeat(present, self.n_levels, axis=1) > 0, cells, prior)

    def profile(self, statistics: np.ndarray) -> Profile:
        found: Profile = self._as_mixed().profile(statistics)
        return found

    # Unconstrained parameters: log concentration of all levels of all columns.

    def free_parameters(self) -> np.ndarray:
        return np.log(self._flat)

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        return type(self)(np.split(np.exp(theta), self.first[1:-1]))

    def gradient_of_parts(self, parts: Parts, weights: np.ndarray) -> np.ndarray:
        shared = weights @ (digamma(self._totals) - digamma(self._totals + parts[0]))
        gained = weights @ (digamma(self._flat + parts[1]) - digamma(self._flat))
        return self._flat * (gained + np.repeat(shared, self.n_levels))
