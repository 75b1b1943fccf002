"""Rows as an estimator takes them: checked for its family, their names remembered, uninformative columns left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from dtree.core.checks import as_rows, require_spread, require_values
from dtree.core.families import FAMILIES, Family
from dtree.core.names import take_names
from dtree.hierarchy.defaults import named


def family_class(family: str | Family) -> type[Family]:
    """The class behind a family object or name."""
    return type(family) if isinstance(family, Family) else named(FAMILIES, family, "family")


def checked_rows(estimator: Any, X: Any, reset: bool) -> Any:
    """X as float64 rows (n, d) or CSR. With `reset` the estimator learns names and number of features, else they must agree."""
    kind = family_class(estimator.family)
    X, row_names, feature_names = take_names(X)
    rows = as_rows(X, kind.accepts_sparse, row_names, feature_names)
    if feature_names is not None and len(feature_names) == rows.shape[1]:
        import pandas

        # scikit-learn takes names from frames only: an empty one stands in for the rows, which may be sparse.
        X = pandas.DataFrame(np.empty((0, rows.shape[1])), columns=feature_names)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if reset:
        vars(estimator).pop("row_names_", None)
        if row_names is not None and len(row_names) == rows.shape[0]:
            estimator.row_names_ = np.array([str(name) for name in row_names], dtype=object)
    require_values(rows, kind.value_kind, kind.name)
    if reset and kind.value_kind == "real":
        require_spread(rows)
    return rows


def informative_columns(rows: Any, family: str | Family) -> np.ndarray:
    """The columns that a family fitted by name uses: a Gaussian leaves out constant ones, about which it can say nothing."""
    every = np.arange(rows.shape[1])
    if isinstance(family, Family) or family_class(family).value_kind != "real":
        return every
    varying = rows.min(axis=0) < rows.max(axis=0)
    return every[varying] if varying.any() else every


def checked_atoms(family: Family, atoms: Any) -> np.ndarray:
    """Atoms (m, s), rows of a family's statistics, finite and with positive counts, or one sentence what is wrong."""
    atoms = np.ascontiguousarray(atoms, dtype=np.float64)
    width = family.statistics(np.zeros((1, family.n_features))).shape[1]
    if atoms.ndim != 2 or atoms.shape[0] == 0 or atoms.shape[1] != width:
        raise ValueError(f"atoms of this family are rows of {width} numbers, not an array of shape {atoms.shape}")
    if not np.all(np.isfinite(atoms)) or np.any(atoms[:, 0] <= 0.0):
        raise ValueError("every atom needs finite statistics and a positive count")
    return atoms
