"""Bad input gets one clear sentence that names what is wrong and what to do."""

from typing import Any, Protocol

import numpy as np
from scipy import sparse

LARGEST_VALUE = 1e150  # squares must stay finite
SMALLEST_SPREAD = 1e-140  # and must not vanish
MOST_COUNTED = 2.0**53  # rows, with their weights: doubles hold all whole numbers to here
MOST_LEVELS = 100_000  # codes of a category: every cluster keeps a count of each, so more would not fit in memory
_REMEDY = "remove or impute such rows before fitting"


class NotNumbersError(TypeError, ValueError):
    """The data hold something that is not a number; both a TypeError (scikit-learn's word) and a ValueError."""


def as_rows(
    X: Any, accept_sparse: bool = False, row_names: Any = None, feature_names: Any = None, family: Any = None
) -> Any:
    """X as a float64 array (n, d), or as CSR when it is sparse and that is accepted; not empty, and finite but for
    missing values (NaN) that the family takes.

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
        check_finite(rows, family, 0, row_names, feature_names)
        return rows
    rows = _as_float_array(X)
    _require_shape(rows.shape)
    check_finite(rows, family, 0, row_names, getattr(X, "columns", feature_names))
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
            f"X must have two dimensions, rows and columns, but has {len(shape)}. Reshape your data: X.reshape(-1, 1) "
            "if it is a single feature, X.reshape(1, -1) if it is a single row"
        )
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"X is empty: found array with 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required."
            )


def require_spread(rows: np.ndarray) -> None:
    """Raise when columns vary, but by so little that squared differences vanish."""
    spread = np.fmax.reduce(rows, axis=0) - np.fmin.reduce(rows, axis=0)  # of the values that are not missing
    tiny = (spread > 0) & (spread < SMALLEST_SPREAD)
    if tiny.any():
        column = int(np.flatnonzero(tiny)[0])
        raise ValueError(
            f"column {column} varies by only {spread[column]:g}, too little to square; rescale the data first"
        )


class Kind(Protocol):
    """What a check asks of a family or its class."""

    @property
    def name(self) -> str: ...

    @property
    def value_kind(self) -> str: ...

    @property
    def takes_holes(self) -> bool: ...


def check_rows(
    X: Any, family: Kind | None = None, first_row: int = 0, row_names: Any = None, column_names: Any = None
) -> None:
    """Raise one clear sentence naming the first value of X (n, d), dense or sparse, that the family cannot take.

    Without a family only finite numbers are asked for. Rows are numbered from first_row; names of these rows (n,) and
    of the columns (d,), if known, stand beside the numbers.

    >>> check_rows(np.array([[1.0, 2.0], [np.nan, 1.0]]), first_row=100)
    Traceback (most recent call last):
    ...
    ValueError: row 101 holds NaN or infinity in column 0, 1 such value here: remove or impute such rows before fitting
    """
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    check_finite(X, family, first_row, row_names, column_names)
    if family is not None:
        check_values(X, family, first_row, row_names, column_names)


def check_finite(
    X: Any, family: Kind | None = None, first_row: int = 0, row_names: Any = None, column_names: Any = None
) -> None:
    """Raise one sentence about the first value of X (n, d) that is infinite, too large, or missing where it may not."""
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    values = X.data if sparse.issparse(X) else X
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"the data have type {values.dtype}; dtree takes numbers: convert the columns to float or integer"
        )
    if values.dtype.kind != "f" or not values.size or _within(values.min(), values.max()):
        return
    names = first_row, row_names, column_names
    if family is None:
        _complain(X, ~np.isfinite(values), "holds NaN or infinity", _REMEDY, *names)
    elif sparse.issparse(X) or not family.takes_holes:
        remedy = (
            f"remove or impute such rows, or choose family='auto' or 'mixed', because the {family.name} family takes "
            "no missing values"
        )
        _complain(X, ~np.isfinite(values), "holds NaN or infinity", remedy, *names)
    else:
        known_within = _within(np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None))
        if not known_within:  # told by what needs no copy of a chunk
            _complain(X, np.isinf(values), "holds infinity", _REMEDY + "; write NaN where a value is missing", *names)
        whole = getattr(family, "complete_columns", np.empty(0, dtype=np.int64))
        if np.size(whole) and X.shape[1] > np.max(whole):
            wrong = np.zeros(X.shape, dtype=np.bool_)
            wrong[:, whole] = np.isnan(X[:, whole])
            remedy = "it belongs to a Gaussian block, which takes none: put it into a DiagonalGaussian block"
            _complain(X, wrong, "misses a value", remedy, *names)
        if known_within:
            return
    large = np.abs(values) > np.float64(LARGEST_VALUE)
    _complain(X, large, f"holds a value beyond {LARGEST_VALUE:g}", "rescale the data", *names)


def check_values(rows: Any, family: Kind, first_row: int = 0, row_names: Any = None, column_names: Any = None) -> None:
    """Raise unless the values of rows (n, d) that are not missing fit the family, each column what it may hold."""
    kinds: list[tuple[str, int]] = getattr(family, "column_kinds", None) or []
    names = first_row, row_names, column_names
    if not kinds:
        require_values(rows, family.value_kind, family.name, *names)
        return
    if rows.shape[1] != len(kinds):
        raise ValueError(f"the family has {len(kinds)} features but the data have {rows.shape[1]}")
    rows = np.asarray(rows)
    wrong: dict[str, np.ndarray] = {}  # (n, d) of a kind, once one is found
    for j, (kind, levels) in enumerate(kinds):
        if kind == "real":
            continue
        values = rows[:, j]
        most = {"binary": 2, "count": np.inf}.get(kind, levels)
        with np.errstate(invalid="ignore"):
            bad = np.isfinite(values) & ((values < 0) | (values != np.floor(values)) | (values >= most))
        if bad.any():
            wrong.setdefault(kind, np.zeros(rows.shape, dtype=np.bool_))[:, j] = bad
    of_codes = "number the levels of a category 0, 1, 2, ..., and give the family as many"
    sentences = {
        "binary": ("is not 0 or 1", "its column was declared binary; declare it otherwise"),
        "count": ("is not a whole number of 0 or more", "its column was declared a count; declare it otherwise"),
        "category": ("is not the code of one of its levels", of_codes),
    }
    for kind, sentence in sentences.items():
        if kind in wrong:
            _complain(rows, wrong[kind], *sentence, *names)


def _within(low: float, high: float) -> bool:
    # As Python's numbers: a value that a float32 cannot hold would be cast to infinity, with a warning.
    return float(low) >= -LARGEST_VALUE and float(high) <= LARGEST_VALUE  # false for NaN


def require_values(
    rows: Any, kind: str, family: str, first_row: int = 0, row_names: Any = None, column_names: Any = None
) -> None:
    """Raise unless finite values fit the family: any for "real", 0 and 1 for "binary", whole numbers for "count".

    Missing values (NaN) are let through: `check_finite` is there for them.
    """
    values = rows.data if sparse.issparse(rows) else np.asarray(rows)
    held = ~np.isnan(values) if values.dtype.kind == "f" else True
    names = first_row, row_names, column_names
    if kind == "binary":
        wrong = (values != 0) & (values != 1) & held
        needs = f"the {family} family needs zeros and ones, so binarise the data or choose another family"
        _complain(rows, wrong, "is not 0 or 1", needs, *names)
    if kind == "count":
        wrong = values < 0
        needs = f"the {family} family needs counts"
        if wrong.any():
            needs += ", and Negative values in data are none"
        if values.dtype.kind == "f":
            wrong = wrong | ((values != np.floor(values)) & held)
        needs += "; give counts or choose another family"
        _complain(rows, wrong, "is not a whole number of 0 or more", needs, *names)


def _complain(
    X: Any, wrong: np.ndarray, what: str, remedy: str, first_row: int, row_names: Any, column_names: Any
) -> None:
    """Raise a sentence about the first wrong value, if any; `wrong` has the shape of X, or of its CSR data."""
    if not wrong.any():
        return
    if sparse.issparse(X):
        position = int(np.argmax(wrong))
        row, column = int(np.searchsorted(X.indptr, position, side="right") - 1), int(X.indices[position])
    else:
        row, column = (int(i) for i in np.argwhere(wrong)[0])
    found = int(wrong.sum())
    raise ValueError(
        f"row {_numbered(row, row_names, first_row)} {what} in column {_numbered(column, column_names)}, "
        f"{found} such value{'s' if found > 1 else ''} here: {remedy}"
    )


def _numbered(number: int, names: Any, first: int = 0) -> str:
    """A row or column by its number and, if it has one, by its name."""
    shown = str(first + number)
    named = names is not None and len(names) > number and str(names[number]) != shown
    return f"{shown} ('{names[number]}')" if named else shown


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
    if weight.sum() > MOST_COUNTED:
        raise ValueError(
            f"sample_weight adds up to {weight.sum():g}: beyond {MOST_COUNTED:g} whole numbers are no longer exact, "
            "so divide all weights by a number"
        )
    return weight


def named(registry: dict[str, Any], name: str, what: str) -> Any:
    """The class registered under a name, or one sentence that lists the names."""
    if name not in registry:
        raise ValueError(f"unknown {what} {name!r}: choose one of {', '.join(sorted(registry))}")
    return registry[name]
