"""The algorithms: the formulas dtree uses, one page each, and where they differ from the papers.

| page | paper |
| --- | --- |
| `dtree.guide.algorithms.families` | what a set of rows is worth as one cluster |
| `dtree.guide.algorithms.bhc` | Heller & Ghahramani, *Bayesian hierarchical clustering*, ICML 2005 |
| `dtree.guide.algorithms.bounds` | Xu, Heller & Ghahramani, *Tree-based inference for Dirichlet process mixtures*, AISTATS 2009 |
| `dtree.guide.algorithms.bayes_kmeans` | the same paper, section 5, as passes over data of any size |
| `dtree.guide.algorithms.incremental` | Lee & Choi, *Tree-guided MCMC for normalized random measure mixtures*, NIPS 2015, section 2.3 |
| `dtree.guide.algorithms.tree_guided` | the same paper, section 3 |
| `dtree.guide.algorithms.variational` | Kurihara, Welling & Teh, *Collapsed variational Dirichlet process mixture models*, IJCAI 2007 |
| `dtree.guide.algorithms.diffusion` | Knowles, Van Gael & Ghahramani, *Message passing algorithms for the Dirichlet diffusion tree*, ICML 2011 |
| `dtree.guide.algorithms.coarsening` | Miller & Dunson, *Robust Bayesian inference via coarsening*, JASA 2019 |

**Notation.** n rows, d features, k clusters; c is a set of rows, n_c their number, X_c the rows themselves. Logarithms are natural, and
everything is computed in them. `python -m benchmarks.reproduce` does the experiments of these papers again.

**One currency.** All clustering methods but the diffusion trees ask one question: what is a set of rows worth as one cluster?

    phi_h(c) = kappa(n_c) p(X_c)

`p(X_c)` is the marginal likelihood of the family, the parameters of the cluster integrated out, with all constants: different
groupings are compared, so "up to a constant" would be wrong. `kappa(n)` is the weight that the prior over partitions gives a cluster of n
rows:

| prior | kappa(n) | log of what multiplies the sum over partitions |
| --- | --- | --- |
| Dirichlet process | `alpha Gamma(n)` | `lgamma(alpha) - lgamma(n + alpha)` |
| normalised generalised gamma process at u | `alpha sigma Gamma(n - sigma) / Gamma(1 - sigma) (1 + u)^(sigma - n)` | `(n - 1) log u - alpha((1 + u)^sigma - 1) - lgamma(n)` |

The Dirichlet process is the limit of the second line as sigma goes to 0 with alpha sigma fixed. A partition has probability
proportional to the product of `phi_h` over its clusters, and `log p(X)` is the log of the sum of these products over all partitions. Every
method here approximates that sum, samples from it, or bounds it.
"""
