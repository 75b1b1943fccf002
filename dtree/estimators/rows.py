"""Rows as an estimator takes them: checked for its family, their names remembered."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from dtree.core.checks import as_rows, check_values, require_spread
from dtree.core.families import Categorical, Family, PerColumn, expected, expected_to_predict, has_holes
from dtree.core.names import take_names


def checked_rows(estimator: Any, X: Any, reset: bool, to_predict: bool = False) -> Any:
    """X as float64 rows (n, d) or CSR.

    With `reset` the estimator learns names and number of features, else they must agree. Of rows `to_predict` more
    values may be missing than of rows to learn from.
    """
    known = estimator.family if reset else getattr(estimator, "family_", estimator.family)
    kind = expected_to_predict(known) if to_predict else expected(known)
    X, row_names, feature_names = take_names(X)
    rows = as_rows(X, kind.accepts_sparse, row_names, feature_names, kind)
    if feature_names is not None and len(feature_names) == rows.shape[1]:
        import pandas

        # scikit-learn takes names from frames only: an empty one stands in for the rows, which may be sparse.
        X = pandas.DataFrame(np.empty((0, rows.shape[1])), columns=feature_names)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if reset:
        vars(estimator).pop("row_names_", None)
        if row_names is not None and len(row_names) == rows.shape[0]:
            estimator.row_names_ = np.array([str(name) for name in row_names], dtype=object)
    columns = None if reset else getattr(estimator, "columns_", None)
    if columns is not None and columns.shape[0] < rows.shape[1]:  # a fitted family knows its own columns only
        check_values(rows[:, columns], kind, 0, None, columns)
    else:
        check_values(rows, kind)
    if reset and kind.value_kind == "real":
        require_spread(rows)
    return rows


def require_room_for_holes(family: Family, rows: Any) -> None:
    """Raise when more rows for a model of complete rows, which has one count for all columns, miss values."""
    if isinstance(family, PerColumn) and not isinstance(family, Categorical) and has_holes(rows):
        raise ValueError(
            "the rows miss values (NaN) but the model was begun with complete rows: begin it with family='mixed', or "
            "remove or impute such rows"
        )


def checked_atoms(family: str | Family, atoms: Any) -> np.ndarray:
    """Atoms (m, s), rows of a family's statistics, finite and with positive counts, or one sentence what is wrong."""
    if not isinstance(family, Family):
        raise ValueError("atoms are statistics of one family: give it as an object, e.g. the family_ of the reduction")
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    width = family.n_statistics
    if atoms.ndim != 2 or atoms.shape[0] == 0 or atoms.shape[1] != width:
        raise ValueError(f"atoms of this family are rows of {width} numbers, not an array of shape {atoms.shape}")
    if not np.all(np.isfinite(atoms)) or np.any(atoms[:, 0] <= 0.0):
        raise ValueError("every atom needs finite statistics and a positive count")
    return atoms
