"""A run's folder may come from anywhere: ask whether it is what it says before anything in it is used.

`check_folder` asks what every kind of run must satisfy: plain files only, sizes that were really written, no codec that could run code
(zarr can be told to unpickle), a source that is named outright. `check_clusters` asks what Bayes K-means relies on besides. Both
raise one sentence (ValueError). They are called where a run is opened, by the client; workers trust a run that is being made.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.engine.folder import FORMAT
from dtree.engine.runs import Run
from dtree.engine.sources import KINDS, MOST_ROWS
from dtree.kmeans.passes import ClusterState, Progress
from dtree.store.layout import read_metadata, refuse_special_files, stored_bytes
from dtree.store.rows import require_memory

_TYPES = {name: np.dtype(name).newbyteorder("<") for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
          "uint32", "uint64", "float32", "float64")}  # fmt: skip
_CODECS = {"bytes", "crc32c", "zstd", "blosc", "gzip", "sharding_indexed", "transpose", "vlen-utf8", "vlen-bytes"}
_OLD_FORMAT = {".zarray", ".zgroup", ".zattrs", ".zmetadata"}
_SMALL = ("model", "checkpoints", "statistics", "tree", "trace")  # written whole and plainly by `write_array`
_DATA = ("staged", ".predicting-", ".writing-")  # copies of input, checked as input is; and what a crash left behind
_MOST_FILES = 20_000_000
_RUN_ID = re.compile(r"[0-9a-f]{32}")
_COLUMNS = ("left", "right", "size", "log_phi_h", "log_phi_t")


def check_folder(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The attributes of a run of any kind, after checking its folder; one sentence when it cannot be what it says."""
    folder = Path(path)
    if not folder.is_dir():
        raise ValueError(f"there is no run {folder}")
    metadata = read_metadata(folder, "")
    attributes = metadata.get("attributes")
    if metadata.get("node_type") != "group" or not isinstance(attributes, dict) or "run_id" not in attributes:
        raise ValueError(f"{folder} is not the folder of a run")
    _check_attributes(folder, attributes)
    refuse_special_files(folder, _MOST_FILES)
    for name in _nodes(folder):
        _check_node(folder, name)
    return attributes


