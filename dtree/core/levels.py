"""Levels: which components of a mixture belong together, from the valleys between them.

A component is what the model fits; a cluster is what a person means. Real groups do not follow a family, so one group
is covered by several components, without a valley between them. The tree over components is the level-set tree of the
density: components are hills, and while the water falls from the highest peak they rise as islands; where two islands
meet, the one with the lower peak ends. How far it had risen above the meeting point is its depth. Cutting the tree at
a depth joins every hill that is not as deep; all cuts are nested.

A chain of components does not join two dense groups through a thin one between them, because depth is counted from the
peaks of the whole islands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dtree.core.partition import canonical_labels
from dtree.core.tree import Binary, sums_below

# A component of fewer rows cannot show a valley: with eight rows and an empty valley of the same width, chance alone
# explains the emptiness in one case of 2^8, with fewer it soon does. It goes where the rest of the mixture puts it.
SMALLEST = 8
# The level is looked for between these depths. Where the density surely falls to less than a quarter of the lower
# peak there is a boundary that nobody would overlook; a tenth is within what bumps get wrong about an even stretch.
SURE_DEPTH = 1.5
LEAST_DEPTH = 0.1
SCATTER = 0.3  # nats by which depths of no meaning differ: added to both, so that ratios of small depths say nothing
MOST_LEVELS = 12
COMPONENTS = -1.0  # the level at which nothing is joined, not even where there is no valley at all


@dataclass(frozen=True, eq=False)
class LevelTree(Binary):
    """The tree over m components: leaves are components, forks stand where they join.

    left, right : (m-1,) children of the forks. size : (2m-1,) rows. depth : (m-1,) how deep the valley is that a fork
    closes, in nats below the lower peak, never less than that of a fork below it.

    >>> depth = np.array([[0.0, 0.2, 5.0], [0.2, 0.0, 4.0], [5.0, 4.0, 0.0]])
    >>> tree = level_tree(np.zeros(3), depth, np.array([9, 9, 9]))
    >>> tree.depth.tolist(), tree.cut(level=1.0).tolist(), tree.cut(n_clusters=3).tolist()
    ([0.2, 4.0], [0, 0, 1], [0, 1, 2])
    """

    left: np.ndarray
    right: np.ndarray
    size: np.ndarray
    depth: np.ndarray

    def _heights(self) -> np.ndarray:
        return np.concatenate([np.zeros(self.n_leaves), self.depth])

    def cut(self, level: float | None = None, n_clusters: int | None = None) -> np.ndarray:
        """Labels (m,) of the components: those joined by valleys of at most this depth, or so many clusters."""
        if (level is None) == (n_clusters is None):
            raise ValueError("give either level or n_clusters")
        if n_clusters is not None:
            return self._cut_into(n_clusters)
        accepted = self._heights() <= level
        accepted[: self.n_leaves] = True  # a component is never parted
        return self._labels(accepted)

    def _repr_svg_(self) -> str:
        """A small picture, for notebooks, every component a cluster; that of a fitted model shows its own clusters."""
        from dtree.core.shape import Shape
        from dtree.core.tree_svg import svg_of_shape

        shape = Shape(self.left, self.right, self.size, self.depth, "depth")
        return svg_of_shape(shape, np.arange(self.n_leaves))

    def validate(self) -> None:
        """Raise ValueError unless the columns are a tree with depths that never fall."""
        m, merges = self.n_leaves, np.column_stack([self.left, self.right])
        whole = np.array_equal(np.sort(merges.ravel()), np.arange(2 * m - 2))
        whole = whole and bool(np.all(merges < np.arange(m, 2 * m - 1)[:, None]))
        whole = whole and self.size.shape == (2 * m - 1,) and self.depth.shape == (m - 1,)
        if not whole or np.any(self.size[m:] != self.size[self.left] + self.size[self.right]):
            raise ValueError("the tree over its components is not one")
        if not np.all(np.isfinite(self.depth)) or np.any(np.diff(self.depth) < 0) or np.any(self.depth < 0):
            raise ValueError("the depths of its valleys are not numbers that rise towards the root")


class Level(NamedTuple):
    """One way to cut the tree."""

    level: float  # valleys of at most this depth are closed
    n_clusters: int
    depth: float  # of the shallowest valley that is left between two clusters; infinite for one cluster
    smallest: float  # share of the rows in the smallest cluster


def pair_matrix(values: np.ndarray, k: int) -> np.ndarray:
    """A symmetric matrix (k, k) with a zero diagonal from values (p,) of the pairs i < j."""
    out = np.zeros((k, k))
    out[np.triu_indices(k, 1)] = values
    return out + out.T


def level_tree(
    peaks: np.ndarray,
    depth: np.ndarray,
    size: np.ndarray,
    host: np.ndarray | None = None,
    apart: np.ndarray | None = None,
) -> LevelTree:
    """The tree of components with log densities `peaks` (m,) at their tops, `depth` (m, m) of the valleys between them
    below the lower peak, and `size` (m,) rows.

    host : (m,) for a component that is too small to show a valley, the one it belongs to; itself for all others.
    apart : (m, m) distances of any kind. A low component may show no valley towards several others; it then goes with
    the nearest. By default they are all as near.
    """
    m = peaks.shape[0]
    host = np.arange(m) if host is None else host
    joins_at, parent = np.zeros(m), host.copy()
    large = np.flatnonzero(host == np.arange(m))
    meeting = np.minimum(peaks[:, None], peaks[None, :]) - depth
    i, j = np.triu_indices(large.shape[0], 1)
    i, j = large[i], large[j]
    island = np.arange(m)

    def top(component: int) -> int:
        while island[component] != component:
            component = island[component]
        return component

    last, joined = int(large[0]), 0
    nearness = np.zeros(i.shape[0]) if apart is None else apart[i, j]
    for pair in np.lexsort((nearness, -meeting[i, j])):
        across, own = i[pair], j[pair]
        high, low = top(across), top(own)
        if high == low:
            continue
        if (peaks[high], -high) < (peaks[low], -low):
            high, low, across = low, high, own
        joins_at[low] = max(0.0, peaks[low] - meeting[i[pair], j[pair]])
        # It joins where they meet, not at the top of the other island, which a cut may part from there.
        parent[low] = across
        island[low] = last = high
        joined += 1
        if joined == large.shape[0] - 1:  # most pairs are left: all that they part is joined already
            break
    joins_at[top(last)] = np.inf
    return _in_order(parent, joins_at, size)


def _in_order(parent: np.ndarray, joins_at: np.ndarray, size: np.ndarray) -> LevelTree:
    """The tree in which every component but one joins the group of its parent, the shallowest first."""
    m = parent.shape[0]
    node, depth = np.arange(m), []
    left, right = np.empty(m - 1, dtype=np.int64), np.empty(m - 1, dtype=np.int64)
    group = np.arange(m)  # the group of each component, named by one of its members
    for fork, component in enumerate(np.argsort(joins_at, kind="stable")[: m - 1]):
        own, other = group[component], group[parent[component]]
        left[fork], right[fork] = sorted((node[own], node[other]))
        group[group == own] = other
        node[other] = m + fork
        depth.append(joins_at[component])
    return LevelTree(left, right, sums_below(left, right, size.astype(np.int64)), np.array(depth, dtype=np.float64))


def chosen_level(tree: LevelTree) -> float:
    """The depth at which the tree is cut: the widest gap, as a ratio, among the depths that are in doubt.

    Valleys deeper than SURE_DEPTH stay open, valleys of less than LEAST_DEPTH are closed, whatever the gaps. Where most
    components are clusters of their own anyway, nothing is in doubt: only valleys of less than LEAST_DEPTH are closed.
    """
    doubtful = tree.depth[(tree.depth > LEAST_DEPTH) & (tree.depth < SURE_DEPTH)]
    edges = np.concatenate([[LEAST_DEPTH], doubtful, [SURE_DEPTH]])
    widest = int(np.argmax(np.diff(np.log(edges + SCATTER))))
    level = float(edges[widest])
    return LEAST_DEPTH if mostly_alone(tree, level) else level


def mostly_alone(tree: LevelTree, level: float) -> bool:
    """Whether more than half of the components are clusters of their own when the tree is cut at the level.

    Then the groups in these data are of the kind that one component describes. Those too small to show it do not count.
    """
    large = tree.size[: tree.n_leaves] >= SMALLEST
    alone = np.count_nonzero(np.bincount(tree.cut(level=level)[large]) == 1)
    return bool(2 * alone > np.count_nonzero(large))


def offered_levels(tree: LevelTree, chosen: float) -> list[Level]:
    """The cuts that are worth a look, coarsest first: those above the widest gaps, and the chosen one."""
    rows = float(tree.size[-1])
    cuts = np.unique(np.concatenate([[0.0], tree.depth]))
    gaps = np.diff(np.log(np.append(cuts, cuts[-1] + 1.0) + SCATTER))
    keep = set(cuts[np.argsort(-gaps, kind="stable")[: MOST_LEVELS - 2]].tolist())
    keep |= {COMPONENTS, float(cuts[cuts <= chosen].max(initial=COMPONENTS))}
    found: list[Level] = []
    for cut in sorted(keep, reverse=True):
        labels = tree.cut(level=cut)
        if found and found[-1].n_clusters == labels.max() + 1:
            continue  # without two components that no valley parts, the finest level is that of depth 0
        share = np.bincount(labels, tree.size[: tree.n_leaves]).min() / rows
        above = tree.depth[tree.depth > cut]
        found.append(Level(cut, int(labels.max()) + 1, float(above.min(initial=np.inf)), float(share)))
    return found


def valleys_around(tree: LevelTree, labels: np.ndarray) -> np.ndarray:
    """How deep (k,) the valley is that parts each cluster of a cut, labels (m,), from its neighbour; infinite for one.

    >>> tree = level_tree(np.zeros(3), np.array([[0.0, 0.2, 5.0], [0.2, 0.0, 4.0], [5.0, 4.0, 0.0]]), np.full(3, 9))
    >>> valleys_around(tree, np.array([0, 0, 1])).tolist(), valleys_around(tree, np.arange(3)).tolist()
    ([4.0, 4.0], [0.2, 0.2, 4.0])
    """
    m, group = tree.n_leaves, np.concatenate([labels, np.full(tree.n_leaves - 1, -1)])
    out = np.full(int(labels.max()) + 1, np.inf)
    for fork, (a, b) in enumerate(zip(tree.left, tree.right)):
        if group[a] == group[b] and group[a] >= 0:
            group[m + fork] = group[a]
            continue
        for child in (a, b):
            if group[child] >= 0:
                out[group[child]] = min(out[group[child]], tree.depth[fork])
    return out


_NO_VALLEY = 0.005  # nats: the density falls by less than half of a per cent, which reads as 100%


def reason_for(tree: LevelTree, level: float) -> str:
    """Why the tree is cut there, in one sentence."""
    k = int(tree.cut(level=level).max()) + 1
    closed, left = tree.depth[tree.depth <= level], tree.depth[tree.depth > level]
    m = tree.n_leaves
    if k == 1:
        if m == 1:
            return "the model needs one component, so there is one cluster"
        return f"no valley between the {m} components is deep enough to be sure of, so they are one cluster"
    said = f"between any two of the {k} clusters the density falls to {_percent(left.min())} of the lower peak or less"
    if closed.size == 0:
        return said
    if closed.max() < _NO_VALLEY:
        return f"{said}; inside them there is no valley"
    return f"{said}; the valleys inside them are shallower, the deepest falls to {_percent(closed.max())}"


def _percent(depth: float) -> str:
    """What is left of a peak at the bottom of a valley."""
    left = 100.0 * math.exp(-depth)
    return f"{left:.0f}%" if left >= 1.0 else f"{max(left, 0.01):.2g}%"


def stability(labels: np.ndarray, halves: list[np.ndarray], size: np.ndarray) -> np.ndarray:
    """How well each cluster (k,) is found again on half of the rows: rows shared by the two over rows in either.

    labels, halves : (m,) clusters of the components from all rows and from each half. size : (m,) rows.
    """
    out = np.zeros(int(labels.max()) + 1)
    for half in halves:
        shared = np.zeros((out.shape[0], int(half.max()) + 1))
        np.add.at(shared, (labels, half), size)
        either = shared.sum(axis=1)[:, None] + shared.sum(axis=0)[None, :] - shared
        out += (shared / np.maximum(either, 1e-300)).max(axis=1)
    return out / len(halves)


def canonical_by_size(labels: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Labels (m,) renumbered so that the largest cluster by rows (m,) is 0; ties by first appearance."""
    labels = canonical_labels(labels)
    order = np.argsort(-np.bincount(labels, size), kind="stable")
    return np.argsort(order, kind="stable")[labels]
