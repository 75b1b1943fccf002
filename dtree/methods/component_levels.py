"""The tree over the components of a fitted mixture, from what one pass over the rows adds up to.

Gaussian rows are counted along lines between components and along log odds (`core.valleys`), rows of other families by
how far components overlap (`core.overlap`); `between` adds up either. `found_levels` makes the tree of the sums and
cuts it.
"""

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families import Bent, DiagonalGaussian, Family, Gaussian, Mixed, has_holes
from dtree.core.levels import (
    COMPONENTS,
    LEAST_DEPTH,
    SMALLEST,
    LevelTree,
    canonical_by_size,
    chosen_level,
    level_tree,
    mostly_alone,
    pair_matrix,
    stability,
)
from dtree.core.overlap import Overlap, overlap_of, overlap_tree
from dtree.core.tree import sums_below
from dtree.core.valleys import (
    DEVIATIONS,
    Labelled,
    Lines,
    Odds,
    PairSums,
    add_odds,
    add_rows,
    both,
    depths,
    lines_between,
    odds_between,
    separations,
)
from dtree.methods.completed_rows import completed
from dtree.variational.label_kernels import softmax_rows
from dtree.variational.mixture import Mixture

_NO_DOUBT = 3.0  # deviations: a valley that is not there is believed in one case of seven hundred


class Look(NamedTuple):
    """What one pass over the rows finds out about the components that hold any."""

    pairs: PairSums | Overlap
    rows: np.ndarray  # (m,) weight of the rows of each
    log_density: np.ndarray  # (m,) sum over them


class Found(NamedTuple):
    """The tree over components, where it is cut, and what follows for them."""

    held: np.ndarray  # (m,) components of the mixture
    leaf_of: np.ndarray  # (T,) the leaf of every component of the mixture, -1 for one without rows
    tree: LevelTree
    level: float
    leaf_clusters: np.ndarray  # (m,)
    stability: np.ndarray  # (k,)
    density: np.ndarray  # (m,)


def found_levels(mixture: Mixture, counted: np.ndarray, seen: Look, wanted: float | str) -> Found:
    """The tree over the components that hold rows, and its cut."""
    full = seen.rows > 0
    held, k = counted[full], counted.shape[0]
    size = seen.rows[full]
    host = hosts(mixture, held, size)
    peaks = peaks_of(mixture, held)

    def tree_from(half: int | None, deviations: float) -> LevelTree:
        if isinstance(seen.pairs, Overlap):
            shares, rows = (part.sum(axis=0) if half is None else 2.0 * part[half] for part in seen.pairs)
            return overlap_tree(shares[:, full][:, :, full], rows[full], host)
        depth, apart = (pair_matrix(found, k)[np.ix_(full, full)] for found in depths_of(seen.pairs, half, deviations))
        return level_tree(peaks, depth, np.rint(size), host, apart)

    doubt = DEVIATIONS
    tree = tree_from(None, doubt)
    if mostly_alone(tree, chosen_level(tree)):  # then a valley of the model is believed as far as rows bear it out
        doubt = 0.0
        tree = tree_from(None, doubt)
    if not isinstance(wanted, str):
        level = float(wanted)
    elif wanted == "components":
        level = COMPONENTS
    else:
        level = chosen_level(tree)
        # Between two components there is one valley and no other to compare it with: it is open when rows leave no
        # doubt that it is there.
        if np.count_nonzero(size >= SMALLEST) == 2 and isinstance(seen.pairs, PairSums):
            level = min(level, LEAST_DEPTH) if tree_from(None, _NO_DOUBT).depth[-1] > LEAST_DEPTH else level
    labels = canonical_by_size(tree.cut(level=level), size)
    halves = [tree_from(half, doubt).cut(level=level) for half in (0, 1)]
    leaf_of = np.full(mixture.counts.shape[0], -1, dtype=np.int64)
    leaf_of[held] = np.arange(held.shape[0])
    density = seen.log_density[full] / size
    return Found(held, leaf_of, tree, level, labels, stability(labels, halves, size), density)


def recounted(found: Found, rows: np.ndarray) -> Found:
    """The same with the rows (m,) that the components turned out to hold, so that the largest cluster is 0."""
    tree, labels = found.tree, canonical_by_size(found.leaf_clusters, rows)
    size = sums_below(tree.left, tree.right, np.rint(rows).astype(np.int64))
    first = np.unique(labels, return_index=True)[1]
    return found._replace(
        tree=replace(tree, size=size), leaf_clusters=labels, stability=found.stability[found.leaf_clusters[first]]
    )


def depths_of(pairs: PairSums, half: int | None, deviations: float) -> tuple[np.ndarray, np.ndarray]:
    """Depths and separations (p,) of the pairs of components from all rows, or from one half of them.

    deviations : of the lower bound on a depth, from all rows.
    """
    if half is None:
        histogram, moments = pairs.together()
    else:  # a bound from half of the rows is wider than that from all of them; with so many deviations it is as wide
        histogram, moments, deviations = pairs.histogram[half], pairs.moments[half], deviations / np.sqrt(2.0)
    along_lines, along_odds = depths(histogram, moments, deviations).reshape(2, -1)
    return np.maximum(along_lines, along_odds), separations(moments[: along_lines.shape[0]])


