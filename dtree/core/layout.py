"""Where the nodes of a tree stand in a picture, and which of them are drawn when there are too many."""

import heapq
from typing import NamedTuple

import numpy as np

from dtree.core.shape import Shape

_FEW_TIPS = 8
_BELOW_ZERO = -0.05  # where leaves stand on a scale of depths: a fork may stand at zero


class Drawing(NamedTuple):
    """Where every drawn node stands."""

    opened: list[int]  # nodes drawn as a fork
    tips: list[int]  # drawn leaves and collapsed nodes, top to bottom
    place: dict[int, float]  # position of each drawn node across the tips
    height: np.ndarray  # (2m-1,)
    foot: float  # where the leaves stand


def lay_out(shape: Shape, cluster: np.ndarray, max_leaves: int) -> Drawing:
    """The drawing of a tree whose nodes belong to clusters (2m-1,), -1 for none, with at most so many tips."""
    m, merges = shape.n_leaves, shape.height
    opened = set(range(m, 2 * m - 1)) if m <= max_leaves else _opened(shape, cluster, max_leaves)
    tips: list[int] = []
    stack = [2 * m - 2]
    while stack:
        node = stack.pop()
        if node in opened:
            # The larger child on top makes the picture independent of which child is called left.
            stack.extend(sorted(children(shape, node), key=lambda k: (shape.size[k], -k)))
        else:
            tips.append(node)
    place = {node: float(position) for position, node in enumerate(tips)}
    for node in sorted(opened):
        place[node] = 0.5 * sum(place[child] for child in children(shape, node))
    drawn = [merges[node - m] for node in place if node >= m]
    foot = {"time": 0.0, "depth": _BELOW_ZERO}.get(shape.scale, min(0.0, *drawn, 0.0) * 1.6 - 0.6)
    return Drawing(sorted(opened), tips, place, np.concatenate([np.full(m, foot), merges]), foot)


def _opened(shape: Shape, cluster: np.ndarray, max_leaves: int) -> set[int]:
    """Which forks to draw of a tree with too many: those above the clusters, highest first.

    When that leaves only a few tips, the largest clusters are opened too.
    """
    m = shape.n_leaves
    opened: set[int] = set()

    def turn(node: int) -> tuple[bool, float, int]:
        inside = bool(cluster[node] >= 0)
        return inside, -float(shape.size[node] if inside else shape.height[node - m]), -node

    waiting = [turn(2 * m - 2)]
    while waiting:
        inside, _, last = heapq.heappop(waiting)
        if len(opened) + 1 >= (min(max_leaves, _FEW_TIPS) if inside else max_leaves):
            break
        opened.add(-last)
        for child in children(shape, -last):
            if child >= m:
                heapq.heappush(waiting, turn(child))
    return opened


def children(shape: Shape, node: int) -> tuple[int, int]:
    """The two children of a fork."""
    return int(shape.left[node - shape.n_leaves]), int(shape.right[node - shape.n_leaves])
