"""`DiffusionTree`."""

import os
import warnings
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.core.names import framed, take_names
from dtree.diffusion.predictive import NODES
from dtree.estimators.base import Estimator, seed_of
from dtree.methods.diffusion_fitted import Fitted


class DiffusionTree(DensityMixin, Estimator):
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
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.

    Attributes
    ----------
    tree_, trees_ : best tree, all kept trees (columns: parent, child, rest = 1 - t); with "mcmc" by joint density.
    log_evidence_ : log evidence of the best tree, its prior included, in the original units ("mcmc": NaN; minus
        infinity where inference converged on no tree).
    log_evidences_ : of all kept trees.
    averaged_trees_, weights_ : the trees of the predictive density.
    labels_, n_clusters_ : cluster of every row, and their number.
    sigma2_, c_, noise_ : hyperparameters of the best tree (posterior means when integrated), noise per leaf.
    converged_, messages_ : whether inference on every kept tree converged, and what it said.
    columns_ : the columns used. A Gaussian can say nothing about a constant column, so it is left out, and densities
        are those of the columns used.
    log_joint_ : (permutation, draw) log joint density of every sampled tree.
    feature_names_in_, row_names_ : names, when the rows have any.

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
        out: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    _method_name = "ddt"
    score = Estimator.score  # that of DensityMixin does nothing

    def fit(self, X: Any, y: Any = None) -> Self:  # type: ignore[override]  # its rows have no weights
        """Fit trees to rows X (n, d): an array, a sparse matrix, a data frame, a Dask collection or the path of a data
        file (`.npy .npz .csv .parquet .zarr`); they must fit in memory. The path of a Bayes-K-means run makes its
        clusters the leaves.
        """
        super().fit(X)
        if not self.converged_:
            bad = [fit.message for fit in self.posterior_.best if not fit.converged]
            warnings.warn(
                f"Inference did not converge on {len(bad)} of {len(self.messages_)} trees: {bad[0]}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _take(self, fitted: Fitted) -> None:
        self._fitted = fitted
        self.prepared_, self.posterior_ = fitted.prepared, fitted.posterior
        fits = self.posterior_.best
        self.trees_ = [fit.tree for fit in fits]
        self.tree_ = self.trees_[0]
        self.log_evidences_ = fitted.log_evidences
        self.log_evidence_ = float(self.log_evidences_[0])
        self.averaged_trees_ = [fit.tree for fit in self.posterior_.averaged]
        self.weights_ = self.posterior_.weights
        self.log_joint_ = self.posterior_.log_joint
        self.sigma2_, self.c_ = fitted.sigma2, fitted.c
        self.noise_ = self.prepared_.noise
        self.messages_ = [fit.message for fit in fits]
        self.converged_ = all(fit.converged for fit in fits)
        self.n_clusters_ = fitted.n_clusters
        self.labels_ = self._row_array("labels")

    @classmethod
    def from_run(cls, run: Any) -> Self:
        """The fitted trees of a finished run, with the parameters they were fitted with."""
        return super().from_run(run).set_params(random_state=run.header.seed)

    def _validated(self, X: Any, reset: bool) -> np.ndarray:
        """X as float64 rows, NaN where missing; names and number of features remembered or compared."""
        X, row_names, feature_names = take_names(X)
        X = framed(X.toarray() if hasattr(X, "toarray") else X, feature_names)
        checks: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        rows: np.ndarray = validate_data(self, X, reset=reset, ensure_min_samples=2 if reset else 1, **checks)
        if reset and row_names is not None:
            self.row_names_ = row_names
        return rows

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (probit: log probability) of each row; NaN entries are marginalised."""
        rows = self._used_rows(X)  # first of all: it says so when nothing is fitted yet
        return self._fitted.log_density(np.ascontiguousarray(rows))

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of each row: the subtree of `tree_` below the cut whose branches explain the row best."""
        rows = self._used_rows(X)  # first of all: it says so when nothing is fitted yet
        return self._fitted.labels(np.ascontiguousarray(rows))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """New rows (n_samples, d) from the predictive distribution; constant columns have their value."""
        check_is_fitted(self)
        return self._fitted.sample(n_samples, np.random.default_rng(seed_of(random_state)))

    def node_locations(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation (2n-1, d) of the location of every node of `tree_`, in the original
        units; constant columns are known exactly.
        """
        check_is_fitted(self)
        return self._fitted.node_locations()

    @property
    def linkage_(self) -> np.ndarray:
        """`tree_` as a SciPy linkage matrix (n-1, 4); heights are 1 - t."""
        return self.tree_.to_linkage()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True  # made dense: every location of the tree is
        tags.non_deterministic = False
        return tags
