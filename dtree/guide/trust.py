"""Trust the answer: what is tested, and what to check yourself.

**What is tested.** Values computed independently with high precision; sums over all partitions of small data; slow, obvious twins of
every fast algorithm; properties that must hold for any data (statistics add, bounds are in order and below the exact
evidence, chains have the right stationary law); real worker processes killed in the middle. `make test` and `make test-slow`.

**What to check yourself.**

1. *Is it stable?* Fit half of the rows, predict the other half, compare with its own fit. Or run chains and look at the
   co-clustering matrix.
2. *Does the family fit?* Compare `log_evidence_bound_` between families on the same data and columns.
3. *Is the cut forced?* If most inner nodes near the cut have r between 0.1 and 0.9, the number of clusters is not settled by
   the data; say so when you report it.
4. *Would coarsening change it?* `dtree.coarsening_path(X)` shows how the number of clusters falls as the likelihood is trusted
   less. A number that stays over a wide range is a robust one.

**What it cannot do.** A Dirichlet-process mixture keeps adding small clusters as rows are added, so the number of clusters is not a
consistent estimate of a true one. Clusters that do not follow the family are split. Greedy trees and local optima are not the
best of all trees: the bound says how good the one found is, not how good others are.
"""
