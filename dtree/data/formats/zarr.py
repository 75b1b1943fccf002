"""`.zarr`: a chunked array, format 2 or 3, or sparse rows: `data`, `indices`, `indptr` as AnnData writes them."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from dtree.core.recent import Recent
from dtree.data.arrays import DEFAULT_ARRAY, array_column, choose_array
from dtree.data.columns import features_only, with_names
from dtree.data.formats.zarr_checks import check_array, check_csr, refuse_pickles
from dtree.data.sentences import require_table
from dtree.data.source import Choice, Source
from dtree.storage.icechunk_places import repository_of, zarr_in_repository
from dtree.storage.places import Place, is_remote, located, remove_tree
from dtree.storage.zarr_places import until_no_chunk_is_left, zarr_at

BY_RANGES = True
RECORDED_KINDS = ("zarr", "zarr-csr")
PARTS = ("data", "indices", "indptr")
_CSR_CHUNK = 1_000_000  # values in a chunk of sparse rows: some MB
COMPLETE = "dtree-complete"  # a file beside the chunks of an array that dtree wrote to the end
_arrays = Recent(8)  # those in object stores, by opening


def is_store(path: Place) -> bool:
    """Whether a folder holds a zarr array or group, or an Icechunk repository with some."""
    files = ("zarr.json", ".zarray", ".zgroup")
    return any((path / name).is_file() for name in files) or repository_of(path) is not None


def opened(path: Place, choice: Choice) -> Source:
    """The array, or the array of a group, that holds the rows."""
    import zarr

    node = _node(path)
    if isinstance(node, zarr.Array):
        if choice.array is not None:
            raise ValueError(f"{path} is one array, so an array cannot be chosen by name ('{choice.array}')")
        return features_only(_dense(path, node), choice, str(path))
    if "dtree" in node.attrs or "run_id" in node.attrs:
        raise ValueError(f"{path} is a dtree run, not data; open it with dtree.open or 'dtree info'")
    arrays = sorted(node.array_keys())
    if choice.array is None and set(PARTS) <= set(arrays):
        return features_only(_sparse(path, node), choice, str(path))
    name = choice.array or DEFAULT_ARRAY
    if name not in node.group_keys():  # where sparse rows may be
        name = choose_array(path, arrays, choice.array)
    labels = choice.labels_column
    if labels is None or labels not in arrays or labels == name:
        return opened(path / name, choice._replace(array=None))
    source = opened(path / name, choice._replace(array=None, labels_column=None))
    return replace(source, beside=source.beside._replace(labels=str((path / labels).resolve())))


def _node(path: Place) -> Any:
    import zarr

    try:
        return zarr.open(zarr_at(path, read_only=True), mode="r")
    except FileNotFoundError:
        repository = repository_of(path)
        if repository is None:
            raise
        return zarr.open(zarr_in_repository(*repository), mode="r")
    except ValueError as problem:
        if "pickle" in str(problem):
            raise ValueError(f"{path} is stored with pickles, which are never loaded; write it without them") from None
        raise


def _dense(path: Place, array: Any) -> Source:
    what = str(path)
    if array.ndim >= 2 and array.dtype.kind in "biuf":
        check_array(array, path)
    dims = dimensions_of(array)
    if {"scale_factor", "add_offset"} & set(array.attrs):
        raise ValueError(f"{path} holds packed numbers (scale_factor): open it with xarray and give the DataArray")
    # Where dimensions have names, all but the last together are the rows.
    shape = (math.prod(array.shape[:-1]), array.shape[-1]) if dims and array.ndim > 2 else array.shape
    n, d = require_table(shape, array.dtype, what)
    refuse_pickles(array, what)
    step = int((array.shards or array.chunks)[0]) * _rows_inside(array)
    names = names_at(path, "feature_names", d) or _coordinate(path, dims, d)
    return with_names(Source("zarr", str(path.resolve()), (n, d), str(array.dtype), step), names)


def dimensions_of(array: Any) -> tuple[str, ...]:
    """The names of an array's dimensions, as xarray and others write them; () if they have none."""
    given = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    named = given is not None and len(given) == array.ndim and all(isinstance(name, str) for name in given)
    return tuple(given) if named else ()


