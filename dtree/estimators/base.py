"""What all estimators share: seed, settings, rows and their names, client, clone, score, save and open."""

import copy
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from dtree.core.columns import Column
from dtree.core.families import AUTO, expected
from dtree.core.families.base import argument_names
from dtree.core.names import Named, is_collection
from dtree.data import Source, in_memory, open_source
from dtree.data.frames import framed_array, has_words, is_frame
from dtree.estimators.rows import checked_rows
from dtree.methods import method_named
from dtree.methods.contract import seed_of as seed_of
from dtree.methods.contract import used_columns
from dtree.methods.fitted_checks import checked_fitted, checked_settings
from dtree.methods.settings import checked
from dtree.storage.options import StorageOptions, with_options

DEPRECATED = "deprecated"  # the default of a parameter that has a new name


def is_elsewhere(X: Any) -> bool:
    """Whether rows are a file, an open source or a Dask collection rather than an array."""
    return isinstance(X, str | os.PathLike | Source) or is_collection(X)


class Estimator(BaseEstimator):
    """Base of all estimators. A subclass names its method and says what its attributes are (`_take`)."""

    _method_name: ClassVar[str]
    _old_names: ClassVar[dict[str, str]] = {}  # parameters of the last version and what they are called now
    kinds_: tuple[Column, ...] = ()  # what the columns of a table were taken for
    left_out_: tuple[tuple[str, str], ...] = ()  # columns that are no features, each with the reason

    def _keep(self, given: dict[str, Any]) -> None:
        """Store the parameters of a constructor, its `locals()`, each under its own name as scikit-learn wants."""
        kind: Any = type(self)
        names = argument_names(kind)
        self.__dict__.update({name: value for name, value in given.items() if name in names})

    # Fitting --------------------------------------------------------------------------------------------------------

    @property
    def _method(self) -> Any:
        return method_named(self._method_name)

    def _settings(self) -> Any:
        """The parameters as the method's checked record; old names are understood, with a warning."""
        kind = self._method.Settings
        given = {name: getattr(self, name) for name in kind.__struct_fields__ if hasattr(self, name)}
        for old, new in self._old_names.items():
            value = getattr(self, old)
            if isinstance(value, str) and value == DEPRECATED:
                continue
            warnings.warn(f"{old} is now called {new}; the old name goes in the next version", FutureWarning, 3)
            given[new] = value
        return checked(kind, given)

    def _settings_for(self, X: Any) -> Any:
        """The settings of a fit to X."""
        return self._settings()

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X (n, d): an array, a sparse matrix, a data frame, a Dask collection or the path of a
        file.

        A row of weight w (a whole number) stands for w equal rows; weights are for rows in this process.
        """
        with self._stores():
            return self._fit(X, sample_weight)

    def _fit(self, X: Any, sample_weight: Any) -> Self:
        from dtree.engine.drive import Given, Place, drive  # dask is loaded only when it is asked for

        settings = self._settings_for(X)
        self._forget()
        place = Place(getattr(self, "out", None), client=getattr(self, "client", None))
        if sample_weight is not None and is_elsewhere(X) and self._method.in_passes:
            raise ValueError("sample_weight works for arrays in this process only: leave out client, out and paths")
        columns = getattr(self, "columns", None)
        data = X if is_elsewhere(X) else self._checked_source(X)
        progress = getattr(self, "progress", None)
        number = self.random_state if isinstance(self.random_state, int | np.integer) else None
        number = None if number is None else int(number)
        given = Given(data, columns=columns, weight=sample_weight, random_state=number)
        run = drive(self._method, settings, given, place, self._method.seed_of(self.random_state), progress)
        return self._become(run)

    def _stores(self) -> Any:
        """A block in which places in object stores are reached as this estimator was told."""
        return with_options(getattr(self, "storage_options", None))

    def _checked_source(self, X: Any) -> Any:
        """Rows in memory, checked for the family, their names and the kinds of their columns remembered."""
        X, kinds, left_out = self._table(X)
        rows = self._validated(X, reset=True)
        names = getattr(self, "row_names_", None), getattr(self, "feature_names_in_", None)
        return replace(open_source(Named(rows, *names)), kinds=kinds, left_out=left_out)

    def _table(self, X: Any) -> tuple[Any, tuple[Column, ...], tuple[tuple[str, str], ...]]:
        """Rows to fit, the kinds of their columns and what was left out; of an array only the rows are known.

        A frame of numbers without gaps is left to scikit-learn as it is.
        """
        X = self._framed(X)
        if not is_frame(X):
            return X, (), ()
        source = open_source(X, columns=getattr(self, "columns", None))
        is_plain = not source.beside.is_coded and not source.left_out
        return X if is_plain else in_memory(source), source.kinds, source.left_out

    def _validated(self, X: Any, reset: bool) -> Any:
        """Rows of X after checking them; names and number of features are remembered (`reset`) or compared."""
        return checked_rows(self, X, reset, to_predict=not reset)

    def _forget(self) -> None:
        """Leave nothing of an earlier fit."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)
        self.__dict__.pop("_run", None)

    def _become(self, run: Any) -> Self:
        """Become the estimator of a finished run."""
        header = run.header
        # What was made in this process needs no look at whether it was damaged since.
        fitted = run.fitted(self._method.Fitted) if run.store.in_memory else checked_fitted(run)
        self._run = run
        self.n_features_in_ = header.n_features
        for name, values in (("feature_names_in_", header.feature_names), ("row_names_", header.row_names)):
            if values is not None:
                setattr(self, name, np.array(values, dtype=object))
        self.columns_ = fitted.columns
        self.kinds_, self.left_out_ = tuple(header.kinds), tuple(header.left_out)
        self._take(fitted)
        return self

    def _take(self, fitted: Any) -> None:
        """Set the fitted attributes."""
        raise NotImplementedError

    def _row_array(self, name: str) -> np.ndarray:
        values = self._run.row_array(name)
        if values is None:
            raise ValueError(f"{self._run.location} is damaged: its {name} are missing")
        return np.asarray(values).astype(np.int64)

    def _finished_run(self) -> Any:
        """The run behind this estimator, for saving."""
        return self._run

    @classmethod
    def from_run(cls, run: Any) -> Self:
        """The fitted estimator of a finished run, with the parameters it was fitted with."""
        settings = checked_settings(run)
        known = cls().get_params(deep=False)
        given = {name: getattr(settings, name) for name in settings.__struct_fields__ if name in known}
        return cls(**given)._become(run)

    # Rows -----------------------------------------------------------------------------------------------------------

    def _data(self, X: Any) -> Any:
        """New rows in memory with their names, features of a file in the order of the fit."""
        check_is_fitted(self)
        X = self._framed(X)
        if not hasattr(X, "dask") and (is_elsewhere(X) or self._is_coded or (self.kinds_ and has_words(X))):
            features = self._features()
            with self._stores():
                X = open_source(X, known=features[2]).with_columns_of(*features)
        with self._stores():
            return in_memory(X)

    def _framed(self, X: Any) -> Any:
        """An array as a frame when something was said about its columns."""
        said = getattr(self, "columns", None) is not None
        return framed_array(X) if said and not (is_elsewhere(X) or is_frame(X) or hasattr(X, "tocsr")) else X

    @property
    def _is_coded(self) -> bool:
        """Whether the fit read a table with categories, gaps or columns left out: new rows must be read likewise."""
        return bool(self.left_out_) or any(kind.kind == "category" or kind.missing for kind in self.kinds_)

    def _features(self) -> tuple[tuple[str, ...], int, tuple[Column, ...]]:
        """Names of the features that the fit saw, if they had any, how many there were, and their kinds."""
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        return names, self.n_features_in_, self.kinds_

    def _rows(self, X: Any) -> Any:
        """New rows as float64 or CSR, features in the order of the fit, all columns."""
        return self._validated(self._data(X), reset=False)

    def _used_rows(self, X: Any) -> Any:
        """The columns of new rows that the model uses."""
        return used_columns(self._rows(X), self.columns_)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; storage options are shown without their values.

        >>> from dtree import BHC
        >>> BHC(storage_options={"aws_secret_access_key": "abc"})
        BHC(storage_options={'aws_secret_access_key': ***})
        """
        found: dict[str, Any] = super().get_params(deep)
        if isinstance(found.get("storage_options"), Mapping):  # anything else is refused when it is used
            found["storage_options"] = StorageOptions(found["storage_options"])
        return found

    # What follows from the rest -------------------------------------------------------------------------------------

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density of the rows of X."""
        return float(self.score_samples(X).mean())  # type: ignore[attr-defined]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_run")

    def __sklearn_clone__(self) -> Self:
        """A client is a connection, which cannot be copied: clones share it.

        >>> from dtree import BHC
        >>> connection = object()  # stands for a distributed.Client
        >>> clone(BHC(client=connection, cut=0.9)).client is connection
        True
        """
        settings: dict[str, Any] = self.get_params(deep=False)
        shared = {"client": settings.pop("client")} if "client" in settings else {}
        copies = {name: clone(value, safe=False) for name, value in settings.items()}
        made = type(self)(**copies, **shared)
        for name in ("_metadata_request", "_sklearn_output_config"):  # what set_fit_request and set_output keep
            if name in vars(self):
                setattr(made, name, copy.deepcopy(vars(self)[name]))
        return made

    # In notebooks ---------------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._picture()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": bundle["text/html"] + self._picture()} if "text/html" in bundle else bundle

    def _picture(self) -> str:
        """What the fit found, its tree and its levels, in HTML; nothing before the fit."""
        if not self.__sklearn_is_fitted__():
            return ""
        from dtree.reporting.notebook import html_of

        return html_of(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        kind = expected(getattr(self, "family", AUTO))
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.positive_only = kind.value_kind not in ("real", "mixed")
        tags.input_tags.allow_nan = kind.takes_holes
        return tags
