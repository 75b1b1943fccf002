"""`.npy`: one array, read through a memory map; where that is not possible, by ranges of its bytes."""

import io
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dtree.core.recent import Recent
from dtree.data.arrays import array_column
from dtree.data.columns import features_only
from dtree.data.sentences import require_table
from dtree.data.source import Choice, Source
from dtree.storage.places import Place
from dtree.storage.remote import RemotePath

BY_RANGES = True
RECORDED_KINDS = ("npy",)
_PIECE = 8 << 20  # bytes that are sent together
_layouts = Recent(8)
column = array_column


def opened(path: Place, choice: Choice) -> Source:
    """The array in a file; its declared size is compared with the file's, by the memory map where there is one."""
    with path.open("rb") as handle:
        shape, dtype = header(handle)
        start = handle.tell()
    require_table(shape, dtype, str(path))
    if isinstance(path, RemotePath):
        if path.stat().st_size < start + math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{path} is cut off: it declares the shape {shape}, more than the file holds")
    else:
        np.load(path, mmap_mode="r", allow_pickle=False)
    return features_only(described(path, shape, dtype), choice, str(path))


def header(handle: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type that the start of an .npy file declares."""
    shape, _, dtype = _declared(handle)
    return shape, dtype


def _declared(handle: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(handle)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read_header(handle)


class Layout(NamedTuple):
    """How the values lie in a file; `first` is the byte after the header."""

    first: int
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype


def _layout(path: RemotePath) -> Layout:
    with path.open("rb") as handle:
        shape, by_columns, dtype = _declared(handle)
        return Layout(handle.tell(), shape, by_columns, dtype)


def _read_ranges(path: RemotePath, start: int, stop: int) -> np.ndarray:
    """Rows start..stop-1 of a remote file: one range of bytes, or one for each column as Fortran and pandas have it."""
    key = str(path), str(path.stat())  # of a file that was replaced meanwhile nothing is remembered
    first, (n, d), by_columns, dtype = _layouts.get(key, lambda: _layout(path))
    if not by_columns:
        begin, end = first + start * d * dtype.itemsize, first + stop * d * dtype.itemsize
        return np.frombuffer(path.objects.get_range(path.key, begin, end), dtype=dtype).reshape(-1, d)
    begins = [first + (column * n + start) * dtype.itemsize for column in range(d)]
    parts = path.objects.get_ranges(path.key, begins, (stop - start) * dtype.itemsize)
    return np.column_stack([np.frombuffer(part, dtype=dtype) for part in parts])


def described(path: Place, shape: tuple[int, ...], dtype: np.dtype) -> Source:
    """The source of a file that is known to hold such an array."""
    return Source("npy", str(path.resolve()), (shape[0], shape[1]), str(dtype))


def read(source: Source, start: int, stop: int) -> np.ndarray:
    """Rows start..stop-1 of the array."""
    place = source.place
    if isinstance(place, RemotePath):
        return _read_ranges(place, start, stop)
    return np.array(np.load(source.path, mmap_mode="r", allow_pickle=False)[start:stop])


def write(path: Place, X: np.ndarray) -> None:
    """Write an array as a file."""
    if not isinstance(path, RemotePath):
        np.save(path, X)
        return
    start = io.BytesIO()
    np.lib.format.write_array_header_2_0(start, np.lib.format.header_data_from_array_1_0(X))
    path.write_bytes(chain([start.getvalue()], _pieces(X)))


def _pieces(X: np.ndarray) -> Iterator[bytes]:
    """The bytes of an array (n, d) a few at a time, so that there are never two copies of it."""
    rows = max(1, _PIECE // max(1, X.nbytes // X.shape[0]))
    for first in range(0, X.shape[0], rows):
        yield X[first : first + rows].tobytes()


def row_names(source: Source) -> None:
    """An array has none."""
