"""What `info`, the console and the report say of clusters made up of components."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dtree.core.families import Bent, Family
from dtree.core.levels import Level, canonical_by_size, valleys_around
from dtree.core.shape import Shape
from dtree.methods.facts import Cuts, Facts, counted

if TYPE_CHECKING:
    from dtree.methods.tree_clustering import Fitted


HOW_SURE = (
    "Valley: how many nats the density falls, below the lower peak, before the nearest other cluster. Confidence: the "
    "mean probability of its rows to belong to it. Stability: how well it is found again on half of the rows; 1 is "
    "exactly."
)


def levels_frame(levels: list[Level]) -> Any:
    """The levels as a data frame, coarsest first."""
    import pandas

    table = pandas.DataFrame(levels, columns=list(Level._fields))
    return table.rename(columns={"depth": "shallowest_valley", "smallest": "smallest_share"})


def cuts_of(fitted: Fitted) -> Cuts:
    """The levels of a fit, each with its clusters numbered by size."""
    tree, levels = fitted.tree, fitted.levels
    size = tree.size[: tree.n_leaves]
    clusters = [canonical_by_size(tree.cut(level=level.level), size) for level in levels]
    k = int(fitted.leaf_clusters.max()) + 1
    chosen = [level.n_clusters for level in levels].index(k)
    valleys = [valleys_around(tree, labels) for labels in clusters]
    return Cuts(levels, partial(_levels_by_clusters, levels), clusters, valleys, chosen, fitted.reason)


def _levels_by_clusters(levels: list[Level]) -> Any:
    return levels_frame(levels).set_index("n_clusters").rename_axis("clusters")


def _structure(family: Family) -> str:
    """What a component looks like, in words."""
    if not isinstance(family, Bent):
        return family.name
    bent = int(np.count_nonzero(family.bend != 1.0))
    return f"{family.base.name}, {bent} of {family.n_features} columns on a bent scale"


def facts_of(fitted: Fitted, row_leaf: np.ndarray | None) -> Facts:
    """The facts of a fit and, where known, the component (n,) of each row."""
    tree, mixture, k = fitted.tree, fitted.mixture, int(fitted.leaf_clusters.max()) + 1
    m = tree.n_leaves
    made_of = "" if m == k else f" made up of {counted(m, 'component')}"
    known = "log evidence, by draws of what is missing, about" if fitted.is_estimate else "log evidence at least"
    warnings = (
        ()
        if fitted.components.converged
        else ("not converged: the bound was still rising after the last pass; fit again with a larger --max-iter",)
    )
    return Facts(
        title="Components by evidence, joined where no valley parts them",
        n_clusters=k,
        headline=f"{counted(k, 'cluster')}{made_of}, {known} {fitted.log_evidence_bound:.6g}",
        shape=lambda: Shape(tree.left, tree.right, tree.size, fitted.depth, "depth", cut=fitted.level),
        leaf_clusters=fitted.leaf_clusters,
        row_leaf=row_leaf,
        lines={"why this level": fitted.reason, "components": f"{m:,}", "structure": _structure(mixture.family)},
        warnings=warnings,
        remark="Every leaf is a component; forks stand where the valley between two groups of them is closed.",
        model=fitted.model,
        statistics=np.ascontiguousarray(mixture.statistics[fitted.held]),
        present=fitted.present,
        evidence={known: fitted.log_evidence_bound},
        traces={"variational bound": ("pass" if fitted.components.steps else "iteration", [fitted.components.trace])},
        clusters={
            "confidence": fitted.cluster_confidence,
            "stability": fitted.cluster_stability,
            "valley": valleys_around(tree, fitted.leaf_clusters),
        },
        cuts=cuts_of(fitted),
    )
