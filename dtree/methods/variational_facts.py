"""What `info`, the console and the report say of a variational mixture."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dtree.core.families import Mixed
from dtree.core.shape import Shape, shape_of_tree
from dtree.hierarchy.bhc import build_tree
from dtree.methods.facts import Facts, counted

if TYPE_CHECKING:
    from dtree.methods.variational import Fitted

OCCUPIED = 0.5  # expected rows below which a component counts as empty


def facts_of(fitted: Fitted, labels: np.ndarray | None) -> Facts:
    """The facts of a mixture and, where known, the labels (n,) of its rows; the tree over components is built here."""
    mixture, k = fitted.mixture, fitted.n_clusters
    shown = fitted.shown[:k]  # components that hold rows come first
    occupied = mixture.counts[shown] >= OCCUPIED  # others have too few soft rows to stand in a tree
    held = shown[occupied] if occupied.any() else shown
    statistics = np.ascontiguousarray(mixture.statistics[held])
    row_leaf = None
    if labels is not None:
        leaf = np.full(k, -1)
        leaf[np.isin(shown, held)] = np.arange(held.shape[0])
        row_leaf = leaf[labels]

    def shape() -> Shape:
        found = shape_of_tree(build_tree(fitted.model, statistics))
        if row_leaf is None:
            return found
        order, start, stop = found.leaf_order()
        rows = np.bincount(row_leaf[row_leaf >= 0], minlength=held.shape[0])
        before = np.concatenate([[0], np.cumsum(rows[order])])  # rows in the leaves to the left of each place
        return replace(found, size=before[stop] - before[start])

    bound, elbo = "log evidence at least" if fitted.is_bound else "approximate bound", float(fitted.trace[-1])
    kind, means = "pass" if fitted.steps else "iteration", mixture.parameters(shown)
    # Columns of several kinds have no one number each; they are told in words.
    plain = {} if isinstance(mixture.family, Mixed) else means
    first = next((values for values in plain.values() if np.ndim(values) == 2), np.empty((k, 0)))
    warnings = [] if fitted.converged else ["not converged: fit again with a larger --max-iter, --time-limit or --tol"]
    if not fitted.is_bound:
        warnings.append("the variational bound is an expansion here and may lie above the evidence")
    return Facts(
        title=f"Variational inference ({mixture.variant})",
        n_clusters=k,
        headline=f"{counted(k, 'cluster')} after {counted(fitted.n_iter, kind)}, {bound} {elbo:.6g}",
        shape=shape,
        leaf_clusters=np.arange(held.shape[0]),
        row_leaf=row_leaf,
        lines={
            "variational mixture": f"{mixture.variant}, truncation {mixture.statistics.shape[0]}",
            "alpha": f"{mixture.alpha:.6g}" + (" (learned)" if fitted.alpha_learned else ""),
        },
        warnings=tuple(warnings),
        remark="The tree over the components that hold rows was built for this page.",
        model=fitted.model,
        statistics=statistics,
        evidence={"variational bound": elbo},
        traces={"variational bound": (kind, [fitted.trace])},
        clusters={"weight": mixture.weights()[shown], **{f"#{c}": first[:, c] for c in range(first.shape[1])}},
    )