def _require(folder: Path, holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{folder} is damaged: {what}")


def _whole(value: Any, low: int, high: int) -> bool:
    return type(value) is int and low <= value <= high


def _check_attributes(folder: Path, at: dict[str, Any]) -> None:
    if at.get("format") != FORMAT:
        raise ValueError(f"{folder} was written in format {str(at.get('format'))[:20]}; this dtree reads {FORMAT}")
    _require(folder, bool(_RUN_ID.fullmatch(str(at["run_id"]))), "its run_id is not one that dtree gives")
    _require(folder, isinstance(at.get("status"), str), "it does not say whether it is done")
    _require(folder, isinstance(at.get("method"), str), "it does not say by which method it was made")
    source = at.get("source")
    if source is not None:
        check_source(folder, source)
    if "chunk_rows" in at:
        proper = _whole(at["chunk_rows"], 1, MOST_ROWS)
        _require(folder, proper, "chunk_rows is not a number of rows that a chunk can have")


def check_source(folder: Path, source: Any) -> None:
    """The description of the rows in a run's attributes: a known kind, a possible shape, a path that is named outright."""
    _require(folder, isinstance(source, dict), "its source is not a description of rows")
    shape, dtype, columns = source.get("shape"), source.get("dtype"), source.get("columns")
    _require(folder, source.get("kind") in KINDS, f"its source is of the unknown kind {str(source.get('kind'))[:40]!r}")
    _require(
        folder,
        isinstance(shape, list) and len(shape) == 2 and _whole(shape[0], 1, MOST_ROWS) and _whole(shape[1], 1, 2**31),
        f"its source has the impossible shape {str(shape)[:60]}",
    )
    _require(
        folder, isinstance(dtype, str) and _is_number_type(dtype), f"its source has no numbers but {str(dtype)[:40]!r}"
    )
    _require(folder, _whole(source.get("step", 1), 1, MOST_ROWS), "the step of its source is not a number of rows")
    named = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
    _require(folder, named, "the columns of its source are not names")
    picked = source.get("picked", [])
    places = isinstance(picked, list) and all(_whole(place, 0, 2**31) for place in picked)
    _require(
        folder, places and len(picked) in (0, shape[1]), "the columns picked from its source are not one a feature"
    )
    known = set(source) <= {"kind", "path", "shape", "dtype", "step", "columns", "picked"}
    _require(folder, known, "its source says more than dtree ever writes")
    place = source.get("path")
    _require(
        folder,
        isinstance(place, str) and "\0" not in place and os.path.isabs(place) and os.path.normpath(place) == place,
        f"the path of its source, {str(place)[:80]!r}, is not one that names a place outright",
    )


def _is_number_type(name: str) -> bool:
    try:
        return np.dtype(name).kind in "biuf"
    except (TypeError, ValueError):
        return False


def _nodes(folder: Path) -> Iterator[str]:
    """Groups and arrays of a run by name, without looking at the chunks."""
    for place, folders, files in os.walk(folder):
        old = _OLD_FORMAT & set(files)
        _require(folder, not old, f"it holds {', '.join(old)}, files of a format in which runs are not written")
        relative = os.path.relpath(place, folder)
        if relative == ".":
            folders[:] = [name for name in folders if not name.startswith(_DATA)]
        elif "zarr.json" in files:
            yield relative
        if "c" in folders:
            folders.remove("c")
        folders[:] = [name for name in folders if not name.startswith(".writing-")]


def _check_node(folder: Path, name: str) -> None:
    metadata = read_metadata(folder, name)
    kind = metadata.get("node_type")
    _require(
        folder, kind in ("group", "array") and metadata.get("zarr_format") == 3, f"'{name}' is not a zarr of format 3"
    )
    if kind == "group":
        # It would be believed instead of what the arrays say themselves.
        _require(
            folder, not metadata.get("consolidated_metadata"), f"'{name}' has consolidated metadata, as no run has"
        )
        return
    strange = _codec_names(metadata.get("codecs")) - _CODECS
    _require(folder, not strange, f"the array '{name}' wants the codecs {', '.join(sorted(strange))[:80]}")
    if metadata.get("shape") and name.split(os.sep)[0] in _SMALL:
        require_memory(stored_bytes(folder, name, _TYPES), f"{folder}/{name}")
        return
    _check_large(folder, name, metadata)


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


def _check_large(folder: Path, name: str, metadata: dict[str, Any]) -> None:
    shape: Any = metadata.get("shape")
    dtype = metadata.get("data_type")
    grid = metadata.get("chunk_grid")
    configuration = grid.get("configuration") if isinstance(grid, dict) else None
    chunks: Any = configuration.get("chunk_shape") if isinstance(configuration, dict) else None
    proper = isinstance(shape, list) and isinstance(chunks, list) and len(shape) == len(chunks) <= 4
    _require(folder, proper, f"the array '{name}' has no proper shape")
    sizes = all(_whole(size, 0, MOST_ROWS) for size in shape) and all(_whole(size, 1, MOST_ROWS) for size in chunks)
    _require(
        folder, sizes, f"the array '{name}' has the impossible shape {str(shape)[:60]} in chunks {str(chunks)[:60]}"
    )
    item = _TYPES[str(dtype)].itemsize if str(dtype) in _TYPES else 8  # text among the draws of a sampler, say
    require_memory(math.prod(chunks) * item, f"a chunk of {folder}/{name}")


# Bayes K-means -------------------------------------------------------------------------------------------------------


def check_clusters(path: str | os.PathLike[str]) -> Run:
    """A run of clusters in passes, opened, after checking that model, clusters, labels and tree belong together."""
    folder = Path(path)
    check_folder(folder)
    with _one_sentence(folder):
        run = Run(folder)
        settings = run.settings
        counts = (settings.seed, settings.max_passes, settings.patience)
        _require(folder, all(_whole(value, 0, 2**63) for value in counts), "its settings are not whole numbers")
        _require(
            folder, type(settings.tolerance) in (int, float) and settings.tolerance >= 0, "its tolerance is no number"
        )
        model = run.model()
        d = run.source.shape[1]
        _require(folder, model.family.n_features == d, f"its model is not one of rows with {d} columns")
        for number in run.generations() if run.attributes["method"] == "bayes-kmeans" else ():
            _check_state(run, model, number)
        if run.done:
            _check_results(run, model)
    return run


@contextmanager
def _one_sentence(folder: Path) -> Iterator[None]:
    """What is missing or of the wrong type is damage; sentences that name the folder are passed on."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        IndexError,
        KeyError,
        LookupError,
        TypeError,
        ValueError,
        OSError,
    ) as problem:
        if isinstance(problem, ValueError) and str(problem).startswith(str(folder)):
            raise
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise ValueError(f"{folder} is damaged: {reason}") from None


def _check_state(run: Run, model: Model, number: int) -> None:
    folder, what = run.path, f"of the checkpoint after pass {number}"
    state, race, trace = run.state(number), run.race(number), run.trace(number)
    _check_statistics(folder, model, state.statistics, what)
    _require(
        folder, state.label_map.dtype == np.int64 and state.label_map.ndim == 1, f"the label map {what} is no list"
    )
    within = state.label_map.size == 0 or -1 <= state.label_map.min() <= state.label_map.max() < state.k
    _require(folder, bool(within), f"the label map {what} names clusters that are not there")
    _check_births(run, state, what)
    _require(
        folder, state.rows == run.source.shape[0] and 0 <= state.moved <= state.rows, f"the rows {what} do not add up"
    )
    numbers = number == 0 or math.isfinite(state.objective)
    _require(folder, numbers and not math.isnan(race.best_objective), f"the objective {what} is not a number")
    _require(folder, _whole(race.best_number, 0, number) and race.stalled >= 0, f"the best pass {what} is impossible")
    _require(
        folder, all(isinstance(v, int | float) for step in trace for v in step), f"the trace {what} is not numbers"
    )


def _check_births(run: Run, state: ClusterState, what: str) -> None:
    """Every proposed cluster must have its place behind the existing ones in the label map."""
    arrays, _ = run.read_generation(state.number)
    lengths, chunks = arrays["birth_lengths"], arrays["birth_chunks"]
    fit = lengths.shape == chunks.shape == (len(state.birth_maps),) and np.all(lengths >= 0)
    _require(run.path, bool(fit) and int(lengths.sum()) == arrays["birth_ids"].size, f"the births {what} do not add up")
    for chunk, ids in state.birth_maps.items():
        proper = _whole(chunk, 0, run.n_chunks - 1) and ids.dtype == np.int64 and ids.ndim == 1
        _require(run.path, proper, f"the births {what} are those of no chunk")
        within = ids.size == 0 or 0 <= ids.min() <= ids.max() < state.label_map.shape[0]
        _require(run.path, bool(within), f"the births {what} are not in its label map")


def _check_statistics(folder: Path, model: Model, statistics: np.ndarray, what: str) -> None:
    width = model.family.statistics(np.zeros((1, model.family.n_features))).shape[1]
    shaped = statistics.dtype == np.float64 and statistics.ndim == 2 and statistics.shape[1] == width
    _require(folder, shaped and statistics.shape[0] >= 1, f"the statistics {what} have not {width} columns of numbers")
    _require(folder, bool(np.all(np.isfinite(statistics))), f"the statistics {what} hold NaN or infinity")
    _require(folder, bool(np.all(model.counts(statistics) > 0)), f"the statistics {what} hold an empty cluster")
    with np.errstate(all="ignore"):
        log_phi = model.log_phi_h(statistics)
    _require(folder, bool(np.all(np.isfinite(log_phi))), f"the statistics {what} are none that its model could give")


def _check_results(run: Run, model: Model) -> None:
    folder, at, n = run.path, run.attributes, run.source.shape[0]
    clusters = run.clusters()
    _check_statistics(folder, model, clusters, "of its clusters")
    leaves = clusters.shape[0]
    _require(
        folder, at["n_leaves"] == leaves and _whole(at["n_clusters"], 1, leaves), "its number of clusters is not one"
    )
    for name in ("objective", "log_joint"):
        _require(folder, isinstance(at[name], float) and math.isfinite(at[name]), f"its {name} is not a number")
    found = run.leaf_clusters()
    proper = found.shape == (leaves,) and np.array_equal(np.unique(found), np.arange(at["n_clusters"]))
    _require(folder, proper, f"its leaves are not in {at['n_clusters']} clusters")
    for name in ("leaves", "labels"):
        metadata = read_metadata(folder, name)
        one_each = metadata.get("shape") == [n] and metadata.get("data_type") == "int32"
        _require(folder, one_each, f"its {name} are not one for each of {n} rows")
        require_memory(4 * n, f"{folder}/{name}")
        _require(folder, _files(folder / name / "c") >= run.n_chunks, f"some of its {name} are missing")
    trace: Any = zarr.open_group(str(folder / "trace"), mode="r")
    lengths = {trace[name].shape for name in Progress._fields}
    _require(folder, len(lengths) == 1 and len(next(iter(lengths))) == 1, "the columns of its trace differ in length")
    if at["tree_wanted"]:
        _check_tree(folder, at, leaves, n)


def _check_tree(folder: Path, at: dict[str, Any], leaves: int, n: int) -> None:
    threshold = at["threshold"]
    _require(folder, type(threshold) in (int, float) and 0 <= threshold <= 1, "its threshold is not a probability")
    _require(folder, isinstance(at["log_evidence_bound"], float), "its evidence bound is not a number")
    group: Any = zarr.open_group(str(folder / "tree"), mode="r")
    tree = Tree(**{name: np.asarray(group[name][...]) for name in _COLUMNS})
    tree.validate()
    _require(folder, tree.n_leaves == leaves, f"its tree has {tree.n_leaves} leaves for {leaves} clusters")
    _require(folder, bool(tree.size[-1] == n), f"its tree is not one of {n} rows")


def _files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))
