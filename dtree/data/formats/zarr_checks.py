"""Zarr stores may come from anywhere: sizes must be real, and nothing is unpickled."""

import math
from typing import Any

import numpy as np

from dtree.core.memory import memory_bytes, require_memory
from dtree.storage.icechunk_places import repository_of
from dtree.storage.places import Place, is_remote, sizes_of_files

_EMPTY_SPACE = 1000  # an array may declare so many times the bytes that it holds: compression, chunks that are all zero
_NOT_WORTH_ASKING = 1 << 30  # bytes that any machine can take, whether they are really there or not


def refuse_pickles(array: Any, what: str) -> None:
    """Raise one sentence when reading a zarr array would unpickle anything."""
    # Version 2 of the format allows a filter that unpickles what it reads, which would run any code the file holds.
    metadata = array.metadata.to_dict()
    if "pickle" in str([metadata.get(key) for key in ("filters", "compressor", "codecs")]).lower():
        raise ValueError(f"{what} is stored with pickles, which are never loaded; write it without that filter")


def check_array(array: Any, path: Place) -> None:
    """Raise one sentence unless the size that an array declares is real, or nearly so, and reading it runs no code."""
    refuse_pickles(array, str(path))
    chunk = array.shards or array.chunks
    item = np.dtype(array.dtype).itemsize
    require_memory(math.prod(int(size) for size in chunk) * item, f"{path}: a chunk of it")
    declared = math.prod(int(size) for size in array.shape) * item
    if declared > _NOT_WORTH_ASKING and not _holds(path, declared // _EMPTY_SPACE):
        excess = "; and it is more than this machine's memory" if declared > memory_bytes() else ""
        raise ValueError(
            f"{path} declares {declared / 1e9:,.0f} GB but holds almost nothing: its chunks are missing, or its "
            f"shape is wrong{excess}"
        )


def _holds(folder: Place, size: int) -> bool:
    """Whether the files below a folder have so many bytes together; stops as soon as they do."""
    found = 0
    for _, more in sizes_of_files(folder):
        found += more
        if found >= size:
            return True
    unknown = is_remote(folder) and not folder.is_dir()  # where files cannot be listed
    return unknown or repository_of(folder) is not None  # which keeps its chunks elsewhere


def check_csr(group: Any, path: Place, shape: Any) -> None:
    """Sparse rows whose parts fit each other: one pointer a row and one more, one column for each value."""
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(size) is int and size >= 0 for size in shape)):
        raise ValueError(
            f"{path}: the attribute 'shape' of the sparse rows must be [rows, columns], not {str(shape)[:60]}"
        )
    data, indices, indptr = (group[name] for name in ("data", "indices", "indptr"))
    if any(part.ndim != 1 for part in (data, indices, indptr)):
        raise ValueError(f"{path}: the arrays data, indices and indptr must have one dimension each")
    if indptr.shape[0] != shape[0] + 1 or data.shape != indices.shape:
        raise ValueError(
            f"{path}: the sparse rows do not fit their shape {shape}: {indptr.shape[0]} row pointers, "
            f"{data.shape[0]} values and {indices.shape[0]} column numbers"
        )
    if any(part.dtype.kind not in "iu" for part in (indices, indptr)):
        raise ValueError(f"{path}: the column numbers and row pointers must be whole numbers")
    for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
        check_array(part, path / name)
