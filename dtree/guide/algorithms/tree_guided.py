"""Tree-guided Markov chain Monte Carlo [Lee & Choi 2015, section 3], as printed and exact.

The aim is the posterior over partitions: proportional to the product of `phi_h` over clusters, times what the prior's own
parameters add. Plain Gibbs sampling moves one row at a time and gets stuck; trees know which larger pieces belong together.

**As printed (`"tgmcmc-paper"`)** the chain carries a partition with a tree over each cluster. It splits a cluster at a node drawn in proportion
to its dissimilarity, re-inserts the pieces stochastically, or merges clusters with probability 1 / (1 + d). This does not leave the
posterior invariant: the trees belong to the state but the reverse move does not restore them, forward and reverse count different sets of
paths, and the subset of the local moves depends on the partition. By enumeration at 4 to 6 rows its stationary law is 0.02 to 0.2 away
in total variation, more with more rows; at 20 rows it expects 2.1 clusters where the posterior has 4.2. It is there for comparison.

**Exact (`"tgmcmc"`, the default).** The state is the partition alone. A *guide tree* over all rows, built from the data and never from the
partition, stays fixed after warm-up.

* *Split-merge*: draw a node g of the guide by fixed weights, a row i below its left child and j below its right. If they share a cluster c,
  split it: start from {i} and {j}, then allocate the subtrees of the guide that hang off the paths from i, j and g, restricted to c and
  nearest first. Each goes whole to one side in proportion to `phi_h(A u B) / phi_h(A)`, or is opened and its halves are treated the same way.
  Every split has exactly one derivation, so its probability q is known, and `min(1, phi_h(A0) phi_h(A1) / (phi_h(c) q))` accepts. If i and j
  are in different clusters, the merge is proposed and q is replayed.
* *Subtree Gibbs*: the rows of one cluster below a node of the guide move together.
* *Births and deaths* of clusters that are whole subtrees, growth and loss of small clusters.
* *Gibbs moves* of rows in turn, as often as the root of how probable it is, in the guide's own partition, that they belong elsewhere: a sum
  over rows forgets fastest when each is visited in proportion to its standard deviation. A sweep visits half as many as there are such restless
  rows, now and then all rows.

The tests enumerate all partitions of few rows and compare transition matrices and stationary laws.

**Priors.** alpha, sigma and u are resampled in between: log u by slice sampling (its density is log-concave), alpha from its Gamma
conditional given u or by Escobar & West's step, sigma by slice sampling under a Beta prior. The predictive density under an NGGP
averages `(u / n) (sum_c kappa(n_c + 1, u) / kappa(n_c, u) p(x | X_c) + kappa(1, u) p(x))` over draws; normalising equation 6 of
the paper at each u is right only for the Dirichlet process.
"""
