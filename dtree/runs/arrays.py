"""Named arrays in one zarr v3 group, written plainly and read back suspiciously.

Arrays are int64 or float64 (or an unsigned type, for many small numbers), little-endian and without a compressor, so
that what an array declares can be compared with what lies on the disk before anything is allocated; the group's header
lists every array with its shape, type and SHA-256.
(A missing chunk reads as fill values in zarr: presence is no proof, the hash is.) Any zarr reader opens the result.
"""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dtree.core.memory import require_memory
from dtree.storage.failures import StoreFailure
from dtree.storage.places import Place, is_remote, remove_tree, sizes_of_files
from dtree.storage.zarr_places import until_no_chunk_is_left, zarr_at

HEADER = "dtree"  # the attribute of the group that holds everything dtree says about it
SEAL = "dtree-sha256"  # the attribute beside it with the hash of what it says
_FILL = {"int64": -1, "float64": math.nan, "uint8": 0, "uint16": 0, "uint32": 0, "uint64": 0}
_TYPES: dict[str, np.dtype] = {name: np.dtype(name).newbyteorder("<") for name in _FILL}
# How numbers are stored: as they are; the latter for single bytes.
_PLAIN = ([{"name": "bytes", "configuration": {"endian": "little"}}], [{"name": "bytes"}])
_CHUNK_BYTES = 64 << 20
_AT_ONCE = 16  # questions to a store
_LARGEST_HEADER = 256 << 20
_MOST_FILES = 20_000_000  # a run of 10^12 rows has fewer shards of labels
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+){0,7}")


