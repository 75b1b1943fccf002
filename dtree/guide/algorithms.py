"""The formulas that dtree uses, and where they differ from the papers.

**One currency.** A set c of rows is worth `phi_h(c) = kappa(n_c) p(X_c)`. Dirichlet process: `kappa(n) = alpha Gamma(n)`.
Normalised generalised gamma process at u: `kappa(n) = alpha sigma Gamma(n - sigma) / Gamma(1 - sigma) (1 + u)^(sigma - n)`.

## BHC [Heller & Ghahramani 2005]

`phi_t(k) = phi_h(k) + phi_t(left) phi_t(right)`, `r = phi_h / phi_t`; the pair with the largest r is merged, over all pairs.
d is not reducible, so nearest-neighbour chains would give another tree and are not used. The printed predictive density is
not normalised; dtree's is `sum_k omega_k n_k / (n + alpha) p(x | D_k) + alpha / (n + alpha) p(x)`, with omega_k the
probability that node k is a cluster of the tree.

## Bounds [Xu, Heller & Ghahramani 2009]

`log p(X) >= log normaliser + log phi_t(root)`. Alternative trees exchange grandchildren; cross merges add all pairs of
disjoint nodes. Bayes K-means moves rows while the sum of `log phi_h` rises.

## Incremental BHC and tree-guided MCMC [Lee & Choi 2015]

SeqInsert goes into the subtree with the *smallest* d. The sampler as printed does not leave the posterior invariant; it is
`tgmcmc-paper`. `tgmcmc` keeps a guide tree fixed, proposes splits and merges along it, counts every derivation of a proposal
once, and is exact. The NGGP predictive averages over u the ratio with (u/n), which normalising at each u does not give.

## Six variational mixtures [Kurihara, Welling & Teh 2007]

One E-step and one M-step; the variants differ in the expected log weights and the weight term of the bound. Equation 22 holds for
i < T. Equation 19 is computed exactly when rows are few (sums of Bernoullis); its Taylor form is an approximation and is
reported as one. For CFSD the empty component is treated exactly, where Taylor is off by nats. Sorting by size is optimal
only for alpha <= 1.

## Dirichlet diffusion trees [Knowles, Van Gael & Ghahramani 2011]

The branching term is `(l-1)! (r-1)! / (m-1)!`; equation 1 lacks a factor c. The evidence of a tree is a Laplace approximation
in logit w, with gradients from one up-down sweep of exact belief propagation; the paper's EM and message passing are there
by name. EM maximises over logits of the times: over the times themselves, as printed, the objective has no maximum. The
predictive density is a mixture over all branches and times by quadrature, and integrates to one. It averages over trees drawn
by a short run of the exact sampler from each searched tree, because trees of the highest evidence are sharper than typical
ones; `posterior_sweeps=0` averages the best trees by their evidence, as the paper does. Rows are first standardized, or
whitened when the evidence of a tree, less a charge for the axes, is higher. Beyond `max_leaves` rows the leaves are cluster
summaries with their counts and noise: made in memory, or taken from a Bayes-K-means run (`dtree ddt kmeans-run.zarr`).

## Coarsening [Miller & Dunson 2019]

The likelihood to a power zeta is, for a conjugate family, statistics times zeta; kappa keeps the true counts.
"""
