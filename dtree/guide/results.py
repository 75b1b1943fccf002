"""Read what came out.

**The tree.** Leaves are rows (or clusters of rows, after Bayes K-means). Every inner node k carries

* `size`: how many rows lie below it;
* `r`: the probability that they are one cluster, against all the partitions of them that the tree contains;
* the log evidence of its rows, `log_phi_t`.

**Clusters** are the highest nodes with r of at least one half (`cut`). `tree.cut(0.1)` merges more readily, `tree.cut(n_clusters=8)`
asks for a number, and `tree.map_partition()` maximises the product instead; the last two need not agree with the
first.

**`log_evidence_bound_`** is a lower bound on log p(X) under the model with all partitions summed over: larger is better, between
models of the same data. `dtree.evidence_bounds` has tighter ones.

**`score_samples`** is the log predictive density of new rows, normalised: it integrates to one. A row with a density far
below those of the training rows is unlike all of them.

**`predict_proba`** are memberships, averaged over the partitions of the tree for `BHC`.

**Chains.** `posterior_` is an xarray DataTree in ArviZ's schema. Look at R-hat (near 1) and the effective sample size before
anything else; then at the co-clustering matrix, which does not depend on how clusters are numbered.

**A run on disk** is a zarr group that any zarr reader opens: `labels`, `tree/`, `statistics/`, and where it came from. Nothing in it is
ever unpickled.
"""
