# What type checkers see in place of `__init__.py`, which loads the public names when they are first used.
from dtree.core.families import Bernoulli as Bernoulli
from dtree.core.families import Categorical as Categorical
from dtree.core.families import DiagonalGaussian as DiagonalGaussian
from dtree.core.families import Gaussian as Gaussian
from dtree.core.families import Mixed as Mixed
from dtree.core.families import Multinomial as Multinomial
from dtree.core.families import Poisson as Poisson
from dtree.core.priors import DirichletProcess as DirichletProcess
from dtree.core.priors import GeneralizedGamma as GeneralizedGamma
from dtree.core.tree import Tree as Tree
from dtree.estimators.bayes_kmeans import BayesKMeans as BayesKMeans
from dtree.estimators.bayes_kmeans import BayesKMeansBHC as BayesKMeansBHC
from dtree.estimators.bhc import BHC as BHC
from dtree.estimators.cells import column_influence as column_influence
from dtree.estimators.chains import DPMixtureMCMC as DPMixtureMCMC
from dtree.estimators.coarsening import coarsening_path as coarsening_path
from dtree.estimators.diffusion import DiffusionTree as DiffusionTree
from dtree.estimators.evidence import evidence_bounds as evidence_bounds
from dtree.estimators.evidence import exact_log_evidence as exact_log_evidence
from dtree.estimators.incremental import IncrementalBHC as IncrementalBHC
from dtree.estimators.labelled import as_dataset as as_dataset
from dtree.estimators.levels import levels as levels
from dtree.estimators.partitions import compare_posteriors as compare_posteriors
from dtree.estimators.partitions import credible_ball as credible_ball
from dtree.estimators.partitions import partition_distance as partition_distance
from dtree.estimators.partitions import partition_uncertainty as partition_uncertainty
from dtree.estimators.partitions import point_estimate as point_estimate
from dtree.estimators.saving import open as open
from dtree.estimators.saving import save as save
from dtree.estimators.tree_clustering import TreeClustering as TreeClustering
from dtree.estimators.variational import DPMixtureVB as DPMixtureVB
from dtree.hierarchy.purity import dendrogram_purity as dendrogram_purity
from dtree.reporting.html import report as report
from dtree.reporting.plots import plot_coarsening_path as plot_coarsening_path
from dtree.reporting.plots import plot_tree as plot_tree
from dtree.reporting.plots_runs import plot_bounds as plot_bounds
from dtree.reporting.plots_runs import plot_clusters as plot_clusters
from dtree.reporting.plots_runs import plot_coclustering as plot_coclustering
from dtree.reporting.plots_runs import plot_traces as plot_traces
from dtree.scverse import pl as pl
from dtree.scverse import tl as tl

__version__: str
__all__: list[str]
