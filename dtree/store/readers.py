"""Open a data file as rows: a dense array or a SciPy CSR matrix, with names where the file knows them.

| ending | rows | names |
| --- | --- | --- |
| `.npy` | the array | |
| `.npz` | `X` (or `file.npz:name`), or the parts of a sparse matrix | `feature_names`, `row_names` |
| `.csv` | every numeric column | the header; a text column called id or name, or the first one |
| `.parquet` | every numeric column | the columns; likewise |
| `.zarr` | the array, or `X` (or `folder.zarr:name`) of a group | attributes `feature_names`, `row_names` |

A csv file has a header unless its first line is all numbers (0, 1, 2, ... above fractions is a header too); commas,
semicolons and tabs are understood. Nothing is ever unpickled. Whatever is wrong with a file, the caller gets one sentence (`ValueError`) that says what and
what to do about it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dtree.store.read_arrays import read_npy, read_npz, read_zarr
from dtree.store.read_tables import read_csv, read_parquet
from dtree.store.rows import Choice, Rows, without

_READERS: dict[str, Callable[[Path, Choice], Rows]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".zarr": read_zarr,
}
ENDINGS = tuple(_READERS)


def read_rows(
    source: str | Path,
    *,
    array: str | None = None,
    labels_column: str | None = None,
    leave_out: Sequence[str] = (),
) -> Rows:
    """Read the rows of a data file.

    Parameters
    ----------
    source : path with one of the known endings; `file.npz:name` picks an array by name.
    array : the name of the array, instead of the `:name`.
    labels_column : the column (a name, or a number from 0; in an `.npz` also another array) that holds known labels: it is
        kept apart from the features.
    leave_out : names of columns that are not features, if the file has them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "heights.csv"
    ...     _ = path.write_text("name,height,kind\\nash,20,tree\\nbox,2,shrub\\n")
    ...     rows = read_rows(path, labels_column="kind")
    >>> rows.X.tolist(), rows.feature_names, rows.row_names, rows.labels.tolist()
    ([[20.0], [2.0]], ['height'], ['ash', 'box'], ['tree', 'shrub'])
    """
    path, array_in_path = split_array_name(str(source))
    array = array or array_in_path
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"{path} has an unknown ending: the known ones are {' '.join(ENDINGS)}")
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if path.is_dir() != (ending == ".zarr"):
        raise ValueError(f"{path} is {'a folder' if path.is_dir() else 'not a folder'}, not a {ending} file")
    if array is not None and ending not in (".npz", ".zarr"):
        raise ValueError(f"{path} holds one table, so an array cannot be chosen by name ('{array}')")
    with one_sentence(path):
        rows = _READERS[ending](path, Choice(array, labels_column, tuple(leave_out)))
    if leave_out and rows.feature_names is not None:
        rows = without(rows, [name for name in leave_out if name in rows.feature_names])
    if rows.X.shape[0] == 0 or rows.X.shape[1] == 0:
        raise ValueError(f"{path} is empty: it holds {rows.X.shape[0]} rows of {rows.X.shape[1]} features")
    return rows


def split_array_name(source: str) -> tuple[Path, str | None]:
    """The path and the array in `file.npz:name`."""
    for ending in (".npz", ".zarr"):
        head, mark, name = source.rpartition(ending + ":")
        if mark and name:
            return Path(head + ending), name
    return Path(source), None


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Turn whatever a file library raises into one sentence; our own sentences name the file already."""
    try:
        yield
    except StopIteration:
        raise
    except MemoryError:
        raise ValueError(f"{path} declares more data than fits in memory; it may be damaged") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} cannot be read as text in UTF-8; save it in that encoding") from None
    except ImportError as error:
        raise ValueError(f"{path} cannot be read because {error.name or 'a package'} is not installed") from None
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        if isinstance(error, ValueError) and reason.startswith(str(path)):
            raise
        if "pickle" in reason or "object" in reason.lower():
            raise ValueError(f"{path} holds Python objects, which are never loaded; save an array of numbers") from None
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        raise ValueError(f"{path} cannot be read, it may be damaged: {reason[:200] or type(error).__name__}") from None
