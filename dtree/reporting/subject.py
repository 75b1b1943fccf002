"""What the page is about: any fitted model, or a tree alone, in one shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.reporting.profile import Profile, profile_of
from dtree.reporting.shape import Shape, shape_of_diffusion, shape_of_tree


@dataclass(eq=False)
class Subject:
    """Everything the sections draw from; what a model does not have is None.

    leaf_cluster : (m,) cluster of each leaf. row_leaf : (n,) leaf of each row. points : profile whose rows are drawn in the
    projection, with point_cluster and point_names; the leaves when None.
    """

    model: Any
    method: str
    shape: Shape
    leaf_cluster: np.ndarray
    profile: Profile | None = None
    row_leaf: np.ndarray | None = None
    points: Profile | None = None
    point_cluster: np.ndarray | None = None
    point_names: list[str] | None = None
    points_in_all: int | None = None
    row_names: list[str] | None = None
    feature_names: list[str] | None = None
    remark: str = ""
    image_shape: tuple[int, int] | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Rows the model was fitted to."""
        return int(self.shape.size[-1])

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.leaf_cluster.max()) + 1

    @property
    def cluster_sizes(self) -> np.ndarray:
        """Rows (k,) in each cluster."""
        return np.bincount(self.leaf_cluster, weights=self.shape.size[: self.shape.n_leaves]).astype(np.int64)

    def feature(self, number: int) -> str:
        """Name of a feature."""
        return self.feature_names[number] if self.feature_names is not None else f"feature {number}"

    def leaf_names(self) -> list[str] | None:
        """Names of the leaves when every leaf is a row with a name."""
        if self.row_names is None or self.row_leaf is None or len(self.row_names) != self.shape.n_leaves:
            return None
        names = [""] * self.shape.n_leaves
        for row, leaf in enumerate(self.row_leaf):
            names[leaf] = self.row_names[row]
        return names if all(self.shape.size[: self.shape.n_leaves] == 1) else None


def subject_of(model: Any) -> Subject:
    """The subject of a fitted model or a tree, or one sentence why there is none."""
    if isinstance(model, Tree):
        shape = shape_of_tree(model)
        rows = np.arange(model.n_leaves)
        return Subject(model, "Tree", shape, model.cut(), row_leaf=rows)
    for kind in type(model).__mro__:
        builder = _BUILDERS.get(kind.__name__)
        if builder is not None and kind.__module__.startswith("dtree."):
            if not _is_fitted(model):
                raise ValueError(f"this {type(model).__name__} is not fitted yet; call fit before the report")
            return builder(model)
    raise ValueError(f"there is no report about a {type(model).__name__}: give a fitted dtree model, a run or a Tree")


def _is_fitted(model: Any) -> bool:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _of_bhc(model: Any) -> Subject:
    tree = model.tree_
    rows = np.arange(tree.n_leaves) if model.labels_.shape[0] == tree.n_leaves else None
    leaf_cluster = model.labels_ if rows is not None else tree.cut(model.cut)
    return Subject(
        model,
        "Bayesian hierarchical clustering",
        shape_of_tree(tree),
        leaf_cluster,
        profile_of(model.family_, model.atoms_, model.coarsening),
        row_leaf=rows,
    )


def _of_incremental(model: Any) -> Subject:
    from dtree.hierarchy.incremental_estimator import leaf_statistics

    profile = profile_of(model.family_, leaf_statistics(model._fitted_forest()), model.coarsening)
    shape = shape_of_tree(model.tree_)
    return Subject(
        model,
        "Incremental Bayesian hierarchical clustering",
        shape,
        model.labels_,
        profile,
        row_leaf=np.arange(shape.n_leaves),
    )


def _of_kmeans(model: Any) -> Subject:
    has_tree = hasattr(model, "tree_")
    tree = model.tree_ if has_tree else build_tree(model.model_, model.statistics_)
    return Subject(
        model,
        "Bayes K-means, then Bayesian hierarchical clustering of its clusters" if has_tree else "Bayes K-means",
        shape_of_tree(tree),
        model.leaf_clusters_ if has_tree else np.arange(tree.n_leaves),
        profile_of(model.family_, model.statistics_, model.coarsening),
        row_leaf=model.atom_labels_ if has_tree else model.labels_,
        remark="Every leaf is a cluster of Bayes K-means."
        if has_tree
        else "The tree over the clusters was built for this page.",
    )


def _of_chains(model: Any) -> Subject:
    labels = model._fitted_labels()
    found, shape = model.credibility(), shape_of_tree(model.tree_)
    atoms = profile_of(model.family_, model.atoms_, model.coarsening)
    return Subject(
        model,
        "Markov chain Monte Carlo over partitions",
        replace(shape, r=found.together, p=found.cluster, by="draws"),
        labels,
        atoms,
        row_leaf=np.arange(shape.n_leaves) if model.labels_.shape[0] == shape.n_leaves else None,
        remark="Colours are the clusters of the point estimate, which need not be branches of this tree.",
    )


def _of_variational(model: Any) -> Subject:
    held = np.bincount(model.labels_, minlength=model.statistics_.shape[0]) > 0
    held[model.statistics_[:, 0] < 0.5] = False  # too few soft rows to stand in a tree
    number = np.cumsum(held) - 1
    statistics = np.ascontiguousarray(model.statistics_[held])
    tree = build_tree(Model(model.family_, DirichletProcess(float(model.alpha_))), statistics)
    shape = shape_of_tree(tree)
    rows = np.where(held[model.labels_], number[model.labels_], -1)
    size = shape.size.copy()
    size[: shape.n_leaves] = np.bincount(rows[rows >= 0], minlength=shape.n_leaves)
    for fork in range(shape.n_leaves - 1):
        size[shape.n_leaves + fork] = size[shape.left[fork]] + size[shape.right[fork]]
    return Subject(
        model,
        f"Variational inference ({model.variant})",
        Shape(shape.left, shape.right, size, shape.height, "odds", shape.r, shape.p),
        np.arange(shape.n_leaves),
        profile_of(model.family_, statistics),
        row_leaf=rows,
        remark="The tree over the components that hold rows was built for this page.",
    )


def _of_diffusion(model: Any) -> Subject:
    prepared = model.prepared_
    shape = shape_of_diffusion(model.tree_, prepared.rows)
    m = shape.n_leaves
    rows = shape.size[:m].astype(np.float64)
    # Where the leaves are believed to be: latent units for binary rows, whatever was missing filled in.
    means = model.node_locations()[0][:m]
    centre = rows @ means / rows.sum()
    spread = np.sqrt(rows @ (means - centre) ** 2 / rows.sum())
    spread = np.where(spread > 1e-12, spread, 1.0)
    several = m < prepared.leaf_of_row.shape[0]
    return Subject(
        model,
        f"Dirichlet diffusion tree ({model.inference})",
        shape,
        model._node_labels[:m],
        Profile("standard", (means - centre) / spread * rows[:, None], rows, centre, spread),
        row_leaf=prepared.leaf_of_row,
        remark="A diffusion tree has no clusters of its own; they are its branches below a cut in time."
        + (" A leaf may be a summary of several rows." if several else ""),
    )


# By the name of the class, so that this file loads none of them; the subclass decides before its parents.
_BUILDERS: Mapping[str, Callable[[Any], Subject]] = {
    "BHC": _of_bhc,
    "IncrementalBHC": _of_incremental,
    "InMemoryBayesKMeans": _of_kmeans,
    "DPMixtureMCMC": _of_chains,
    "DPMixtureVB": _of_variational,
    "DiffusionTree": _of_diffusion,
}
