"""What is new.

## 0.1.0

The first release.

* `BHC` with exact greedy trees over all pairs, five families, two priors, evidence bounds up to `nested`, randomised trees, coarsening.
* `BayesKMeans` and `BayesKMeansBHC` in passes on data larger than memory; `IncrementalBHC` for streams.
* `DPMixtureMCMC`: seven samplers, the exact tree-guided one by default; chains as blocks that can be stopped and resumed.
* `DPMixtureVB`: six variational mixtures, also in passes. `DiffusionTree`: Laplace evidence, EM, message passing, MCMC, probit.
* Runs on disk in zarr that survive kills; the same bits on any number of workers; Docker, Kubernetes and SLURM.
* A report in one HTML page, pictures in Matplotlib, exports as Newick, linkage, labels and pictures for every kind of run.
* `python -m benchmarks` (peers in one run) and `python -m benchmarks.reproduce` (the papers done again, on one page).
"""
