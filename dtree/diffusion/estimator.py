"""`DiffusionTree`: Dirichlet diffusion trees with the habits of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.diffusion import mcmc
from dtree.diffusion.atoms import Atoms, leaves_of_atoms, summarise_rows
from dtree.diffusion.belief import Leaves, leaves_from_data, posterior_locations
from dtree.diffusion.em import log_evidence_em
from dtree.diffusion.laplace import Evidence, importance_correction, log_evidence_laplace
from dtree.diffusion.message_passing import log_evidence_message_passing
from dtree.diffusion.noise import learn_noise, learn_sigma2, scale_leaves
from dtree.diffusion.objective import Hyper
from dtree.diffusion.predictive import (
    NODES,
    BranchMixture,
    branch_mixture,
    log_density,
    posterior_of_c,
    posterior_of_precision,
    sample_rows,
)
from dtree.diffusion.probit import log_evidence_probit, log_probability, signs_from_binary
from dtree.diffusion.search import SearchState, best_columns, build, search
from dtree.diffusion.tree import Columns

INFERENCES = ("laplace", "em", "message-passing", "mcmc")
LIKELIHOODS = ("gaussian", "probit")


class FittedTree(NamedTuple):
    """One tree of the posterior with what prediction needs: leaves in units of sigma2, and its log weight."""

    tree: Columns
    leaves: Leaves
    hyper: Hyper
    log_evidence: float
    converged: bool
    message: str


def run_permutation(
    leaves: Leaves,
    hyper: Hyper,
    seed: int,
    *,
    search_steps: int,
    n_trees: int = 10,
    attachments: int = 3,
    beam: int = 12,
) -> SearchState:
    """One independent search: build in a random order, then `search_steps` moves. Pure function of its arguments."""
    rng = np.random.default_rng(seed)
    state = build(leaves, hyper, rng, keep=n_trees, attachments=attachments, beam=beam)
    return search(state, rng, search_steps, attachments=attachments, beam=beam)


class DiffusionTree(DensityMixin, BaseEstimator):
    """Density estimation and hierarchical clustering with a Dirichlet diffusion tree.

    Parameters
    ----------
    inference : {"laplace", "em", "message-passing", "mcmc"}
        How the evidence of a tree is computed, or `"mcmc"` to sample trees. The structure search is the same for the
        first three.
    likelihood : {"gaussian", "probit"}
        Real-valued rows (NaN = missing), or binary rows (0/1 or -1/+1, NaN = missing).
    n_permutations : int
        Independent searches, each building the tree in another random order.
    search_steps : int or None
        Detach-reattach moves after building, per search; None takes 100 + n leaves.
    n_trees : int
        How many of the best distinct trees are kept and averaged over.
    sigma2, c : float or None
        Diffusion variance and smoothness; None integrates them out (probit: sigma2 is learned).
    noise : float or "auto"
        Variance of a row around its leaf, in units of sigma2; "auto" learns it. 0 needs distinct rows.
    standardize : bool
        Centre columns and scale them to unit variance first; densities are always those of the original units.
    max_leaves : int
        With more rows than this, rows are first summarised by at most this many atoms (Gaussian likelihood, complete
        rows).
    importance_draws : int
        With Laplace: correct each evidence by this many importance draws (0 = none).
    mcmc_draws, mcmc_warmup : int
        Kept and discarded sweeps of the sampler.
    n_nodes : int
        Gauss-Legendre nodes per branch in the predictive density.
    random_state : int, RandomState or None

    Attributes
    ----------
    tree_, trees_ : best tree, all kept trees (columns: parent, child, rest = 1 - t)
    log_evidence_ : log evidence of the best tree, its prior included, in the original units
    log_evidences_, weights_ : of all kept trees
    sigma2_, c_, noise_ : hyperparameters of the best tree (posterior means when integrated)
    converged_, messages_ : whether inference on every kept tree converged, and what it said
    atoms_ : the summaries used as leaves, or None when every row is a leaf

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[-2.0], [2.0], [-2.1], [2.1], [-1.9]])
    >>> model = DiffusionTree(random_state=0).fit(x)
    >>> model.score_samples(np.array([[2.05], [0.0]])).round(1)[0] > -1.5
    np.True_
    """

    def __init__(
        self,
        inference: str = "laplace",
        likelihood: str = "gaussian",
        *,
        n_permutations: int = 3,
        search_steps: int | None = None,
        n_trees: int = 10,
        attachments: int = 3,
        beam: int = 12,
        sigma2: float | None = None,
        c: float | None = None,
        precision_prior: tuple[float, float] = (2.0, 1.5),
        c_prior: tuple[float, float] = (2.0, 2.0),
        noise: float | str = "auto",
        standardize: bool = True,
        max_leaves: int = 2000,
        importance_draws: int = 0,
        mcmc_draws: int = 100,
        mcmc_warmup: int = 100,
        n_nodes: int = NODES,
        random_state: Any = None,
    ) -> None:
        self.inference = inference
        self.likelihood = likelihood
        self.n_permutations = n_permutations
        self.search_steps = search_steps
        self.n_trees = n_trees
        self.attachments = attachments
        self.beam = beam
        self.sigma2 = sigma2
        self.c = c
        self.precision_prior = precision_prior
        self.c_prior = c_prior
        self.noise = noise
        self.standardize = standardize
        self.max_leaves = max_leaves
        self.importance_draws = importance_draws
        self.mcmc_draws = mcmc_draws
        self.mcmc_warmup = mcmc_warmup
        self.n_nodes = n_nodes
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = False
        return tags

    def fit(self, X: Any, y: Any = None) -> DiffusionTree:
        """Fit trees to rows X (n, d)."""
        self._check_parameters()
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        if np.isnan(X).all(axis=1).any():
            row = int(np.flatnonzero(np.isnan(X).all(axis=1))[0])
            raise ValueError(f"Row {row} has no observed entry; remove it.")
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_permutations + 2)
        if self.likelihood == "probit":
            return self._fit_probit(signs_from_binary(X), seeds)
        return self._fit_gaussian(X, seeds)

    def _check_parameters(self) -> None:
        if self.inference not in INFERENCES:
            raise ValueError(f"inference must be one of {', '.join(INFERENCES)}, got {self.inference!r}.")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {', '.join(LIKELIHOODS)}, got {self.likelihood!r}.")
        if self.likelihood == "probit" and self.inference != "laplace":
            raise ValueError("The probit likelihood is available with inference='laplace'.")
        if isinstance(self.noise, str) and self.noise != "auto":
            raise ValueError(f"noise must be 'auto' or a variance >= 0, got {self.noise!r}.")
        if not isinstance(self.noise, str) and self.noise < 0:
            raise ValueError(f"noise is a variance and cannot be negative, got {self.noise}.")
        for name in ("sigma2", "c"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive or None, got {value}.")
        for name in ("n_permutations", "n_trees", "attachments", "beam", "n_nodes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")

    def _hyper(self) -> Hyper:
        (a, b), (shape, rate) = self.precision_prior, self.c_prior
        return Hyper(self.sigma2, self.c, (a, b), (shape, rate))

    def _steps(self, n_leaves: int) -> int:
        return 100 + n_leaves if self.search_steps is None else int(self.search_steps)

    def _searches(self, leaves: Leaves, hyper: Hyper, seeds: np.ndarray) -> list[Columns]:
        states = [
            run_permutation(
                leaves,
                hyper,
                int(seed),
                search_steps=self._steps(leaves.mean.shape[0]),
                n_trees=self.n_trees,
                attachments=self.attachments,
                beam=self.beam,
            )
            for seed in seeds
        ]
        return [columns for _, columns in best_columns(states, self.n_trees)]

    def _fit_gaussian(self, X: np.ndarray, seeds: np.ndarray) -> DiffusionTree:
        self._set_scale(X)
        z = (X - self.offset_) / self.scale_
        missing = np.isnan(z).any()
        self.atoms_: Atoms | None = None
        hyper = self._hyper()
        if z.shape[0] > self.max_leaves:
            if missing:
                raise ValueError(
                    f"{z.shape[0]} rows are more than max_leaves={self.max_leaves} and summaries need complete rows: "
                    "fill in the missing entries, or raise max_leaves."
                )
            self.atoms_ = summarise_rows(z, self.max_leaves, int(seeds[0]))
            leaves, hyper = self._atom_leaves(self.atoms_, hyper, int(seeds[1]))
        else:
            leaves = self._row_leaves(z, hyper, int(seeds[1]))
        if self.inference == "mcmc":
            fits = self._sample_trees(leaves, hyper, int(seeds[1]))
        else:
            fits = [
                self._evaluate(columns, leaves, hyper, k)
                for k, columns in enumerate(self._searches(leaves, hyper, seeds[2:]))
            ]
        observed = (~np.isnan(X)).sum(axis=0)
        return self._finish(fits, -float((observed * np.log(self.scale_)).sum()))

    def _set_scale(self, X: np.ndarray) -> None:
        empty = np.isnan(X).all(axis=0)
        if empty.any():
            raise ValueError(f"Column {int(np.flatnonzero(empty)[0])} has no observed entry; remove it.")
        spread = np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
        if (spread == 0).any():
            column = int(np.flatnonzero(spread == 0)[0])
            raise ValueError(
                f"Column {column} is constant (1 distinct value), so it has no density; remove it before fitting."
            )
        d = X.shape[1]
        self.offset_ = np.nanmean(X, axis=0) if self.standardize else np.zeros(d)
        self.scale_ = np.nanstd(X, axis=0) if self.standardize else np.ones(d)

    def _row_leaves(self, z: np.ndarray, hyper: Hyper, seed: int) -> Leaves:
        """One leaf per row; learns the noise on a first tree when it is not given."""
        if self.noise == "auto":
            base = leaves_from_data(z, 1.0)
            noise = 0.01
            for _ in range(2):
                state = build(scale_leaves(base, noise), hyper, np.random.default_rng(seed))
                first = best_columns([state], 1)[0][1]
                noise, _ = learn_noise(first, base, hyper, noise)
            self.noise_: Any = noise
        else:
            self.noise_ = float(self.noise)
            if self.noise_ == 0.0:
                _refuse_duplicates(z)
        return leaves_from_data(z, self.noise_)

    def _atom_leaves(self, atoms: Atoms, hyper: Hyper, seed: int) -> tuple[Leaves, Hyper]:
        """One leaf per atom. The noise is known in absolute units, so sigma2 is learned instead of integrated."""
        absolute = leaves_of_atoms(atoms)
        sigma2 = 1.0 if hyper.sigma2 is None else hyper.sigma2
        if hyper.sigma2 is None:
            for _ in range(2):
                leaves = absolute._replace(var=absolute.var / sigma2)
                state = build(leaves, hyper._replace(sigma2=sigma2), np.random.default_rng(seed))
                sigma2 = learn_sigma2(best_columns([state], 1)[0][1], absolute, hyper.precision_prior)
        self.noise_ = atoms.noise / sigma2
        return absolute._replace(var=absolute.var / sigma2), hyper._replace(sigma2=sigma2)

    def _evaluate(self, columns: Columns, leaves: Leaves, hyper: Hyper, k: int) -> FittedTree:
        fit: Evidence
        if self.inference == "em":
            fit = log_evidence_em(columns, leaves, hyper)
        elif self.inference == "message-passing":
            fit = log_evidence_message_passing(columns, leaves, hyper)
        else:
            fit = log_evidence_laplace(columns, leaves, hyper)
        value = fit.log_evidence
        if self.inference == "laplace" and self.importance_draws > 0:
            value, _ = importance_correction(fit, leaves, hyper, np.random.default_rng(k), draws=self.importance_draws)
        return FittedTree(fit.tree, leaves, hyper, value, fit.converged, fit.message)

    def _sample_trees(self, leaves: Leaves, hyper: Hyper, seed: int) -> list[FittedTree]:
        rng = np.random.default_rng(seed)
        start = best_columns([build(leaves, hyper, rng)], 1)[0][1]
        chain = mcmc.init(start, leaves, hyper)
        fits = []
        for k in range(self.mcmc_warmup + self.mcmc_draws):
            chain = mcmc.step(chain, rng)
            if k >= self.mcmc_warmup:
                # equal weights: the chain itself visits trees in proportion to their posterior
                fits.append(FittedTree(mcmc.tree_of(chain), leaves, hyper, 0.0, True, "sampled"))
        self.mcmc_log_joint_ = np.array([mcmc.log_joint(f.tree, leaves, hyper) for f in fits])
        return fits

    def _fit_probit(self, signs: np.ndarray, seeds: np.ndarray) -> DiffusionTree:
        d = signs.shape[1]
        self.offset_, self.scale_, self.atoms_, self.noise_ = np.zeros(d), np.ones(d), None, 1.0
        if signs.shape[0] > self.max_leaves:
            raise ValueError(
                f"The probit likelihood works on at most max_leaves={self.max_leaves} rows, got {signs.shape[0]}; "
                "fit a random subset."
            )
        hyper = self._hyper()
        sigma2 = 4.0 if hyper.sigma2 is None else hyper.sigma2
        # a first tree on the signs themselves gives sites; sites give a better tree: twice is enough to settle
        leaves = leaves_from_data(np.where(signs == 0, np.nan, signs), 1.0 / sigma2)
        leaves = Leaves(leaves.mean, np.broadcast_to(leaves.var, signs.shape).copy(), leaves.n_observed)
        for _ in range(2):
            state = build(leaves, hyper._replace(sigma2=sigma2), np.random.default_rng(int(seeds[1])))
            columns = best_columns([state], 1)[0][1]
            fit = log_evidence_probit(
                columns, signs, hyper._replace(sigma2=sigma2), learn_sigma2=hyper.sigma2 is None, max_iter=60
            )
            sigma2, leaves = fit.sigma2, fit.sites
        fixed = hyper._replace(sigma2=sigma2)
        candidates = self._searches(leaves, fixed, seeds[2:])
        fits = []
        for columns in candidates:
            result = log_evidence_probit(columns, signs, fixed, sites=leaves)
            evidence = result.evidence
            fits.append(
                FittedTree(
                    evidence.tree, result.sites, fixed, evidence.log_evidence, evidence.converged, evidence.message
                )
            )
        return self._finish(fits, 0.0)

    def _finish(self, fits: list[FittedTree], log_jacobian: float) -> DiffusionTree:
        fits = sorted(fits, key=lambda fit: -fit.log_evidence)
        self.fits_ = fits
        self.trees_ = [fit.tree for fit in fits]
        self.tree_ = self.trees_[0]
        self.log_evidences_ = np.array([fit.log_evidence for fit in fits]) + log_jacobian
        if self.inference == "mcmc":
            self.log_evidences_ = np.full(len(fits), np.nan)
        self.log_evidence_ = float(self.log_evidences_[0])
        raw = np.array([fit.log_evidence for fit in fits])
        self.weights_ = np.exp(raw - np.logaddexp.reduce(raw))
        best = fits[0]
        shape, rate = posterior_of_precision(best.tree, best.leaves, best.hyper)
        self.sigma2_ = float(1.0 / rate if np.isinf(shape) else rate / max(shape - 1.0, 0.5))
        shape, rate = posterior_of_c(best.tree, best.leaves, best.hyper)
        self.c_ = float(rate if np.isinf(shape) else shape / rate)
        self.messages_ = [fit.message for fit in fits]
        self.converged_ = all(fit.converged for fit in fits)
        if not self.converged_:
            bad = [fit.message for fit in fits if not fit.converged]
            warnings.warn(
                f"Inference did not converge on {len(bad)} of {len(fits)} trees: {bad[0]}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._mixtures: list[BranchMixture] | None = None
        return self

    def _predictive(self) -> list[BranchMixture]:
        if self._mixtures is None:
            rows = None if self.atoms_ is None else self.atoms_.rows
            noise = 0.0 if self.likelihood == "probit" else self.noise_
            self._mixtures = [
                branch_mixture(f.tree, f.leaves, f.hyper, noise=noise, rows=rows, nodes=self.n_nodes)
                for f in self.fits_
            ]
        return self._mixtures

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (probit: log probability) of each row; NaN entries are marginalised."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        log_weights = np.log(np.maximum(self.weights_, 1e-300))
        mixtures = [(m, w) for m, w in zip(self._predictive(), log_weights) if w > -40.0]
        if self.likelihood == "probit":
            signs = signs_from_binary(X)
            values = np.array([log_probability(signs, mixture) + weight for mixture, weight in mixtures])
            return np.logaddexp.reduce(values, axis=0) - np.logaddexp.reduce([w for _, w in mixtures])
        z = (X - self.offset_) / self.scale_
        jacobian = np.where(np.isnan(X), 0.0, np.log(self.scale_)).sum(axis=1)
        return log_density(z, [m for m, _ in mixtures], [w for _, w in mixtures]) - jacobian

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of rows X."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """New rows (n_samples, d) from the predictive distribution."""
        check_is_fitted(self)
        rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
        rows = None if self.atoms_ is None else self.atoms_.rows
        noise = 0.0 if self.likelihood == "probit" else self.noise_
        which = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        parts = [
            sample_rows(int(k), f.tree, f.leaves, f.hyper, rng, noise=noise, rows=rows)
            for k, f in zip(which, self.fits_)
            if k > 0
        ]
        drawn = rng.permutation(np.concatenate(parts)) if parts else np.empty((0, self.n_features_in_))
        if self.likelihood == "probit":
            return (drawn + rng.standard_normal(drawn.shape) > 0).astype(np.float64)
        return drawn * self.scale_ + self.offset_

    def node_locations(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation (2n-1, d) of the location of every node of `tree_`, in the original
        units."""
        check_is_fitted(self)
        fit = self.fits_[0]
        mean, var = posterior_locations(fit.tree, fit.leaves, self.sigma2_)
        wide = mean.shape[1] // var.shape[1]
        return mean * self.scale_ + self.offset_, np.sqrt(np.repeat(var, wide, axis=1)) * self.scale_


def _refuse_duplicates(z: np.ndarray) -> None:
    order = np.lexsort(z.T)
    same = (z[order[1:]] == z[order[:-1]]).all(axis=1)
    if same.any():
        k = int(np.flatnonzero(same)[0])
        a, b = sorted((int(order[k]), int(order[k + 1])))
        raise ValueError(
            f"Rows {a} and {b} are identical, which a noise-free diffusion tree cannot explain: "
            "set noise='auto' or a positive noise."
        )


__all__ = ["DiffusionTree", "run_permutation"]
