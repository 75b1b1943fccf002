"""Rows from array files: `.npy`, `.npz` (dense or sparse) and `.zarr`."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dtree.store.rows import Choice, Rows, listed, numbers_in, require_memory, take_labels

DEFAULT_ARRAY = "X"


def read_npy(path: Path, choice: Choice) -> Rows:
    with open(path, "rb") as handle:
        version = np.lib.format.read_magic(handle)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        _, _, dtype = read_header(handle)
    numbers_in(np.empty((0, 0), dtype=dtype), str(path))
    # Through a memory map, because only then is the declared size compared with the file's before it is allocated.
    require_memory(path.stat().st_size, str(path))
    values = numbers_in(np.load(path, mmap_mode="r", allow_pickle=False), str(path))
    return take_labels(Rows(np.array(values), source=str(path)), choice.labels_column)


def read_npz(path: Path, choice: Choice) -> Rows:
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not an .npz file (a zip archive of arrays) or is damaged")
    with np.load(path, allow_pickle=False) as file:
        known = list(file.files)
        if choice.array is None and DEFAULT_ARRAY not in known and {"data", "shape"} <= set(known):
            X: Any = _sparse(path, file)
        else:
            name = _choose_array(path, known, choice.array)
            X = numbers_in(_member(path, file, name), f"{path}:{name}")
        rows = Rows(
            X,
            _names(path, file, "feature_names", X.shape[1]),
            _names(path, file, "row_names", X.shape[0]),
            source=str(path),
        )
        if choice.labels_column is not None and choice.labels_column in known:
            labels = _member(path, file, choice.labels_column)
            if labels.ndim != 1:
                raise ValueError(
                    f"{path}:{choice.labels_column} is not one label per row: it has {labels.ndim} dimensions"
                )
            return Rows(X, rows.feature_names, rows.row_names, labels, str(path))
    return take_labels(rows, choice.labels_column)


def _member(path: Path, file: Any, name: str) -> np.ndarray:
    with suppress(KeyError):
        require_memory(file.zip.getinfo(f"{name}.npy").file_size, f"{path}:{name}")
    try:
        return file[name]
    except ValueError as error:
        if "pickle" in str(error) or "object" in str(error).lower():
            raise ValueError(
                f"{path}:{name} holds Python objects, which are never loaded; save numbers or text"
            ) from None
        raise


def _choose_array(path: Path, known: list[str], array: str | None) -> str:
    if array is not None:
        if array not in known:
            raise ValueError(f"{path} has no array '{array}'; it has {listed(known)}")
        return array
    if DEFAULT_ARRAY in known:
        return DEFAULT_ARRAY
    if len(known) == 1:
        return known[0]
    if not known:
        raise ValueError(f"{path} is empty: it holds no arrays")
    raise ValueError(f"{path} has no array '{DEFAULT_ARRAY}'; choose one of {listed(known)} as {path}:NAME")


def _names(path: Path, file: Any, name: str, count: int) -> list[str] | None:
    """The names stored in the array `name`, if there is one and it fits (the file may hold several tables)."""
    if name not in file.files:
        return None
    values = _member(path, file, name)
    if values.ndim != 1 or values.shape[0] != count:
        return None
    return [str(value) for value in values]


def _sparse(path: Path, file: Any) -> Any:
    """The CSR matrix in the parts that `scipy.sparse.save_npz` writes (or the same parts without `format`)."""
    from scipy import sparse

    layout = bytes(file["format"].item()).decode() if "format" in file.files else "csr"
    parts = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}.get(layout)
    if parts is None:
        raise ValueError(f"{path} holds a sparse matrix in the layout '{layout}'; save it as csr, csc or coo")
    missing = [part for part in ("data", *parts, "shape") if part not in file.files]
    if missing:
        raise ValueError(f"{path} is not a complete sparse matrix: it lacks {listed(missing)}")
    data, first, second, shape = (_member(path, file, part) for part in ("data", *parts, "shape"))
    numbers_in(data.reshape(1, -1), f"{path}:data")
    if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in (first, second, shape)) or shape.shape != (2,):
        raise ValueError(f"{path} is not a sparse matrix: {listed(parts)} and shape must be lists of whole numbers")
    if data.dtype.kind in "bu" or data.dtype.itemsize < 4:
        data = data.astype(np.float64)  # unsigned counts would wrap around in sums and differences
    size = (int(shape[0]), int(shape[1]))
    if layout == "coo":
        return sparse.coo_array((data, (first, second)), shape=size).tocsr()
    kind = sparse.csr_array if layout == "csr" else sparse.csc_array
    matrix = kind((data, first, second), shape=size)
    matrix.check_format(full_check=True)  # an index out of range would be read outside the matrix later
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    return matrix


def read_zarr(path: Path, choice: Choice) -> Rows:
    import zarr

    node: Any = zarr.open(path, mode="r")
    holder = node
    what = str(path)
    if isinstance(node, zarr.Group):
        if "dtree" in node.attrs:
            raise ValueError(f"{path} is a dtree run, not data; open it with dtree.open or 'dtree info'")
        arrays = {name: value for name, value in node.arrays()}
        name = _choose_array(path, sorted(arrays), choice.array)
        node, what = arrays[name], f"{path}:{name}"
    elif choice.array is not None:
        raise ValueError(f"{path} is one array, so an array cannot be chosen by name ('{choice.array}')")
    numbers_in(node, what)
    refuse_pickles(node, what)
    require_memory(node.nbytes, what)
    X = np.asarray(node[...])
    names = {
        key: _attribute_names(holder, key) or _attribute_names(node, key) for key in ("feature_names", "row_names")
    }
    return take_labels(Rows(X, names["feature_names"], names["row_names"], source=str(path)), choice.labels_column)


def refuse_pickles(array: Any, what: str) -> None:
    """Raise one sentence when reading a zarr array would unpickle anything."""
    # Version 2 of the format allows a filter that unpickles what it reads, which would run any code the file holds.
    metadata = array.metadata.to_dict()
    if "pickle" in str([metadata.get(key) for key in ("filters", "compressor", "codecs")]).lower():
        raise ValueError(f"{what} is stored with pickles, which are never loaded; write it without that filter")


def _attribute_names(node: Any, key: str) -> list[str] | None:
    names = node.attrs.get(key)
    return [str(name) for name in names] if isinstance(names, list) else None
