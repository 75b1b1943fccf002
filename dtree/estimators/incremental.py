"""`IncrementalBHC`: rows as they come."""

import os
from collections.abc import Mapping
from typing import Any, Self

import msgspec
import numpy as np
from sklearn.utils.validation import check_is_fitted

from dtree.core.checks import as_counts
from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.names import take_names
from dtree.core.priors import Prior, prior_of
from dtree.core.tree import Tree
from dtree.estimators.base import seed_of
from dtree.estimators.bhc import TreeEstimator
from dtree.estimators.rows import checked_atoms, checked_rows, require_room_for_holes
from dtree.hierarchy.hyperparameters import log_bound
from dtree.hierarchy.incremental_forest import Forest
from dtree.methods.contract import used_columns
from dtree.methods.incremental import Fitted, Weightless, generator_in, row_arrays, state_of


class IncrementalBHC(TreeEstimator):
    """Incremental Bayesian hierarchical clustering (IBHC, [LC15] section 2.3).

    Rows enter a forest of trees one at a time, in O(k + log n) each, so data may come as a stream (`partial_fit`). A
    name of a family is turned into a model on the first rows seen; give an object to fix the model beforehand.

    Parameters
    ----------
    family, prior, coarsening : the model, as for `dtree.BHC`.
    init : "exact" as described; "noisy" puts rows on top of their best tree and never cuts it ([LC15] section 4.1).
    shuffle : insert the rows of each call in random order, since the tree depends on the order.
    balanced : keep the trees shallow; without it they are exactly those of the paper, and slow for large clusters.
    random_state : seed of the shuffling.
    client : a `distributed.Client` whose workers compute the blocks of a Dask collection; insertion itself is
        sequential and happens here.
    out : folder or address (`s3://...`) of the run, which `dtree.open` and `dtree resume` know; None leaves none. Every
        `partial_fit` writes it anew, in time proportional to all rows seen: for a stream of small blocks save the
        model at the end.
    storage_options : credentials and endpoints of object stores (`s3://...` as rows or `out`), e.g.
        `{"endpoint": "http://127.0.0.1:9000"}`, beside the usual environment variables; kept in no run.
    columns : what some columns of a table are, e.g. `{"zip": "category", "id": "skip"}`; the others are found out.

    Attributes
    ----------
    labels_, n_clusters_ : clusters of all rows seen so far.
    log_evidence_bound_ : lower bound on their log evidence.
    tree_, linkage_ : one tree over all rows seen so far.
    family_, prior_ : the model.
    n_trees_ : trees in the forest.
    n_seen_ : rows seen so far.
    columns_ : the columns used (a Gaussian given by name leaves out those that are constant in the first rows).
    feature_names_in_, row_names_ : names, when the rows have any.

    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (30, 2)) for c in (0.0, 12.0)])
    >>> model = IncrementalBHC(random_state=0).fit(X)
    >>> model.n_clusters_
    2
    >>> model.partial_fit(X[:10] + 100.0).n_clusters_
    3

    Clusters of a reduction as leaves, each for all of its rows:

    >>> from dtree import BayesKMeans
    >>> part = BayesKMeans("gaussian-diag", random_state=0).fit(X)
    >>> IncrementalBHC(part.family_, part.prior_).partial_fit_atoms(part.statistics_).tree_.size[-1].item()
    60
    """

    _method_name = "incremental"
    _tree: Tree | None  # this and the next are computed from the forest when they are asked for
    _labels: np.ndarray | None
    _weightless: Weightless
    n_seen_: int

    def __init__(
        self,
        family: str | Family = "auto",
        prior: str | Prior = "dp",
        *,
        init: str = "exact",
        coarsening: float = 1.0,
        shuffle: bool = True,
        balanced: bool = True,
        random_state: int | None = None,
        client: Any = None,
        out: str | os.PathLike[str] | None = None,
        columns: Mapping[str, str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._keep(locals())

    # Growing ----------------------------------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Insert more rows into the forest; a row that is refused leaves it as it was. The first call is `fit`.

        A row of weight 0 is not inserted; it gets the label of a new row, again whenever the forest has grown.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        if hasattr(X, "dask") and self.client is not None:
            X = self.client.compute(X).result()
        data = self._data(X)
        rows = used_columns(checked_rows(self, data, reset=False), self.columns_)
        require_room_for_holes(self.family_, rows)
        weight = as_counts(sample_weight, rows.shape[0])
        weightless = Weightless.among(rows, weight)
        if weightless.places.size and weight is not None:
            rows, weight = rows[weight > 0], weight[weight > 0]
        atoms = self.model_.atoms(rows, weight)
        self._forest.require_precision(atoms)
        names, known = take_names(data).row_names, self.__dict__.pop("row_names_", None)
        if known is not None and names is not None:  # names of all rows, as long as every block has them
            self.row_names_ = np.concatenate([known, names])
        self._weightless = self._weightless.after(self.n_seen_, weightless)
        return self._grow(atoms)

    def partial_fit_atoms(self, atoms: Any) -> Self:
        """Insert atoms (m, s), rows of additive statistics of `family` (an object).

        Each stands for all rows that were summed into it, such as a cluster of `BayesKMeans` over a part of the data,
        so more rows can be seen than fit in memory.
        """
        family: Any = self.family
        atoms = checked_atoms(family, atoms)
        if not self.__sklearn_is_fitted__():
            settings = self._settings()
            self.n_features_in_, self.columns_ = family.n_features, np.arange(family.n_features)
            model = Model(family, prior_of(settings.prior), settings.coarsening)
            self._seed = seed_of(self.random_state)
            self._rng = np.random.default_rng(self._seed)
            self._plant(Forest(model, noisy=settings.init == "noisy", balanced=settings.balanced))
            self._weightless = Weightless.among(np.zeros((0, family.n_features)), None)
        self._forest.require_precision(atoms)
        self.__dict__.pop("row_names_", None)
        return self._grow(atoms)

    def _plant(self, forest: Forest) -> None:
        self._forest = forest
        self.model_ = forest.model
        self.family_, self.prior_ = forest.model.family, forest.model.prior

    def _grow(self, atoms: np.ndarray) -> Self:
        self._forest.insert(atoms, self._rng.permutation(atoms.shape[0]) if self.shuffle else None)
        self._grown = True
        self._tree, self._labels, self._mixture = None, None, None
        self.n_seen_ = self._forest.n_atoms + self._weightless.places.shape[0]
        if self.out is not None:
            with self._stores():
                self._finished_run().copy_to(self.out, self._method, overwrite=True)
        return self

    def _take(self, fitted: Fitted) -> None:
        self._plant(fitted.grown())
        self._seed, self._rng, self._grown = self._run.header.seed, generator_in(fitted.generator), False
        self._tree, self._labels, self._mixture = fitted.tree, self._row_array("labels"), None
        self._weightless = fitted.weightless
        self.n_seen_ = fitted.forest.n_atoms + fitted.weightless.places.shape[0]

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_forest", None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_forest")

    # What follows from the forest -------------------------------------------------------------------------------------

    @property
    def n_trees_(self) -> int:
        check_is_fitted(self)
        return self._forest.n_trees

    @property
    def tree_(self) -> Tree:  # type: ignore[override]
        check_is_fitted(self)
        if self._tree is None:
            self._tree = self._forest.tree()
        return self._tree

    @property
    def linkage_(self) -> np.ndarray:
        return self.tree_.to_linkage()

    @property
    def labels_(self) -> np.ndarray:
        check_is_fitted(self)
        if self._labels is None:
            self._labels = self._weightless.labels(self.model_, *self._leaves())
        return self._labels

    @property
    def n_clusters_(self) -> int:
        return int(self.labels_.max()) + 1

    @property
    def log_evidence_bound_(self) -> float:
        return log_bound(self.tree_, self.model_, float(self.tree_.size[-1]))

    def _leaves(self) -> tuple[np.ndarray, np.ndarray]:
        return self._forest.atoms(), self._forest.labels() if self._forest.noisy else self.tree_.cut()

    # Saving -----------------------------------------------------------------------------------------------------------

    def _finished_run(self) -> Any:
        """The run of `fit`, or one in memory with everything that has come since."""
        from dtree.engine.drive import in_words
        from dtree.runs.header import Header
        from dtree.runs.run import Run

        if self._grown:
            settings, forest = self._settings(), self._forest
            given: dict[str, Any] = {
                "n_rows": self.n_seen_,
                "feature_names": _texts(getattr(self, "feature_names_in_", None)),
                "row_names": _texts(getattr(self, "row_names_", None)),
                "fingerprint": "",  # there is no one dataset any more
                "source": None,
            }
            if hasattr(self, "_run"):
                header = msgspec.structs.replace(self._run.header, **given)
            else:
                given |= {"n_features": self.n_features_in_, "seed": self._seed, "status": "done"}
                header = Header(self._method_name, in_words(settings), "an array", **given)
            noisy, balanced, rng = forest.noisy, forest.balanced, state_of(self._rng)
            columns, rest = forest.columns(), self._weightless
            fitted = Fitted(self.columns_, self.model_, columns, noisy, balanced, self.tree_, rng, rest)
            rows = row_arrays(rest, self.labels_)
            self._run, self._grown = Run.in_this_process(header, settings, fitted, rows), False
        return self._run


def _texts(names: np.ndarray | None) -> list[str] | None:
    return None if names is None else [str(name) for name in names]
