"""What is new.

## 0.2.0

* `TreeClustering`, for someone who sets nothing, is what `dtree fit` does now: components by evidence, joined where no valley of the density
  parts them, with other levels to cut at, a confidence for every row and a reason in a sentence. The old default for few rows is
  `--method exact`, that for many `--method bayes-kmeans`; `--method auto` is gone.
* Models are chosen in about half the time; few rows of one Gaussian in many columns are one cluster. Data are cut into more, even chunks.
* `BHC(method="approximate")`: trees over up to millions of single rows, from near pairs found by a forest of projections.
* Exact trees of a diagonal Gaussian skip blocks of leaves that cannot be merged next: the same tree from fewer scores.
* Exact trees of binary rows and of counts take about a twentieth of the processor time or less, of sparse word counts a third or less, choosing the
  model included; those of Gaussian rows are faster than in 0.1 again. The trees are the same.
* `dtree warm` compiles beforehand; an edited kernel file compiles anew only what it touches.
* `dtree.levels` and `dtree levels RUN`: other cuts of any fit, without fitting again.
* `dtree.tl.tree_clustering(adata)` and `dtree.pl.tree(adata)`: AnnData as scanpy's tools take and leave it, backed and Dask-backed too (`dtree[scverse]`).
* The report has a slider over levels, clusters against a column of labels, and the oddest rows; twenty colours that stay apart, then patterns.
* One contract for all methods: memory and workers run the same loop and give the same bits; every method can be stopped, resumed, saved,
  opened, predicted with on workers and reported on. `BHC` and `IncrementalBHC` take `out=` too, and every estimator can be saved.
* One format of runs with hashes of every array. Finished runs of 0.1 (trees, Bayes K-means, chains, variational mixtures) are
  converted by `dtree convert OLD NEW`; diffusion trees and stopped runs are not: the sentence names the command that made them.
* A family of your own needs `statistics`, `compile` and `log_marginal`, and then has every method, all six variational bounds included.
* The same words everywhere: `max_passes` is now `max_iter`, `threshold` is `cut` (the old names work in this version, with a warning).
  `--seed 3` and `random_state=3` give the same answer, for every method.
* `DPMixtureVB` fits up to `sample_rows` rows (20,000) whole and more in passes, wherever they are.
* Nothing silent: every array, record and header of a run has a checksum (`dtree verify`), data that are lost or change are named, a damaged checkpoint
  sends a run back by one, one process at a time works on a run, SIGTERM and `--time-limit` leave it to be resumed, and what has not converged or is
  degenerate is said; `dtree.guide.promises` has the table, `python -m tests.chaos` tries it.
* Runs can be watched: `dtree status RUN`, `--log-file`, `--dry-run`, `--dashboard`; stages are spans on Dask's dashboard. `--patience` is an option
  of `vb` and `fit` too.
* Data and runs in object stores (`s3:// gs:// az:// https:// memory://`, `--storage-option`), arrays with named dimensions (xarray, Icechunk,
  `store.zarr::name`), `dtree.as_dataset`: `dtree.guide.stores`. A store that does not heed conditional puts is refused.
* Constant columns are left out by every method when a Gaussian is given by name; `columns_` says which are used.
* One reader of data: folders of parquet files whatever they are called, labels in text columns everywhere, misspelt files told at once.
* Tables as people have them: kinds of columns found from the data and told with reasons, categories by levels that a run keeps, gaps,
  `--column NAME=KIND` and `columns=` to overrule, frames of pandas, Polars and Arrow. New rows are read with the levels of the run.
* Single values: `impute` and `surprisal`, `dtree impute` and `dtree predict --surprisal`, full Gaussians and bent scales included. Clusters of a
  table are described by kind, and its columns ranked by the nats with which they tell clusters apart, on the console and in the report.
* Tables of numbers with gaps have components of full covariance in `TreeClustering` where the evidence prefers them: gaps are filled by draws.
* Posterior of partitions: `DPMixtureMCMC` searches its point estimate among all partitions, not only the draws; `dtree.point_estimate` (also
  generalised losses), `credible_ball`, `partition_uncertainty`, `compare_posteriors` and `partition_distance` take draws of any sampler.
* In scikit-learn: `transform` gives memberships with names (`set_output`), weights are routed, `means_`, `covariances_` and `weights_` of Gaussian
  clusters; in notebooks a fitted model shows its tree and levels, and a `Tree` is a picture.
* `IncrementalBHC` takes rows of weight 0 as `BHC` does: they are in no leaf, and labelled as new rows are.
* Mended: `DPMixtureVB` crashed after an accepted escape; a saved probit diffusion tree changed when it was opened; saved models lost names.
* Mended: `TreeClustering` of rows in a plane divided by zero; a batch of rows too far out to be scored is refused by `DPMixtureVB.partial_fit`;
  a first column without a name that has gaps is a feature, not the names of rows.

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
