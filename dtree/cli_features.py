"""Rows of a file as a fitted model wants them: its features, found by name where both have names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtree.store.rows import Rows


def as_fitted(rows: Rows, model: Any) -> Any:
    """The features of the rows in the order in which the model learned them, with names for scikit-learn where there are any."""
    from dtree.core.names import framed
    from dtree.store.rows import listed

    fitted = getattr(model, "feature_names_in_", None)
    if fitted is None or rows.feature_names is None:
        if rows.X.shape[1] != model.n_features_in_:
            raise ValueError(
                f"{rows.source} has {rows.X.shape[1]} features but the run was fitted to {model.n_features_in_}"
            )
        return framed(rows.X, fitted)
    missing = [str(name) for name in fitted if name not in rows.feature_names]
    if missing:
        raise ValueError(f"{rows.source} lacks features that the run was fitted to: {listed(missing)}")
    return framed(rows.X[:, [rows.feature_names.index(name) for name in fitted]], fitted)
