"""Choose a family: what one cluster of your data looks like.

| your columns | family | a cluster is |
| --- | --- | --- |
| measurements that vary together | `"gaussian"` | a cloud of any shape and direction: one mean, one covariance matrix |
| many measurements, or more columns than rows in a cluster | `"gaussian-diag"` | a cloud along the axes: a mean and a variance per column |
| yes or no, word present or absent | `"bernoulli"` | a probability per column |
| counts out of a whole: words, k-mers, votes | `"multinomial"` | a distribution over the columns; row totals do not matter |
| counts by themselves: events, reads | `"poisson"` | a rate per column |
| categories | `"categorical"` | probabilities of the levels of each column |
| columns of several kinds, or missing values | `"mixed"` | each column what it is, independent within a cluster |

**If you say nothing** (`"auto"`), complete numbers get `"gaussian"`; a table with columns of another kind or with missing values gets `"mixed"`.

**Full or diagonal?** A covariance matrix of d columns has d (d + 1) / 2 numbers, and a cluster needs more rows than columns to learn one. Rule of thumb:
full up to about 20 columns or when clusters have hundreds of rows, diagonal beyond. When in doubt fit both and compare
`log_evidence_bound_`, which is fair because both see the same rows:

>>> import numpy as np, dtree
>>> rng = np.random.default_rng(0)
>>> long_and_thin = rng.normal(size=(200, 2)) @ np.array([[3.0, 2.9], [0.0, 0.3]])
>>> bounds = {family: dtree.BHC(family).fit(long_and_thin).log_evidence_bound_ for family in ("gaussian", "gaussian-diag")}
>>> max(bounds, key=bounds.get)
'gaussian'

**Units do not matter** for the Gaussian families: rescaling or shifting a column (or rotating all of them, for `"gaussian"`)
changes no tree and no label, so there is nothing to standardise. Columns that never vary are left out, and the model says which it used (`columns_`).

**Hyperparameters.** A family given by name is fitted: how tight clusters are beside the spread of the data is chosen by the
evidence, on a sample when rows are many. A family given as an object is taken as it is, which is what a comparison of
models needs, and what to do when you know how large a cluster ought to be:

>>> X = np.array([[0.0], [0.2], [5.0], [5.3]])
>>> dtree.BHC("gaussian").fit(X).n_clusters_
2
>>> dtree.BHC(dtree.Gaussian(mean=[2.5], strength=0.1, dof=3.0, scale=[[100.0]])).fit(X).n_clusters_
1

**The prior over partitions** matters less. `"dp"` (Dirichlet process) expects about alpha log n clusters and few small ones; `"nggp"` expects more
small clusters, about n^sigma of them, which suits data with a long tail of rarities. `alpha` is chosen by the evidence too unless you give it.

**Mixed columns.** The log probability of a cluster is the sum over its columns, and hyperparameters are chosen for each kind of column, so units do not matter.
Many columns of one kind can drown the others: `dtree.column_influence(model)` says how many nats per row each column contributes to telling the clusters
apart. A block of columns may get a weight, a power on its likelihood; bounds are then those of the weighted model, no longer the evidence of the data:

>>> real, city = dtree.DiagonalGaussian([0.0], 0.1, 2.0, [1.0]), dtree.Categorical([[1.0, 1.0, 1.0]])
>>> weighted = dtree.Mixed([(real, [0]), (city, [1], 0.5)])

A category that no training row has belongs to the reserved level: one more level than were seen, with the prior mass of a level seen half a time.

**Heavy tails and odd shapes.** Real clusters are never quite Gaussian, and with enough rows any model notices: a large
dataset is cut into more pieces than you would. Three remedies: cut the tree higher (`model.tree_.cut(n_clusters=10)`), trust
the likelihood less (`coarsening=0.3`, see `dtree.coarsening_path`), or transform skewed columns (logarithms of amounts).

**Missing values** (NaN) add nothing to their column, which is exact when values are missing at random. Families of independent columns take them:
`"mixed"`, `"gaussian-diag"`, `"bernoulli"`, `"poisson"` and `"categorical"`. A full Gaussian and the multinomial refuse to be
fitted to them with one sentence (`TreeClustering` completes numbers by draws, see `dtree.guide.tables`); a full Gaussian predicts rows that lack values by the columns that they hold. `impute` fills in what a row
lacks and `surprisal` finds values that do not fit the rest of their row:

>>> X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + rng.normal(size=(40, 2))
>>> X[0, 1] = np.nan
>>> model = dtree.BHC().fit(X)
>>> model.family_.name, bool(abs(model.impute(X)[0, 1]) < 2.0)
('mixed', True)
"""
