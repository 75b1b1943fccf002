"""DPMixtureMCMC: a Dirichlet process (or NGGP) mixture by Markov chain Monte Carlo, in scikit-learn's manner."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.core.checks import as_counts, as_rows, require_spread, require_values
from dtree.core.families import FAMILIES, Family
from dtree.core.model import Model
from dtree.core.priors import GeneralizedGamma, Prior
from dtree.hierarchy.defaults import choose_model, named
from dtree.hierarchy.predictive import log_cluster_weights, log_membership
from dtree.hierarchy.statistics import cluster_statistics
from dtree.mcmc.point_estimate import LOSSES, best_partition, coclustering
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import Checkpoint, Draws, begin_chain, run_chain, sampler_named

_PREDICTIVE_DRAWS = 100
_MOST_ROWS_TOGETHER = 20_000  # an n x n matrix of 3 GB


def seed_of(random_state: Any) -> int:
    """The seed of the chains behind scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(2**31 - 1))


class DPMixtureMCMC(ClusterMixin, BaseEstimator):
    """Mixture with an unknown number of clusters, sampled by MCMC over partitions.

    Parameters
    ----------
    sampler : "tgmcmc" (guided by a tree, exact), "gibbs", "split-merge", "slice", "gibbs-subset", "split-merge-subset",
        or "tgmcmc-paper" (as printed in [LC15], biased).
    family, prior : names, whose hyperparameters are then chosen by the evidence, or objects, as for `dtree.BHC`.
    chains, draws, warmup, thin : how many chains, kept draws per chain, sweeps before the first (None: half of draws,
        at least 100), and sweeps per kept draw.
    resample_hyperparameters : sample alpha (and sigma) along with the partition; u is always sampled.
    coarsening : power of the likelihood in (0, 1]; below 1 all results are those of the coarsened posterior.
    loss : what `labels_` minimises in expectation, "vi" or "binder".
    n_jobs : chains run at the same time, in threads. Results do not depend on it.
    random_state : seed; the same seed gives the same draws, bit for bit.

    Attributes
    ----------
    posterior_ : xarray DataTree in ArviZ's schema: n_clusters, log_joint and the prior's parameters by chain and draw.
    partitions_ : (chain, draw, row) labels. labels_, n_clusters_ : the point estimate.
    checkpoints_ : where each chain stopped, as plain arrays; `more_draws` goes on from there.
    family_, prior_ : the model the chains started from. columns_ : the columns it uses (a Gaussian given by name leaves out
        constant ones). atoms_ : statistics (m, s) of the leaves.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (15, 2)) for c in (0.0, 12.0)])
    >>> family = FAMILIES["gaussian-diag"](mean=[6.0, 6.0], strength=0.05, shape=3.0, rate=[3.0, 3.0])
    >>> model = DPMixtureMCMC(family=family, chains=2, draws=30, warmup=20, random_state=0).fit(X)
    >>> model.n_clusters_, model.partitions_.shape
    (2, (2, 30, 30))
    """

    def __init__(
        self,
        sampler: str = "tgmcmc",
        family: str | Family = "gaussian",
        prior: str | Prior = "dp",
        *,
        chains: int = 4,
        draws: int = 1000,
        warmup: int | None = None,
        thin: int = 1,
        resample_hyperparameters: bool = True,
        coarsening: float = 1.0,
        loss: str = "vi",
        n_jobs: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.sampler = sampler
        self.family = family
        self.prior = prior
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.thin = thin
        self.resample_hyperparameters = resample_hyperparameters
        self.coarsening = coarsening
        self.loss = loss
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Run the chains on the rows of X (n, d); a row of weight w (a whole number) stands for w equal rows."""
        used, everything = self._prepare(X, sample_weight)
        checkpoints: list[None] = [None] * self.chains
        self._finish(self._run(checkpoints, self._warmup + self.draws * self.thin))
        if used.shape[0] < everything.shape[0]:
            self.labels_ = self.predict(everything)
        return self

    def _prepare(self, X: Any, sample_weight: Any = None) -> tuple[Any, Any]:
        """Everything before the first sweep: checks, columns, model, atoms, seed. Returns the rows that count, and all."""
        self._check_settings()
        everything = rows = self._rows(X, reset=True)
        weight = as_counts(sample_weight, rows.shape[0])
        if weight is not None and np.any(weight == 0):
            rows, weight = rows[weight > 0], weight[weight > 0]
        self.columns_ = self._informative_columns(rows)
        used = rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows
        if isinstance(self.family, Family) and self.family.n_features != used.shape[1]:
            raise ValueError(f"the family has {self.family.n_features} features but X has {used.shape[1]} columns")
        chosen = choose_model(used, self.family, self.prior, weight)
        model = Model(chosen.family, chosen.prior, self.coarsening)
        self._start_from(model, model.atoms(used, weight))
        return rows, everything

    def _check_settings(self) -> None:
        sampler_named(self.sampler)
        for name in ("chains", "draws", "thin", "n_jobs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.warmup is not None and self.warmup < 0:
            raise ValueError(f"warmup must not be negative, got {self.warmup}")
        if self.loss not in LOSSES:
            raise ValueError(f"unknown loss '{self.loss}': use one of {', '.join(LOSSES)}")

    def _start_from(self, model: Model, atoms: np.ndarray) -> None:
        """Take a model and the atoms (m, s) that the chains partition."""
        self.family_, self.prior_, self.atoms_ = model.family, model.prior, atoms
        self._seed = seed_of(self.random_state)
        self._warmup = max(100, self.draws // 2) if self.warmup is None else self.warmup

    def _informative_columns(self, rows: Any) -> np.ndarray:
        """The columns that a family fitted by name uses: a Gaussian leaves out constant ones."""
        every = np.arange(rows.shape[1])
        if isinstance(self.family, Family) or FAMILIES[self.family].value_kind != "real":
            return every
        varying = rows.min(axis=0) < rows.max(axis=0)
        return every[varying] if varying.any() else every

    def more_draws(self, draws: int) -> Self:
        """Go on from where the chains stopped; the draws are those of a run that never stopped."""
        check_is_fitted(self)
        results = self._run(self.checkpoints_, draws * self.thin)
        joined = []
        for old, (new, checkpoint) in zip(self._draws, results):
            joined.append((Draws(*(np.concatenate(pair) for pair in zip(old, new))), checkpoint))
        self._finish(joined)
        return self

    def _run(self, checkpoints: list[Checkpoint] | list[None], sweeps: int) -> list[tuple[Draws, Checkpoint]]:
        model = self.model_

        def one(chain: int) -> tuple[Draws, Checkpoint]:
            problem = Problem(model, self.atoms_, self.resample_hyperparameters)
            start = checkpoints[chain] or begin_chain(problem, self.sampler, self._seed, chain)
            return run_chain(problem, self.sampler, start, sweeps, self._warmup, self.thin)

        with ThreadPoolExecutor(min(self.n_jobs, len(checkpoints))) as pool:
            return list(pool.map(one, range(len(checkpoints))))

    def _finish(self, results: list[tuple[Draws, Checkpoint]]) -> None:
        self._draws = [draws for draws, _ in results]
        self.checkpoints_ = [checkpoint for _, checkpoint in results]
        self.partitions_ = np.stack([draws.labels for draws in self._draws])
        self.posterior_ = self._as_datatree()
        flat = self.partitions_.reshape(-1, self.partitions_.shape[2])
        self.labels_ = best_partition(flat, self.model_.counts(self.atoms_), self.loss)
        self.n_clusters_ = int(self.labels_.max()) + 1

    def _as_datatree(self) -> Any:
        from arviz_base import from_dict

        arrays = {
            "n_clusters": np.stack([draws.n_clusters for draws in self._draws]),
            "log_joint": np.stack([draws.log_joint for draws in self._draws]),
        }
        for column, name in enumerate(self.prior_.parameters()):
            values = np.stack([draws.prior[:, column] for draws in self._draws])
            if not np.all(np.isnan(values)):
                arrays[name] = values
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Found chain dimension to be longer")  # few draws are no mistake
            return from_dict({"posterior": arrays})

    def summary(self) -> Any:
        """Mean, deviation, R-hat and effective sample sizes of the scalar draws, by arviz_stats."""
        check_is_fitted(self)
        from arviz_stats import summary

        return summary(self.posterior_, round_to="none")

    def coclustering(self, rows: Any = None) -> np.ndarray:
        """Posterior probability that two rows are in one cluster, for all rows or those with the given numbers."""
        check_is_fitted(self)
        labels = self.partitions_.reshape(-1, self.partitions_.shape[2])
        labels = labels if rows is None else labels[:, np.asarray(rows)]
        if labels.shape[1] > _MOST_ROWS_TOGETHER:
            raise ValueError(
                f"a matrix of {labels.shape[1]} x {labels.shape[1]} is too large: pass the numbers of at most "
                f"{_MOST_ROWS_TOGETHER} rows"
            )
        return coclustering(labels)

    @property
    def model_(self) -> Model:
        """Family, prior and coarsening as one object."""
        return Model(self.family_, self.prior_, self.coarsening)

    def _rows(self, X: Any, reset: bool) -> Any:
        kind = type(self.family) if isinstance(self.family, Family) else named(FAMILIES, self.family, "family")
        rows = as_rows(X, accept_sparse=kind.accepts_sparse)
        validate_data(self, X, reset=reset, skip_check_array=True)
        require_values(rows, kind.value_kind, kind.name)
        if reset and kind.value_kind == "real":
            require_spread(rows)
        return rows

    def _rows_used(self, X: Any) -> Any:
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster of `labels_`, given that it belongs to one of them."""
        rows = self._rows_used(X)
        statistics = cluster_statistics(self._fitted_labels(), self.atoms_)
        weights = log_cluster_weights(self.model_, self.model_.counts(statistics))
        return np.exp(log_membership(self.family_, rows, statistics, weights))

    def _fitted_labels(self) -> np.ndarray:
        flat = self.partitions_.reshape(-1, self.partitions_.shape[2])
        if self.labels_.shape[0] == flat.shape[1]:
            return self.labels_
        return best_partition(flat, self.model_.counts(self.atoms_), self.loss)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable cluster (n,) of each row among those of `labels_`."""
        return np.argmax(self.predict_proba(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,) of each row, averaged over (at most 100, evenly chosen) draws.

        For an NGGP every draw carries (u/n) kappa(n_c + 1, u)/kappa(n_c, u) and (u/n) kappa(1, u): it is their mean over
        the posterior of u that sums to one; normalising at each u ([LC15] Eq. 6) would be right for the DP only.
        """
        rows = self._rows_used(X)
        problem = Problem(self.model_, self.atoms_)
        pairs = [(labels, vector) for draws in self._draws for labels, vector in zip(draws.labels, draws.prior)]
        chosen = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), _PREDICTIVE_DRAWS)).round().astype(int))
        parts, totals = [], []
        for number in chosen:
            labels, vector = pairs[number]
            log_density, log_total = self._log_density_at(
                rows, labels.astype(np.int64), problem.prior_at(vector), problem.n
            )
            parts.append(log_density)
            totals.append(log_total)
        # Over finitely many draws the mean of the weights is one only up to Monte Carlo error; dividing by it keeps the
        # density normalised.
        return logsumexp(np.stack(parts), axis=0) - logsumexp(totals)

    def _log_density_at(self, rows: Any, labels: np.ndarray, prior: Prior, n: float) -> tuple[np.ndarray, float]:
        statistics = cluster_statistics(labels, self.atoms_)
        sizes = self.model_.counts(statistics)
        log_weights = np.append(prior.log_kappa(sizes + 1.0) - prior.log_kappa(sizes), float(prior.log_kappa(1.0)))
        if isinstance(prior, GeneralizedGamma):
            log_weights += np.log(prior.u) - np.log(n)
        else:
            log_weights -= logsumexp(log_weights)
        everything = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
        log_density = logsumexp(self.family_.log_predictive_of(rows, everything) + log_weights, axis=1)
        return log_density, float(logsumexp(log_weights))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X."""
        return float(self.score_samples(X).mean())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = type(self.family) if isinstance(self.family, Family) else named(FAMILIES, self.family, "family")
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind == "count"
        return tags
