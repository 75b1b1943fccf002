"""`.npz`: a zip archive of arrays, one of them the rows; or the parts of a sparse matrix."""

import math
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dtree.core.memory import require_memory
from dtree.data.arrays import DEFAULT_ARRAY, choose_array
from dtree.data.columns import features_only, with_names
from dtree.data.formats import npy, zarr
from dtree.data.sentences import listed, one_sentence, require_table
from dtree.data.source import Beside, Choice, Source
from dtree.storage.places import Place, file_on_disk
from dtree.storage.remote import RemotePath

BY_RANGES = False
_PARTS = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}


def opened(path: Place, choice: Choice) -> Source:
    """The array that holds the rows, or the parts of a sparse matrix, by what their headers declare."""
    _refuse_strange_members(path)
    with np.load(file_on_disk(path), allow_pickle=False) as file:
        known = list(file.files)
        if choice.array is None and DEFAULT_ARRAY not in known and {"data", "shape"} <= set(known):
            source = _described_sparse(path, file)
        else:
            name = choose_array(path, known, choice.array)
            shape, dtype = _declared(file, name)
            n, d = require_table(shape, dtype, f"{path}:{name}")
            source = Source("npz", str(path.resolve()), (n, d), str(dtype), beside=Beside(array=name))
        source = with_names(source, _names(file, "feature_names", source.shape[1]))
    if choice.labels_column is not None and choice.labels_column in known:
        source = replace(source, beside=source.beside._replace(labels=choice.labels_column))
        choice = choice._replace(labels_column=None)
    return features_only(source, choice, str(path))


def load(source: Source) -> Any:
    """All rows, dense or CSR."""
    with _archive(source) as file:
        array = source.beside.array
        X = _sparse(file) if array is None else _member(file, array)
    return X[:, list(source.picked)] if source.picked else X


def column(source: Source, place: int | str) -> np.ndarray:
    """Another array, or a column of the rows."""
    if isinstance(place, str):
        with _archive(source) as file:
            return _member(file, place)
    found = load(replace(source, picked=(place,)))
    return (found.toarray() if source.is_sparse else found).ravel()


def row_names(source: Source) -> list[str] | None:
    """The names in the array `row_names`, if it fits."""
    with _archive(source) as file:
        return _names(file, "row_names", source.shape[0])


@contextmanager
def _archive(source: Source) -> Iterator[Any]:
    path = source.place
    with one_sentence(path), np.load(file_on_disk(path), allow_pickle=False) as file:
        yield file


def stage(source: Source, folder: Place) -> Source:
    """The member is an .npy file already, so it is unpacked as it is; sparse rows are written as zarr."""
    target, array = folder / "rows.npy", source.beside.array
    if array is None:
        copy = zarr.write_csr(folder / "rows.zarr", load(replace(source, picked=())))
    else:
        with _archive(source) as file, file.zip.open(_info(file, array)) as member:
            if isinstance(target, RemotePath):
                target.write_bytes(member.read())
            else:
                with open(target, "wb") as out:
                    shutil.copyfileobj(member, out, 1 << 20)
        copy = npy.opened(target, Choice())
    return replace(copy, shape=source.shape, columns=source.columns, picked=source.picked)


def n_stored(source: Source) -> int:
    """Values that a sparse matrix stores."""
    with _archive(source) as file:
        return int(_declared(file, "data")[0][0])


def _refuse_strange_members(path: Place) -> None:
    """Names in an archive are never used as paths; one that tries to be a path elsewhere says what the file is."""
    if not zipfile.is_zipfile(file_on_disk(path)):
        raise ValueError(f"{path} is not an .npz file (a zip archive of arrays) or is damaged")
    with zipfile.ZipFile(file_on_disk(path)) as archive:
        for name in archive.namelist():
            if name.startswith("/") or "\\" in name or "\0" in name or ".." in Path(name).parts:
                raise ValueError(f"{path} holds an array called {name[:80]!r}, which is a path and not a name")


def _info(file: Any, name: str) -> zipfile.ZipInfo:
    return file.zip.getinfo(f"{name}.npy" if f"{name}.npy" in file.zip.namelist() else name)


def _declared(file: Any, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array, after comparing the size that it declares with what the archive holds."""
    member, what = _info(file, name), f"{file.zip.filename}:{name}"
    with file.zip.open(member) as handle:
        shape, dtype = npy.header(handle)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > member.file_size:
        raise ValueError(f"{what} cannot be read: it declares the shape {shape}, more than the file holds")
    return shape, dtype


def _member(file: Any, name: str) -> np.ndarray:
    what, (shape, dtype) = f"{file.zip.filename}:{name}", _declared(file, name)
    if dtype.hasobject:
        raise ValueError(f"{what} holds Python objects, which are never loaded; save numbers or text")
    require_memory(math.prod(shape) * dtype.itemsize, what)
    return file[name]


def _names(file: Any, name: str, count: int) -> list[str] | None:
    """The names stored in the array `name`, if there is one and it fits (the file may hold several tables)."""
    if name not in file.files:
        return None
    values = _member(file, name)
    return [str(value) for value in values] if values.shape == (count,) else None


# Sparse matrices, in the parts that `scipy.sparse.save_npz` writes (or the same parts without `format`) --------------


def _described_sparse(path: Place, file: Any) -> Source:
    parts = _parts(file)[1]
    missing = [part for part in ("data", *parts, "shape") if part not in file.files]
    if missing:
        raise ValueError(f"{path} is not a complete sparse matrix: it lacks {listed(missing)}")
    size = _member(file, "shape")
    if size.dtype.kind not in "iu" or size.shape != (2,):
        raise ValueError(f"{path} is not a sparse matrix: its shape must be two whole numbers")
    dtype = _declared(file, "data")[1]
    n, d = require_table(size.tolist(), dtype, f"{path}:data")
    return Source("npz", str(path.resolve()), (n, d), str(_signed(dtype)), is_sparse=True)


def _parts(file: Any) -> tuple[str, tuple[str, str]]:
    layout = bytes(_member(file, "format").item()).decode() if "format" in file.files else "csr"
    if layout not in _PARTS:
        what = f"a sparse matrix in the layout '{layout}'"
        raise ValueError(f"{file.zip.filename} holds {what}; save it as csr, csc or coo")
    return layout, _PARTS[layout]


def _signed(dtype: np.dtype) -> np.dtype:
    """Unsigned counts and small ones would wrap around in sums and differences."""
    return np.dtype(np.float64) if dtype.kind in "bu" or dtype.itemsize < 4 else dtype


def _sparse(file: Any) -> Any:
    from scipy import sparse

    layout, parts = _parts(file)
    data, first, second, shape = (_member(file, part) for part in ("data", *parts, "shape"))
    if any(part.dtype.kind not in "iu" or part.ndim != 1 for part in (first, second)) or data.ndim != 1:
        reason = f"data and {listed(parts)} must be lists of numbers"
        raise ValueError(f"{file.zip.filename} is not a sparse matrix: {reason}")
    data = data.astype(_signed(data.dtype), copy=False)
    size = (int(shape[0]), int(shape[1]))
    if layout == "coo":
        return sparse.coo_array((data, (first, second)), shape=size).tocsr()
    kind = sparse.csr_array if layout == "csr" else sparse.csc_array
    matrix = kind((data, first, second), shape=size)
    matrix.check_format(full_check=True)  # an index out of range would be read outside the matrix later
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    return matrix
