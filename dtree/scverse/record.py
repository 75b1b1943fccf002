"""What a clustering leaves in an AnnData: plain arrays and words, which every file format of anndata keeps."""

from typing import Any

import numpy as np

from dtree.core.levels import LevelTree
from dtree.core.shape import Shape


def cluster_linkage(tree: LevelTree, leaf_clusters: np.ndarray) -> np.ndarray:
    """SciPy linkage (k-1, 4) of the clusters (m,) that the components of a tree make up: its forks above the cut, at
    the depths of the valleys that they close; column 3 counts clusters.

    >>> tree = LevelTree(np.array([0, 2]), np.array([1, 3]), np.array([5, 4, 3, 9, 12]), np.array([0.2, 4.0]))
    >>> cluster_linkage(tree, np.array([0, 0, 1])).tolist()
    [[0.0, 1.0, 4.0, 2.0]]
    """
    m, k = tree.n_leaves, int(leaf_clusters.max()) + 1
    node = np.concatenate([leaf_clusters, np.full(m - 1, -1)])  # of the linkage, for each node of the tree
    held = np.ones(2 * k - 1)
    rows: list[list[float]] = []
    for fork in range(m - 1):
        left, right = int(node[tree.left[fork]]), int(node[tree.right[fork]])
        if left == right:  # below the cut: both are the same cluster
            node[m + fork] = left
            continue
        made = k + len(rows)
        held[made] = held[left] + held[right]
        rows.append([min(left, right), max(left, right), tree.depth[fork], held[made]])
        node[m + fork] = made
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def dendrogram_of(linkage: np.ndarray, categories: list[str], key: str, use_rep: str, means: np.ndarray) -> dict:
    """The entry `dendrogram_{key}` of `uns` as `sc.tl.dendrogram` writes it, with dtree's tree in place of a linkage of
    means; `means` (k, d) of the clusters are only what the correlations are of.
    """
    import pandas
    from scipy.cluster.hierarchy import dendrogram

    drawn = dendrogram(linkage, labels=categories, no_plot=True)
    order = [int(place) for place in drawn["leaves"]]
    correlations = pandas.DataFrame(means.T).corr(method="pearson").to_numpy().clip(-1.0, 1.0)
    return {
        "linkage": linkage,
        "groupby": [key],
        "use_rep": use_rep,
        "cor_method": "pearson",
        "linkage_method": "dtree",
        "categories_ordered": [categories[place] for place in order],
        "categories_idx_ordered": order,
        "dendrogram_info": drawn,
        "correlation_matrix": correlations,
    }


def record_of(model: Any, what: str, params: dict[str, Any]) -> dict[str, Any]:
    """The entry `{key}` of `uns`: parameters, why these clusters, the levels, and the tree over the components."""
    tree = model.tree_
    return {
        "params": {"rows": what, **{name: str(value) for name, value in params.items()}},
        "family": model.family_.name,
        "level": float(model.level_),
        "level_reason": model.level_reason_,
        "log_evidence_bound": float(model.log_evidence_bound_),
        "levels": model.levels_.rename(index=str),
        "cluster_confidence": np.asarray(model.cluster_confidence_),
        "cluster_stability": np.asarray(model.cluster_stability_),
        "tree": {
            "left": np.asarray(tree.left),
            "right": np.asarray(tree.right),
            "size": np.asarray(tree.size),
            "depth": np.asarray(tree.depth),
            "leaf_clusters": np.asarray(model.leaf_clusters_),
        },
    }


def shape_in(record: Any, key: str) -> tuple[Shape, np.ndarray]:
    """The tree to draw and the cluster (m,) of each of its components, from what `record_of` left."""
    try:
        columns = {name: np.asarray(record["tree"][name]) for name in ("left", "right", "size", "depth")}
        clusters, level = np.asarray(record["tree"]["leaf_clusters"]), float(record["level"])
        tree = LevelTree(**columns)
        tree.validate()
        if clusters.shape != (tree.n_leaves,):
            raise ValueError
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError(f"uns['{key}'] holds no tree of dtree: run dtree.tl.tree_clustering(adata) again") from None
    return Shape(tree.left, tree.right, tree.size, tree.depth, "depth", cut=level), clusters
