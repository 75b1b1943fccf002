"""`DPMixtureVB`: arrays in this process, and files, Dask collections or a cluster through the engine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from dtree.core.names import framed
from dtree.engine.sharing import SharesClient
from dtree.variational.estimator import InMemoryDPMixtureVB

_FROM_THE_FIRST = ("variant", "family", "truncation", "alpha")  # parameters that a fit by passes takes by place
_PIECE_VALUES = 4_000_000  # numbers read at once from rows that are elsewhere
_NOT_OF_A_RUN = (*_FROM_THE_FIRST, "warm_start", "random_state", "client", "out")


class DPMixtureVB(SharesClient, InMemoryDPMixtureVB):
    """Dirichlet process mixture by variational inference: the six bounds of Kurihara, Welling & Teh (2007).

    Parameters
    ----------
    variant : `TSB`, `O-TSB`, `CTSB`, `O-CTSB`, `FSD` or `CFSD`: truncated stick-breaking or finite symmetric Dirichlet, weights
        with their own q or integrated out (C), labels kept in the best order (O).
    family : a family object, or `"gaussian"`, `"gaussian-diag"`, `"bernoulli"`, `"multinomial"`, `"poisson"` for one whose
        hyperparameters come from the data.
    truncation : largest number of components; by default 40, or the number of rows when there are fewer.
    alpha : concentration. `learn_alpha` lets it move to where the bound is highest.
    max_iter, tol : stop after so many passes, or when the bound changes by less than `tol` nats per row.
    n_init : starts; the one with the highest bound is kept.
    init : `"auto"` (k-means with as many centres as short fits like best), `"kmeans"` (with `truncation` centres, as in the
        paper), `"random"`, labels (n,) or responsibilities (n, T), e.g. from Bayes K-means.
    expectation : how a collapsed variant takes expectations of counts: `"corrected"`, `"taylor"` (the paper's) or `"exact"`
        (small data).
    schedule : `"parallel"` (all rows from the old counts) or `"sequential"` (counts refreshed after each row).
    order : `"best"`, or `"size"` for the paper's decreasing order, which is not the best one when alpha is above 1.
    split_merge : rounds of trying merges and splits after convergence, kept only when they raise the bound.
    warm_start : start from the last fit's components.
    random_state : the same number gives the same answer, on one worker or a hundred.
    client : a `distributed.Client` whose workers run the E-step as passes over the rows.
    out : folder for the run when the rows are worked on in passes (paths, Dask collections, or a client); None for a temporary
        one. The workers must see it under the same name.

    Attributes
    ----------
    elbo_, elbo_trace_ : the bound in nats, at the end and after each iteration.
    elbo_is_bound_ : False when a collapsed variant had too many rows for its exact bound and an expansion is reported, which
        can lie above the evidence.
    weights_ : (T,) mean mixture weights, components that hold rows first, in decreasing size.
    components_ : dict of named posterior means, also as attributes (`means_`, ...); `component_frame` gives them with names.
    labels_, n_clusters_, statistics_, family_, alpha_, truncation_, n_iter_, converged_; columns_ : the columns used.
    feature_names_in_, row_names_ : names, when the rows have any: columns and index of a frame, header and names of a file.

    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> X = np.vstack([random.normal(-4, 1, (60, 2)), random.normal(4, 1, (40, 2))])
    >>> model = DPMixtureVB(variant="O-CTSB", truncation=8, random_state=0).fit(X)
    >>> model.n_clusters_, model.weights_[:2].round(2).tolist()
    (2, [0.6, 0.39])
    """

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
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            variant, family, truncation, alpha, learn_alpha=learn_alpha, max_iter=max_iter, tol=tol, n_init=n_init, init=init,
            expectation=expectation, schedule=schedule, order=order, split_merge=split_merge, warm_start=warm_start,
            random_state=random_state,
        )  # fmt: skip
        self.client = client
        self.out = out

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X: an array, a sparse matrix, a frame, a Dask collection or a path.

        `sample_weight` (n,) says how many equal rows each row of an array stands for.
        """
        if self.client is None and self.out is None and not _is_elsewhere(X):
            return super().fit(X, y, sample_weight)
        for name, given in (("sample_weight", sample_weight is not None), ("warm_start", self.warm_start)):
            if given:
                raise ValueError(f"{name} works for arrays in this process only: leave out client, out and paths")
        if self.out is not None:
            self._fit_by_passes(X, Path(self.out))
        else:
            with tempfile.TemporaryDirectory(prefix="dtree-run-") as folder:
                self._fit_by_passes(X, Path(folder) / "run")
        return self

    def _fit_by_passes(self, X: Any, out: Path) -> None:
        # dask, distributed and zarr are loaded only when the engine is asked for
        from dtree.engine.variational import fit_variational

        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in _NOT_OF_A_RUN}
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        first = (getattr(self, name) for name in _FROM_THE_FIRST)
        fitted = fit_variational(X, out, *first, seed=int(seed), client=self.client, **settings)
        self._forget()
        for name, value in vars(fitted).items():
            if _is_fitted_name(name):
                setattr(self, name, value)

    def _forget(self) -> None:
        """Leave nothing of an earlier fit."""
        for name in [name for name in vars(self) if _is_fitted_name(name)]:
            delattr(self, name)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, batch: str | None = None) -> Self:
        """Visit one batch of rows; a batch seen before (same rows, or same `batch` name) replaces its old contribution.

        The bound in `elbo_` is that of all batches seen so far and, for uncollapsed variants, does not fall when a batch
        is revisited. The first batch is fitted on its own; it fixes the family and the truncation. A batch may be a path or a
        Dask collection too, and is read into memory.
        """
        if _is_elsewhere(X):
            with self._source_of(X) as (source, names):
                X = framed(source.read(0, source.shape[0]), names)
        return super().partial_fit(X, y, sample_weight, batch)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Responsibilities (n, T): the q(z) that the fitted components and weights give each row."""
        return self._by_pieces(super().predict_proba, X)

    def predict(self, X: Any) -> np.ndarray:
        """The component (n,) with the largest responsibility."""
        return self._by_pieces(super().predict, X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log predictive density (n,): weights at expected counts times each component's predictive density."""
        return self._by_pieces(super().score_samples, X)

    def _by_pieces(self, method: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
        """What a method of arrays says of rows in memory or elsewhere, the latter read piece by piece."""
        if not _is_elsewhere(X):
            return method(X)
        check_is_fitted(self, "fit_")
        with self._source_of(X) as (source, names):
            n = source.shape[0]
            rows = max(1, _PIECE_VALUES // source.shape[1])
            pieces = (source.read(start, min(start + rows, n)) for start in range(0, n, rows))
            return np.concatenate([method(framed(piece, names)) for piece in pieces])

    @contextmanager
    def _source_of(self, X: Any) -> Iterator[tuple[Any, list[str] | None]]:
        """Rows on disk with the names of their features; what must be copied is in a temporary folder meanwhile."""
        from dtree.engine.dataset import open_dataset
        from dtree.engine.sources import Source

        with tempfile.TemporaryDirectory(prefix="dtree-rows-") as folder:
            source = open_dataset(X, folder, self.client)
            if hasattr(self, "n_features_in_"):
                fitted = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
                source = source.with_columns_of(Source("npy", "", (0, self.n_features_in_), "float64", columns=fitted))
            yield source, list(source.columns) or None


def _is_elsewhere(X: Any) -> bool:
    return isinstance(X, str | os.PathLike) or hasattr(X, "dask")


def _is_fitted_name(name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in ("_shown", "_memory")
