"""Named arrays in one zarr v3 group, written plainly and read back suspiciously.

Arrays are int64 or float64 (or, for many small numbers, an unsigned type), little-endian and without a compressor, so that what an array declares can be compared with
what lies on the disk before anything is allocated; the group's header lists every array with its shape, type and SHA-256.
(A missing chunk reads as fill values in zarr: presence is no proof, the hash is.) Any zarr reader opens the result.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dtree.store.rows import require_memory

HEADER = "dtree"  # the attribute of the group that holds everything dtree says about it
_SMALL: dict[str, np.dtype] = {"uint8": np.dtype("u1"), "uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
_TYPES: dict[str, np.dtype] = {"int64": np.dtype("<i8"), "float64": np.dtype("<f8"), **_SMALL}
_FILL = {"int64": -1, "float64": math.nan, "uint8": 0, "uint16": 0, "uint32": 0}
_PLAIN = (
    [{"name": "bytes", "configuration": {"endian": "little"}}],
    [{"name": "bytes"}],
)  # the latter for single bytes
_CHUNK_BYTES = 64 << 20
_LARGEST_HEADER = 256 << 20
_MOST_FILES = 100_000
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_]+(/[A-Za-z0-9_]+){0,5}")


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray], header: Mapping[str, Any]) -> None:
    """Write arrays (name `group/array`) and the header into an empty folder."""
    import zarr

    contents = {name: _as_stored(name, values) for name, values in arrays.items()}
    listing = {name: _listing(values) for name, values in contents.items()}
    root = zarr.create_group(
        store=folder, zarr_format=3, overwrite=True, attributes={HEADER: {**header, "arrays": listing}}
    )
    for name, values in contents.items():
        row_bytes = max(1, values.itemsize * math.prod(values.shape[1:]))
        rows_per_chunk = min(max(1, values.shape[0]), max(1, _CHUNK_BYTES // row_bytes))
        array = root.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=(rows_per_chunk, *(max(1, size) for size in values.shape[1:])),
            compressors=None,
            fill_value=_FILL[values.dtype.name],
            config={"write_empty_chunks": True},
        )
        if values.size:
            array[...] = values


def _as_stored(name: str, values: np.ndarray) -> np.ndarray:
    if not _ARRAY_NAME.fullmatch(name):
        raise ValueError(f"'{name}' is not a name for an array in a run")
    values = np.asarray(values)
    if values.dtype.name in _SMALL:
        return np.ascontiguousarray(np.atleast_1d(values), dtype=_SMALL[values.dtype.name])
    if values.dtype.kind in "biu":
        return np.ascontiguousarray(np.atleast_1d(values), dtype=_TYPES["int64"])
    if values.dtype.kind == "f":
        return np.ascontiguousarray(np.atleast_1d(values), dtype=_TYPES["float64"])
    raise ValueError(f"the array '{name}' of type {values.dtype} cannot be stored in a run")


def _listing(values: np.ndarray) -> dict[str, Any]:
    return {"shape": list(values.shape), "dtype": values.dtype.name, "sha256": _hash(values)}


def _hash(values: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data if values.size else b"").hexdigest()


# Reading -------------------------------------------------------------------------------------------------------------


def is_run(folder: Path) -> bool:
    """Whether a folder looks like something `write_arrays` made (it may still be damaged)."""
    try:
        return isinstance(read_metadata(folder, "").get("attributes", {}).get(HEADER), dict)
    except (ValueError, AttributeError):
        return False


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a group, or one sentence why there is none."""
    if not folder.exists():
        raise ValueError(f"there is no run {folder}")
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a run: a run is a folder in zarr format")
    metadata = read_metadata(folder, "")
    attributes = metadata.get("attributes")
    header = attributes.get(HEADER) if isinstance(attributes, dict) else None
    if metadata.get("node_type") != "group" or not isinstance(header, dict):
        raise ValueError(f"{folder} is not a dtree run: its zarr.json has no '{HEADER}' attribute")
    return header


