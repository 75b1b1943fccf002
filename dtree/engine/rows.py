"""The rows of a run, on disk where every worker can read them by ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dtree.core.columns import Column
from dtree.core.names import is_collection
from dtree.data import Source, open_source
from dtree.data.columns import features_only
from dtree.data.opening import is_there
from dtree.data.source import Choice
from dtree.data.tables import as_choice


def open_rows(
    data: Any,
    folder: Any,
    client: Any = None,
    *,
    labels_column: str | None = None,
    leave_out: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    features: tuple[Sequence[str], int, Sequence[Column]] | None = None,
) -> Source:
    """The rows of `data`, a Dask collection or whatever `dtree.data.open_source` takes; copies go into `folder`.

    features : names, number and kinds of those that a model learned: the rows are then read as that model knows them.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = open_rows(np.arange(6.0).reshape(3, 2), folder)
    ...     source.kind, source.shape, source.read(1, 3).tolist()
    ('npy', (3, 2), [[2.0, 3.0], [4.0, 5.0]])
    """
    if not is_collection(data):
        known = () if features is None else features[2]
        source = open_source(data, labels_column=labels_column, leave_out=leave_out, columns=columns, known=known)
        return (source if features is None else source.with_columns_of(*features)).staged(folder)
    from dtree.engine.collections import stage_collection  # which loads dask

    choice = Choice(None, labels_column, tuple(leave_out), as_choice(columns))
    source = features_only(stage_collection(data, folder, client), choice, "the data")
    source = replace(source, name="a Dask collection")
    return source if features is None else source.with_columns_of(*features)


def opened_like(data: Any, header: Any) -> Source:
    """Rows that are read as those of the run with this header were: its features in order, its column of labels left
    out."""
    leave_out = [header.labels_column] if header.labels_column else []
    return open_source(data, leave_out=leave_out, known=header.kinds).with_columns_of(*header.features)


def source_of_run(header: Any) -> Source:
    """Where the rows of a run were read from, if they are there still, or one sentence (ValueError)."""
    record = header.source
    source = (
        Source.from_record(record)
        if record is not None and is_there(record["path"])
        else opened_like(header.data, header)
    )
    if source.shape[0] != header.n_rows:
        raise ValueError(f"{header.data} has {source.shape[0]:,} rows, but {header.n_rows:,} were fitted")
    return source
