"""`dtree.pl`: pictures of what `dtree.tl` left in an AnnData."""

from typing import Any

from dtree.methods.facts import counted
from dtree.reporting.plots import draw_tree
from dtree.scverse.record import shape_in


def tree(adata: Any, key: str = "dtree", ax: Any = None, *, max_leaves: int = 60, title: str | None = None) -> Any:
    """Draw the tree that `dtree.tl.tree_clustering` found, clusters in the colours that scanpy gave them.

    Forks stand at the depth of the valley of the density that they close; the dotted line is the level at which the
    tree was cut, what joins on its right is one cluster.

    Parameters
    ----------
    adata : the AnnData.
    key : the `key_added` of the clustering.
    ax : Matplotlib axes; a new figure of fitting size when None.
    max_leaves : with more components than that every cluster is one triangle.
    title : what to write above.

    Returns the axes.

    >>> dtree.tl.tree_clustering(adata)  # doctest: +SKIP
    >>> dtree.pl.tree(adata)  # doctest: +SKIP
    """
    if key not in getattr(adata, "uns", {}):
        raise ValueError(f"there is no clustering called '{key}': run dtree.tl.tree_clustering(adata) first")
    shape, clusters = shape_in(adata.uns[key], key)
    colours = adata.uns.get(f"{key}_colors")
    if colours is not None and len(colours) <= int(clusters.max()):  # of other clusters than these
        colours = None
    cluster_of = shape.clusters_of_nodes(clusters)

    def text(node: int) -> str:
        cells, cluster = counted(shape.size[node], "cell"), int(cluster_of[node])
        return f"{cluster}: {cells}" if cluster >= 0 else cells

    if title is None:
        title = f"{counted(shape.size[-1], 'cell')}, {counted(int(clusters.max()) + 1, 'cluster')}"
    return draw_tree(shape, clusters, text, ax, max_leaves=max_leaves, title=title, colours=colours)
