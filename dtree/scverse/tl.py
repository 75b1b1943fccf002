"""`dtree.tl`: clusters of an AnnData, written where scanpy looks for them."""

from typing import Any

import numpy as np

from dtree.core.names import Named
from dtree.scverse.record import cluster_linkage, dendrogram_of, record_of
from dtree.scverse.rows import Rows, chosen_rows


def tree_clustering(
    adata: Any,
    use_rep: str | None = None,
    *,
    layer: str | None = None,
    mask_var: Any = None,
    key_added: str = "dtree",
    copy: bool = False,
    **settings: Any,
) -> Any:
    """Cluster the cells of an AnnData with `dtree.TreeClustering`: how many clusters there are, their tree, how sure.

    Rows in memory, in HDF5 (a backed AnnData) or in Dask blocks; the last two are read in passes, piece by piece.

    Parameters
    ----------
    adata : the AnnData, which is written to as scanpy's tools do.
    use_rep : what in `obsm` is clustered, or `"X"` for the matrix itself. None means `"X_pca"`; with a family of counts
        (`family="poisson"` or `"multinomial"`) it means the layer `counts` where there is one, else X.
    layer : a layer to cluster instead.
    mask_var : genes to use of X or a layer: a boolean column of `var`, such as `"highly_variable"`, or a mask.
    key_added : under which name the answer is written.
    copy : whether to leave `adata` as it is and return a copy with the answer.
    settings : of `dtree.TreeClustering`: `level`, `family`, `alpha`, `random_state` (0 here, as in scanpy), `client`,
        `out`, ...

    Returns None, or the copy. It writes

    - `obs[key]`: the cluster of each cell, categories '0', '1', ... from the largest;
    - `obs[key_confidence]`, `obs[key_outlier_score]`: how sure that is, and how odd the cell;
    - `obsm["X_" + key]`: (n, k) the probability of each cluster;
    - `uns[key]`: parameters, the reason for the level, the other levels, the tree over the components (for `pl.tree`);
    - `uns["dendrogram_" + key]`: the tree over the clusters, which `sc.pl.dendrogram`, `sc.pl.dotplot(..., groupby=key,
      dendrogram=True)` and the like draw.

    >>> import scanpy as sc  # doctest: +SKIP
    >>> sc.pp.pca(adata)  # doctest: +SKIP
    >>> dtree.tl.tree_clustering(adata)  # doctest: +SKIP
    >>> sc.pl.umap(adata, color="dtree")  # doctest: +SKIP
    >>> dtree.tl.tree_clustering(adata, family="multinomial", layer="counts", key_added="types")  # doctest: +SKIP
    """
    from dtree.estimators.tree_clustering import TreeClustering

    missing = [name for name in ("obs", "var", "obsm", "uns", "layers", "obs_names") if not hasattr(adata, name)]
    if missing:
        raise ValueError(f"tree_clustering needs an AnnData, not a {type(adata).__name__}; arrays go to TreeClustering")
    settings = {"random_state": 0, **settings}
    unknown = sorted(set(settings) - set(TreeClustering().get_params()))
    if unknown:
        raise ValueError(f"TreeClustering has no parameter '{unknown[0]}'")
    model = TreeClustering(**settings)
    rows = chosen_rows(adata, use_rep, layer, mask_var, model.family)
    model.fit(rows.given)
    target = adata.copy() if copy else adata
    _write(target, model, rows, key_added)
    return target if copy else None


def _write(adata: Any, model: Any, rows: Rows, key: str) -> None:
    import pandas

    names = [str(cluster) for cluster in range(model.n_clusters_)]
    memberships, means = _second_look(model, rows)
    adata.obs[key] = pandas.Categorical.from_codes(model.labels_, categories=names)
    adata.obs[f"{key}_confidence"] = model.confidence_
    adata.obs[f"{key}_outlier_score"] = model.outlier_score_
    adata.obsm[f"X_{key}"] = memberships
    shown = {name: value for name, value in model.get_params().items() if name in ("level", "family", "alpha")}
    adata.uns[key] = record_of(model, rows.what, {**shown, "random_state": model.random_state})
    linkage = cluster_linkage(model.tree_, model.leaf_clusters_)
    for stale in (f"dendrogram_{key}", f"{key}_colors"):  # of clusters that were here before
        adata.uns.pop(stale, None)
    if linkage.shape[0]:  # one cluster has no tree
        adata.uns[f"dendrogram_{key}"] = dendrogram_of(linkage, names, key, rows.what, means)


def _second_look(model: Any, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, k) of the clusters, and their means (k, d), in one more pass over the rows."""
    n, k, d = model.labels_.shape[0], model.n_clusters_, model.n_features_in_
    memberships, sums = np.empty((n, k), dtype=np.float32), np.zeros((k, d))
    for start, block in rows.blocks():
        stop = start + block.shape[0]
        memberships[start:stop] = model.predict_proba(Named(block, None, rows.feature_names))
        share = np.zeros((k, stop - start))
        share[model.labels_[start:stop], np.arange(stop - start)] = 1.0
        sums += share @ block
    return memberships, sums / np.bincount(model.labels_, minlength=k)[:, None]
