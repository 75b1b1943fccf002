"""Labels and densities where the rows came from: an xarray Dataset with the coordinates of the input."""

from typing import Any

from dtree.core.names import is_data_array
from dtree.estimators.base import Estimator


def as_dataset(model: Any, X: Any) -> Any:
    """The clusters and log densities of the rows of a `DataArray`, as an xarray Dataset with its coordinates.

    Parameters
    ----------
    model : a fitted dtree model.
    X : an xarray `DataArray` whose last dimension holds the features; all others together are the rows.

    Returns a Dataset with `label` and `log_density` over the dimensions of X but the last.

    >>> import numpy as np
    >>> import xarray, dtree
    >>> values = np.array([[[0.0, 0.0], [0.1, 0.0]], [[5.0, 5.0], [5.2, 5.1]]])
    >>> X = xarray.DataArray(values, {"lat": [10, 20], "lon": [1, 2], "band": ["red", "blue"]}, ("lat", "lon", "band"))
    >>> found = as_dataset(dtree.BHC().fit(X), X)
    >>> found.label.dims, found.label.sel(lat=20).values.tolist(), list(found.coords)
    (('lat', 'lon'), [1, 1], ['lat', 'lon'])
    """
    import xarray

    if not isinstance(model, Estimator):
        raise ValueError(f"labels are those of a fitted dtree model, not of a {type(model).__name__}")
    if not is_data_array(X):
        raise ValueError(f"X must be an xarray DataArray, whose coordinates are wanted, not a {type(X).__name__}")
    rows, shape = X.dims[:-1], X.shape[:-1]
    kept = {name: values for name, values in X.coords.items() if X.dims[-1] not in values.dims}
    answers = {"label": model.predict(X), "log_density": model.score_samples(X)}  # type: ignore[attr-defined]
    return xarray.Dataset({name: (rows, found.reshape(shape)) for name, found in answers.items()}, kept)
