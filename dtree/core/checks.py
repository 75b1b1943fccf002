"""Bad input gets one clear sentence that names what is wrong and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

LARGEST_VALUE = 1e150  # squares must stay finite
SMALLEST_SPREAD = 1e-140  # and must not vanish


class NotNumbersError(TypeError, ValueError):
    """The data hold something that is not a number; both a TypeError (scikit-learn's word) and a ValueError."""


def as_rows(X: Any, accept_sparse: bool = False, row_names: Any = None, feature_names: Any = None) -> Any:
    """X as a float64 array (n, d), or as CSR when it is sparse and that is accepted; finite and not empty.

    Names of rows (n,) and features (d,), if known, tell where a value is wrong.

    >>> as_rows([[1, 2], [3, 4]]).dtype
    dtype('float64')
    """
    if sparse.issparse(X):
        if not accept_sparse:
            raise NotNumbersError(
                "X is a sparse matrix, which this family does not take: pass X.toarray(), or choose the multinomial, "
                "bernoulli or poisson family"
            )
        rows = sparse.csr_array(X)
        if rows.dtype.kind not in "biuf":
            raise NotNumbersError(f"X holds values of type {rows.dtype}, which are not real numbers")
        rows = rows.astype(np.float64)
        _require_shape(rows.shape)
        _require_finite(rows.data[None, :])
        return rows
    rows = _as_float_array(X)
    _require_shape(rows.shape)
    _require_finite(rows, ("row", "column"), (row_names, getattr(X, "columns", feature_names)))
    return np.ascontiguousarray(rows)


def _as_float_array(X: Any) -> np.ndarray:
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError("X is ragged: every row must have the same number of columns") from None
    if array.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: X holds complex numbers; pass real and imaginary parts as columns"
        )
    if array.dtype.kind in "mM":
        raise NotNumbersError("X holds dates or durations; convert them to numbers first")
    if array.dtype.kind in "OSU":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise NotNumbersError(_first_non_number(array)) from None
    return array.astype(np.float64, copy=False)


def _first_non_number(array: np.ndarray) -> str:
    for position in np.ndindex(array.shape):
        try:
            float(array[position])
        except (TypeError, ValueError):
            place = f"row {position[0]}" + (f", column {position[1]}" if len(position) > 1 else "")
            return (
                f"X holds {array[position]!r} at {place}, which is not a number: argument must be a string or a real "
                "number; drop or encode such columns first"
            )
    return "X holds values that are not numbers; drop or encode such columns first"


def _require_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns, but has {len(shape)}. Reshape your data: X.reshape(-1, 1) if "
            "it is a single feature, X.reshape(1, -1) if it is a single row"
        )
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"X is empty: found array with 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required."
            )


def _place(position: Any, axes: tuple[str, ...], names: tuple[Any, ...]) -> str:
    """Where in the data a value stands, by number and, if it has one, by name."""
    words = []
    for at, axis, known in zip(position, axes, names):
        named = known is not None and len(known) > at and str(known[at]) != str(at)
        words.append(f"{axis} {at}" + (f" ('{known[at]}')" if named else ""))
    return ", ".join(words)


def _require_finite(rows: np.ndarray, axes: tuple[str, ...] = (), names: tuple[Any, ...] = ()) -> None:
    """Raise when a value is missing, infinite or too large; without axes `rows` (1, n) are the stored values of a sparse matrix."""
    if rows.size == 0:
        return
    largest = np.abs(rows).max()
    if np.isfinite(largest) and largest <= LARGEST_VALUE:
        return
    for found, name, advice in (
        (np.isnan(rows), "NaN", "drop or fill in missing values first"),
        (np.isinf(rows), "infinity (inf)", "remove or replace infinite values first"),
        (np.abs(rows) > LARGEST_VALUE, f"a value beyond {LARGEST_VALUE:g}", "rescale the data first"),
    ):
        if found.any():
            position = np.argwhere(found)[0]
            place = _place(position, axes, names) if axes else f"stored value {position[1]}"
            raise ValueError(f"X contains {name} ({place}; {int(found.sum())} in all); {advice}")


def require_spread(rows: np.ndarray) -> None:
    """Raise when columns vary, but by so little that squared differences vanish."""
    spread = rows.max(axis=0) - rows.min(axis=0)
    tiny = (spread > 0) & (spread < SMALLEST_SPREAD)
    if tiny.any():
        column = int(np.flatnonzero(tiny)[0])
        raise ValueError(
            f"column {column} varies by only {spread[column]:g}, too little to square; rescale the data first"
        )


def varying_columns(rows: np.ndarray) -> np.ndarray:
    """Numbers of the columns of (n, d) rows that are not constant; all columns when none varies.

    >>> varying_columns(np.array([[1.0, 5.0, 0.0], [2.0, 5.0, 1.0]])).tolist()
    [0, 2]
    """
    varying = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
    return varying if varying.size else np.arange(rows.shape[1])


def require_values(rows: Any, kind: str, family: str) -> None:
    """Raise unless the values fit the family: anything for "real", 0 and 1 for "binary", whole numbers for "count"."""
    values = rows.data if sparse.issparse(rows) else rows
    if kind == "binary" and not np.all((values == 0) | (values == 1)):
        raise ValueError(
            f"the {family} family needs values 0 and 1 only, got {_example(values, kind)}; binarise X first"
        )
    if kind == "count":
        if np.any(values < 0):
            raise ValueError(f"the {family} family needs counts, but X has Negative values such as {values.min():g}")
        if np.any(values != np.floor(values)):
            raise ValueError(f"the {family} family needs whole-number counts, got {_example(values, kind)}")


def _example(values: np.ndarray, kind: str) -> str:
    bad = (values != 0) & (values != 1) if kind == "binary" else values != np.floor(values)
    return f"{values[bad].ravel()[0]:g}"


def as_counts(sample_weight: Any, n: int) -> np.ndarray | None:
    """sample_weight as non-negative whole numbers (n,), or None."""
    if sample_weight is None:
        return None
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n, float(weight))
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have one entry per row ({n}), got an array of shape {weight.shape}")
    if not np.all(np.isfinite(weight)) or np.any(weight < 0) or np.any(weight != np.floor(weight)):
        raise ValueError("sample_weight must hold whole numbers of at least 0: a weight is how often a row was seen")
    if weight.sum() == 0:
        raise ValueError("sample_weight sums to zero: at least one row must count")
    return weight
