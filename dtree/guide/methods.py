"""Choose a method.

| you have | you want | take |
| --- | --- | --- |
| any table of any size | clusters, without setting anything | `dtree.TreeClustering`, or `dtree fit` on the command line |
| up to about 10,000 rows | the tree over single rows, and the evidence | `dtree.BHC`, `dtree fit --method exact` |
| more, or data beyond memory | the same over clusters of rows | `dtree.BayesKMeansBHC`, `dtree fit --method bayes-kmeans` |
| rows that keep arriving | a tree that grows | `dtree.IncrementalBHC` with `partial_fit` |
| any | how sure the partition is: co-clustering, credible numbers of clusters | `dtree.DPMixtureMCMC` |
| any, and soft memberships | a mixture with weights and a bound | `dtree.DPMixtureVB` |
| up to some thousands of rows, or clusters of more | a density, or a tree with lengths | `dtree.DiffusionTree`, `dtree ddt` |

**Start with `TreeClustering`.** Its clusters may have any shape, because components without a valley between them are joined, and it
says how sure it is (`dtree.guide.levels`). It needs some eight rows to believe in a cluster. The other classes mean what their papers mean:
a cluster is one component of the family.

**`BHC`** is greedy and exact in its scores: every pair of nodes is compared. Its tree says more than a
partition does, and `log_evidence_bound_` compares models. Time grows with the square of the rows: thousands take seconds, 50,000 about a minute and a half.
Where clusters overlap much, a greedy tree can be caught: on 600 abalones the bound of `BayesKMeansBHC`, whose rows move until nothing
gains, is 75 nats higher. Both bound the same evidence, so the higher one is the better tree.

**Large data.** `BayesKMeansBHC` reduces the rows to clusters (its leaves) in passes over the file, then builds the same exact
tree over them. Time grows with rows times clusters, memory with clusters only. Chains can run over such leaves too: `dtree sample run.zarr` takes
a run made by `dtree fit --method bayes-kmeans`, so a posterior over the partitions of a billion rows costs no more than one over its leaves.

**A stream.** `IncrementalBHC.partial_fit` inserts rows where they belong in time that hardly depends on how many there were. The tree depends on the
order of the rows; shuffle if you can.

**Chains.** One tree is one guess. Chains draw partitions in proportion to their posterior probability:

>>> import numpy as np, dtree
>>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (15, 1)) for c in (0.0, 12.0)])
>>> chains = dtree.DPMixtureMCMC(family="gaussian", chains=2, draws=200, random_state=0).fit(X)
>>> together = chains.coclustering()
>>> bool(together[0, 1] > together[0, 29])
True

The sampler `"tgmcmc"` proposes splits and merges along a guide tree and leaves the posterior exactly invariant.
`"gibbs"`, `"split-merge"` and `"slice"` are there to compare with. `"tgmcmc-paper"` is the algorithm as it was printed, which
does not have the right stationary law; it is there for that comparison only.

**Six variational bounds.** They differ in what they approximate. `"O-CTSB"` and `"CFSD"` are collapsed and usually best;
`"FSD"` is what scikit-learn calls a Dirichlet distribution prior. A variational fit is fast and gives soft memberships, but its answer depends on where
it started: give `n_init`, and compare `elbo_`.

**Diffusion trees** model the whole hierarchy as one process, so their tree has lengths and their density is often the best of all here; they cost most.

**Not sure?** `TreeClustering` tells in seconds whether there are clusters at all; everything else can follow.
"""
