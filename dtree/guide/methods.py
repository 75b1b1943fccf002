"""Choose a method.

| you have | you want | take |
| --- | --- | --- |
| up to about 10,000 rows | clusters and the tree | `dtree.BHC` |
| more, or data beyond memory | the same | `dtree.BayesKMeansBHC`, or `dtree fit` on the command line |
| rows that keep arriving | a tree that grows | `dtree.IncrementalBHC` with `partial_fit` |
| any | how sure the partition is: co-clustering, credible numbers of clusters | `dtree.DPMixtureMCMC` |
| any, and soft memberships | a mixture with weights and a bound | `dtree.DPMixtureVB` |
| up to some thousands of rows, or clusters of more | a density, or a tree with lengths | `dtree.DiffusionTree`, `dtree ddt` |

**Start with `BHC`.** It is greedy and exact in its scores: every pair of nodes is compared. Its tree says more than a
partition does, and `log_evidence_bound_` compares models.

**Large data.** `BayesKMeansBHC` reduces the rows to clusters (its leaves) in passes over the file, then builds the same exact
tree over them. Chains can run over such leaves too: `dtree sample run.zarr` takes a run made by `dtree fit`.

**Chains.** The sampler `"tgmcmc"` proposes splits and merges along a guide tree and leaves the posterior exactly invariant.
`"gibbs"`, `"split-merge"` and `"slice"` are there to compare with. `"tgmcmc-paper"` is the algorithm as it was printed, which
does not have the right stationary law; it is there for that comparison only.

**Six variational bounds.** They differ in what they approximate. `"O-CTSB"` and `"CFSD"` are collapsed and usually best;
`"FSD"` is what scikit-learn calls a Dirichlet distribution prior.
"""
