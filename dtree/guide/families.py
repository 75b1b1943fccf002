"""Choose a family: what one cluster of your data looks like.

| your columns | family | a cluster is |
| --- | --- | --- |
| measurements that vary together | `"gaussian"` | a cloud of any shape and direction: one mean, one covariance matrix |
| many measurements, or more columns than rows | `"gaussian-diag"` | a cloud along the axes: a mean and a variance per column |
| yes or no, word present or absent | `"bernoulli"` | a probability per column |
| counts out of a whole: words, k-mers, votes | `"multinomial"` | a distribution over the columns; row totals do not matter |
| counts by themselves: events, reads | `"poisson"` | a rate per column |

**Units do not matter** for the Gaussian families: rescaling or shifting a column (or rotating all of them, for `"gaussian"`)
changes no tree and no label, so there is nothing to standardise. Columns that never vary are left out.

**Hyperparameters.** A family given by name is fitted: how tight clusters are beside the spread of the data is chosen by the
evidence, on a sample when rows are many. A family given as an object is taken as it is, which is what a comparison of
models needs:

>>> import numpy as np, dtree
>>> X = np.array([[0.0], [0.2], [5.0], [5.3]])
>>> dtree.BHC("gaussian").fit(X).n_clusters_
2
>>> dtree.BHC(dtree.Gaussian(mean=[2.5], strength=0.1, dof=3.0, scale=[[100.0]])).fit(X).n_clusters_
1

**Mixed columns** have no family of their own yet: cluster the real ones and the binary ones apart, or binarise.

**Heavy tails and odd shapes.** Real clusters are never quite Gaussian, and with enough rows any model notices: a large
dataset is cut into more pieces than you would. Three remedies: cut the tree higher (`model.tree_.cut(n_clusters=10)`), trust
the likelihood less (`coarsening=0.3`, see `dtree.coarsening_path`), or transform skewed columns (logarithms of amounts).
"""
