"""`dtree.levels`: other cuts of a fit, without fitting again, for every estimator whose clusters have a family."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dtree.core.levels import COMPONENTS, LevelTree, canonical_by_size, offered_levels, reason_for
from dtree.data import Source
from dtree.estimators.base import Estimator, is_elsewhere
from dtree.estimators.saving import open as open_run
from dtree.methods import method_named
from dtree.methods.cluster_levels import clusters_of, levels_of_chains, levels_of_clusters
from dtree.methods.contract import used_columns
from dtree.methods.facts import Facts, counted
from dtree.methods.fitted_checks import checked_fitted
from dtree.methods.tree_clustering_facts import levels_frame

_PIECE_VALUES = 4_000_000  # numbers of rows read at once


@dataclass(frozen=True, eq=False)
class Levels:
    """A tree over components, where it is cut, and other cuts.

    tree : over the m components. level : where it is cut. reason : why, in a sentence. table : the cuts worth a look, a
    data frame, coarsest first. components : (n,) the component of each row.
    """

    tree: LevelTree
    level: float
    reason: str
    table: Any
    components: np.ndarray

    @property
    def labels(self) -> np.ndarray:
        """Clusters (n,) at the level, the largest is 0."""
        return self.at_level(self.level)

    @property
    def n_clusters(self) -> int:
        """How many clusters there are at the level."""
        return int(self.tree.cut(level=self.level).max()) + 1

    def at_level(self, level: float) -> np.ndarray:
        """Clusters (n,) when only what is deeper than `level` parts them."""
        return self._of_rows(self.tree.cut(level=level))

    def at_clusters(self, n_clusters: int) -> np.ndarray:
        """Clusters (n,) of the cut into so many, the deepest valleys first."""
        return self._of_rows(self.tree.cut(n_clusters=n_clusters))

    def _of_rows(self, leaf_clusters: np.ndarray) -> np.ndarray:
        return canonical_by_size(leaf_clusters, self.tree.size[: self.tree.n_leaves])[self.components]


def levels(run_or_model: Any, X: Any = None, level: float | str = "auto") -> Levels:
    """The levels of a fit: which of its components or clusters belong together, and how surely they are apart.

    A `TreeClustering` brings its own. The clusters of other fits (BHC, BayesKMeans, BayesKMeansBHC, IncrementalBHC,
    DPMixtureVB) become the components, and one look at the rows measures the valleys of the density between them. Those
    of chains (DPMixtureMCMC) are joined by how often the draws have them apart, by average linkage over the clusters of
    the point estimate; depths are then shares of the draws, and no rows are needed.

    Parameters
    ----------
    run_or_model : a fitted dtree model, or the folder of a finished run.
    X : the rows that were fitted; a run in a folder knows where its own were. They count once each.
    level : where to cut: `"auto"`, `"components"`, or a depth. A `TreeClustering` and chains keep their own with
        `"auto"`.

    Returns a `Levels`: `table`, `reason`, `labels`, `at_level(depth)`, `at_clusters(k)`, `tree`.

    >>> import dtree
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.uniform(0, 1, (400, 2)), rng.uniform(0, 1, (400, 2)) + [3.0, 0.0]])  # two squares
    >>> fit = dtree.DPMixtureVB(truncation=12, random_state=0).fit(X)  # which cover a square by several bumps
    >>> found = levels(fit, X)
    >>> fit.n_clusters_ > 2, found.n_clusters, len(set(found.at_clusters(1)))
    (True, 2, 1)
    """
    if not (isinstance(level, int | float) or level in ("auto", "components")):
        raise ValueError(f"level must be 'auto', 'components' or a depth, got {level!r}")
    model = open_run(run_or_model) if isinstance(run_or_model, str | os.PathLike) else run_or_model
    if not isinstance(model, Estimator):
        raise ValueError(f"levels are those of a fitted dtree model or a run, not of a {type(model).__name__}")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"this {type(model).__name__} is not fitted yet; call fit before asking for its levels")
    run = model._finished_run()
    fitted, method = checked_fitted(run), method_named(run.header.method)
    if isinstance(getattr(fitted, "tree", None), LevelTree):
        return _levels(fitted.tree, _cut_at(level, fitted.level), np.asarray(run.row_array(method.leaf_rows)))
    facts = method.facts(fitted, run.row_array(method.leaf_rows))
    clusters = _row_clusters(run, facts)
    if facts.together is not None:
        tree, own, _ = levels_of_chains(facts)
        return _levels_of_draws(tree, _cut_at(level, own), clusters)
    found, clusters = levels_of_clusters(clusters_of(facts), _pieces(model, run, X), clusters, level)
    return _levels(found.tree, found.level, found.leaf_of[clusters])


def _cut_at(wanted: float | str, own: float) -> float:
    if isinstance(wanted, str):
        return own if wanted == "auto" else COMPONENTS
    return float(wanted)


def _levels(tree: LevelTree, level: float, components: np.ndarray) -> Levels:
    return Levels(tree, level, reason_for(tree, level), levels_frame(offered_levels(tree, level)), components)


def _levels_of_draws(tree: LevelTree, level: float, components: np.ndarray) -> Levels:
    k = int(tree.cut(level=level).max()) + 1
    reason = f"{counted(k, 'cluster')} of the point estimate, the partition closest to all draws"
    if level != COMPONENTS:
        reason = f"any two of the {k} clusters are apart in more than {100 * level:.3g}% of the draws"
    table = levels_frame(offered_levels(tree, level)).rename(columns={"shallowest_valley": "least_apart"})
    return Levels(tree, level, reason, table, components)


def _row_clusters(run: Any, facts: Facts) -> np.ndarray:
    """The cluster (n,) of each row among the leaves of the fit, -1 for rows that are in none."""
    leaf = facts.row_leaf
    if leaf is None:
        return np.array(run.row_array("labels"), dtype=np.int64)
    return np.where(leaf >= 0, np.asarray(facts.leaf_clusters)[leaf], -1).astype(np.int64)


# Rows ----------------------------------------------------------------------------------------------------------------


def _pieces(model: Estimator, run: Any, X: Any) -> Iterator[tuple[int, Any]]:
    """The rows of a fit in pieces: first row and rows (b, d'), the columns in use."""
    from dtree.engine.rows import opened_like

    n, columns = run.header.n_rows, model.columns_
    if X is not None and not is_elsewhere(X):
        rows = used_columns(model._rows(X), columns)
        _require(rows.shape[0], n)
        yield 0, rows
        return
    source = _source_of(run) if X is None else opened_like(X, run.header)
    _require(source.shape[0], n)
    step = max(1, _PIECE_VALUES // source.shape[1])
    for start in range(0, n, step):
        rows = used_columns(source.read(start, min(start + step, n)), columns).astype(np.float64)
        yield start, np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows


def _require(found: int, wanted: int) -> None:
    if found != wanted:
        raise ValueError(f"there are {found:,} rows, but {wanted:,} were fitted: give the rows that were fitted")


def _source_of(run: Any) -> Source:
    """Where the rows of a run were read from, if they are there still."""
    from dtree.engine.rows import source_of_run

    try:
        return source_of_run(run.header)
    except ValueError as problem:
        raise ValueError(
            f"the levels of this fit need its rows, which are not at hand ({problem}): give X, or --data in the command"
        ) from None
