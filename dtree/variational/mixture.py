"""A fitted mixture: what a record must hold of it, and what it says of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec
import numpy as np
from scipy import sparse

from dtree.core.families import Bent, Family, PerColumn, has_holes
from dtree.core.families.mixed import with_holes
from dtree.core.families.some_columns import expected_log_densities
from dtree.core.mixture_density import log_mixture_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.variational.fitting import sum_of_pieces
from dtree.variational.label_kernels import conditional_log_prior, softmax_rows
from dtree.variational.predictive import log_predictive
from dtree.variational.steps import Rule, State, Sums, e_step, empty_sums, inner_rows, m_step, make_block
from dtree.variational.threads import available_threads, one_blas_thread
from dtree.variational.variants import VariantName, variant_named
from dtree.variational.weights import expected_weights

_PREDICT_ROWS = 8192  # rows whose responsibilities are held at a time


class Mixture(msgspec.Struct, frozen=True):
    """Sums and rule (see `steps`) in plain fields; they determine everything else. T components, s statistics."""

    family: Family
    variant: VariantName
    alpha: float
    corrected: bool
    order: Literal["best", "size"]
    statistics: np.ndarray  # (T, s) soft statistics, column 0 the expected counts
    gram: np.ndarray  # (T, T), or (0, 0) for uncollapsed variants
    log_zero: np.ndarray  # (T,), or (0,) except for CFSD
    entropy: float
    rows: float  # sum of weights

    @classmethod
    def of(cls, sums: Sums, rule: Rule) -> Mixture:
        """The record of sums under a rule."""
        return cls(
            rule.family, rule.variant.name, float(rule.alpha), rule.corrected, rule.order,  # type: ignore[arg-type]
            sums.statistics, sums.gram, sums.log_zero, float(sums.entropy), float(sums.rows),
        )  # fmt: skip

    @property
    def sums(self) -> Sums:
        """What the last pass brought back."""
        return Sums(self.statistics, self.entropy, self.gram, self.log_zero, self.rows)

    @property
    def rule(self) -> Rule:
        """What was fitted."""
        return Rule(self.family, variant_named(self.variant), self.alpha, self.corrected, self.order)

    @property
    def model(self) -> Model:
        """Family and prior as other methods know them."""
        return Model(self.family, DirichletProcess(self.alpha))

    @property
    def state(self) -> State:
        """What the next pass takes out to the rows."""
        return m_step(self.sums, self.rule)

    @property
    def counts(self) -> np.ndarray:
        """Expected counts (T,)."""
        return self.statistics[:, 0]

    @property
    def by_size(self) -> np.ndarray:
        """The components (T,) in decreasing size."""
        return np.argsort(-self.counts, kind="stable")

    def weights(self) -> np.ndarray:
        """Mean mixture weights (T,)."""
        return expected_weights(variant_named(self.variant), self.alpha, self.counts)

    def parameters(self, order: np.ndarray) -> dict[str, np.ndarray]:
        """Named posterior means of the components in this order, each (T, ...)."""
        return self.family.posterior_means(self.statistics[order])

    def responsibilities(self, X: Any, order: np.ndarray) -> np.ndarray:
        """q(z) (n, T) that the components, listed in this order, have for new rows X (n, d)."""
        score = self.scorer(order)

        def normalised(rows: Any) -> np.ndarray:
            scores = score(rows)
            softmax_rows(scores, np.zeros(scores.shape[0]))
            return scores

        return _by_pieces(normalised, X)

    def responsibilities_without(self, X: Any, order: np.ndarray, columns: list[np.ndarray]) -> Iterator[np.ndarray]:
        """The same (n, T) once for each group of statistics, at `columns` (c,), that is left out of the rows.

        Rows that lack a value are left as they are: to take one more from them asks more than of complete rows, and
        what is left may say nothing at all.
        """
        coefficients = self._coefficients()[order]
        features = self.family.statistics_of_kept(self.family.kept_rows(X))
        scores = features @ coefficients.T
        complete = (~np.isnan(np.asarray(X, dtype=np.float64)).any(axis=1) & (X.shape[1] > 1))[:, None]
        for left_out in columns:
            found = np.ascontiguousarray(scores - complete * (features[:, left_out] @ coefficients[:, left_out].T))
            softmax_rows(found, np.zeros(found.shape[0]))
            yield found

    def scores(self, X: Any, order: np.ndarray) -> np.ndarray:
        """Logarithms (n, T) of the responsibilities for rows X (n, d), up to a constant of each row."""
        return _by_pieces(self.scorer(order), X)

    def mean_scores(self, order: np.ndarray) -> np.ndarray:
        """The means (T, T) of these over the rows of each component: scores add up as statistics do."""
        statistics = self.statistics[order]
        return np.asarray((statistics / statistics[:, :1]) @ self._coefficients()[order].T)

    def best(self, X: Any, order: np.ndarray) -> np.ndarray:
        """The place (n,) in `order` of the component with the largest responsibility for each row of X (n, d)."""
        score = self.scorer(order)
        return _by_pieces(lambda rows: score(rows).argmax(axis=1), X)  # scores rise with responsibilities

    def log_density(self, X: Any, order: np.ndarray, kept: Any = None) -> np.ndarray:
        """Log predictive density (n,) of rows X (n, d): weights at expected counts times predictive densities.

        The components that `order` leaves out hold no rows, so each is as the prior has it, and they count as one: a
        new row may be the first of its kind. Without them the density would not integrate to one.

        kept : what `kept` made of the rows, if it was asked before.
        """
        weights = self.weights()
        statistics, rest = self.statistics[order], np.delete(weights, order).sum()
        weights = weights[order]
        if rest > 0.0:
            statistics, weights = np.vstack([statistics, np.zeros((1, statistics.shape[1]))]), np.append(weights, rest)
        if kept is None:
            return log_mixture_of(self.family, X, statistics, np.log(weights), log_predictive)
        assert isinstance(self.family, Bent)
        bent, log_slopes = np.ascontiguousarray(kept[:, : X.shape[1]]), kept[:, -1]
        return log_mixture_of(self.family.base, bent, statistics[:, :-1], np.log(weights), log_predictive) + log_slopes

    def kept(self, X: Any) -> Any:
        """What the family keeps of rows X (n, d), for `scorer` and `log_density` together, where making it takes long
        enough to be done once: of rows that are bent. None for others."""
        return self.family.kept_rows(X) if isinstance(self.family, Bent) and not has_holes(X) else None

    def _coefficients(self) -> np.ndarray:
        """What each statistic of a new row adds (T, s) to the logarithm of its responsibilities."""
        state = self.state
        coefficients = state.coefficients.copy()
        if state.weights is not None:  # a new row has no share in the counts
            prior = np.empty(coefficients.shape[0])
            conditional_log_prior(state.weights, np.zeros_like(prior), prior)
            coefficients[:, 0] += prior
        return coefficients

    def scorer(self, order: np.ndarray) -> Callable[..., np.ndarray]:
        """A function from rows (b, d) to the logarithms of their responsibilities (b, T), up to a constant of a row.

        It takes what `kept` made of them too. Its tables are made once: for many blocks of rows it is asked for once.
        """
        coefficients, family = self._coefficients()[order], self.family
        step, across = inner_rows(*coefficients.shape), np.ascontiguousarray(coefficients.T)

        def scores_of(rows: Any, kept: Any = None) -> np.ndarray:
            if isinstance(family, PerColumn) and has_holes(rows):  # rows to predict, of a fit to complete ones
                mixed, statistics = with_holes(family, self.statistics[order])
                widened = mixed.expected_log_density(statistics)
                widened[:, 0] += coefficients[:, 0] - family.expected_log_density(self.statistics[order])[:, 0]
                return np.ascontiguousarray(mixed.statistics(rows) @ widened.T)
            if not family.takes_holes and has_holes(rows):  # likewise, of columns that depend on each other
                statistics = self.statistics[order]
                log_prior = coefficients[:, 0] - family.expected_log_density(statistics)[:, 0]
                return np.ascontiguousarray(expected_log_densities(family, rows, statistics) + log_prior)
            kept = family.kept_rows(rows) if kept is None else kept
            if sparse.issparse(kept):
                return np.ascontiguousarray(family.statistics_of_kept(kept) @ across)
            scores = np.empty((rows.shape[0], order.shape[0]))
            for start in range(0, rows.shape[0], step):  # statistics that stay in the processor's cache
                part = slice(start, start + step)
                np.matmul(family.statistics_of_kept(kept[part]), across, out=scores[part])
            return scores

        return scores_of

    def check(self) -> None:
        """ValueError unless the arrays are some that a fit of this rule could give."""
        variant, family, size = variant_named(self.variant), self.family, self.statistics.shape[0]
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError("its alpha is not a positive number")
        if self.statistics.ndim != 2 or size < 2:
            raise ValueError("its statistics are not one row of numbers per component")
        empty = empty_sums(variant, size, family.n_statistics)
        for name in ("statistics", "gram", "log_zero"):
            values, shape = getattr(self, name), getattr(empty, name).shape
            if values.dtype != np.float64 or values.shape != shape or not np.all(np.isfinite(values)):
                raise ValueError(f"its {name} must be finite numbers of shape {shape}")
        if not np.isclose(self.counts.sum(), self.rows, rtol=1e-6) or self.counts.min() < 0:
            raise ValueError("its expected counts do not add up to its number of rows")
        if not np.isfinite(self.entropy):
            raise ValueError("its entropy is not a number")


def _by_pieces(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """function(X) without holding what it needs for all rows at once."""
    pieces = range(0, X.shape[0], _PREDICT_ROWS)
    return np.concatenate([function(X[start : start + _PREDICT_ROWS]) for start in pieces])


def pass_over(X: Any, state: State) -> Sums:
    """The E-step's sums over rows X (n, d), the same bits for any number of threads."""
    block, threads = make_block(state.family, X), available_threads()
    with one_blas_thread():
        return sum_of_pieces(len(block), state, lambda start, stop: e_step(block.part(start, stop), state), threads)
