"""`.npy`: one array, read through a memory map."""

from pathlib import Path
from typing import Any

import numpy as np

from dtree.data.arrays import array_column
from dtree.data.columns import features_only
from dtree.data.sentences import require_table
from dtree.data.source import Choice, Source

BY_RANGES = True
RECORDED_KINDS = ("npy",)
column = array_column


def opened(path: Path, choice: Choice) -> Source:
    """The array in a file; its declared size is compared with the file's by the memory map."""
    with open(path, "rb") as handle:
        shape, dtype = header(handle)
    require_table(shape, dtype, str(path))
    np.load(path, mmap_mode="r", allow_pickle=False)
    return features_only(described(path, shape, dtype), choice, str(path))


def header(handle: Any) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type that the start of an .npy file declares."""
    version = np.lib.format.read_magic(handle)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(handle)
    return shape, dtype


def described(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> Source:
    """The source of a file that is known to hold such an array."""
    return Source("npy", str(path.resolve()), (shape[0], shape[1]), str(dtype))


def read(source: Source, start: int, stop: int) -> np.ndarray:
    """Rows start..stop-1 of the array."""
    return np.array(np.load(source.path, mmap_mode="r", allow_pickle=False)[start:stop])


def row_names(source: Source) -> None:
    """An array has none."""
