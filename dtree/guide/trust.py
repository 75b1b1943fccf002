"""Trust the answer: what is tested, and what to check yourself.

**What is tested.** Values computed independently with high precision; sums over all partitions of small data; slow, obvious twins of
every fast algorithm; properties that must hold for any data (statistics add, bounds are in order and below the exact
evidence, chains have the right stationary law); real worker processes killed in the middle. `make test` and `make test-slow`.
`python -m benchmarks.reproduce` does the papers' experiments again and says where the answers differ.

**What to check yourself.**

1. *Is it stable?* Fit half of the rows, predict the other half, compare with its own fit:

   >>> import numpy as np, dtree
   >>> from sklearn.metrics import adjusted_rand_score
   >>> from dtree.datasets import nested_creatures
   >>> X = nested_creatures(180).X
   >>> half, rest = dtree.BHC().fit(X[::2]), dtree.BHC().fit(X[1::2])
   >>> adjusted_rand_score(half.predict(X[1::2]), rest.labels_) > 0.9
   True

   Or run chains and look at the co-clustering matrix.
2. *Does the family fit?* Compare `log_evidence_bound_` between families on the same data and columns, and `score` on rows held out.
3. *Is the cut forced?* If most inner nodes near the cut have r between 0.1 and 0.9, the number of clusters is not settled by
   the data; say so when you report it.
4. *Would coarsening change it?* `dtree.coarsening_path(X)` shows how the number of clusters falls as the likelihood is trusted
   less. A number that stays over a wide range is a robust one.
5. *Do the chains agree?* R-hat below 1.01 for the number of clusters and the log joint, from chains that started differently, and some hundred
   effective draws. If not, run longer before you believe any of them.
6. *Is there anything at all?* Shuffle each column on its own, which destroys all clusters but keeps the margins, and fit again. If the shuffled
   data give as many clusters, yours are margins, not groups.

**What it cannot do.** A Dirichlet-process mixture keeps adding small clusters as rows are added, so the number of clusters is not a
consistent estimate of a true one. Clusters that do not follow the family are split. Greedy trees and local optima are not the
best of all trees: the bound says how good the one found is, not how good others are. Co-clustering probabilities are right under the
model, and only as right as the model.

**Reproducible.** The same seed gives the same answer on any number of workers. A run remembers its command, seed, versions and a fingerprint of the
data; `dtree info run.zarr` shows them.
"""