def read_arrays(folder: Path, header: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """All arrays that the header lists, checked against their declarations, their files and their hashes."""
    listing = header.get("arrays")
    if not isinstance(listing, dict) or not all(isinstance(entry, dict) for entry in listing.values()):
        raise ValueError(f"{folder} is damaged: its list of arrays is missing or not a list of arrays")
    refuse_special_files(folder)
    for name in listing:
        if not _ARRAY_NAME.fullmatch(name):
            raise ValueError(f"{folder} is damaged: '{name[:80]}' is not a name for an array")
    require_memory(sum(_declared_bytes(folder, name, entry) for name, entry in listing.items()), str(folder))
    return {name: _read_array(folder, name, entry) for name, entry in listing.items()}


def refuse_special_files(folder: Path, most: int = _MOST_FILES) -> None:
    """A link would let a run borrow a file from elsewhere, and reading a pipe would wait for ever."""
    files = 0
    for place, folders, names in os.walk(folder):
        files += len(names)
        if files > most:
            raise ValueError(f"{folder} holds more than {most} files, which no run does")
        for name in (*folders, *names):
            mode = os.lstat(os.path.join(place, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise ValueError(f"{folder} holds {os.path.join(place, name)}, which is neither a file nor a folder")


def read_metadata(folder: Path, name: str) -> dict[str, Any]:
    """The zarr.json of a group or an array in a run, as it stands; one sentence when it is no such thing."""
    path = folder / name / "zarr.json"
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise ValueError(f"{path} is not a plain file")
        if path.stat().st_size > _LARGEST_HEADER:
            raise ValueError(f"{path} is larger than any header of a run")
        metadata = json.loads(path.read_bytes())
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


def stored_bytes(folder: Path, name: str, types: Mapping[str, np.dtype] = _TYPES) -> int:
    """Bytes of an array of which no header speaks, after comparing its own metadata with its chunk files."""
    metadata = read_metadata(folder, name)
    return _declared_bytes(folder, name, {"shape": metadata.get("shape"), "dtype": metadata.get("data_type")}, types)


def _declared_bytes(folder: Path, name: str, entry: Mapping[str, Any], types: Mapping[str, np.dtype] = _TYPES) -> int:
    """Bytes of an array, after comparing header, array metadata and chunk files."""
    shape, dtype = entry.get("shape"), entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in types or not isinstance(shape, list) or not 1 <= len(shape) <= 4:
        raise ValueError(f"{folder} is damaged: the array '{name}' has no proper shape or type")
    if not all(type(size) is int and 0 <= size < 2**48 for size in shape):
        raise ValueError(f"{folder} is damaged: the array '{name}' has the impossible shape {str(shape)[:80]}")
    chunks = _chunk_shape(folder, name, shape, dtype)
    chunk_bytes = math.prod(chunks) * types[dtype].itemsize
    expected = math.prod(-(-size // chunk) for size, chunk in zip(shape, chunks)) * chunk_bytes
    found = 0
    for place, _, names in os.walk(folder / name / "c"):
        found += sum(os.lstat(os.path.join(place, file)).st_size for file in names if not file.startswith("."))
    if found != expected:
        raise ValueError(f"{folder} is damaged: the array '{name}' declares {expected} bytes but holds {found}")
    return math.prod(shape) * types[dtype].itemsize


def _chunk_shape(folder: Path, name: str, shape: list[int], dtype: str) -> list[int]:
    """The chunk shape from an array's own metadata, which must be of the kind that `write_arrays` writes."""
    metadata = read_metadata(folder, name)
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


def _read_array(folder: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    import zarr

    try:
        values = np.ascontiguousarray(zarr.open_array(folder / name, mode="r")[...])
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{folder} is damaged: the array '{name}' cannot be read: {reason}") from None
    if _hash(values) != entry.get("sha256"):
        raise ValueError(f"{folder} is damaged: the array '{name}' is not what was written (its SHA-256 differs)")
    return values
