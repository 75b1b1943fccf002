"""The scikit-learn face of the six variational mixtures: rows in memory, in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dtree.core.checks import require_spread, varying_columns
from dtree.core.families import FAMILIES, Family, Moments
from dtree.core.names import framed, take_names
from dtree.variational.component_frames import component_frame
from dtree.variational.defaults import choose_by_bound, family_from_data, family_from_moments
from dtree.variational.escapes import escape
from dtree.variational.fitting import Fit, InMemory, ascend
from dtree.variational.label_kernels import conditional_log_prior, softmax_rows
from dtree.variational.likelihood import expectation_of
from dtree.variational.memoised import Memory, fingerprint
from dtree.variational.predictive import log_predictive
from dtree.variational.settings import check_settings, checked_weight
from dtree.variational.starts import given_start, kmeans_labels, one_hot
from dtree.variational.steps import Rule, e_step, make_block
from dtree.variational.variants import variant_named
from dtree.variational.weights import expected_weights

DEFAULT_TRUNCATION = 40
_EXACT_SWEEP_ROWS = 5000
_PREDICT_ROWS = 8192
_SAMPLE_ITERATIONS = 500  # a sample is fitted to the end, however few passes over all rows may follow
_SAMPLE_TOLERANCE = 1e-6  # ... and no further than the passes will have to move it anyway
_DISTINCT_ROWS = 20_000  # above this, sorting rows to find equal ones costs more than it brings


class InMemoryDPMixtureVB(ClusterMixin, BaseEstimator):
    """Variational mixtures of arrays in this process; `dtree.DPMixtureVB`, which says what the parameters mean, adds files,
    Dask collections and clusters."""

    def __init__(
        self,
        variant: str = "O-CTSB",
        family: Any = "gaussian",
        truncation: int | None = None,
        alpha: float = 1.0,
        *,
        learn_alpha: bool = False,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 1,
        init: Any = "auto",
        expectation: str = "corrected",
        schedule: str = "parallel",
        order: str = "best",
        split_merge: int = 20,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.variant = variant
        self.family = family
        self.truncation = truncation
        self.alpha = alpha
        self.learn_alpha = learn_alpha
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.init = init
        self.expectation = expectation
        self.schedule = schedule
        self.order = order
        self.split_merge = split_merge
        self.warm_start = warm_start
        self.random_state = random_state

    # Fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X (n, d); `sample_weight` (n,) says how many equal rows each stands for."""
        self._check_settings()
        before = getattr(self, "n_features_in_", None)
        X = self._check_rows(X, reset=True)
        weight = checked_weight(sample_weight, X.shape[0])
        warm = self.warm_start and hasattr(self, "fit_") and X.shape[1] == before
        if warm:
            rule, size, centres = self._rule(self.family_, self.alpha_), self.truncation_, 0
        else:
            size = self._size_for(weight)
            self.columns_ = self._informative_columns(X, weight)
        X = self._used(X)
        self._check_exact(weight, X.shape[0])
        rows_given = X
        X, weight = self._distinct(X, weight)
        if not warm:
            family, centres = self._family_and_centres(family_from_data(self.family, X, weight), X, size, weight)
            rule = self._rule(family, float(self.alpha))
        best = self._best_fit(X, weight, rule, size, centres, warm)
        self._memory: Memory | None = None
        self._adopt(best)
        return self._label(rows_given)

    def _best_fit(self, X: Any, weight: np.ndarray, rule: Rule, size: int, centres: int, warm: bool) -> Fit:
        """The highest of `n_init` fits, or the one that goes on from the last fit."""
        block = make_block(rule.family, X, weight)
        best: Fit | None = None
        for random in self._generators(1 if warm else self.n_init):
            if warm:
                start = np.empty((X.shape[0], size))
                e_step(block, self.fit_.state, out=start)
            else:
                start = self._start(rule.family, X, size, centres, random, weight)
            rows = InMemory(block, start, self.expectation, self.schedule)
            fit = ascend(rows, rows.sums(rule), rule, self.max_iter, self.tol, self.learn_alpha)
            if self.split_merge:
                fit, rows = escape(rows, fit, self.max_iter, self.tol, self.split_merge, random, self.learn_alpha)
            if best is None or fit.elbo > best.elbo:
                best = fit
        assert best is not None
        return best

    def fit_sample(self, X: Any, moments: Moments, rows: int) -> Fit:
        """Where a fit over `rows` rows in partitions starts: the best fit to a sample X (m, d) of them, scaled up.

        `moments` are those of all rows; X holds the columns in use only. Nothing is remembered in this object.
        """
        self._check_settings()
        weight = np.ones(X.shape[0])
        size = self._size_for(np.array([float(rows)]))
        X, weight = self._distinct(X, weight)
        family, centres = self._family_and_centres(family_from_moments(self.family, moments), X, size, weight)
        to_the_end = {"max_iter": max(self.max_iter, _SAMPLE_ITERATIONS), "tol": max(self.tol, _SAMPLE_TOLERANCE)}
        fit = (
            clone(self)
            .set_params(**to_the_end)
            ._best_fit(X, weight, self._rule(family, float(self.alpha)), size, centres, warm=False)
        )
        return replace(fit, sums=fit.sums.scaled(rows / fit.sums.rows))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, batch: str | None = None) -> Self:
        """Visit one batch of rows; a batch seen before (same rows, or same `batch` name) replaces its old contribution.

        The bound in `elbo_` is that of all batches seen so far and, for uncollapsed variants, does not fall when a batch
        is revisited. The first batch is fitted on its own; it fixes the family and the truncation.
        """
        self._check_settings()
        first = getattr(self, "_memory", None) is None
        X = self._check_rows(X, reset=first and not hasattr(self, "fit_"))
        weight = checked_weight(sample_weight, X.shape[0])
        if first and not hasattr(self, "fit_"):
            self.columns_ = np.arange(X.shape[1])  # what is constant in this batch may vary in the next
        X = self._used(X)
        if first:
            if hasattr(self, "fit_"):
                rule, start = self.fit_.rule, self.fit_.sums
            else:
                size = self._size_for(weight)
                candidates = family_from_data(self.family, X, weight)
                family, centres = self._family_and_centres(candidates, X, size, weight)
                rule = self._rule(family, float(self.alpha))
                fit = self._best_fit(X, weight, rule, size, centres, warm=False)
                rule, start = fit.rule, fit.sums
            self._memory = Memory(rule, start)
        assert self._memory is not None
        name = fingerprint(X, weight) if batch is None else str(batch)
        self._memory.visit(name, make_block(self._memory.rule.family, X, weight), self.learn_alpha)
        self._adopt(self._memory.fit())
        return self._label(X)

    def _adopt(self, fit: Fit) -> None:
        """Set the fitted attributes from where a fit stopped, wherever its rows were."""
        rule = fit.rule
        self.fit_ = fit
        self.family_, self.alpha_ = rule.family, rule.alpha
        self.truncation_ = fit.sums.counts.shape[0]
        self.elbo_, self.elbo_trace_, self.elbo_is_bound_ = fit.elbo, np.array(fit.trace), fit.is_bound
        self.n_iter_, self.converged_ = max(1, len(fit.trace) - 1), fit.converged
        self._present(np.argsort(-fit.sums.counts, kind="stable"))

    def _present(self, order: np.ndarray) -> None:
        """List the components in this order; the model is the same, only the columns users see are renamed."""
        sums, rule = self.fit_.sums, self.fit_.rule
        self._shown = order
        self.statistics_ = sums.statistics[order]
        self.weights_ = expected_weights(rule.variant, rule.alpha, sums.counts)[order]
        self.components_ = expectation_of(rule.family).parameters(rule.family, self.statistics_)
        for name, values in self.components_.items():
            setattr(self, f"{name}_", values)

    def _label(self, X: Any) -> Self:
        best = self._best_components(X)
        holds_rows = np.bincount(best, minlength=self.truncation_) > 0
        self._present(np.lexsort([-self.fit_.sums.counts, ~holds_rows]))  # so labels are 0, 1, ... without gaps
        rank = np.empty(self.truncation_, dtype=np.int64)
        rank[self._shown] = np.arange(self.truncation_)
        self.labels_ = rank[best]
        self.n_clusters_ = int(holds_rows.sum())
        return self

    def _best_components(self, X: Any) -> np.ndarray:
        """The most probable component (n,) of each row, numbered as in `fit_`."""
        return self._shown[self._argmax(X)]

    def _argmax(self, X: Any) -> np.ndarray:
        """The same numbered as shown, without holding the responsibilities of all rows."""
        starts = range(0, X.shape[0], _PREDICT_ROWS)
        return np.concatenate([self._responsibilities(X[i : i + _PREDICT_ROWS]).argmax(axis=1) for i in starts])

    def component_frame(self, parameter: str | None = None) -> Any:
        """A component parameter as a data frame with names: a row for each cluster that holds rows, a column per feature.

        `parameter` is a key of `components_`, by default the first (`means`, `probabilities` or `intensities`).
        """
        check_is_fitted(self, "fit_")
        features = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[self.columns_]
        return component_frame(self.components_, parameter, self.n_clusters_, features)

    # Prediction ---------------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """Responsibilities (n, T): the q(z) that the fitted components and weights give each row."""
        check_is_fitted(self, "fit_")
        return self._responsibilities(self._used(self._check_rows(X, reset=False)))

    def predict(self, X: Any) -> np.ndarray:
        """The component (n,) with the largest responsibility."""
        check_is_fitted(self, "fit_")
        return self._argmax(self._used(self._check_rows(X, reset=False)))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,): weights at expected counts times each component's predictive density."""
        check_is_fitted(self, "fit_")
        X = self._used(self._check_rows(X, reset=False))
        log_weights = np.log(self.weights_)
        parts = [
            logsumexp(
                log_predictive(self.family_, X[start : start + _PREDICT_ROWS], self.statistics_) + log_weights, axis=1
            )
            for start in range(0, X.shape[0], _PREDICT_ROWS)
        ]
        return np.concatenate(parts)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X."""
        return float(self.score_samples(X).mean())

    def _responsibilities(self, X: Any) -> np.ndarray:
        state = self.fit_.state
        coefficients = state.coefficients.copy()
        if state.weights is not None:  # a new row has no share in the counts
            prior = np.empty(coefficients.shape[0])
            conditional_log_prior(state.weights, np.zeros_like(prior), prior)
            coefficients[:, 0] += prior
        coefficients = coefficients[self._shown]
        out = np.empty((X.shape[0], coefficients.shape[0]))
        features_of = expectation_of(state.family)
        for start in range(0, X.shape[0], _PREDICT_ROWS):
            rows = features_of.prepare(state.family, X[start : start + _PREDICT_ROWS])
            scores = np.ascontiguousarray(features_of.features(state.family, rows) @ coefficients.T)
            softmax_rows(scores, np.zeros(scores.shape[0]))
            out[start : start + scores.shape[0]] = scores
        return out

    # Checks -------------------------------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        check_settings(self)

    def _family_type(self) -> type[Family]:
        if isinstance(self.family, Family):
            return type(self.family)
        if self.family not in FAMILIES:
            raise ValueError(
                f"unknown family {self.family!r}: choose one of {', '.join(FAMILIES)} or give a family object"
            )
        return FAMILIES[self.family]

    def _check_rows(self, X: Any, reset: bool) -> Any:
        family = self._family_type()
        accept = ["csr"] if family.accepts_sparse else False
        X, row_names, feature_names = take_names(X)
        if feature_names is not None:
            X = framed(X, feature_names)
        X = validate_data(self, X, reset=reset, accept_sparse=accept, dtype=np.float64, order="C")
        if reset:
            self._remember_names(row_names, feature_names)
        values = X.data if sparse.issparse(X) else X
        if family.value_kind == "binary" and not np.all((values == 0) | (values == 1)):
            raise ValueError(
                f"the {family.name} family needs zeros and ones: threshold the data or choose another family"
            )
        if family.value_kind == "count" and (values.min(initial=0) < 0 or np.any(values != np.floor(values))):
            raise ValueError(
                f"the {family.name} family needs counts (whole numbers, not negative): choose another family"
            )
        return X

    def _remember_names(self, row_names: Any, feature_names: Any) -> None:
        """Names of rows (n,), and of features (d,) where scikit-learn has not found them in a frame, or None."""
        self.__dict__.pop("row_names_", None)
        if row_names is not None:
            self.row_names_ = np.array([str(name) for name in row_names], dtype=object)
        if feature_names is not None:
            self.feature_names_in_ = np.array([str(name) for name in feature_names], dtype=object)

    def _informative_columns(self, X: Any, weight: np.ndarray) -> np.ndarray:
        """The columns a family fitted by name uses: a Gaussian leaves out constant ones, about which it can say nothing."""
        if isinstance(self.family, Family) or self._family_type().value_kind != "real":
            return np.arange(X.shape[1])
        require_spread(X)
        return varying_columns(X[weight > 0])

    def _used(self, X: Any) -> Any:
        """The columns of X that the model uses."""
        return X if self.columns_.shape[0] == X.shape[1] else np.ascontiguousarray(X[:, self.columns_])

    def _size_for(self, weight: np.ndarray) -> int:
        rows = int(weight.sum() + 0.5) if np.all(weight == np.floor(weight)) else weight.shape[0]
        if rows < 2:
            raise ValueError(f"a mixture needs at least 2 rows, got n_samples = {rows} (1 sample is one cluster)")
        if self.truncation is None:
            return min(DEFAULT_TRUNCATION, rows)
        if self.truncation > rows:
            raise ValueError(f"truncation {self.truncation} is above the number of rows {rows}: use at most {rows}")
        return int(self.truncation)

    def _distinct(self, X: Any, weight: np.ndarray) -> tuple[Any, np.ndarray]:
        """Equal rows as one row with their weights added, in sorted order; rows of weight zero left out.

        Equal rows have equal q(z) from a start by k-means, so a fit does not depend on how repetitions are written down
        or in which order rows come. Left as they are where rows have their own starts or their order matters.
        """
        own_start = not isinstance(self.init, str) or self.init == "random" or self.schedule == "sequential"
        if own_start or sparse.issparse(X) or X.shape[0] > _DISTINCT_ROWS:
            return X, weight
        present = weight > 0
        distinct, which = np.unique(X[present], axis=0, return_inverse=True)
        return np.ascontiguousarray(distinct), np.bincount(which.ravel(), weight[present])

    def _check_exact(self, weight: np.ndarray, rows: int) -> None:
        if self.expectation != "exact" or not variant_named(self.variant).collapsed:
            return
        if np.any(weight != np.floor(weight)):
            raise ValueError("exact expectations need whole-number weights: use expectation='corrected'")
        if weight.sum() > _EXACT_SWEEP_ROWS:
            raise ValueError(
                f"exact expectations cost the square of the number of rows and {rows} is too many: "
                "use expectation='corrected'"
            )

    def _rule(self, family: Family, alpha: float) -> Rule:
        return Rule(family, variant_named(self.variant), alpha, self.expectation != "taylor", self.order)

    def _generators(self, number: int) -> list[np.random.Generator]:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return [np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(number)]

    def _family_and_centres(
        self, candidates: list[Family], X: Any, size: int, weight: np.ndarray
    ) -> tuple[Family, int]:
        automatic = isinstance(self.init, str) and self.init == "auto"
        if len(candidates) == 1 and not automatic:
            return candidates[0], size
        variant, random = variant_named(self.variant), self._generators(1)[0]
        family, centres = choose_by_bound(candidates, X, variant, size, float(self.alpha), random, weight)
        return family, centres if automatic else size

    def _start(
        self, family: Family, X: Any, size: int, centres: int, random: np.random.Generator, weight: np.ndarray
    ) -> np.ndarray:
        if not isinstance(self.init, str):
            return given_start(self.init, X.shape[0], size)
        if self.init == "random":
            return random.dirichlet(np.ones(size), size=X.shape[0])
        return one_hot(kmeans_labels(family, X, centres, random, weight), size)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        family = self.family if isinstance(self.family, Family) else FAMILIES.get(self.family)
        tags.input_tags.sparse = bool(family is not None and family.accepts_sparse)
        tags.input_tags.positive_only = bool(family is not None and family.value_kind != "real")
        return tags