def hosts(mixture: Mixture, held: np.ndarray, size: np.ndarray) -> np.ndarray:
    """For each of the components `held` (m,) the one it belongs to: itself, or, with too few rows to show a valley, the
    one of the others that gives its centre the highest density."""
    m = held.shape[0]
    host, large = np.arange(m), np.flatnonzero(size >= SMALLEST)
    if large.size == 0:
        large = np.array([int(np.argmax(size))])
    small = np.setdiff1d(host, large)
    if small.size:
        family, statistics = on_straight_scales(mixture.family, mixture.statistics[held])
        centres = centres_of(family, statistics[small])
        if centres is None:  # no point stands for such a component: where its rows would be most at home together
            joined = np.array(
                [[log_gain(family, own, other) for other in statistics[large]] for own in statistics[small]]
            )
        else:
            joined = family.log_predictive_of(centres, statistics[large])
        host[small] = large[np.argmax(joined + np.log(size[large]), axis=1)]
    return host


def log_gain(family: Family, own: np.ndarray, other: np.ndarray) -> float:
    """Log density of the rows of one component given those of another, from their statistics (s,)."""
    together, alone = family.soft_log_marginal_of(np.vstack([own + other, other]))
    return float(together - alone)


def on_straight_scales(family: Family, statistics: np.ndarray) -> tuple[Family, np.ndarray]:
    """The family and statistics (k, s) on the scales on which components are Gaussian: bends carried out, and a table
    of complete Gaussian columns taken for what it is."""
    if isinstance(family, Mixed):
        return family.only_gaussian(statistics) or (family, statistics)
    return (family.base, statistics[:, :-1]) if isinstance(family, Bent) else (family, statistics)


def centres_of(family: Family, statistics: np.ndarray) -> np.ndarray | None:
    """Means (k, d) of Gaussian components, None for other families."""
    if isinstance(family, Gaussian | DiagonalGaussian):
        return family.posterior_means(statistics)["means"]
    return None


def peaks_of(mixture: Mixture, held: np.ndarray) -> np.ndarray:
    """Log density (m,) of each component at its own top, its weight included; all the same where there are no tops.

    The density of the others at that place does not count: a broad background may have its centre inside a group.
    """
    family, statistics = on_straight_scales(mixture.family, mixture.statistics[held])
    centres = centres_of(family, statistics)
    if centres is None:
        return np.zeros(held.shape[0])
    own = [family.log_predictive_of(centre[None], each[None])[0, 0] for centre, each in zip(centres, statistics)]
    return np.array(own) + np.log(mixture.weights()[held])


def occupied_by(mixture: Mixture) -> np.ndarray:
    """Components (k,) that may hold rows, in decreasing size."""
    order = mixture.by_size
    return order[mixture.counts[order] > 1e-6]


def lines_of(mixture: Mixture, held: np.ndarray) -> tuple[Lines, Odds] | None:
    """What tells each two Gaussian components apart: a line, the best linear discriminant, and the log odds.

    None for other families.
    """
    family, statistics = on_straight_scales(mixture.family, mixture.statistics[held])
    if not isinstance(family, Gaussian | DiagonalGaussian):
        return None
    k = held.shape[0]
    i, j = np.triu_indices(k, 1)
    found = family.posterior_means(statistics)
    centres = (found["means"] - family.origin) / family.unit
    if isinstance(family, Gaussian):
        covariance = found["covariances"] / np.outer(family.unit, family.unit)
        directions = np.empty((i.shape[0], centres.shape[1]))
        for first in range(k - 1):  # a row of pairs at a time: k^2 matrices of d^2 numbers would fill the memory
            own = slice(first * k - first * (first + 1) // 2, (first + 1) * k - (first + 1) * (first + 2) // 2)
            shift = centres[first] - centres[first + 1 :]
            directions[own] = np.linalg.solve(covariance[first] + covariance[first + 1 :], shift[:, :, None])[:, :, 0]
    else:
        variance = found["variances"] / family.unit**2
        directions = (centres[i] - centres[j]) / (variance[i] + variance[j])
    return lines_between(centres, directions), odds_between(mixture.mean_scores(held))


class Own(NamedTuple):
    """Rows of a chunk that belong to components."""

    rows: Any  # (n, d') those columns that the mixture uses
    labels: np.ndarray  # (n,) the place of each in `held`
    weight: np.ndarray  # (n,)
    first_row: int
    scores: np.ndarray | None = None  # (n, k) under the components, where they are known already


def between(mixture: Mixture, held: np.ndarray, lines: tuple[Lines, Odds] | None, own: Own) -> PairSums | Overlap:
    """What rows add to what is known about the pairs of the components `held` (k,)."""
    rows, labels, scores = own.rows, own.labels.astype(np.int64), own.scores
    if isinstance(mixture.family, Bent | DiagonalGaussian | Gaussian | Mixed) and has_holes(rows):
        rows = completed(mixture, held, rows)
        scores = mixture.scores(rows, held)
        labels = scores.argmax(axis=1)
    if scores is None:
        scores = mixture.scores(rows, held)
    if lines is None:
        left_out = mixture.family.category_places() if isinstance(mixture.family, Mixed) else []
        others = mixture.responsibilities_without(rows, held, left_out) if left_out else ()
        shares = scores.copy()
        softmax_rows(shares, np.zeros(shares.shape[0]))
        return overlap_of(itertools.chain([shares], others), labels, own.weight, own.first_row)
    points = np.ascontiguousarray(mixture.family.points(rows), dtype=np.float64)
    along, k = Labelled(points, labels, own.weight, own.first_row), held.shape[0]
    return both(add_rows(lines[0], along, k), add_odds(lines[1], along._replace(points=scores), k))
