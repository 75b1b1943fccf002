"""A tree as a small picture in SVG, for notebooks: no program is needed to draw it."""

import numpy as np

from dtree.core.colours import ABOVE_CUT, colour_of
from dtree.core.layout import children, lay_out
from dtree.core.shape import Shape, shape_of_tree
from dtree.core.tree import Tree

_WIDTH, _LINE, _MARGIN, _TEXT = 460.0, 15.0, 8.0, 110.0  # pixels
_MOST_TIPS = 24


def svg_of_tree(tree: Tree) -> str:
    """A tree cut where a node is one cluster with probability 1/2.

    >>> tree = Tree.from_merges([[0, 1], [2, 3]], size=[1, 1, 1], log_phi_h=np.log([0.5, 0.5, 0.5, 0.4, 0.05]))
    >>> svg_of_tree(tree).count("<path")
    4
    """
    return svg_of_shape(shape_of_tree(tree), tree.cut())


def svg_of_shape(shape: Shape, leaf_clusters: np.ndarray) -> str:
    """A tree from left (root) to right (leaves), every cluster (m,) in its colour; large ones down to the clusters."""
    cluster = shape.clusters_of_nodes(leaf_clusters)
    drawing = lay_out(shape, cluster, _MOST_TIPS)
    colour = [colour_of(int(c)) for c in cluster]
    across = _places(drawing.height, list(drawing.place), drawing.foot)
    tall = _LINE * len(drawing.tips) + 2 * _MARGIN
    down = {node: _MARGIN + _LINE * (place + 0.5) for node, place in drawing.place.items()}
    parts = []
    for node in drawing.opened:
        for child in children(shape, node):
            ink = colour[child] if colour[node] == ABOVE_CUT else colour[node]
            corner = f"M{across[node]:.1f} {down[node]:.1f}V{down[child]:.1f}H{across[child]:.1f}"
            parts.append(f'<path d="{corner}" stroke="{ink}"/>')
    foot = _WIDTH - _MARGIN - _TEXT
    for node in drawing.tips:
        y, ink = down[node], colour[node]
        if node >= shape.n_leaves:
            half = 0.36 * _LINE
            corners = f"{across[node]:.1f},{y:.1f} {foot:.1f},{y - half:.1f} {foot:.1f},{y + half:.1f}"
            parts.append(f'<polygon points="{corners}" fill="{ink}" fill-opacity="0.8"/>')
        rows = int(shape.size[node])
        text = f"{rows:,} rows" if rows > 1 else f"{shape.first_leaf(node)}"
        parts.append(f'<text stroke="none" x="{foot + 6:.1f}" y="{y + 4:.1f}" fill="{ink}">{text}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{tall:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {tall:.0f}" role="img" fill="none" stroke-width="1.5" '
        f'style="font: 11px sans-serif; max-width: 100%" aria-label="A tree over {shape.n_leaves:,} leaves">'
        f"{''.join(parts)}</svg>"
    )


def _places(height: np.ndarray, drawn: list[int], foot: float) -> dict[int, float]:
    """Pixels from the left of the drawn nodes; heights may span orders of magnitude, so they are squeezed."""
    squeezed = {node: float(np.arcsinh(height[node])) for node in drawn}
    low, high = float(np.arcsinh(foot)), max(squeezed.values())
    span = (_WIDTH - 2 * _MARGIN - _TEXT) / max(high - low, 1e-12)
    return {node: _MARGIN + span * (high - value) for node, value in squeezed.items()}
