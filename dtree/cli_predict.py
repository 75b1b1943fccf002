"""What all predictions of rows in memory share: features found by name, labels and log densities into one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtree.cli_console import progress_bar, say
from dtree.cli_output import check_ending, check_file, write_columns

if TYPE_CHECKING:
    from dtree.store.rows import Rows

ONE_FILE = (".csv", ".npy", ".npz")
ANY_SIZE = (*ONE_FILE, ".zarr")  # of methods that label rows chunk by chunk too


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


def predict_here(
    open_model: Callable[[], Any],
    data: str,
    target: Path,
    overwrite: bool,
    *,
    leave_out: Sequence[str] = (),
    labels_column: str | None = None,
    endings: tuple[str, ...] = ONE_FILE,
) -> None:
    """Cluster and log density of every row of a file that fits in memory, by the model that `open_model` gives."""
    from dtree.store.readers import read_rows

    check_ending(target, endings)
    check_file(target, overwrite)
    rows = read_rows(data, labels_column=labels_column, leave_out=leave_out)
    model = open_model()
    X = as_fitted(rows, model)
    with progress_bar():
        labels, log_density = model.predict(X), model.score_samples(X)
    write_columns(target, {"label": labels, "log_density": log_density}, rows.row_names)
    say(f"{len(labels)} rows, mean log density {log_density.mean():.6g}: {target}")
