"""Open data of any kind as a `Source`.

| ending | rows | names |
| --- | --- | --- |
| `.npy` | the array | |
| `.npz` | `X` (or `file.npz:name`), or the parts of a sparse matrix | `feature_names`, `row_names` |
| `.csv` | the columns, each of its kind (`kinds`) | the header; a text column called id or name, or the first one |
| `.parquet` | likewise; a folder of such files too, whatever it is called | the columns; likewise |
| `.zarr` | the array, or `X` (or `folder.zarr::name`) of a group, dense or sparse | attributes called like that |

A csv file has a header unless its first line is all numbers (0, 1, 2, ... above fractions is a header too) or most of
its words stand again below it; commas, semicolons and tabs are understood. Nothing is ever unpickled. Whatever is wrong
with a file, the caller gets one sentence (`ValueError`) that says what and what to do about it.

A name may be an address too (`s3://bucket/rows.zarr`, also `gs:// az:// https:// memory://`): see `dtree.storage`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dtree.core.columns import Column
from dtree.core.names import Named
from dtree.data.formats import FORMATS, memory, parquet, zarr
from dtree.data.sentences import one_sentence, require_table
from dtree.data.source import Choice, Source
from dtree.data.tables import as_choice
from dtree.storage.places import Place, is_address, located

ENDINGS = tuple(f".{kind}" for kind in FORMATS if kind != "memory")


def open_source(
    data: Any,
    *,
    labels_column: str | None = None,
    leave_out: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    known: Sequence[Column] = (),
) -> Source:
    """The rows of `data`; what is wrong with them as a whole is told now, in one sentence.

    Parameters
    ----------
    data : a path or address with one of the known endings (`file.npz:name`, `store.zarr::name` pick an array by name),
        an array, a sparse matrix, a data frame (pandas, Polars, Arrow), an AnnData-like object, or a source,
        which comes back as it is.
    labels_column : the column (a name, or a number from 0; in an `.npz` or `.zarr` also another array) that holds known
        labels: it is kept apart from the features.
    leave_out : names of further columns that are not features, if the data have them.
    columns : what some columns of a table are, such as `{"zip": "category", "id": "skip"}`: real, count, binary,
        category, or skip to leave one out. The others are found from the data.
    known : the columns of an earlier fit (its `Source.kinds`), with whose levels a table is then read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = located(folder) / "heights.csv"
    ...     _ = path.write_text("name,height,kind\\nash,20,tree\\nbox,2,shrub\\n")
    ...     source = open_source(path, labels_column="kind")
    ...     source.shape, source.columns, source.load().tolist(), source.row_names, source.labels.tolist()
    ((2, 1), ('height',), [[20.0], [2.0]], ['ash', 'box'], ['tree', 'shrub'])
    """
    if isinstance(data, Source):
        return data
    choice = Choice(None, labels_column, tuple(leave_out), as_choice(columns), tuple(known))
    if not isinstance(data, str | os.PathLike):
        return memory.opened(data, choice)
    path, array = split_array_name(os.fspath(data))
    kind = _kind_of(path)
    if array is not None and kind not in ("npz", "zarr"):
        raise ValueError(f"{path} holds one table, so an array cannot be chosen by name ('{array}')")
    with one_sentence(path):
        source = FORMATS[kind].opened(path, choice._replace(array=array))
    require_table(source.shape, source.dtype, str(path))
    name = os.fspath(data)
    return replace(source, name=name, wider=None if source.wider is None else replace(source.wider, name=name))


def split_array_name(given: str) -> tuple[Place, str | None]:
    """The place and the array in `file.npz:name` or `store.zarr::name`.

    >>> split_array_name("rows.npz:train")[1], split_array_name("s3://bucket/store.zarr::temperature")[1]
    ('train', 'temperature')
    """
    if is_address(given) or not os.path.lexists(given):
        head, mark, name = given.rpartition("::")
        if mark and head and name:
            return located(head), name
        for ending in ENDINGS:
            head, mark, name = given.rpartition(ending + ":")
            if mark and name.lstrip(":"):
                return located(head + ending), name.lstrip(":")
    return located(given), None


def is_there(given: str) -> bool:
    """Whether there is anything where the data have this name."""
    path = split_array_name(given)[0]
    return path.exists() or zarr.is_store(path)


def _kind_of(path: Place) -> str:
    """The format of a file or folder, or one sentence why nothing can be read there."""
    ending = path.suffix.lower()
    if not (path.exists() or zarr.is_store(path)):  # a store may be there where files cannot be listed
        known = "" if ending in ENDINGS else f", and it has an unknown ending: the known ones are {' '.join(ENDINGS)}"
        raise ValueError(f"there is no file {path}{known}")
    if path.is_dir() or (ending == ".zarr" and zarr.is_store(path)):
        if ending == ".zarr" or zarr.is_store(path):
            return "zarr"
        if ending == ".parquet" or parquet.files_of(path):
            return "parquet"
        if ending in ENDINGS:
            raise ValueError(f"{path} is a folder, not a {ending} file")
        raise ValueError(f"{path} has an unknown ending: it is neither a zarr store nor a folder of .parquet files")
    if ending not in ENDINGS:
        raise ValueError(
            f"{path} has an unknown ending: the known ones are {' '.join(ENDINGS)}; dtree reads no other files"
        )
    if ending == ".zarr" or not path.is_file():
        raise ValueError(f"{path} is not a {'folder' if ending == '.zarr' else 'file'}, so it holds no {ending} rows")
    return ending[1:]


def in_memory(X: Any) -> Any:
    """The rows behind a path, a source or a Dask collection, with their names; anything else as it is.

    For methods that need all rows at once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "heights.csv")
    ...     _ = open(path, "w").write("name,height\\nash,20\\nbox,2\\n")
    ...     rows = in_memory(path)
    >>> rows.X.tolist(), rows.row_names.tolist(), rows.feature_names.tolist()
    ([[20.0], [2.0]], ['ash', 'box'], ['height'])
    """
    if hasattr(X, "dask"):
        return X.compute()
    if not isinstance(X, str | os.PathLike | Source):
        return X
    source = open_source(X)
    names = (source.row_names, source.columns or None)
    return Named(source.load(), *(None if given is None else np.array(given, dtype=object) for given in names))
