"""Names that come with data: of a frame, of an AnnData-like object, of the dimensions of an xarray `DataArray`."""

from typing import Any, NamedTuple

import numpy as np


class Named(NamedTuple):
    """Data with what they are called: X as it is to be checked, and names (n,) of rows and (d,) of features or None."""

    X: Any
    row_names: np.ndarray | None = None
    feature_names: np.ndarray | None = None


def is_collection(X: Any) -> bool:
    """Whether this is a Dask collection, also one with names."""
    return hasattr(X.X if isinstance(X, Named) else X, "dask")


def take_names(X: Any) -> Named:
    """Rows with their names; anything without names comes back as it is.

    The names of a data frame's columns are left to scikit-learn, which knows them already. A frame whose index only
    counts from 0 has no row names.

    >>> import pandas
    >>> take_names(pandas.DataFrame({"length": [1.0, 2.0]}, index=["ash", "box"])).row_names.tolist()
    ['ash', 'box']
    >>> take_names([[1.0], [2.0]]).row_names is None
    True
    """
    if isinstance(X, Named):
        return X
    if hasattr(X, "obs_names") and hasattr(X, "var_names") and hasattr(X, "X"):
        return Named(X.X, _texts(X.obs_names), _texts(X.var_names))
    if is_data_array(X):
        return _of_dimensions(X)
    index = getattr(X, "index", None)
    if index is None or not hasattr(X, "columns") or callable(index):
        return Named(X)
    require_distinct(X.columns, "the data frame")
    counts = type(index).__name__ == "RangeIndex"
    return Named(X, None if counts else _texts(index))


def is_data_array(X: Any) -> bool:
    """Whether this is an xarray `DataArray`."""
    return type(X).__name__ == "DataArray" and hasattr(X, "dims") and hasattr(X, "coords")


def _of_dimensions(X: Any) -> Named:
    """The last dimension holds the features, all others together are the rows; coordinates are their names."""
    if X.ndim < 2:
        raise ValueError(
            f"the DataArray has {X.ndim} dimensions: the last one holds the features, those before it are the rows"
        )
    names = [_texts(X.coords[dim].values) if dim in X.coords else None for dim in X.dims]
    features = names[-1] if names[-1] is None or len(set(names[-1])) == X.shape[-1] else None
    return Named(np.asarray(X.values).reshape(-1, X.shape[-1]), names[0] if X.ndim == 2 else None, features)


def framed(X: Any, feature_names: Any) -> Any:
    """Dense rows with distinct names as a data frame, which scikit-learn takes the names from; others as they are."""
    if feature_names is None or hasattr(X, "tocsr") or len(set(feature_names)) < len(feature_names):
        return X
    import pandas

    return pandas.DataFrame(X, columns=[str(name) for name in feature_names], copy=False)


def _texts(names: Any) -> np.ndarray:
    return np.array([str(name) for name in names], dtype=object)


def require_distinct(names: Any, what: str) -> None:
    """Raise one sentence when two columns share a name: nobody could tell which of them is meant.

    >>> require_distinct(["length", "width", "length"], "the data frame")
    Traceback (most recent call last):
    ValueError: the data frame has two columns called 'length': give them names of their own
    """
    seen: set[str] = set()
    for name in map(str, names):
        if name in seen:
            raise ValueError(f"{what} has two columns called '{name}': give them names of their own")
        seen.add(name)
