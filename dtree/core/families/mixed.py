"""Tables: columns of several kinds, each block of columns with its own family, blocks independent within a cluster.

log p(X_c) = sum over blocks of log p_block(X_c). Statistics of a row: [1, parts of the first block, ...], see
`per_column`: every column has a count of its own, so any value may be missing. A block with a full covariance
(`Gaussian`) has its own statistics instead, and no missing values.

A block may have a weight: a power on its likelihood, so that many columns of one kind do not drown the others. As with
coarsening, its statistics are multiplied by it; what is then called evidence is no longer that of the data.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dtree.core.families.base import Family, KeptAsRows
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.categorical import Categorical
from dtree.core.families.column_compile import compile_blocks
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.moments import Moments
from dtree.core.families.per_column import Parts, PerColumn, has_holes
from dtree.core.families.poisson import Poisson
from dtree.core.families.profile import Profile

FAMILY_OF_KIND: dict[str, type[PerColumn]] = {
    "real": DiagonalGaussian,
    "binary": Bernoulli,
    "count": Poisson,
    "category": Categorical,
}


class Block(NamedTuple):
    """Some columns, their family, and the power on their likelihood."""

    family: Any
    columns: np.ndarray  # (d_b,)
    weight: float = 1.0


class Mixed(KeptAsRows):
    """A product of families over blocks of columns, for tables with columns of several kinds and missing values.

    Parameters
    ----------
    blocks : pairs (family, columns), or triples (family, columns, weight): which columns a family describes, and the
        power on their likelihood, 1 unless given. Families are `DiagonalGaussian`, `Bernoulli`, `Poisson` and
        `Categorical`, whose values may be missing, and at most one `Gaussian`, whose values may not. With a weight
        other than 1, evidence and bounds are those of the weighted model, no longer of the data.

    >>> family = Mixed([(DiagonalGaussian([0.0], 0.1, 2.0, [1.0]), [0]), (Categorical([[1.0, 1.0]]), [1])])
    >>> round(family.log_marginal([[0.5, 1], [np.nan, 1], [-0.5, np.nan]]), 6)
    -4.435034
    """

    name: ClassVar[str] = "mixed"
    value_kind: ClassVar[str] = "mixed"
    takes_holes: ClassVar[bool] = True
    predicts_holes: ClassVar[bool] = True

    def __init__(self, blocks: Any) -> None:
        self.blocks = [_block(one) for one in blocks]
        if not self.blocks:
            raise ValueError("Mixed needs at least one block (family, columns)")
        columns = np.sort(np.concatenate([block.columns for block in self.blocks]))
        if not np.array_equal(columns, np.arange(columns.shape[0])):
            raise ValueError(f"the blocks of Mixed must hold each column 0, 1, ... once, got {columns.tolist()}")
        if sum(isinstance(block.family, Gaussian) for block in self.blocks) > 1:
            raise ValueError("Mixed takes one Gaussian block: join them, or use DiagonalGaussian for the others")
        self._n_features = columns.shape[0]
        self._widths: list[list[int]] = []  # of the parts of each block
        for family, _, _ in self.blocks:
            row = np.zeros((1, family.n_features))
            parts = family.parts_of_rows(row) if isinstance(family, PerColumn) else (family.statistics(row),)
            self._widths.append([part.shape[1] for part in parts])

    def parameters(self) -> dict[str, Any]:
        return {"blocks": self.blocks}

    @property
    def n_features(self) -> int:
        return self._n_features

    @property
    def column_kinds(self) -> list[tuple[str, int]]:
        """What each column may hold: its kind, and for a category how many codes."""
        kinds: list[tuple[str, int]] = [("real", 0)] * self.n_features
        for family, columns, _ in self.blocks:
            levels = family.n_levels if isinstance(family, Categorical) else np.zeros(columns.shape[0])
            for j, number in zip(columns, levels, strict=True):
                kinds[j] = (family.value_kind, int(number))
        return kinds

    @property
    def complete_columns(self) -> np.ndarray:
        """The columns of which no value may be missing."""
        held = [block.columns for block in self.blocks if not block.family.takes_holes]
        return np.concatenate([np.empty(0, dtype=np.int64), *held])

    def statistics(self, X: Any) -> np.ndarray:
        X = np.asarray(X, dtype=np.float64)
        self._require_features(X.shape)
        found = [np.ones((X.shape[0], 1))]
        for family, columns, weight in self.blocks:
            rows = X[:, columns]
            if not isinstance(family, PerColumn) and has_holes(rows):
                j = int(columns[np.argmax(np.isnan(rows).any(axis=0))])
                raise ValueError(
                    f"column {j} misses values, which the {family.name} block it belongs to cannot take: put it into "
                    "a DiagonalGaussian block, or fill it in"
                )
            parts = family.parts_of_rows(rows) if isinstance(family, PerColumn) else (family.statistics(rows),)
            found += [part if weight == 1.0 else weight * part for part in parts]
        return np.concatenate(found, axis=1)

    def compile(self, total: np.ndarray, coarsening: float = 1.0) -> Any:
        return compile_blocks(self.blocks, list(self.places()), total, coarsening)

    def places(self) -> Iterator[list[np.ndarray]]:
        """Where the parts of each block stand in a row of statistics."""
        start = 1
        for widths in self._widths:
            ends = start + np.cumsum(widths)
            yield [np.arange(end - width, end) for end, width in zip(ends, widths, strict=True)]
            start = int(ends[-1])

    def category_places(self) -> list[np.ndarray]:
        """Where the statistics of each column of categories, or of zeros and ones, stand in a row of statistics."""
        found = []
        for (family, columns, _), places in zip(self.blocks, self.places(), strict=True):
            if isinstance(family, Categorical):
                ends = zip(family.first[:-1], family.first[1:], strict=True)
                found += [np.append(places[0][j], places[1][a:b]) for j, (a, b) in enumerate(ends)]
            elif isinstance(family, Bernoulli):
                found += [np.array([place[j] for place in places]) for j in range(columns.shape[0])]
        return found

    def block_parts(self, statistics: np.ndarray) -> Iterator[tuple[Block, Parts]]:
        """Each block with its parts of statistics (k, s); a Gaussian's one part are its own statistics."""
        for block, places in zip(self.blocks, self.places(), strict=True):
            yield block, tuple(statistics[:, place[0] : place[-1] + 1] for place in places)

    def only_gaussian(self, statistics: np.ndarray) -> tuple[Any, np.ndarray] | None:
        """The family and its own statistics (k, s) when these are of one Gaussian block of complete rows, else None.

        >>> block = DiagonalGaussian([0.0, 0.0], 0.1, 2.0, [1.0, 1.0])
        >>> rows, mixed = np.array([[0.5, 1.0], [-0.5, 2.0]]), Mixed([(block, [0, 1])])
        >>> family, found = mixed.only_gaussian(mixed.statistics(rows))
        >>> np.array_equal(found, block.statistics(rows))
        True
        """
        ((block, parts), *others) = self.block_parts(statistics)
        if others or block.weight != 1.0 or not isinstance(block.family, Gaussian | DiagonalGaussian):
            return None
        if isinstance(block.family, Gaussian):
            return block.family, parts[0]
        rows, (present, *sums) = statistics[:, :1], parts
        if not np.allclose(present, rows, rtol=1e-9, atol=0.0):  # a value is missing, and that is not rounding
            return None
        return block.family, np.concatenate([rows, *sums], axis=1)

    def points(self, X: Any) -> np.ndarray:
        """The points of all blocks side by side; what is missing stands at its prior mean."""
        X = np.asarray(X, dtype=np.float64)
        found = []
        for family, columns, weight in self.blocks:
            rows = X[:, columns]
            if not isinstance(family, Categorical) and isinstance(family, PerColumn):
                empty = tuple(np.zeros((1, width)) for width in self._widths_of(family))
                rows = np.where(np.isnan(rows), family.expected_values(empty), rows)
            found.append(np.sqrt(weight) * family.points(rows))
        return np.concatenate(found, axis=1)

    def _widths_of(self, family: PerColumn) -> list[int]:
        return next(widths for block, widths in zip(self.blocks, self._widths, strict=True) if block.family is family)

    # Learning from data -----------------------------------------------------------------------------------------------

    def anchored(self, moments: Moments) -> Self:
        return self._with([block.family.anchored(moments.of(block.columns)) for block in self.blocks])

    def _with(self, families: list[Any]) -> Self:
        """The same blocks with other families."""
        return type(self)([block._replace(family=one) for block, one in zip(self.blocks, families, strict=True)])

    @classmethod
    def defaults(cls, moments: Moments, share: float = 0.1) -> Self:
        """One block for each kind of column."""
        kinds = np.array([column.kind for column in moments.kinds] or ["real"] * moments.mean.shape[0])
        blocks = []
        for kind, family in FAMILY_OF_KIND.items():
            columns = np.flatnonzero(kinds == kind)
            if columns.size:
                blocks.append((family.defaults(moments.of(columns), share), columns))
        return cls(blocks)

    def refined(self, statistics: np.ndarray, weights: np.ndarray) -> Self:
        """Each block for itself, given the same tree, so that no block's units matter."""
        families = []
        for (family, _, _), parts in self.block_parts(statistics):
            by_column = isinstance(family, PerColumn)
            families.append(family.refined_of_parts(parts, weights) if by_column else family.refined(parts[0], weights))
        same = all(new is block.family for new, block in zip(families, self.blocks, strict=True))
        return self if same else self._with(families)

    def free_parameters(self) -> np.ndarray:
        return np.concatenate([block.family.free_parameters() for block in self.blocks])

    def with_free_parameters(self, theta: np.ndarray) -> Self:
        sizes = [block.family.free_parameters().shape[0] for block in self.blocks]
        parts = np.split(theta, np.cumsum(sizes)[:-1])
        return self._with([b.family.with_free_parameters(one) for b, one in zip(self.blocks, parts, strict=True)])

    def gradient(self, statistics: np.ndarray, weights: np.ndarray) -> np.ndarray:
        found = []
        for (family, _, _), parts in self.block_parts(statistics):
            by_column = isinstance(family, PerColumn)
            found.append(family.gradient_of_parts(parts, weights) if by_column else family.gradient(parts[0], weights))
        return np.concatenate(found)

    # Clusters and rows ------------------------------------------------------------------------------------------------

    def log_predictive_of(self, X: Any, statistics: np.ndarray) -> np.ndarray:
        """Log density (n, k): what a row lacks is marginalised; a block of weight w counts w times."""
        X, statistics = np.asarray(X, dtype=np.float64), np.atleast_2d(statistics)
        self._require_features(X.shape)
        out = np.zeros((X.shape[0], statistics.shape[0]))
        for (family, columns, weight), parts in self.block_parts(statistics):
            rows = X[:, columns]
            by_column = isinstance(family, PerColumn)
            one = family.log_predictive_of_parts(rows, parts) if by_column else family.log_predictive_of(rows, parts[0])
            out += weight * one
        return out

    def expected_log_density(self, statistics: np.ndarray) -> np.ndarray:
        found = [np.zeros((statistics.shape[0], 1))]
        for (family, _, _), parts in self.block_parts(statistics):
            by_column = isinstance(family, PerColumn)
            found += family.expected_parts(parts) if by_column else (family.expected_log_density(parts[0]),)
        return np.hstack(found)

    def posterior_means(self, statistics: np.ndarray) -> dict[str, np.ndarray]:
        """Each (k, d), NaN where a column has no such thing: means, and of categories the most probable code."""
        names = ("means", "modes", "mode_probabilities")
        out = {name: np.full((statistics.shape[0], self.n_features), np.nan) for name in names}
        for (family, columns, _), parts in self.block_parts(statistics):
            if isinstance(family, Categorical):
                cells = family.means_of_parts(parts)["level_probabilities"]
                for j, one in zip(columns, np.split(cells, family.first[1:-1], axis=1), strict=True):
                    out["modes"][:, j], out["mode_probabilities"][:, j] = one.argmax(axis=1), one.max(axis=1)
            elif isinstance(family, PerColumn):
                out["means"][:, columns] = family.expected_values(parts)
            else:
                out["means"][:, columns] = family.posterior_means(parts[0])["means"]
        return out

    def profile(self, statistics: np.ndarray) -> Profile:
        """Means in standard deviations of the whole data; of a category the share of its most common level.

        What is missing counts as the mean of its column.
        """
        out = np.zeros((statistics.shape[0], self.n_features))
        centre, spread = np.zeros(self.n_features), np.ones(self.n_features)
        for (family, columns, weight), parts in self.block_parts(statistics):
            for j, (count, values) in zip(columns, sums_of_columns(family, parts), strict=True):
                held, rows = values / weight, np.maximum(count / weight, 1e-300)
                total = max(float(rows.sum()), 1e-300)
                centre[j] = held.sum() / total
                variance = float((held**2 / rows).sum() / total - centre[j] ** 2)  # between the leaves
                spread[j] = np.sqrt(variance) if variance > 1e-14 else 1.0
                out[:, j] = (held - count / weight * centre[j]) / spread[j]
        return Profile("standard", out, statistics[:, 0], centre, spread)


