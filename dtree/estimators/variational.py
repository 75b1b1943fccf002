"""`DPMixtureVB`."""

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from dtree.core.model import Model
from dtree.core.names import Named, take_names
from dtree.core.priors import DirichletProcess
from dtree.data import in_memory, open_source
from dtree.data.chunks import CHUNK_BYTES, chunk_bounds
from dtree.estimators.base import is_elsewhere, seed_of
from dtree.estimators.cells import MixtureEstimator
from dtree.estimators.memberships import named_means
from dtree.estimators.rows import checked_rows, require_room_for_holes
from dtree.methods import cells
from dtree.methods.variational import Fitted, State, Variational, fitted_of, used_floats
from dtree.runs.header import Header
from dtree.runs.run import Run
from dtree.variational.component_frames import component_frame
from dtree.variational.fitting import Fit
from dtree.variational.memoised import Memory, fingerprint
from dtree.variational.mixture import Mixture
from dtree.variational.steps import make_block
from dtree.variational.whole import checked_weight, fit_rows, size_for


class DPMixtureVB(ClusterMixin, MixtureEstimator):
    """Dirichlet process mixture by variational inference: the six bounds of Kurihara, Welling & Teh (2007).

    Parameters
    ----------
    variant : `TSB`, `O-TSB`, `CTSB`, `O-CTSB`, `FSD` or `CFSD`: truncated stick-breaking or finite symmetric Dirichlet,
        weights with their own q or integrated out (C), labels kept in the best order (O).
    family : a family object, or a name as for `dtree.BHC`, e.g. `"auto"` or `"gaussian"`, for one
        whose hyperparameters come from the data.
    truncation : largest number of components; by default 40, or the number of rows when there are fewer.
    alpha : concentration. `learn_alpha` lets it move to where the bound is highest.
    max_iter, tol, patience : stop after so many passes, or when the bound changes by less than `tol` nats per row in
        `patience` passes in a row.
    n_init : starts; the one with the highest bound is kept.
    init : `"auto"` (k-means with as many centres as short fits like best), `"kmeans"` (with `truncation` centres, as in
        the paper), `"random"`, labels (n,) or responsibilities (n, T), e.g. from Bayes K-means.
    expectation : how a collapsed variant takes expectations of counts: `"corrected"`, `"taylor"` (the paper's) or
        `"exact"` (small data).
    schedule : `"parallel"` (all rows from the old counts) or `"sequential"` (counts refreshed after each row).
    order : `"best"`, or `"size"` for the paper's decreasing order, which is not the best one when alpha is above 1.
    split_merge : rounds of trying merges and splits after convergence, kept only when they raise the bound.
    warm_start : start from the last fit's components.
    random_state : the same number gives the same answer, on one worker or a hundred.
    client : a `distributed.Client` whose workers run the E-step as passes over the rows.
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.
    sample_rows : no more rows than that are fitted whole, in one process. More are fitted in passes over all rows,
        which start from the best fit of so many of them. Weights, `warm_start`, an array as `init`,
        `schedule="sequential"` and `expectation="exact"` need all rows at once, however many there are.
    columns : what some columns of a table are, e.g. `{"zip": "category", "id": "skip"}`; the others are found out.

    Attributes
    ----------
    elbo_, elbo_trace_ : the bound in nats, at the end and after each iteration.
    elbo_is_bound_ : False when a collapsed variant had too many rows for its exact bound and an expansion is reported,
        which can lie above the evidence.
    weights_ : (T,) mean mixture weights, components that hold rows first, in decreasing size.
    components_ : dict of named posterior means, also as attributes (`means_`, ...); `component_frame` gives them with
        names.
    labels_, n_clusters_ : the most probable component of every row, and how many hold rows.
    statistics_ : (T, s) expected sums of the components.
    family_, alpha_, truncation_ : the model as fitted.
    n_iter_, converged_ : how many iterations, and whether they were enough.
    columns_ : the columns used.
    feature_names_in_, row_names_ : names, when the rows have any: columns and index of a frame, header and names of a
        file.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = np.vstack([random.normal(-4, 1, (60, 2)), random.normal(4, 1, (40, 2))])
    >>> model = DPMixtureVB(variant="O-CTSB", truncation=8, random_state=0).fit(X)
    >>> model.n_clusters_, model.weights_[:2].round(2).tolist()
    (2, [0.6, 0.39])
    """

    _method_name = "vb"
    _memory: Memory | None = None  # the batches that `partial_fit` has seen since the last fit
    _earlier: tuple[Fitted, int] | tuple[()] = ()  # the last fit and its number of features, while a warm start goes on

    def __init__(
        self,
        variant: str = "O-CTSB",
        family: Any = "auto",
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
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        sample_rows: int = 20_000,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        patience: int = 1,
    ) -> None:
        self._keep(locals())

    # Fitting --------------------------------------------------------------------------------------------------------

    @property
    def _method(self) -> Variational:
        return Variational(*self._earlier)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X: an array, a sparse matrix, a frame, a Dask collection or a path.

        `sample_weight` (n,) says how many equal rows each row of an array stands for.
        """
        if self.warm_start and is_elsewhere(X):
            raise ValueError("warm_start works for arrays in this process only: leave out client, out and paths")
        if self.warm_start and hasattr(self, "fit_"):
            self._earlier = self._run.fitted(Fitted), self.n_features_in_
        self._memory = None
        try:
            return super().fit(X, y, sample_weight)
        finally:
            self._earlier = ()

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, batch: str | None = None) -> Self:
        """Visit one batch of rows; a batch seen before (same rows, or same `batch` name) replaces its old contribution.
        A batch that is refused leaves the mixture as it was.

        The bound in `elbo_` is that of all batches seen so far and, for uncollapsed variants, does not fall when a
        batch is revisited. The first batch is fitted on its own; it fixes the family and the truncation. A batch may be
        a path or a Dask collection too, and is read into memory.
        """
        settings, known, named = self._settings(), hasattr(self, "fit_"), take_names(self._batch(X))
        X = checked_rows(self, named, reset=not known)
        weight = checked_weight(sample_weight, X.shape[0])
        if not known:
            self.columns_ = np.arange(X.shape[1])  # what is constant in this batch may vary in the next
        rows = used_floats(X, self.columns_)
        if self._memory is None:
            first = self.fit_ if known else self._fit_batch(rows, weight, settings)
            memory = Memory(first.rule, first.sums)
        else:
            memory = self._memory.copy()
        require_room_for_holes(memory.rule.family, rows)
        name = fingerprint(rows, weight) if batch is None else str(batch)
        memory.visit(name, make_block(memory.rule.family, rows, weight), self.learn_alpha)
        run = self._run_of_batches(memory.fit(), rows, named.row_names, settings)
        self._memory = memory
        self.__dict__.pop("row_names_", None)  # those of another batch
        return self._become(run)

    def _batch(self, X: Any) -> Any:
        """A batch in memory; the first one says which kinds its columns are, later ones are read likewise."""
        if hasattr(self, "fit_"):
            return self._data(X)
        if is_elsewhere(X):
            with self._stores():
                X = open_source(X, columns=self.columns)
                self.kinds_, self.left_out_ = X.kinds, X.left_out
                return in_memory(X)
        X, self.kinds_, self.left_out_ = self._table(X)
        return X

    def _fit_batch(self, rows: Any, weight: np.ndarray, settings: Any) -> Fit:
        size = size_for(settings.truncation, weight, " of the first batch")
        return fit_rows(rows, weight, size, settings, seed_of(self.random_state))

    def _run_of_batches(self, fit: Fit, rows: Any, row_names: Any, settings: Any) -> Run:
        """What the batches have led to as a finished run; its labels are those of the rows (n, d) of the last one."""
        mixture, names = Mixture.of(fit.sums, fit.rule), getattr(self, "feature_names_in_", None)
        best = mixture.by_size[mixture.best(rows, mixture.by_size)]
        held = np.bincount(best, minlength=mixture.counts.shape[0])
        shown = np.lexsort([-mixture.counts, held == 0])
        state = State(mixture, fit.is_bound, fit.trace, [], fit.converged, whole=True)
        fitted = fitted_of(state, self.columns_, shown, int((held > 0).sum()), settings.learn_alpha)
        header = Header(
            "vb", {}, "batches", best.shape[0], self.n_features_in_, seed=0, status="done",
            feature_names=None if names is None else names.tolist(),
            kinds=list(self.kinds_), left_out=list(self.left_out_),
            row_names=None if row_names is None else [str(name) for name in row_names],
        )  # fmt: skip
        return Run.in_this_process(header, settings, fitted, {"labels": np.argsort(shown)[best]})

    def _take(self, fitted: Fitted) -> None:
        mixture, self._shown = fitted.mixture, fitted.shown
        self.fit_ = fitted.fit
        self.family_, self.alpha_ = mixture.family, mixture.alpha
        self.truncation_ = mixture.counts.shape[0]
        self.elbo_, self.elbo_trace_, self.elbo_is_bound_ = self.fit_.elbo, fitted.trace, fitted.is_bound
        self.n_iter_, self.converged_ = fitted.n_iter, fitted.converged
        self.statistics_ = mixture.statistics[fitted.shown]
        self.weights_ = mixture.weights()[fitted.shown]
        self.components_ = mixture.parameters(fitted.shown)
        for name, values in named_means(mixture.family, self.statistics_).items():
            setattr(self, name, values)
        self.labels_ = self._row_array("labels")
        self.n_clusters_ = fitted.n_clusters
        if not np.array_equal(np.unique(self.labels_), np.arange(fitted.n_clusters)):
            raise ValueError(f"{self._run.location} is damaged: its labels do not number {fitted.n_clusters} clusters")

    def component_frame(self, parameter: str | None = None) -> Any:
        """A component parameter as a data frame with names: a row per cluster that holds rows, a column per feature.

        `parameter` is a key of `components_`, by default the first (`means`, `probabilities` or `intensities`).
        """
        check_is_fitted(self)
        features = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[self.columns_]
        return component_frame(self.components_, parameter, self.n_clusters_, features)

    def _cell_mixture(self) -> cells.Mixture:
        return cells.Mixture(self.family_, self.statistics_, np.log(self.weights_))

    def _clusters(self) -> tuple[Model, np.ndarray]:
        return Model(self.family_, DirichletProcess(self.alpha_)), self.statistics_

    @property
    def _n_features_out(self) -> int:
        return self.truncation_

    # Prediction -----------------------------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> np.ndarray:
        """Responsibilities (n, T): the q(z) that the fitted components and weights give each row."""
        return self._of_rows(Mixture.responsibilities, X)

    def predict(self, X: Any) -> np.ndarray:
        """The component (n,) with the largest responsibility."""
        return self._of_rows(Mixture.best, X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,): weights at expected counts times each component's predictive density."""
        return self._of_rows(Mixture.log_density, X)

    def _of_rows(self, question: Callable[[Mixture, Any, np.ndarray], np.ndarray], X: Any) -> np.ndarray:
        """What the mixture says of rows in memory, or elsewhere, where they are read piece by piece."""
        check_is_fitted(self)
        mixture = Mixture.of(self.fit_.sums, self.fit_.rule)
        if not is_elsewhere(X):
            return question(mixture, used_floats(self._rows(X), self.columns_), self._shown)
        from dtree.engine.rows import open_rows  # dask is loaded only when it is asked for

        with tempfile.TemporaryDirectory(prefix="dtree-rows-") as folder, self._stores():
            source = open_rows(X, folder, self.client, features=self._features())
            n, d = source.shape
            names = np.array(source.columns, dtype=object) if source.columns else None
            bounds = chunk_bounds(n, max(1, CHUNK_BYTES // (8 * d)))
            pieces = (Named(source.read(start, stop), None, names) for start, stop in bounds)
            rows = (used_floats(self._rows(piece), self.columns_) for piece in pieces)
            return np.concatenate([question(mixture, piece, self._shown) for piece in rows])
