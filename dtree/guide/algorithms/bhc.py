"""Bayesian hierarchical clustering [Heller & Ghahramani 2005].

**The tree.** Every row is a leaf. A node k with children l and r sums over all partitions of its rows that can be read off the tree:

    phi_t(leaf) = phi_h(leaf)
    phi_t(k)    = phi_h(k) + phi_t(l) phi_t(r)
    r_k         = phi_h(k) / phi_t(k)
    log d       = log phi_t(l) + log phi_t(r) - log phi_h(k)

`r_k` is the probability that the rows below k are one cluster, against all the partitions of them that the tree contains; it is above one
half exactly when `log d < 0`. The paper writes the same in normalised form, with `pi_k = alpha Gamma(n_k) / d_k`; the unnormalised
potentials are shorter and extend to other priors.

**Building.** Greedy: of all pairs of trees the one with the smallest log d is merged, ties to the smallest indices. *All pairs* is meant:
d is not reducible (merging two trees can bring a third one closer), so nearest-neighbour chains, which make linkages fast, can give another
tree and are not used. dtree remembers a few best partners of each node instead of a matrix of scores: memory is linear, time quadratic.

**Cutting.** Clusters are the highest nodes with r of at least 1/2. The most probable partition of the tree, `best(k) = max(phi_h(k),
best(l) best(r))`, is `tree.map_partition()`. The two are not always equal, contrary to a remark of Lee & Choi.

**Evidence.** `log_evidence_bound_ = log normaliser + log phi_t(root)` is a lower bound on log p(X), because the partitions of a tree are some of
all partitions. `dtree.guide.algorithms.bounds` has better ones.

**Predictive density.** The paper prints `sum_k omega_k p(x | D_k)` with `omega_k = r_k prod over ancestors (1 - r_i)`; that does not
integrate to one in general, since a new row joins a cluster in proportion to its size and may open a new one. dtree uses

    p(x) = sum_k omega_k n_k / (n + alpha) p(x | D_k) + alpha / (n + alpha) p(x | prior)

where omega_k is the probability that node k is a cluster. `predict_proba` are the terms of this sum, gathered by cluster.

**Hyperparameters.** For a fixed tree the bound is differentiable, and gradients flow bottom-up: `d log phi_t = r d log phi_h + (1 - r)
(d log phi_t(l) + d log phi_t(r))`. `BHC(optimize=True)` alternates trees and quasi-Newton steps until the bound stops rising.

**Approximate** (`method="approximate"`): for up to millions of rows. A forest of random projections finds a few near partners of every node; the best known
pair merges, the new node takes over the partners of its parts, and when half of the nodes are merged a new forest looks around again. The last 4,000 nodes are
merged over all pairs. Which pairs are known is approximate; scores, potentials and the bound are exact.

**Randomised** (`method="randomized"`): a tree over a random subset is cut at its root, all other rows are filtered down to the side where they
fit better, and both sides are treated the same way: O(n log n) instead of O(n^2), and an approximation by name.

**Dendrogram purity**: pick a leaf, then another of its class; take the smallest subtree with both; the share of its leaves in that class,
averaged. `dtree.dendrogram_purity` computes it exactly, bottom-up.
"""