def with_holes(family: PerColumn, statistics: np.ndarray) -> tuple[Mixed, np.ndarray]:
    """A family of complete rows and its clusters (k, s) as a `Mixed` of one block, whose values may be missing."""
    d, k = family.n_features, statistics.shape[0]
    parts = family.parts(statistics)
    counts = np.broadcast_to(parts[0], (k, d))
    return Mixed([(family, np.arange(d))]), np.hstack([statistics[:, :1], counts, *parts[1:]])


def sums_of_columns(family: Family, parts: Parts) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Counts (k,) and sums (k,) of each column of a block, in the units of the data."""
    for j in range(family.n_features):
        if isinstance(family, Categorical):
            cells = parts[1][:, family.first[j] : family.first[j + 1]]
            yield parts[0][:, j], cells[:, np.argmax(cells.sum(axis=0))]
        elif isinstance(family, PerColumn):
            unit, origin = getattr(family, "unit", np.ones(j + 1))[j], getattr(family, "origin", np.zeros(j + 1))[j]
            yield parts[0][:, j], unit * parts[1][:, j] + origin * parts[0][:, j]
        else:
            count = parts[0][:, 0]
            assert isinstance(family, Gaussian)
            yield count, family.unit[j] * parts[0][:, 1 + j] + family.origin[j] * count


def _block(given: Any) -> Block:
    if len(given) not in (2, 3):
        raise ValueError("a block of Mixed is a pair (family, columns) or a triple (family, columns, weight)")
    family, columns = given[0], np.atleast_1d(np.asarray(given[1]))
    weight = float(given[2]) if len(given) == 3 else 1.0
    if not isinstance(family, PerColumn | Gaussian):
        raise ValueError(
            "a block of Mixed is a DiagonalGaussian, Bernoulli, Poisson, Categorical or Gaussian, "
            f"not a {type(family).__name__}"
        )
    if columns.size and columns.dtype.kind not in "iu":
        raise ValueError(f"the columns of a block of Mixed are numbers of columns, got {columns.tolist()}")
    if columns.shape != (family.n_features,):
        raise ValueError(f"a block of Mixed has {family.n_features} features but {columns.size} columns")
    if not 0.0 < weight <= 1.0:
        raise ValueError(f"the weight of a block of Mixed must be above 0 and at most 1, got {weight}")
    return Block(family, columns.astype(np.int64), weight)
