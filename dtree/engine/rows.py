"""The rows of a run, on disk where every worker can read them by ranges."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dtree.data import Source, open_source
from dtree.data.columns import features_only
from dtree.data.source import Choice


def open_rows(
    data: Any,
    folder: str | os.PathLike[str],
    client: Any = None,
    *,
    labels_column: str | None = None,
    leave_out: Sequence[str] = (),
) -> Source:
    """The rows of `data`, a Dask collection or whatever `dtree.data.open_source` takes; copies go into `folder`.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = open_rows(np.arange(6.0).reshape(3, 2), folder)
    ...     source.kind, source.shape, source.read(1, 3).tolist()
    ('npy', (3, 2), [[2.0, 3.0], [4.0, 5.0]])
    """
    if not hasattr(data, "dask"):
        return open_source(data, labels_column=labels_column, leave_out=leave_out).staged(folder)
    from dtree.engine.collections import stage_collection  # which loads dask

    source = features_only(
        stage_collection(data, folder, client), Choice(None, labels_column, tuple(leave_out)), "the data"
    )
    return replace(source, name="a Dask collection")
