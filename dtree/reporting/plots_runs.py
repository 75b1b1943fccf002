"""Pictures of clusters, bounds, traces and co-clustering, drawn with Matplotlib."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dtree.core.colours import CLUSTER_COLOURS, INK, colour_of
from dtree.reporting.profile import Profile
from dtree.reporting.projection import over_clusters, principal_plane
from dtree.reporting.style import new_axes, quiet_axes
from dtree.reporting.subject import subject_of

_MOST_POINTS = 20_000
_MOST_TOGETHER = 1000
_LEGEND_UP_TO = 12


def plot_clusters(model: Any, X: Any = None, ax: Any = None, *, title: str | None = None) -> Any:
    """Draw rows in the plane in which they differ most, every cluster in its colour.

    Parameters
    ----------
    model : a fitted dtree model.
    X : (n, d) rows; without them the rows or summaries that the model keeps, as circles that grow with their rows.
    ax : Matplotlib axes; a new figure when None.
    title : what to write above.

    Returns the axes. Two features are drawn as they are, more by their first two principal components.

    >>> import dtree, matplotlib; matplotlib.use("agg")
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> ax = plot_clusters(dtree.BHC().fit(X))
    >>> ax.get_title(loc="left"), len(ax.collections[0].get_offsets())
    ('60 rows, 2 clusters', 60)
    """
    subject = subject_of(model)
    if subject.profile is None:
        raise ValueError("plot_clusters needs a model with statistics of its rows, which this one does not keep")
    if X is not None:
        from dtree.reporting.html import give_points

        give_points(subject, X, _MOST_POINTS)
    assert subject.drawn is not None
    points, cluster = subject.drawn[:2]
    places, x_label, y_label = _places(points, subject.feature_names)
    weight = np.ones(len(places)) if points.kind == "token" else np.asarray(points.exposure)
    ax = new_axes(6.0, 4.6) if ax is None else ax
    area = 14.0 if weight.max() <= 1.0 + 1e-9 else 12.0 + 500.0 * weight / weight.max()
    colours = [colour_of(int(c)) for c in cluster]
    ax.scatter(places[:, 0], places[:, 1], s=area, c=colours, alpha=0.8, linewidths=0.4, edgecolors="white")
    quiet_axes(ax, x_label, y_label)
    k = subject.n_clusters
    if 1 < k <= _LEGEND_UP_TO:
        for c in range(k):
            ax.scatter([], [], s=24, color=colour_of(c), label=str(c))
        ax.legend(title="cluster", fontsize=8, title_fontsize=8, frameon=False, loc="best")
    ax.set_title(title or subject.headline, loc="left", fontsize=11, color=INK)
    return ax


def _places(points: Profile, names: Any) -> tuple[np.ndarray, str, str]:
    d = points.sums.shape[1]
    if d <= 2 and points.kind != "token":
        values = points.in_data_units()
        labels = [str(name) for name in names] if names is not None and len(names) == d else ["first", "second"]
        if d == 1:
            return np.column_stack([values, np.zeros(len(values))]), labels[0], ""
        return values, labels[0], labels[1]
    plane = principal_plane(points)
    share = [f"{100 * value:.0f}%" for value in plane.share]
    return plane.places, f"first component ({share[0]} of the variance)", f"second component ({share[1]})"


def plot_bounds(bounds_or_model: Any, ax: Any = None, *, exact: float | None = None) -> Any:
    """Draw lower bounds on the log evidence, each above the one before.

    Parameters
    ----------
    bounds_or_model : what `dtree.evidence_bounds` returns, or a fitted `BHC`.
    ax : Matplotlib axes; a new figure when None.
    exact : the log evidence itself, where it is known, as a line.

    Returns the axes.

    >>> import dtree, matplotlib; matplotlib.use("agg")
    >>> ax = plot_bounds({"bhc": -9.0, "alternative": -8.5, "nested": -8.25}, exact=-8.2)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['bhc', 'alternative', 'nested']
    """
    if isinstance(bounds_or_model, Mapping):
        bounds = dict(bounds_or_model)
    else:
        from dtree.estimators.bhc import BHC
        from dtree.estimators.evidence import evidence_bounds

        if not isinstance(bounds_or_model, BHC):
            raise ValueError("plot_bounds needs what dtree.evidence_bounds returns, or a fitted BHC")
        bounds = evidence_bounds(bounds_or_model)
    if not bounds:
        raise ValueError("there are no bounds to draw")
    ax = new_axes(6.0, 1.0 + 0.34 * len(bounds)) if ax is None else ax
    values, places = np.array(list(bounds.values()), dtype=float), np.arange(len(bounds))
    low = values.min()
    ax.hlines(places, low, values, color=CLUSTER_COLOURS[0], linewidth=1.4, alpha=0.5)
    ax.plot(values, places, "o", color=CLUSTER_COLOURS[0], markersize=6)
    paper = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.0}
    small = {"textcoords": "offset points", "fontsize": 8, "color": INK}
    for value, place in zip(values, places):
        text = f"{value:.4g}" if place == 0 else f"+{value - values[0]:.3g}"
        ax.annotate(text, (value, place), xytext=(8, 0), va="center", bbox=paper, **small)
    if exact is not None:
        ax.axvline(exact, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
        ax.annotate("exact", (exact, -0.7), ha="right", xytext=(-4, 0), **small)
    ax.set_yticks(places, [str(name).replace("_", " ") for name in bounds])
    ax.set_ylim(len(bounds) - 0.4, -0.9)
    span = max(values.max(), exact if exact is not None else values.max()) - low
    ax.set_xlim(low - 0.05 * (span or 1.0), low + 1.28 * (span or 1.0))
    quiet_axes(ax, "log evidence at least", "")
    return ax


def plot_traces(model: Any, axes: Any = None) -> Any:
    """Draw how a fit went: the draws of every chain, the bound of every iteration, or the objective of every pass.

    Parameters
    ----------
    model : a fitted model that keeps such a trace: `DPMixtureMCMC`, `DPMixtureVB`, `BayesKMeans`,
        `DiffusionTree("mcmc")`, `BHC(optimize=True)`.
    axes : one Matplotlib axes for each quantity; a new figure when None.

    Returns an array of axes, one for each quantity.

    >>> import dtree, matplotlib; matplotlib.use("agg")
    >>> X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [9.0]], 20, axis=0)
    >>> model = dtree.BayesKMeans(family="gaussian-diag", random_state=0).fit(X)
    >>> [ax.get_ylabel() for ax in plot_traces(model)]
    ['objective', 'clusters']
    """
    traces = {
        name: (step, lines)
        for name, (step, lines) in subject_of(model).facts.traces.items()
        if all(np.all(np.isfinite(line)) for line in lines)
    }
    if not traces:
        raise ValueError(f"this {type(model).__name__} keeps no trace of its fit")
    axes = np.atleast_1d(new_axes(7.0, 1.7 * len(traces) + 0.4, len(traces)) if axes is None else axes)
    if len(axes) != len(traces):
        raise ValueError(f"there are {len(axes)} axes but {len(traces)} quantities: {', '.join(traces)}")
    for ax, (name, (what, lines)) in zip(axes, traces.items()):
        for place, values in enumerate(lines):
            label = f"chain {place}" if len(lines) > 1 else None
            steps = np.arange(len(values)) + (1 if what == "pass" else 0)
            ax.plot(steps, values, color=colour_of(place), linewidth=1.0, label=label)
        quiet_axes(ax, what if ax is axes[-1] else "", name)
    if any(len(lines) > 1 for _, lines in traces.values()):
        axes[0].legend(fontsize=8, frameon=False, ncols=4, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    return axes


def plot_coclustering(model_or_matrix: Any, ax: Any = None, *, labels: Any = None) -> Any:
    """Draw how often two rows are in one cluster, rows ordered by cluster; the darker, the more often.

    Parameters
    ----------
    model_or_matrix : a fitted `DPMixtureMCMC`, or probabilities (n, n).
    ax : Matplotlib axes; a new figure when None.
    labels : (n,) clusters that order the rows; the model's own, or those of average linkage, when None.

    Returns the axes. Of more than 1,000 rows so many are drawn, evenly over the clusters.

    >>> import matplotlib; matplotlib.use("agg")
    >>> ax = plot_coclustering([[1.0, 0.1, 0.9], [0.1, 1.0, 0.2], [0.9, 0.2, 1.0]], labels=[0, 1, 0])
    >>> ax.images[0].get_array()[0].tolist()
    [1.0, 0.9, 0.1]
    """
    if hasattr(model_or_matrix, "coclustering"):
        model = model_or_matrix
        labels = np.asarray(subject_of(model).facts.leaf_clusters if labels is None else labels)
        rows = over_clusters(labels, _MOST_TOGETHER)
        together = model.coclustering(rows)
    else:
        matrix = np.asarray(model_or_matrix, dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"co-clustering probabilities are a square matrix, not an array of shape {matrix.shape}")
        labels = _order_of(matrix) if labels is None else np.asarray(labels)
        if labels.shape != (matrix.shape[0],):
            raise ValueError(f"there are {labels.size} labels but {matrix.shape[0]} rows")
        rows = over_clusters(labels, _MOST_TOGETHER)
        together = matrix[np.ix_(rows, rows)]
    ax = new_axes(5.4, 4.6) if ax is None else ax
    image = ax.imshow(together, cmap="Blues", vmin=0.0, vmax=1.0, interpolation="nearest")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("probability of being together", fontsize=9, color=INK)
    bar.ax.tick_params(labelsize=8, colors=INK)
    bar.outline.set_visible(False)
    ax.set(xticks=[], yticks=[])
    shown = f"{len(rows):,}" if len(rows) == len(labels) else f"{len(rows):,} of {len(labels):,}"
    ax.set_xlabel(f"{shown} rows, ordered by cluster", fontsize=9, color=INK)
    return ax


def _order_of(matrix: np.ndarray) -> np.ndarray:
    if matrix.shape[0] < 3:
        return np.zeros(matrix.shape[0])
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    apart = 1.0 - 0.5 * (matrix + matrix.T)
    np.fill_diagonal(apart, 0.0)
    return np.argsort(leaves_list(linkage(squareform(apart, checks=False), "average")))
