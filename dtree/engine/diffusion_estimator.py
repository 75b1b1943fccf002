"""`DiffusionTree`: Dirichlet diffusion trees with the habits of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.core.names import take_names
from dtree.diffusion.belief import posterior_locations
from dtree.diffusion.clusters import cut, log_memberships, widest_gap
from dtree.diffusion.posterior import Posterior, mixture_of, posterior_of
from dtree.diffusion.predictive import (
    BranchMixture,
    log_density,
    posterior_of_c,
    posterior_of_precision,
    sample_rows,
    seen_mixtures,
)
from dtree.diffusion.prepare import Prepared, prepare
from dtree.diffusion.probit import log_memberships_probit, log_probability, signs_from_binary
from dtree.diffusion.settings import NODES, Settings
from dtree.diffusion.walk import Walk, finish_walk, plan_of
from dtree.engine.inputs import in_memory
from dtree.engine.sharing import SharesClient


class DiffusionTree(SharesClient, DensityMixin, BaseEstimator):
    """Density estimation and hierarchical clustering with a Dirichlet diffusion tree.

    Parameters
    ----------
    inference : {"laplace", "em", "message-passing", "mcmc"}
        How the evidence of a tree is computed, or `"mcmc"` to sample trees. The structure search is the same for the
        first three.
    likelihood : {"gaussian", "probit"}
        Real-valued rows (NaN = missing), or binary rows (0/1 or -1/+1, NaN = missing); probit goes with "laplace"
        and "mcmc", which then samples the latent value of every bit too.
    n_permutations : int
        Independent searches (with "mcmc": chains), each building the tree in another random order.
    init : {"sequential", "bhc"}
        Searches start from a tree built row by row, each in an order of its own, or all from that of BHC.
    search_steps : int or None
        Detach-reattach moves after building, per search; None takes 100 + n leaves.
    posterior_sweeps : int or None
        Sweeps of the posterior sampler that follow each search; the trees of the second half are what the density
        averages over, all equally. Trees of the highest evidence are sharper than typical ones, so an average over
        them alone is too sure of itself. 0 averages the `n_trees` best trees by their evidence, as in the paper.
        None: 80 with "laplace", 0 with "em" and "message-passing".
    n_trees : int
        How many of the best distinct trees are kept.
    attachments, beam : int
        How many places are tried exactly for a detached subtree, and how many branches are followed to find them.
    sigma2, c : float or None
        Diffusion variance and smoothness; None integrates them out (probit, atoms: sigma2 is learned).
    start : float or None
        Probit: where all paths start, the same for all features (0: as many ones as zeros); None learns it.
    precision_prior, c_prior : (shape, rate)
        Gamma priors of 1 / sigma2 and of c.
    noise : float or "auto"
        Variance of a row around its leaf, in units of sigma2; "auto" learns it. 0 needs distinct rows.
    scaling : {"auto", "whiten", "standardize", "none"}
        Units the tree works in: principal axes at unit variance, columns at unit variance, or those of the rows;
        "auto" takes the one of the first two with the higher evidence. Densities are always those of the original
        units.
    max_leaves : int
        With more rows than this, rows are first summarised by at most this many atoms (Gaussian likelihood, complete
        rows).
    importance_draws : int
        With Laplace: correct each evidence by this many importance draws (0 = none).
    mcmc_draws, mcmc_warmup : int
        Kept and discarded sweeps of each chain.
    n_nodes : int
        Gauss-Legendre nodes per branch in the predictive density.
    n_clusters : int or None
        Where `labels_` and `predict` cut `tree_`; None cuts in the widest gap between divergence times.
    random_state : int, RandomState or None
    client : a `distributed.Client` whose workers run the permutations side by side; the answer is the same.

    Attributes
    ----------
    tree_, trees_ : best tree, all kept trees (columns: parent, child, rest = 1 - t); with "mcmc" by joint density
    log_evidence_ : log evidence of the best tree, its prior included, in the original units ("mcmc": NaN)
    log_evidences_ : of all kept trees
    averaged_trees_, weights_ : the trees of the predictive density
    labels_, n_clusters_ : cluster of every row, and their number
    sigma2_, c_, noise_ : hyperparameters of the best tree (posterior means when integrated), noise per leaf
    converged_, messages_ : whether inference on every kept tree converged, and what it said
    log_joint_ : (permutation, draw) log joint density of every sampled tree
    feature_names_in_, row_names_ : names, when the rows have any

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-2.0], [2.0], [-2.1], [2.1], [-1.9]])
    >>> model = DiffusionTree(random_state=0).fit(x)
    >>> model.score_samples(np.array([[2.05], [0.0]])).round(1)[0] > -1.5
    np.True_
    >>> model.labels_
    array([0, 1, 0, 1, 0])
    """

    def __init__(
        self,
        inference: str = "laplace",
        likelihood: str = "gaussian",
        *,
        n_permutations: int = 3,
        init: str = "sequential",
        search_steps: int | None = None,
        posterior_sweeps: int | None = None,
        n_trees: int = 10,
        attachments: int = 3,
        beam: int = 12,
        sigma2: float | None = None,
        c: float | None = None,
        start: float | None = None,
        precision_prior: tuple[float, float] = (2.0, 1.5),
        c_prior: tuple[float, float] = (2.0, 2.0),
        noise: float | str = "auto",
        scaling: str = "auto",
        max_leaves: int = 2000,
        importance_draws: int = 0,
        mcmc_draws: int = 100,
        mcmc_warmup: int = 100,
        n_nodes: int = NODES,
        n_clusters: int | None = None,
        random_state: Any = None,
        client: Any = None,
    ) -> None:
        self.inference = inference
        self.likelihood = likelihood
        self.n_permutations = n_permutations
        self.init = init
        self.search_steps = search_steps
        self.posterior_sweeps = posterior_sweeps
        self.n_trees = n_trees
        self.attachments = attachments
        self.beam = beam
        self.sigma2 = sigma2
        self.c = c
        self.start = start
        self.precision_prior = precision_prior
        self.c_prior = c_prior
        self.noise = noise
        self.scaling = scaling
        self.max_leaves = max_leaves
        self.importance_draws = importance_draws
        self.mcmc_draws = mcmc_draws
        self.mcmc_warmup = mcmc_warmup
        self.n_nodes = n_nodes
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.client = client

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True  # made dense: every location of the tree is
        tags.non_deterministic = False
        return tags

    def settings(self) -> Settings:
        """The parameters as one checked record."""
        settings = Settings(**{name: getattr(self, name) for name in Settings._fields})
        settings.check()
        return settings

    def seeds(self) -> list[int]:
        """One seed for what comes before the search, then one for each permutation."""
        drawn = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_permutations + 1)
        return [int(seed) for seed in drawn]

    def fit(self, X: Any, y: Any = None) -> DiffusionTree:
        """Fit trees to rows X (n, d): an array, a sparse matrix, a data frame, a Dask collection or the path of a data
        file (`.npy .npz .csv .parquet .zarr`); they must fit in memory.
        """
        settings = self.settings()
        rows = self._rows(X, reset=True)
        first, *others = self.seeds()
        prepared = prepare(rows, settings, first)
        settings.check_cut(prepared.leaves.mean.shape[0])
        plan = plan_of(settings, prepared.leaves.mean.shape[0])
        tasks = [(prepared.leaves, prepared.hyper, seed, plan, prepared.bits) for seed in others]
        if self.client is None:
            return self.assemble(prepared, [finish_walk(*task) for task in tasks])
        from dtree.engine.execute import executor  # dask is loaded only when it is asked for

        return self.assemble(prepared, executor(self.client).run(finish_walk, tasks))

    def assemble(self, prepared: Prepared, walks: Sequence[Walk]) -> DiffusionTree:
        """Become the model that finished walks (made here or by workers) found."""
        self.put_together(prepared, posterior_of(walks, prepared, self.settings()))
        if not self.converged_:
            bad = [fit.message for fit in self.posterior_.best if not fit.converged]
            warnings.warn(
                f"Inference did not converge on {len(bad)} of {len(self.messages_)} trees: {bad[0]}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def put_together(self, prepared: Prepared, posterior: Posterior) -> DiffusionTree:
        """Set every fitted attribute from the two records that hold them all."""
        self.prepared_, self.posterior_ = prepared, posterior
        fits = posterior.best
        self.n_features_in_ = prepared.affine.offset.shape[0]
        self.trees_ = [fit.tree for fit in fits]
        self.tree_ = self.trees_[0]
        self.log_evidences_ = np.array([fit.log_evidence for fit in fits]) - prepared.log_volume
        self.log_evidence_ = float(self.log_evidences_[0])
        self.averaged_trees_ = [fit.tree for fit in posterior.averaged]
        self.weights_ = posterior.weights
        self.log_joint_ = posterior.log_joint
        shape, rate = posterior_of_precision(self.tree_, fits[0].leaves, prepared.hyper)
        self.sigma2_ = float(1.0 / rate if np.isinf(shape) else rate / max(shape - 1.0, 0.5))
        shape, rate = posterior_of_c(self.tree_, fits[0].leaves, prepared.hyper)
        self.c_ = float(rate if np.isinf(shape) else shape / rate)
        self.noise_ = prepared.noise
        self.messages_ = [fit.message for fit in fits]
        self.converged_ = all(fit.converged for fit in fits)
        n = self.tree_.n_leaves
        self.n_clusters_ = widest_gap(self.tree_) if self.n_clusters is None else int(self.n_clusters)
        self._node_labels = cut(self.tree_, self.n_clusters_)[0]
        self.labels_ = self._node_labels[:n][prepared.leaf_of_row]
        self._mixtures: list[BranchMixture] | None = None
        return self

    def _predictive(self) -> list[BranchMixture]:
        if self._mixtures is None:
            self._mixtures = [mixture_of(f, self.prepared_, self.n_nodes) for f in self.posterior_.averaged]
        return self._mixtures

    def _rows(self, X: Any, reset: bool) -> np.ndarray:
        """X as float64 rows, NaN where missing; names and number of features remembered or compared."""
        X, row_names, feature_names = take_names(in_memory(X))
        if hasattr(X, "toarray"):
            X = X.toarray()
        if feature_names is not None:
            import pandas

            X = pandas.DataFrame(X, columns=feature_names)
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        rows: np.ndarray = validate_data(self, X, reset=reset, ensure_min_samples=2 if reset else 1, **checks)
        if reset:
            self.__dict__.pop("row_names_", None)
            if row_names is not None:
                self.row_names_ = row_names
        return rows

    def _check_rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._rows(X, reset=False)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (probit: log probability) of each row; NaN entries are marginalised."""
        X = self._check_rows(X)
        log_weights = np.log(np.maximum(self.weights_, 1e-300))
        chosen = np.flatnonzero(log_weights > -40.0)
        mixtures, weights = [self._predictive()[k] for k in chosen], log_weights[chosen]
        if self.likelihood == "probit":
            signs = signs_from_binary(X)
            values = np.array([log_probability(signs, mixture) for mixture in mixtures])
            return np.logaddexp.reduce(values + weights[:, None], axis=0) - np.logaddexp.reduce(weights)
        out = np.empty(X.shape[0])
        for rows, z, seen, log_volume in seen_mixtures(X, self.prepared_.affine, mixtures):
            out[rows] = log_density(z, seen, weights) - log_volume
        return out

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of rows X."""
        return float(self.score_samples(X).mean())

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row: the subtree of `tree_` below the cut whose branches explain the row best."""
        X = self._check_rows(X)
        mixture = mixture_of(self.posterior_.best[0], self.prepared_, self.n_nodes)
        labels = np.empty(X.shape[0], dtype=np.int64)
        if self.likelihood == "probit":
            signs = signs_from_binary(X)
            return log_memberships_probit(signs, mixture, self._node_labels, self.n_clusters_).argmax(axis=1)
        for rows, z, seen, _ in seen_mixtures(X, self.prepared_.affine, [mixture]):
            labels[rows] = log_memberships(z, seen[0], self._node_labels, self.n_clusters_).argmax(axis=1)
        return labels

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """New rows (n_samples, d) from the predictive distribution."""
        check_is_fitted(self)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        prepared = self.prepared_
        which = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        parts = [
            sample_rows(int(k), f.tree, f.leaves, prepared.hyper, rng, noise=prepared.noise, rows=prepared.rows)
            for k, f in zip(which, self.posterior_.averaged, strict=True)
            if k > 0
        ]
        drawn = rng.permutation(np.concatenate(parts)) if parts else np.empty((0, self.n_features_in_))
        drawn = prepared.affine.outward(drawn)
        if self.likelihood == "probit":
            return (drawn + rng.standard_normal(drawn.shape) > 0).astype(np.float64)
        return drawn

    def node_locations(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation (2n-1, d) of the location of every node of `tree_`, in the original
        units."""
        check_is_fitted(self)
        mean, var = posterior_locations(self.tree_, self.posterior_.best[0].leaves, self.sigma2_)
        wide = mean.shape[1] // var.shape[1]
        return self.prepared_.affine.outward(mean), self.prepared_.affine.deviation(np.repeat(var, wide, axis=1))

    @property
    def linkage_(self) -> np.ndarray:
        """`tree_` as a SciPy linkage matrix (n-1, 4); heights are 1 - t."""
        return self.tree_.to_linkage()


__all__ = ["DiffusionTree"]