def _rows_inside(array: Any) -> int:
    """Rows for each place of the first dimension."""
    return math.prod(array.shape[1:-1]) if array.ndim > 2 else 1


def _coordinate(path: Place, dims: tuple[str, ...], count: int) -> list[str] | None:
    """Names of the features: the coordinate of the last dimension, an array beside this one that is called like it."""
    if not dims or not is_store(path.parent):
        return None
    beside = path.parent / dims[-1]
    if beside == path or not is_store(beside):
        return None
    found = _node(beside)
    if getattr(found, "shape", None) != (count,) or found.dtype.kind not in "biufUT":
        return None
    check_array(found, beside)
    return [str(name) for name in np.asarray(found[...]).tolist()]


def _sparse(path: Place, group: Any) -> Source:
    shape = group.attrs.get("shape")
    if shape is None:
        raise ValueError(f"{path} holds sparse rows without the attribute 'shape': write [rows, columns] into it")
    check_csr(group, path, shape)
    n, d = require_table(shape, group["data"].dtype, str(path))
    source = Source("zarr-csr", str(path.resolve()), (n, d), str(group["data"].dtype), is_sparse=True)
    return with_names(source, names_at(path, "feature_names", d))


def names_at(path: Place, key: str, count: int) -> list[str] | None:
    """Names in the attribute `key` of an array, or of the group around it, whose names may be of another array."""
    for place in (path, path.parent):
        names = _node(place).attrs.get(key) if is_store(place) else None
        if isinstance(names, list):
            if len(names) == count:
                return [str(name) for name in names]
            if place == path:
                what = key.split("_")[0]
                raise ValueError(f"{path} holds {len(names)} {what} names but {count} {what}s")
    return None


def row_names(source: Source) -> list[str] | None:
    """The attribute `row_names`."""
    return names_at(source.place, "row_names", source.shape[0])


def column(source: Source, place: int | str) -> np.ndarray:
    """A column of the rows, or another array by its path."""
    if isinstance(place, int):
        return array_column(source, place)
    beside = located(place, source.options)
    array = _node(beside)
    check_array(array, beside)
    return np.asarray(array[...])


@until_no_chunk_is_left()
def read(source: Source, start: int, stop: int) -> Any:
    """Rows start..stop-1 of the array, dense or CSR."""
    if source.kind == "zarr-csr":
        return _read_csr(source, start, stop)
    array, is_complete = _opened_once(source)
    inside = _rows_inside(array)
    first, last = start // inside, -(-stop // inside)
    if is_complete:
        _require_chunks(source, array, first, last)
    rows = np.asarray(array[first:last])
    return rows if inside == 1 and rows.ndim == 2 else _table(rows)[start - first * inside : stop - first * inside]


def _opened_once(source: Source) -> tuple[Any, bool]:
    """The array, and whether dtree wrote it to the end; of an object store that is asked once for each opening."""

    def look() -> tuple[Any, bool]:
        array = _node(source.place)
        refuse_pickles(array, source.path)
        return array, (source.place / COMPLETE).is_file()

    return _arrays.get((source.opened, source.path), look) if is_remote(source.path) else look()


def _table(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, values.shape[-1])


