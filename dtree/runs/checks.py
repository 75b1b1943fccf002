"""A folder that says it is a run may come from anywhere: it is looked through before anything in it is believed.

Records and results carry hashes, which `arrays` compares when it reads them. Here is what must hold before that: plain
files and folders only, zarr of format 3 only, no codec that could run code, no array larger than this machine.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dtree.core.memory import require_memory
from dtree.runs.arrays import read_metadata, refuse_special_files, side_by_side
from dtree.runs.header import MOST_ROWS
from dtree.storage.places import Place, is_remote, sizes_of_files

_CODECS = {"bytes", "crc32c", "zstd", "blosc", "gzip", "sharding_indexed", "transpose", "vlen-utf8", "vlen-bytes"}
_OLD_FORMAT = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}
_DATA = ("staged", ".predicting-")  # copies of input, checked as input is
_GENERATIONS = ("checkpoints/gen-", "parts/")  # of which there are several
_MOST_DIMENSIONS = 4
# What there is for every row, where a method has it; "known" are codes of the labels column that came with the data.
ROW_ARRAYS = {
    "labels": np.int32, "leaves": np.int32, "confidence": np.float32, "outlier_score": np.float32, "known": np.int32,
}  # fmt: skip


def check_folder(folder: Place) -> None:
    """One sentence (ValueError) when the folder of a run cannot be what it says."""
    refuse_special_files(folder)
    side_by_side(folder, lambda name: _check_node(folder, name), nodes(folder))


def _is_cut_off(folder: Place, name: str) -> bool:
    """Whether a checkpoint cannot even be read as JSON: nothing in it can do harm, and an older one may take over."""
    if not name.startswith(_GENERATIONS):
        return False
    try:
        read_metadata(folder, name)
    except ValueError:
        return True
    return False


def check_row_array(folder: Place, name: str, n: int) -> None:
    """One sentence unless an array in a finished run has one number for each of n rows, and all its files."""
    metadata = read_metadata(folder, name)
    one_each = metadata.get("shape") == [n] and metadata.get("data_type") == np.dtype(ROW_ARRAYS[name]).name
    require(folder, one_each, f"its {name} are not one for each of {n} rows")
    (rows,) = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    found = {file for file, _ in sizes_of_files(folder / name / "c")}
    lacking = [str(place) for place in range(-(-n // rows)) if str(place) not in found]
    if lacking and is_remote(folder):  # a list of what is in a bucket may be out of date
        lacking = [file for file in lacking if not (folder / name / "c" / file).is_file()]
    # What is not there would read as the fill value.
    require(folder, not lacking, f"some of its {name} are missing")


def require(folder: Any, holds: bool, what: str) -> None:
    """Raise the sentence that a run is damaged, and how, unless something holds."""
    if not holds:
        raise ValueError(f"{folder} is damaged: {what}")


def nodes(folder: Place) -> Iterator[str]:
    """Groups and arrays of a run by name, groups before what is in them, without looking at the chunks."""
    if not isinstance(folder, Path):
        yield from _nodes_listed(folder)
        return
    for place, folders, files in os.walk(folder):
        old = _OLD_FORMAT & set(files)
        require(folder, not old, f"it holds {', '.join(old)}, files of a format in which runs are not written")
        relative = os.path.relpath(place, folder)
        if relative == ".":
            folders[:] = [name for name in folders if not name.startswith(_DATA)]
        elif "zarr.json" in files:
            yield relative
        # Below "c" are chunks; hidden folders are what a writer that died left behind.
        folders[:] = [name for name in folders if name != "c" and not name.startswith(".")]


def _nodes_listed(folder: Place) -> Iterator[str]:
    for file in sorted(file for file, _ in sizes_of_files(folder)):
        name, _, last = file.rpartition("/")
        ours = not name.startswith(_DATA) and not any(part.startswith(".") for part in name.split("/"))
        require(folder, not ours or last not in _OLD_FORMAT, f"it holds {last}, which no run does")
        if name and last == "zarr.json" and ours:
            yield name


def _check_node(folder: Place, name: str) -> None:
    if _is_cut_off(folder, name):
        return
    metadata = read_metadata(folder, name)
    kind = metadata.get("node_type")
    proper = kind in ("group", "array") and metadata.get("zarr_format") == 3
    require(folder, proper, f"'{name}' is not a zarr of format 3")
    if kind == "group":
        # It would be believed instead of what the arrays say themselves.
        consolidated = bool(metadata.get("consolidated_metadata"))
        require(folder, not consolidated, f"'{name}' has consolidated metadata, as no run has")
        return
    strange = _codec_names(metadata.get("codecs")) - _CODECS
    require(folder, not strange, f"the array '{name}' wants the codecs {', '.join(sorted(strange))[:80]}")
    _check_size(folder, name, metadata)


def _codec_names(codecs: Any) -> set[str]:
    """Names of codecs, those inside a shard too."""
    if not isinstance(codecs, list):
        return {"that are no list"}
    names = set()
    for codec in codecs:
        if not isinstance(codec, dict):
            return {"without a name"}
        names.add(str(codec.get("name")))
        inside = codec.get("configuration")
        if isinstance(inside, dict):
            for key in ("codecs", "index_codecs"):
                names |= _codec_names(inside[key]) if key in inside else set()
    return names


def _check_size(folder: Place, name: str, metadata: dict[str, Any]) -> None:
    shape: Any = metadata.get("shape")
    grid = metadata.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    chunks: Any = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    lists = isinstance(shape, list) and isinstance(chunks, list)
    require(folder, lists and len(shape) == len(chunks) <= _MOST_DIMENSIONS, f"the array '{name}' has no proper shape")
    whole = all(type(size) is int and 0 <= size <= MOST_ROWS for size in shape)
    whole = whole and all(type(size) is int and 1 <= size <= MOST_ROWS for size in chunks)
    require(
        folder, whole, f"the array '{name}' has the impossible shape {str(shape)[:60]} in chunks {str(chunks)[:60]}"
    )
    require_memory(math.prod(chunks) * _item_bytes(metadata.get("data_type")), f"a chunk of {folder}/{name}")


def _item_bytes(data_type: Any) -> int:
    try:
        return np.dtype(data_type).itemsize if isinstance(data_type, str) else 8  # text, among the draws of a sampler
    except TypeError:
        return 8
