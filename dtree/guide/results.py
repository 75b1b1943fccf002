"""Read what came out.

**The tree.** Leaves are rows (or clusters of rows, after Bayes K-means). Every inner node k carries

* `size`: how many rows lie below it;
* `r`: the probability that they are one cluster, against all the partitions of them that the tree contains;
* the log evidence of its rows, `log_phi_t`.

**Clusters** are the highest nodes with r of at least one half (`cut`). `tree.cut(0.1)` merges more readily, `tree.cut(n_clusters=8)`
asks for a number, and `tree.map_partition()` maximises the product instead; the last two need not agree with the
first.

**`log_evidence_bound_`** is a lower bound on log p(X) under the model with all partitions summed over: larger is better, between
models of the same data. A difference of 5 is strong evidence. `dtree.evidence_bounds` has tighter ones.

**`score_samples`** is the log predictive density of new rows, normalised: it integrates to one. A row with a density far
below those of the training rows is unlike all of them:

>>> import numpy as np, dtree
>>> X = np.random.default_rng(0).normal(size=(100, 2))
>>> model = dtree.BHC().fit(X)
>>> bool(model.score_samples([[9.0, -9.0]])[0] < model.score_samples(X).min())
True

**`predict_proba`** (n, k) is the probability of each cluster of `labels_`, given that the row belongs to one of them; the clusters are
held fixed, so it does not average over partitions. `score_samples` does: its mixture has a part for every node of the tree.

**Chains.** `posterior_` is an xarray DataTree in ArviZ's schema. Look at R-hat (near 1) and the effective sample size before
anything else; then at the co-clustering matrix, which does not depend on how clusters are numbered.

## The report

`dtree report run.zarr -o report.html`, or `dtree.report(model, "report.html", X=X)`, writes one page that needs nothing else. From top to bottom:

| part | how to read it |
| --- | --- |
| Tree | Coloured branches are clusters. A fork left of the dotted line is a split with better than even odds; the further left, the surer. Click a triangle to open it; search finds a row by name. |
| Clusters | Sizes, and what sets each apart: means in standard deviations for Gaussians, words or features by mutual information for counts and binary data; mean pictures with `image_shape`. |
| In two dimensions | Rows in the plane in which they differ most. Clusters that overlap here may be apart in other dimensions. |
| Evidence | Lower bounds on log p(X), each at least the one above; a large gap between the first and the last says that the tree leaves much out. |
| How the fit went | Objective or bound by pass or iteration: it must rise and level off. |
| Chains | R-hat, effective sample sizes, traces; then which rows belong together in how many of the draws. |
| Where this comes from | Command, data and their fingerprint, versions, settings: enough to do it again. |

## Elsewhere

`dtree export` and the methods of a tree give Newick for phylogenetics programs, a linkage matrix for SciPy's `dendrogram`, labels as a table, and pictures.
In an AnnData (`pip install 'dtree[scverse]'`) the answer stands where scanpy looks for it:

    dtree.tl.tree_clustering(adata)                              # of obsm["X_pca"]; obs["dtree"], obsm["X_dtree"], uns["dendrogram_dtree"]
    dtree.tl.tree_clustering(adata, family="multinomial", layer="counts", mask_var="highly_variable", key_added="types")
    dtree.pl.tree(adata)                                         # the tree over the components, in scanpy's colours
    sc.pl.dotplot(adata, genes, groupby="dtree", dendrogram=True)

A backed AnnData is read from its file by ranges, a Dask-backed one block by block; sparse counts stay sparse for the multinomial family, the others
take them as dense rows. Log-normalised counts with many zeros have clumps of their own among the principal components, which are found too:
`sc.pp.normalize_total` to the median rather than to 10,000, or the counts themselves, keep them out.

**A run on disk** is a zarr group that any zarr reader opens: `labels`, `tree/`, `statistics/`, and where it came from. Nothing in it is
ever unpickled.
"""
