"""What is new.

## 0.1.0

The first release: `BHC` with exact greedy trees and evidence bounds, five families and two priors, `BayesKMeans` and `BayesKMeansBHC`
on data larger than memory, `IncrementalBHC`, `DPMixtureMCMC`, `DPMixtureVB`, `DiffusionTree`, the command line, a report
in one HTML page, runs on disk that survive, and deployment on Docker, Kubernetes and SLURM.
"""
