"""A Dirichlet process (or NGGP) mixture by Markov chain Monte Carlo, in scikit-learn's manner: rows in memory."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dtree.core.checks import as_counts
from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.priors import PRIORS, GeneralizedGamma, Prior
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.checked_rows import checked_atoms, checked_rows, family_class, informative_columns
from dtree.hierarchy.defaults import choose_model, named
from dtree.hierarchy.incremental_forest import incremental_tree
from dtree.hierarchy.predictive import log_cluster_weights, log_membership
from dtree.hierarchy.statistics import cluster_statistics
from dtree.mcmc.credibility import Credibility, node_credibility
from dtree.mcmc.hyperparameters import from_parameter_vector
from dtree.mcmc.point_estimate import LOSSES, best_partition, coclustering, sparse_coclustering
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import Checkpoint, Draws, begin_chain, run_chain, sampler_named

_PREDICTIVE_DRAWS = 100
_MOST_ROWS_TOGETHER = 20_000  # an n x n matrix of 3 GB
_MOST_EXACT_LEAVES = 5_000  # larger trees are grown by insertion


def seed_of(random_state: Any) -> int:
    """The seed of the chains behind scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(2**31 - 1))


class InMemoryDPMixtureMCMC(ClusterMixin, BaseEstimator):
    """Chains over rows in memory, in this process; `dtree.DPMixtureMCMC`, which says what the parameters mean, adds the rest."""

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

    def fit_atoms(self, atoms: Any) -> Self:
        """Run the chains over atoms (m, s), rows of additive statistics of `family` (an object), such as the `statistics_` of a
        `BayesKMeans` with the same family and coarsening: any number of rows as a few thousand leaves."""
        self._check_settings()
        self._prepare_atoms(atoms)
        self._finish(self._run([None] * self.chains, self._warmup + self.draws * self.thin))
        return self

    def _prepare_atoms(self, atoms: Any) -> None:
        if not isinstance(self.family, Family):
            raise ValueError(
                "atoms are statistics of one family: give it as an object, e.g. the family_ of the reduction"
            )
        atoms = checked_atoms(self.family, atoms)
        self.__dict__.pop("row_names_", None)
        self.n_features_in_ = self.family.n_features
        self.columns_ = np.arange(self.family.n_features)
        prior = self.prior if isinstance(self.prior, Prior) else named(PRIORS, self.prior, "prior")()
        self._start_from(Model(self.family, prior, self.coarsening), atoms)

    def _prepare(self, X: Any, sample_weight: Any = None) -> tuple[Any, Any]:
        """Everything before the first sweep: checks, columns, model, atoms, seed. Returns the rows that count, and all."""
        self._check_settings()
        everything = rows = checked_rows(self, X, reset=True)
        weight = as_counts(sample_weight, rows.shape[0])
        if weight is not None and np.any(weight == 0):
            rows, weight = rows[weight > 0], weight[weight > 0]
        self.columns_ = informative_columns(rows, self.family)
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
        self._tree: Tree | None = None
        self.checkpoints_ = [checkpoint for _, checkpoint in results]
        self.partitions_ = np.stack([draws.labels for draws in self._draws])
        self.posterior_ = self._as_datatree()
        self.labels_ = best_partition(self._flat_partitions(), self.model_.counts(self.atoms_), self.loss)
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

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # chains that never moved have no R-hat; NaN says so
            return summary(self.posterior_, round_to="none")

    def coclustering(self, rows: Any = None, least: float | None = None) -> Any:
        """Posterior probability that two rows are in one cluster, for all rows or those with the given numbers.

        An array (n, n); with `least` a SciPy sparse array of the probabilities that are at least so large, which has room for
        far more rows. Over atoms, it is the matrix of the atoms.
        """
        check_is_fitted(self)
        labels = self._flat_partitions()
        labels = labels if rows is None else labels[:, np.asarray(rows)]
        if least is not None:
            return sparse_coclustering(labels, least)
        if labels.shape[1] > _MOST_ROWS_TOGETHER:
            raise ValueError(
                f"a matrix of {labels.shape[1]} x {labels.shape[1]} is too large: pass the numbers of at most "
                f"{_MOST_ROWS_TOGETHER} rows, or least=0.1 for a sparse matrix"
            )
        return coclustering(labels)

    @property
    def tree_(self) -> Tree:
        """A tree over all leaves, at the medians of the sampled hyperparameters: exact BHC, or incremental beyond 5,000 leaves."""
        check_is_fitted(self)
        if self._tree is None:
            middle = np.median(np.concatenate([draws.prior for draws in self._draws]), axis=0)
            model = Model(self.family_, from_parameter_vector(self.prior_, middle), self.coarsening)
            grow = build_tree if self.atoms_.shape[0] <= _MOST_EXACT_LEAVES else incremental_tree
            self._tree = grow(model, self.atoms_)
        return self._tree

    def credibility(self, tree: Tree | None = None) -> Credibility:
        """For every node of a tree over the leaves (by default `tree_`), the share of the draws in which all leaves below it are in
        one cluster (`together`), and in which they are a cluster by themselves (`cluster`)."""
        check_is_fitted(self)
        return node_credibility(self.tree_ if tree is None else tree, self._flat_partitions())

    def _flat_partitions(self) -> np.ndarray:
        return self.partitions_.reshape(-1, self.partitions_.shape[2])

    @property
    def model_(self) -> Model:
        """Family, prior and coarsening as one object."""
        return Model(self.family_, self.prior_, self.coarsening)

    def _rows_used(self, X: Any) -> Any:
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False)
        return rows[:, self.columns_] if self.columns_.shape[0] < rows.shape[1] else rows

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability (n, k) that each row belongs to each cluster of `labels_`, given that it belongs to one of them."""
        rows = self._rows_used(X)
        statistics = cluster_statistics(self._fitted_labels(), self.atoms_)
        weights = log_cluster_weights(self.model_, self.model_.counts(statistics))
        return np.exp(log_membership(self.family_, rows, statistics, weights))

    def _fitted_labels(self) -> np.ndarray:
        flat = self._flat_partitions()
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
        kind = family_class(self.family)
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind == "count"
        return tags
