"""What the commands about single values share: which runs know them, and how new rows are read."""

from typing import Any


def model_of_cells(run: str, verb: str) -> Any:
    """The model of a run that says something of single values, or one sentence why there is none."""
    from dtree.estimators.cells import MixtureEstimator
    from dtree.estimators.saving import open as open_run
    from dtree.methods.cells import blocks_of

    model = open_run(run)
    if not isinstance(model, MixtureEstimator):
        raise ValueError(
            f"{run} holds a {type(model).__name__}, which says nothing of single values: {verb} with a run of "
            "'dtree fit' or 'dtree vb'"
        )
    blocks_of(model._cell_mixture())  # whether its columns can be told apart is said before rows are read
    return model


def source_for(header: Any, data: str, labels_column: str | None = None) -> Any:
    """The rows of a file as the run of this header knows them."""
    from dtree.data import open_source

    leave_out = [name for name in (labels_column, header.labels_column) if name]
    return open_source(data, leave_out=leave_out, known=header.kinds).with_columns_of(*header.features)


def columns_of(model: Any) -> Any:
    """What the columns (d,) hold; numbers where the fit was to an array."""
    from dtree.core.columns import Column

    names = getattr(model, "feature_names_in_", [f"feature {place}" for place in range(model.n_features_in_)])
    return model.kinds_ or [Column(str(name), "real") for name in names]


def odd_cells(model: Any, rows: Any, surprisal: Any, row_names: Any, most: int = 5) -> list[str]:
    """The oddest values in words: those that are most nats above the usual surprisal of their column.

    A density depends on the unit of its column, so values are compared with others of their column first.
    """
    import numpy as np

    from dtree.core.columns import in_words

    held = ~np.isnan(surprisal)
    usual = np.array([np.median(column[mask]) if mask.any() else 0.0 for column, mask in zip(surprisal.T, held.T)])
    above = np.where(held, surprisal - usual, -np.inf)
    found = []
    for cell in np.argsort(-above, axis=None, kind="stable")[:most]:
        i, j = divmod(int(cell), above.shape[1])
        if above[i, j] > 0:
            column = columns_of(model)[j]
            value = in_words(rows[i : i + 1, j], column)[0] or "a level that the fit did not know"
            name = row_names[i] if row_names is not None else f"row {i}"
            found.append(f"{name}: {column.name} {value} ({above[i, j]:.1f} nats more surprising than usual)")
    return found
