"""`dtree.save` and `dtree.open`: a saved model is a finished run, whichever way it came about."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import dtree
from dtree.estimators.base import Estimator
from dtree.methods import method_named
from dtree.runs.run import Run
from dtree.storage.options import with_options


def save(
    model: Any,
    run: str | Path,
    *,
    provenance: Mapping[str, Any] | None = None,
    row_names: Sequence[str] | None = None,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model as a run that `open` gives back bit for bit.

    Parameters
    ----------
    model : a fitted estimator, e.g. BHC.
    run : the folder or address (`s3://...`) to make, by custom `something.zarr`.
    provenance : what else to remember, kept as notes in the run's header.
    row_names : (n,) names of the rows; those the model was fitted with when None.
    overwrite : replace an existing run; the old one stays until the new one is complete.
    storage_options : credentials and endpoints of an object store, beside the usual environment variables.

    >>> import tempfile, dtree
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [5.0], [5.2]])
    >>> model = dtree.BHC().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/run.zarr")
    ...     again = open(f"{folder}/run.zarr")
    >>> bool(np.array_equal(again.score_samples(X), model.score_samples(X)))
    True
    """
    if not isinstance(model, Estimator):
        raise ValueError(f"an object of type {type(model).__name__} cannot be saved as a run")
    if not model.__sklearn_is_fitted__():
        raise ValueError(f"this {type(model).__name__} is not fitted yet; call fit before saving it")
    held = model._finished_run()
    changes: dict[str, Any] = {"notes": {**held.header.notes, **(provenance or {})}}
    if row_names is not None:
        changes["row_names"] = [str(name) for name in row_names]
    method = method_named(held.header.method)  # not always the estimator's own: several methods open as one estimator
    with with_options(storage_options):
        Run(held.store, msgspec.structs.replace(held.header, **changes)).copy_to(run, method, overwrite)


def open(run: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> Any:
    """The fitted model in a run, every part of it checked; a damaged or hostile run gets one sentence (ValueError).

    run : a folder, or an address such as `s3://bucket/run.zarr`. storage_options : credentials and endpoints of its
    store, beside the usual environment variables.

    >>> import tempfile, dtree
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(dtree.BHC("poisson").fit([[1], [2], [90], [95]]), f"{folder}/run.zarr")
    ...     open(f"{folder}/run.zarr").labels_.tolist()
    [0, 0, 1, 1]
    """
    with with_options(storage_options):
        found = Run.open(run)
        found.require_done()
        method = method_named(found.header.method, found.location)
        return getattr(dtree, method.estimator).from_run(found)