def _require_chunks(source: Source, array: Any, start: int, stop: int) -> None:
    """A missing chunk reads as fill, so a lost file would pass as zeros: ask for it where that can be seen."""
    folder = source.place
    rows = (array.shards or array.chunks)[0]
    for index in range(start // rows, (stop - 1) // rows + 1):
        if not (folder / "c" / str(index) / "0").is_file():
            raise OSError(f"chunk {index} is missing")


def absent(source: Source, start: int, stop: int) -> Iterator[str]:
    """Files of chunks that rows start..stop-1 are in and that are not there: never written, or lost."""
    if repository_of(source.place) is not None:
        return  # which knows itself what belongs to it
    if source.kind == "zarr":
        array = _node(source.place)
        inside = _rows_inside(array)
        yield from _absent_chunks(array, source.place, start // inside, -(-stop // inside))
        return
    group = _node(source.place)
    first, last = (int(group["indptr"][at]) for at in (start, stop))
    for name, low, high in (("indptr", start, stop + 1), ("indices", first, last), ("data", first, last)):
        if low < high:
            for key in _absent_chunks(group[name], source.place / name, low, high):
                yield f"{name}/{key}"


def _absent_chunks(array: Any, folder: Place, start: int, stop: int) -> Iterator[str]:
    sizes = array.shards or array.chunks
    others = (range(-(-array.shape[axis] // sizes[axis])) for axis in range(1, array.ndim))
    for place in product(range(start // sizes[0], (stop - 1) // sizes[0] + 1), *others):
        key = array.metadata.encode_chunk_key(place)
        if not (folder / key).exists():
            yield key


def _read_csr(source: Source, start: int, stop: int) -> Any:
    from scipy import sparse

    group = _node(source.place)
    for name in PARTS:
        refuse_pickles(group[name], f"{source.path}/{name}")
    indptr = np.asarray(group["indptr"][start : stop + 1]).astype(np.int64)
    first, last = int(indptr[0]), int(indptr[-1])
    data, indices = np.asarray(group["data"][first:last]), np.asarray(group["indices"][first:last])
    width = int(group.attrs["shape"][1]) if source.picked else source.shape[1]
    if np.any(np.diff(indptr) < 0) or (indices.size and not 0 <= indices.min() <= indices.max() < width):
        raise OSError("its row pointers or column numbers are out of range")
    return sparse.csr_array((data, indices, indptr - first), shape=(stop - start, width))


def n_stored(source: Source) -> int:
    """Values of sparse rows."""
    return int(_node(source.place)["data"].shape[0])


# Writing -------------------------------------------------------------------------------------------------------------


def new_rows(path: Place, shape: tuple[int, int], dtype: np.dtype, rows: int) -> Any:
    """An array for rows that are to be written, in chunks of so many rows; what stood there is removed."""
    import zarr

    remove_tree(path)
    return zarr.create_array(
        zarr_at(path), shape=shape, chunks=(rows, max(shape[1], 1)), dtype=dtype, compressors=None,
        zarr_format=3, config={"write_empty_chunks": True},
    )  # fmt: skip


def write_csr(path: Place, rows: Any) -> Source:
    """Write CSR rows (n, d) as a zarr group: arrays `data`, `indices`, `indptr` and the attribute `shape`."""
    rows = rows.tocsr()
    new_csr(path, rows.shape[1], rows.dtype, (rows.nnz, rows.shape[0] + 1))
    append_csr(path, rows)
    return opened(path, Choice())


def new_csr(path: Place, d: int, dtype: np.dtype, lengths: tuple[int, int] = (_CSR_CHUNK, _CSR_CHUNK)) -> None:
    """A group for CSR rows of d columns, as yet without rows; lengths: how many values and pointers are to come."""
    import zarr

    remove_tree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    group = zarr.open_group(zarr_at(path), mode="w", zarr_format=3)
    group.attrs.update({"encoding-type": "csr_matrix", "shape": [0, int(d)]})
    kinds: tuple[Any, ...] = (dtype, np.int64, np.int64)
    for name, kind, length in zip(PARTS, kinds, (lengths[0], *lengths)):
        size = min(max(int(length), 1), _CSR_CHUNK)
        # Chunks of zeros are written too: one that is not there looks like one that was lost.
        first = (1,) if name == "indptr" else (0,)
        array = group.create_array(name, shape=first, chunks=(size,), dtype=kind, config={"write_empty_chunks": True})
        if name == "indptr":
            array[0] = 0


def append_csr(path: Place, rows: Any) -> None:
    """Add CSR rows (b, d) behind those that are there; one after another, since two blocks may share a chunk."""
    import zarr

    rows = rows.tocsr()
    group: Any = zarr.open_group(zarr_at(path), mode="r+")
    before, (n, d) = int(group["data"].shape[0]), group.attrs["shape"]
    pointers = rows.indptr[1:].astype(np.int64) + before
    for name, values in (("data", rows.data), ("indices", rows.indices.astype(np.int64)), ("indptr", pointers)):
        with zarr.config.set({"array.write_empty_chunks": True}):  # an array that is opened does not remember it
            array: Any = zarr.open_array(zarr_at(path / name), mode="r+")
        there = array.shape[0]
        array.resize((there + values.shape[0],))
        array[there:] = values
    group.attrs["shape"] = [int(n) + int(rows.shape[0]), int(d)]
