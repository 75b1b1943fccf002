"""Pictures of trees, drawn with Matplotlib."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtree.core.colours import ABOVE_CUT, CLUSTER_COLOURS, INK, colour_of
from dtree.core.layout import Drawing, children, lay_out
from dtree.core.partition import canonical_labels
from dtree.core.shape import Shape
from dtree.core.tree import Tree
from dtree.methods.facts import counted
from dtree.reporting.style import new_axes, quiet_axes
from dtree.reporting.subject import subject_of

_LARGEST_NAMED = 100  # tips that still get a readable name
_AXIS = {
    "odds": "log odds against one cluster",
    "time": "diffusion time that was left",
    "depth": "depth of the valley (nats)",
}


def plot_tree(
    tree_or_model: Any,
    ax: Any = None,
    names: Sequence[str] | None = None,
    *,
    labels: Any = None,
    max_leaves: int = 60,
    title: str | None = None,
) -> Any:
    """Draw a tree from left (root) to right (leaves), every cluster in its colour.

    A fork stands at its log d, the log odds against its rows being one cluster, on a scale that is linear near zero and
    logarithmic beyond; the dotted line is even odds, where the tree is cut by default. The forks of a diffusion tree
    stand at the time that was left when they parted, those of a `TreeClustering` at the depth of the valley that they
    close, and the dotted line is its level. Chains and variational mixtures have no tree of their own: the one
    over their clusters is drawn. A tree with more than `max_leaves` leaves is drawn down to its clusters, each a
    triangle that says how many rows it holds.

    Parameters
    ----------
    tree_or_model : a Tree, or a fitted model of any kind.
    ax : Matplotlib axes; a new figure of fitting size when None.
    names : (m,) names of the leaves; those the model was fitted with when None.
    labels : (m,) cluster of each leaf; the model's own, or the tree cut at 1/2, when None.
    max_leaves : how many leaves and triangles to draw at most.
    title : what to write above.

    Returns the axes.

    >>> from dtree.core.tree import Tree
    >>> tree = Tree.from_merges([[0, 1], [2, 3]], size=[1, 1, 1], log_phi_h=np.log([0.5, 0.5, 0.5, 0.4, 0.05]))
    >>> import matplotlib; matplotlib.use("agg")
    >>> [text.get_text() for text in plot_tree(tree, names=["ash", "box", "cat"]).get_yticklabels()]
    ['ash', 'box', 'cat']
    """
    if not isinstance(tree_or_model, Tree) and not hasattr(tree_or_model, "get_params"):
        raise ValueError(f"plot_tree needs a Tree or a fitted model, not a {type(tree_or_model).__name__}")
    subject = subject_of(tree_or_model)
    shape, leaf_cluster = subject.shape, subject.facts.leaf_clusters
    if labels is not None:
        leaf_cluster = np.asarray(labels)
        if leaf_cluster.shape != (shape.n_leaves,):
            raise ValueError(f"there are {leaf_cluster.size} labels but {shape.n_leaves} leaves")
        leaf_cluster = canonical_labels(leaf_cluster)
    if names is not None and len(names) != shape.n_leaves:
        raise ValueError(f"there are {len(names)} names but {shape.n_leaves} leaves")
    first_rows = subject.first_rows() if names is None else None

    def text(node: int) -> str:
        return _tip_text(shape, node, first_rows, True) if names is None else _tip_text(shape, node, names)

    if title is None:
        title = f"{counted(shape.size[-1], 'row')}, {counted(len(np.unique(leaf_cluster)), 'cluster')}"
    return draw_tree(shape, leaf_cluster, text, ax, max_leaves=max_leaves, title=title)


def draw_tree(
    shape: Shape,
    leaf_cluster: np.ndarray,
    text: Callable[[int], str],
    ax: Any = None,
    *,
    max_leaves: int = 60,
    title: str = "",
    colours: Sequence[str] | None = None,
) -> Any:
    """Draw a shape whose leaves (m,) are in these clusters, with text(node) at its tips; colours (k,) of the clusters,
    dtree's own when None.
    """
    if max_leaves < 2:
        raise ValueError(f"max_leaves must be at least 2, got {max_leaves}")
    cluster = shape.clusters_of_nodes(leaf_cluster)
    drawing = lay_out(shape, cluster, max_leaves)
    height = 1.2 + 0.22 * min(max(len(drawing.tips), 3), _LARGEST_NAMED)
    ax = new_axes(8.0, height) if ax is None else ax
    colour = [colour_of(int(c)) if c < 0 or colours is None else str(colours[int(c)]) for c in cluster]
    _draw_branches(ax, shape, drawing, colour)
    _draw_collapsed(ax, shape, drawing, colour)
    _finish_tree_axes(ax, shape, drawing, colour, [text(node) for node in drawing.tips])
    ax.set_title(title, loc="left", fontsize=11, color=INK)
    return ax


def _draw_branches(ax: Any, shape: Shape, drawing: Drawing, colour: list[str]) -> None:
    from matplotlib.collections import LineCollection

    segments, colours = [], []
    for node in drawing.opened:
        x, at = drawing.height[node], drawing.place[node]
        for child in children(shape, node):
            there = drawing.place[child]
            segments.append([(x, at), (x, there), (drawing.height[child], there)])
            colours.append(colour[child] if colour[node] == ABOVE_CUT else colour[node])
    ax.add_collection(LineCollection(segments, colors=colours, linewidths=1.5, capstyle="round", joinstyle="round"))


def _draw_collapsed(ax: Any, shape: Shape, drawing: Drawing, colour: list[str]) -> None:
    from matplotlib.collections import PolyCollection

    closed = [node for node in drawing.tips if node >= shape.n_leaves]
    foot, tops = drawing.foot, [(drawing.height[node], drawing.place[node]) for node in closed]
    corners = [[(x, y), (foot, y - 0.36), (foot, y + 0.36)] for x, y in tops]
    colours = [colour[node] for node in closed]
    ax.add_collection(PolyCollection(corners, facecolors=colours, edgecolors="none", alpha=0.8))


def _finish_tree_axes(ax: Any, shape: Shape, drawing: Drawing, colour: list[str], texts: list[str]) -> None:
    from matplotlib.ticker import NullLocator

    quiet_axes(ax, _AXIS[shape.scale], "")
    if shape.scale == "time":
        ax.set_xlim(1.02 * max(drawing.height[node] for node in drawing.place) if len(drawing.place) > 1 else 1.0, 0.0)
    else:
        top = max(1.0, *(drawing.height[node] for node in drawing.place)) * 1.15
        linear = 0.1 if shape.scale == "depth" else 1.0  # a tenth of a nat is what depths of no meaning differ by
        ax.set_xscale("symlog", linthresh=linear, linscale=0.5)
        ax.set_xlim(top, drawing.foot)
        ticks = [*([0.1] if shape.scale == "depth" else []), *_decades(drawing.foot, top)]
        ax.set_xticks(ticks, [f"{tick:g}".replace("-", "\u2212") for tick in ticks])
        ax.xaxis.set_minor_locator(NullLocator())
        cut = 0.0 if shape.cut is None else max(1.02 * shape.cut, drawing.foot / 2)  # closed valleys are on its right
        ax.axvline(cut, color=INK, linewidth=0.8, linestyle=(0, (1, 3)), zorder=0)
    ax.set_ylim(len(drawing.tips) - 0.4, -0.6)
    ax.yaxis.tick_right()
    if len(drawing.tips) <= _LARGEST_NAMED:
        ax.set_yticks(range(len(texts)), texts, fontsize=8)
        for text, node in zip(ax.get_yticklabels(), drawing.tips):
            text.set_color(colour[node] if colour[node] != ABOVE_CUT else INK)
    else:
        ax.set_yticks([])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _decades(low: float, high: float) -> list[float]:
    """0 and signed powers of ten between two heights."""
    powers = [10.0**power for power in range(max(0, math.floor(math.log10(max(high, -low, 1.0)))) + 1)]
    return [tick for tick in (*(-power for power in reversed(powers)), 0.0, *powers) if low <= tick <= high]


def _tip_text(shape: Shape, node: int, names: Sequence[str] | None, of_rows: bool = False) -> str:
    """What to write at a tip; `of_rows` says that a leaf of several rows has the name of the first of them."""
    if names is not None and of_rows:
        name, more = names[shape.first_leaf(node)], shape.size[node] - 1
        return f"{name} and {more:,} more" if more else name
    if node >= shape.n_leaves:
        if names is None:
            return f"{shape.size[node]:,} rows"
        first = shape.first_leaf(node)
        return f"{names[first]} and {shape.size[node] - shape.size[first]:,} more"
    if names is not None:
        return str(names[node])
    return str(node) if shape.size[node] == 1 else f"{shape.size[node]:,} rows"


def plot_coarsening_path(path: Any, ax: Any = None) -> Any:
    """Draw the number of clusters against the coarsening: a long flat stretch is a number of clusters to believe in.

    Parameters
    ----------
    path : what `dtree.coarsening_path` returns, or a mapping with its `zetas` and `n_clusters`.
    ax : Matplotlib axes; a new figure when None.

    Returns the axes.

    >>> import matplotlib; matplotlib.use("agg")
    >>> ax = plot_coarsening_path({"zetas": [1.0, 0.7, 0.5], "n_clusters": [9, 7, 2]})
    >>> ax.lines[0].get_ydata().tolist()
    [2, 7, 9]
    """
    coarsening, clusters = (_column(path, name) for name in ("zetas", "n_clusters"))
    if coarsening.shape != clusters.shape or coarsening.ndim != 1 or coarsening.size == 0:
        raise ValueError("a coarsening path has one number of clusters for each zeta, and at least one")
    order = np.argsort(coarsening, kind="stable")
    coarsening, clusters = coarsening[order], clusters[order].astype(np.int64)
    ax = new_axes(6.0, 3.6) if ax is None else ax
    ax.plot(coarsening, clusters, color=CLUSTER_COLOURS[0], linewidth=1.6, marker="o", markersize=5, clip_on=False)
    last = None
    for x, k in zip(coarsening, clusters):
        if k != last:  # one number for each stretch
            ax.annotate(f"{k:,}", (x, k), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=8, color=INK)
        last = k
    quiet_axes(ax, "coarsening (1: the likelihood as it is)", "clusters")
    if clusters.max() > 20 * max(1, clusters.min()):
        ax.set_yscale("log")
    else:
        ax.set_ylim(0, clusters.max() * 1.15 + 0.5)
        ax.yaxis.get_major_locator().set_params(integer=True)
    return ax


def _column(path: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(path[name] if isinstance(path, Mapping) else getattr(path, name))
    except (KeyError, AttributeError):
        raise ValueError(f"a coarsening path needs its '{name}'") from None