def write_group(folder: Path, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write arrays (name `group/array`) and the header into an empty folder."""
    listing = write_arrays(folder, arrays)
    (folder / "zarr.json").write_bytes(group_document(sealed({**header, "arrays": listing})))


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Write arrays below the folder of a group, in place of earlier ones; returns their listing for the header."""
    contents = {name: _as_stored(name, values) for name, values in arrays.items()}
    for name, values in contents.items():
        if (folder / name).exists():
            remove_tree(folder / name)
        for file, content in _files(name, values):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
    return {name: _listing(values) for name, values in contents.items()}


def files_of_arrays(arrays: Mapping[str, np.ndarray]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The files of a group with these arrays by name, without the group's own, and the listing for the header.

    For places where all files are sent at once and the header comes last.
    """
    contents = {name: _as_stored(name, values) for name, values in arrays.items()}
    files = {file: bytes(content) for name, values in contents.items() for file, content in _files(name, values)}
    return files, {name: _listing(values) for name, values in contents.items()}


def _files(name: str, values: np.ndarray) -> Iterator[tuple[str, Any]]:
    """The files of one array, and of the groups that it is in, by name.

    They are what zarr itself would write, which takes milliseconds for every array, and a record may have dozens.
    """
    for group in [*PurePosixPath(name).parents][:-1]:
        yield f"{group}/zarr.json", group_document({})
    row_bytes = max(1, values.itemsize * math.prod(values.shape[1:]))
    rows, fill = min(max(1, values.shape[0]), max(1, _CHUNK_BYTES // row_bytes)), _FILL[values.dtype.name]
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": values.shape, "data_type": values.dtype.name,
        "chunk_grid": {
            "name": "regular", "configuration": {"chunk_shape": [rows, *(max(1, size) for size in values.shape[1:])]}
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "NaN" if math.isnan(fill) else fill, "codecs": _PLAIN[values.itemsize == 1],
        "attributes": {}, "storage_transformers": [],
    }  # fmt: skip
    yield f"{name}/zarr.json", json.dumps(metadata).encode()
    for start in range(0, values.shape[0] if values.size else 0, rows):
        chunk = values[start : start + rows]
        if chunk.shape[0] < rows:  # a chunk is always whole
            chunk = np.concatenate([chunk, np.full((rows - chunk.shape[0], *chunk.shape[1:]), fill, values.dtype)])
        yield f"{name}/c/{start // rows}{'/0' * (values.ndim - 1)}", chunk.reshape(-1).view(np.uint8).data


def group_document(attributes: Mapping[str, Any]) -> bytes:
    """The zarr.json of a group."""
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": dict(attributes)}).encode()


def sealed(header: Any) -> dict[str, Any]:
    """The attributes of a group that says `header` of itself: that, and its hash, so that a changed digit is noticed.

    >>> list(sealed({"seed": 3}))
    ['dtree', 'dtree-sha256']
    """
    return {HEADER: header, SEAL: hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()}


def check_seal(folder: Place, what: str) -> None:
    """One sentence unless a group of a run says what was written; `what` names it."""
    attributes = read_metadata(folder, "").get("attributes")
    if not isinstance(attributes, dict) or attributes.get(SEAL) != sealed(attributes.get(HEADER))[SEAL]:
        raise ValueError(f"{what} is not what was written (its SHA-256 differs)")


def _as_stored(name: str, values: np.ndarray) -> np.ndarray:
    if not _ARRAY_NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not a name for an array in a run")
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"the array '{name}' of type {values.dtype} cannot be stored in a run")
    wide = "float64" if values.dtype.kind == "f" else "int64"
    return np.ascontiguousarray(np.atleast_1d(values), dtype=_TYPES.get(values.dtype.name, _TYPES[wide]))


def _listing(values: np.ndarray) -> dict[str, Any]:
    return {"shape": list(values.shape), "dtype": values.dtype.name, "sha256": _hash(values)}


def _hash(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data if values.size else b"").hexdigest()


# Reading -------------------------------------------------------------------------------------------------------------


def read_arrays(folder: Place, header: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """All arrays that the header lists, checked against their declarations, their files and their hashes.

    They lie below the folder, or, where the header names one, below a folder of their own in it.
    """
    under = header.get("under", "")
    if under:
        if not isinstance(under, str) or not _ARRAY_NAME.fullmatch(under):
            raise ValueError(f"{folder} is damaged: its arrays lie nowhere")
        folder = folder / under
    listing = header.get("arrays")
    if not isinstance(listing, dict) or not all(isinstance(entry, dict) for entry in listing.values()):
        raise ValueError(f"{folder} is damaged: its list of arrays is missing or not a list of arrays")
    refuse_special_files(folder)
    for name in listing:
        if not _ARRAY_NAME.fullmatch(name):
            raise ValueError(f"{folder} is damaged: '{name[:80]}' is not a name for an array")
    known = dict(zip(listing, side_by_side(folder, lambda name: read_metadata(folder, name), listing)))
    require_memory(sum(_declared_bytes(folder, name, listing[name], known[name]) for name in listing), str(folder))

    def read(name: str) -> np.ndarray:
        return _read_array(folder, name, listing[name], known[name])

    return dict(zip(listing, side_by_side(folder, read, listing)))


def side_by_side(place: Place, task: Callable[[Any], Any], over: Iterable[Any]) -> list[Any]:
    """task(one) for each: one after the other on a disk, together where every question takes its time to come back."""
    if not is_remote(place):
        return [task(one) for one in over]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(task, over))


def refuse_special_files(folder: Place) -> None:
    """A link would let a run borrow a file from elsewhere, and reading a pipe would wait for ever."""
    if not isinstance(folder, Path):
        return  # in a bucket there are neither
    files = 0
    for place, folders, names in os.walk(folder):
        files += len(names)
        if files > _MOST_FILES:
            raise ValueError(f"{folder} holds more than {_MOST_FILES} files, which no run does")
        for name in (*folders, *names):
            mode = os.lstat(os.path.join(place, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise ValueError(f"{folder} holds {os.path.join(place, name)}, which is neither a file nor a folder")


def read_metadata(folder: Place, name: str) -> dict[str, Any]:
    """The zarr.json of a group or an array in a run, as it stands; one sentence when it is no such thing."""
    path = folder / name / "zarr.json"
    try:
        if isinstance(path, Path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise ValueError(f"{path} is not a plain file")
        if isinstance(path, Path) and path.stat().st_size > _LARGEST_HEADER:
            raise ValueError(f"{path} is larger than any header of a run")
        metadata = json.loads(path.read_bytes())
    except StoreFailure:
        raise
    except FileNotFoundError:
        what = f"the array '{name}' is missing" if name else "it has no zarr.json"
        raise ValueError(f"{folder} is not a complete dtree run: {what}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise ValueError(f"{folder} is damaged: {path} is not valid JSON") from None
    if not isinstance(metadata, dict):
        raise ValueError(f"{folder} is damaged: {path} is not a JSON object")
    return metadata


def _declared_bytes(folder: Place, name: str, entry: Mapping[str, Any], metadata: Mapping[str, Any]) -> int:
    """Bytes of an array, after comparing header, array metadata and chunk files."""
    shape, dtype = entry.get("shape"), entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in _TYPES or not isinstance(shape, list) or not 1 <= len(shape) <= 4:
        raise ValueError(f"{folder} is damaged: the array '{name}' has no proper shape or type")
    if not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        raise ValueError(f"{folder} is damaged: the array '{name}' has the impossible shape {str(shape)[:80]}")
    chunks = _chunk_shape(folder, name, shape, dtype, metadata)
    chunk_bytes = math.prod(chunks) * _TYPES[dtype].itemsize
    expected = math.prod(-(-size // chunk) for size, chunk in zip(shape, chunks)) * chunk_bytes
    # A list of what is in a bucket may be out of date; there the hash of the array must do.
    found = expected if is_remote(folder) else _bytes_in(folder / name / "c")
    if found != expected:
        raise ValueError(f"{folder} is damaged: the array '{name}' declares {expected} bytes but holds {found}")
    return math.prod(shape) * _TYPES[dtype].itemsize


def _bytes_in(folder: Place) -> int:
    named = ((name.rpartition("/")[2], size) for name, size in sizes_of_files(folder))
    return sum(size for name, size in named if not name.startswith("."))


def _chunk_shape(folder: Place, name: str, shape: list[int], dtype: str, metadata: Mapping[str, Any]) -> list[int]:
    """The chunk shape from an array's own metadata, which must be of the kind that `write_arrays` writes."""
    grid = metadata.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    chunks = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    codecs = metadata.get("codecs")
    ours = (
        metadata.get("zarr_format") == 3
        and metadata.get("node_type") == "array"
        and metadata.get("shape") == shape
        and metadata.get("data_type") == dtype
        and not metadata.get("storage_transformers")
        and metadata.get("chunk_key_encoding") == {"name": "default", "configuration": {"separator": "/"}}
        and codecs in _PLAIN
    )
    if not ours or not isinstance(chunks, list) or len(chunks) != len(shape):
        raise ValueError(f"{folder} is damaged: the array '{name}' is not stored in the way that runs are")
    if not all(type(chunk) is int and 1 <= chunk <= max(1, size) for chunk, size in zip(chunks, shape)):
        raise ValueError(f"{folder} is damaged: the array '{name}' has the impossible chunks {str(chunks)[:80]}")
    return chunks


def _read_array(folder: Place, name: str, entry: Mapping[str, Any], metadata: Mapping[str, Any]) -> np.ndarray:
    values = _values(folder, name, metadata)
    if _hash(values) != entry.get("sha256"):
        raise ValueError(f"{folder} is damaged: the array '{name}' is not what was written (its SHA-256 differs)")
    return values


def _values(folder: Place, name: str, metadata: Mapping[str, Any]) -> np.ndarray:
    import zarr

    try:
        with until_no_chunk_is_left():
            store = zarr_at(folder / name, True, metadata=json.dumps(metadata).encode())
            return np.ascontiguousarray(zarr.open_array(store, mode="r", zarr_format=3)[...])
    except StoreFailure:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{folder} is damaged: the array '{name}' cannot be read: {reason}") from None


def read_unlisted(folder: Place, name: str) -> np.ndarray:
    """An array that no header lists, compared with its own metadata and its files; there is no hash of it."""
    metadata = read_metadata(folder, name)
    entry = {"shape": metadata.get("shape"), "dtype": metadata.get("data_type")}
    require_memory(_declared_bytes(folder, name, entry, metadata), str(folder))
    return _values(folder, name, metadata)
