"""The folder of a run while it is being made: configuration, one labels array per pass, one checkpoint per pass.

    run/                      a zarr group (format 3)
      zarr.json               attributes: version, method, seed, settings, source, chunk_rows, model, run_id, status
      model/                  arrays among the hyperparameters of family and prior
      passes/labels-00000003  raw labels (n,) int32 that the workers wrote in pass 3, -1 where not yet written
      checkpoints/gen-00000003  clusters after pass 3: statistics, label_map, birth_*, and the race so far in the attributes
      statistics/ tree/ trace/ labels   the results, written at the end

A checkpoint is written beside, flushed to disk and renamed: it is there whole or not at all, and it is written after the labels it
speaks of. The newest two and the best one are kept, with their labels.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dtree.core.families import FAMILIES
from dtree.core.model import Model
from dtree.core.priors import PRIORS
from dtree.engine.sources import Source
from dtree.kmeans.passes import ClusterState, PassSettings, Progress, Race

FORMAT = 1
_LABEL_CHUNKS = 16  # chunks in a shard of labels


class Run:
    """A run's folder; opening it reads nothing but its configuration."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            attributes = zarr.open_group(str(self.path), mode="r").attrs
            self.attributes: dict[str, Any] = dict(attributes)
            self.run_id = str(attributes["run_id"])
        except (FileNotFoundError, KeyError, ValueError) as problem:
            raise ValueError(f"{self.path} is not the folder of a run") from problem
        if self.attributes.get("format") != FORMAT:
            raise ValueError(
                f"{self.path} was written in format {self.attributes.get('format')}; this dtree reads {FORMAT}"
            )

    @property
    def source(self) -> Source:
        """Where the rows are."""
        return Source.from_json(json.dumps(self.attributes["source"]))

    @property
    def settings(self) -> PassSettings:
        """How passes are made."""
        return PassSettings(**self.attributes["settings"])

    @property
    def chunk_rows(self) -> int:
        """Rows per chunk."""
        return int(self.attributes["chunk_rows"])

    @property
    def n_chunks(self) -> int:
        """Number of chunks."""
        return -(-self.source.shape[0] // self.chunk_rows)

    def bounds(self, chunk: int) -> tuple[int, int]:
        """First row and row after the last of a chunk."""
        return chunk * self.chunk_rows, min((chunk + 1) * self.chunk_rows, self.source.shape[0])

    @property
    def done(self) -> bool:
        """Whether the results are complete."""
        return self.attributes.get("status") == "done"

    def update(self, **attributes: Any) -> None:
        """Change attributes, all or nothing."""
        self.attributes.update(attributes)
        metadata = self.path / "zarr.json"
        document = json.loads(metadata.read_text())
        document["attributes"] = self.attributes
        beside = metadata.with_name(f".zarr.json-{uuid.uuid4().hex}")
        beside.write_text(json.dumps(document))
        _flush(beside)
        os.replace(beside, metadata)

    # The model ------------------------------------------------------------------------------------------------------

    def write_model(self, model: Model) -> None:
        """Keep the model: numbers in attributes, arrays as arrays, no pickles."""
        group = zarr.open_group(str(self.path / "model"), mode="w", zarr_format=3)
        group.attrs.update(
            {"family": model.family.name, "prior": model.prior.name, "coarsening": model.coarsening, "scalars": {}}
        )
        scalars = {}
        for part, parameters in (("family", model.family.parameters()), ("prior", model.prior.parameters())):
            for name, value in parameters.items():
                if isinstance(value, np.ndarray):
                    write_array(group, f"{part}.{name}", value)
                else:
                    scalars[f"{part}.{name}"] = value
        group.attrs["scalars"] = scalars

    def model(self) -> Model:
        """The model as it was written, to the last bit."""
        group: Any = zarr.open_group(str(self.path / "model"), mode="r")
        found: dict[str, dict[str, Any]] = {"family": {}, "prior": {}}
        for name, value in dict(group.attrs["scalars"]).items():
            part, _, key = name.partition(".")
            found[part][key] = value
        for name, array in group.arrays():
            part, _, key = name.partition(".")
            found[part][key] = np.asarray(array[...])
        family = FAMILIES[str(group.attrs["family"])](**found["family"])
        prior = PRIORS[str(group.attrs["prior"])](**found["prior"])
        return Model(family, prior, float(group.attrs["coarsening"]))

    # Labels ---------------------------------------------------------------------------------------------------------

    def labels_path(self, number: int | None) -> Path:
        """The labels that pass `number` wrote, or, for None, the final ones."""
        return self.path / "labels" if number is None else self.path / "passes" / f"labels-{number:08d}"

    def create_labels(self, number: int | None) -> None:
        """Make the labels array unless it is there; every chunk of rows is one shard, so it has one writer."""
        path = self.labels_path(number)
        if (path / "zarr.json").exists():
            return
        create_labels(path, self.source.shape[0], self.chunk_rows)

    def write_labels(self, number: int | None, chunk: int, labels: np.ndarray) -> None:
        """Write the labels of one chunk."""
        start, stop = self.bounds(chunk)
        zarr.open_array(str(self.labels_path(number)), mode="r+")[start:stop] = labels.astype(np.int32)

    def read_labels(self, number: int | None, chunk: int) -> np.ndarray:
        """Labels of one chunk; a label that was never written is an error, because missing pieces read as -1."""
        start, stop = self.bounds(chunk)
        labels = np.asarray(zarr.open_array(str(self.labels_path(number)), mode="r")[start:stop]).astype(np.int64)
        if labels.min(initial=0) < 0:
            raise ValueError(
                f"labels of rows {start} to {stop - 1} are missing in {self.path}: the run's folder is damaged"
            )
        return labels

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def _generation(self, number: int) -> Path:
        return self.path / "checkpoints" / f"gen-{number:08d}"

    def generations(self) -> list[int]:
        """Passes that have a checkpoint, in order."""
        return sorted(int(path.name[4:]) for path in (self.path / "checkpoints").glob("gen-*"))

    def commit(self, state: ClusterState, race: Race, trace: list[Progress]) -> None:
        """Make the state after a pass permanent."""
        if state.number > 0:
            _flush_tree(self.labels_path(state.number))
        beside = self.path / "checkpoints" / f".writing-{uuid.uuid4().hex}"
        group = zarr.open_group(str(beside), mode="w", zarr_format=3)
        chunks = sorted(state.birth_maps)
        lengths = [state.birth_maps[chunk].shape[0] for chunk in chunks]
        ids = [state.birth_maps[chunk] for chunk in chunks]
        arrays = {
            "statistics": state.statistics,
            "label_map": state.label_map,
            "birth_chunks": np.asarray(chunks, dtype=np.int64),
            "birth_lengths": np.asarray(lengths, dtype=np.int64),
            "birth_ids": np.concatenate(ids) if ids else np.empty(0, dtype=np.int64),
        }
        for name, values in arrays.items():
            write_array(group, name, values)
        group.attrs.update(
            {
                "number": state.number,
                "objective": state.objective if np.isfinite(state.objective) else None,
                "moved": state.moved,
                "rows": state.rows,
                "trace": [list(step) for step in trace],
                "best_number": race.best_number,
                "best_objective": race.best_objective if np.isfinite(race.best_objective) else None,
                "stalled": race.stalled,
            }
        )
        _flush_tree(beside)
        try:
            os.rename(beside, self._generation(state.number))
        except OSError:
            if not self._generation(state.number).exists():
                raise
            shutil.rmtree(beside)  # a twin wrote the same bits
        _flush(self.path / "checkpoints")
        self._forget({state.number, state.number - 1, race.best_number})

    def _forget(self, keep: set[int]) -> None:
        for number in self.generations():
            if number not in keep:
                shutil.rmtree(self._generation(number), ignore_errors=True)
                shutil.rmtree(self.labels_path(number), ignore_errors=True)
        for orphan in (self.path / "checkpoints").glob(".writing-*"):
            shutil.rmtree(orphan, ignore_errors=True)

    def sweep(self, best: int) -> None:
        """Remove what only an unfinished run needs: other checkpoints, raw labels, copies of the data."""
        self._forget({best})
        shutil.rmtree(self.path / "passes", ignore_errors=True)
        shutil.rmtree(self.path / "staged", ignore_errors=True)

    def state(self, number: int) -> ClusterState:
        """The clusters after a pass."""
        group: Any = zarr.open_group(str(self._generation(number)), mode="r")
        arrays = {name: np.asarray(array[...]) for name, array in group.arrays()}
        pieces = np.split(arrays["birth_ids"], np.cumsum(arrays["birth_lengths"])[:-1])
        attributes = dict(group.attrs)
        return ClusterState(
            number,
            arrays["statistics"],
            _number(attributes["objective"]),
            arrays["label_map"],
            dict(zip(arrays["birth_chunks"].tolist(), pieces, strict=False)),
            int(attributes["moved"]),
            int(attributes["rows"]),
        )

    def race(self, number: int) -> Race:
        """The race after a pass."""
        attributes: dict[str, Any] = dict(zarr.open_group(str(self._generation(number)), mode="r").attrs)
        return Race(int(attributes["best_number"]), _number(attributes["best_objective"]), int(attributes["stalled"]))

    def trace(self, number: int) -> list[Progress]:
        """What happened in each pass up to `number`."""
        attributes: dict[str, Any] = dict(zarr.open_group(str(self._generation(number)), mode="r").attrs)
        return [Progress(*step) for step in attributes["trace"]]


def _number(value: Any) -> float:
    return -np.inf if value is None else float(value)


def create_run(path: str | os.PathLike[str], attributes: dict[str, Any]) -> Run:
    """Start a new run in an empty or missing folder."""
    path = Path(path)
    if (path / "zarr.json").exists():
        raise ValueError(f"{path} already holds a run: resume it, or choose another folder")
    path.mkdir(parents=True, exist_ok=True)
    for folder in ("checkpoints", "passes"):
        zarr.open_group(str(path / folder), mode="a", zarr_format=3)
    group = zarr.open_group(str(path), mode="a", zarr_format=3)
    group.attrs.update({"format": FORMAT, "run_id": uuid.uuid4().hex, "status": "running", **attributes})
    return Run(path)


def create_labels(path: Path, n: int, chunk_rows: int) -> None:
    """An int32 labels array filled with -1, one shard for each chunk of rows."""
    create_rows(path, n, chunk_rows, np.dtype(np.int32), -1)


def create_rows(path: Path, n: int, chunk_rows: int, dtype: np.dtype, fill: float) -> None:
    """An array with one value per row and one shard for each chunk of rows, so that no two workers write one file."""
    small = chunk_rows // _LABEL_CHUNKS if chunk_rows % _LABEL_CHUNKS == 0 and chunk_rows >= 65536 else chunk_rows
    zarr.create_array(
        str(path), shape=(n,), chunks=(small,), shards=(chunk_rows,), dtype=dtype, fill_value=fill,
        zarr_format=3, overwrite=True, config={"write_empty_chunks": True},
    )  # fmt: skip


def write_array(group: Any, name: str, values: np.ndarray) -> None:
    """One small array, whole, uncompressed."""
    values = np.ascontiguousarray(values)
    chunks = tuple(max(size, 1) for size in values.shape)
    array = group.create_array(
        name, shape=values.shape, chunks=chunks, dtype=values.dtype, compressors=None,
        config={"write_empty_chunks": True}, overwrite=True,
    )  # fmt: skip
    if values.size:
        array[...] = values


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_tree(path: Path) -> None:
    for found in [path, *path.rglob("*")]:
        _flush(found)
