"""Input files may come from anywhere: sizes must be real, nothing is unpickled, and whatever a library says becomes one sentence."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dtree.store.read_arrays import refuse_pickles
from dtree.store.readers import one_sentence
from dtree.store.rows import require_memory

_EMPTY_SPACE = 1000  # an array may declare so many times the bytes that it holds: compression, chunks that are all zero
_NOT_WORTH_ASKING = 1 << 30


def check_array(array: Any, path: Path) -> None:
    """A zarr array whose declared size is real, or nearly so, and that can be read a chunk at a time without running code."""
    refuse_pickles(array, str(path))
    chunk = array.shards or array.chunks
    item = np.dtype(array.dtype).itemsize
    require_memory(int(np.prod([int(size) for size in chunk], dtype=object)) * item, f"a chunk of {path}")
    declared = int(np.prod([int(size) for size in array.shape], dtype=object)) * item
    if declared > _NOT_WORTH_ASKING and not _holds(path, declared // _EMPTY_SPACE):
        raise ValueError(
            f"{path} declares {declared / 1e9:,.0f} GB but holds almost nothing: its chunks are missing, or its shape is wrong"
        )


def _holds(folder: Path, size: int) -> bool:
    """Whether the files below a folder have so many bytes together; stops as soon as they do."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            found += os.stat(os.path.join(place, name)).st_size
            if found >= size:
                return True
    return False


def check_csr(group: Any, path: Path, shape: Any) -> None:
    """Sparse rows whose parts fit each other: one pointer a row and one more, one column for each value."""
    if not (isinstance(shape, list) and len(shape) == 2 and all(type(size) is int and size >= 0 for size in shape)):
        raise ValueError(
            f"the attribute 'shape' of the sparse rows in {path} must be [rows, columns], not {str(shape)[:60]}"
        )
    data, indices, indptr = (group[name] for name in ("data", "indices", "indptr"))
    if any(part.ndim != 1 for part in (data, indices, indptr)):
        raise ValueError(f"the arrays data, indices and indptr in {path} must have one dimension each")
    if indptr.shape[0] != shape[0] + 1 or data.shape != indices.shape:
        raise ValueError(
            f"the sparse rows in {path} do not fit their shape {shape}: {indptr.shape[0]} row pointers, "
            f"{data.shape[0]} values and {indices.shape[0]} column numbers"
        )
    if any(part.dtype.kind not in "iu" for part in (indices, indptr)):
        raise ValueError(f"the column numbers and row pointers in {path} must be whole numbers")
    for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
        check_array(part, path / name)


def refuse_strange_members(path: Path) -> None:
    """Names in an archive are never used as paths; one that tries to be a path elsewhere says what the file is."""
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an .npz file (a zip archive of arrays) or is damaged")
    with one_sentence(path), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for name in names:
        if name.startswith("/") or "\\" in name or "\0" in name or ".." in Path(name).parts:
            raise ValueError(f"{path} holds an array called {name[:80]!r}, which is a path and not a name")
