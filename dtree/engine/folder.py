"""The folder of a run that is made in steps: configuration, model, one checkpoint per step, whatever the method.

    run/                        a zarr group (format 3)
      zarr.json                 attributes: format, run_id, status, method, and what the method adds
      model/                    arrays among the hyperparameters of family and prior
      checkpoints/gen-00000003  the state after step 3: arrays, and numbers in the attributes

A checkpoint is written beside, flushed to disk and renamed: it is there whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import zarr

from dtree.core.families import FAMILIES
from dtree.core.model import Model
from dtree.core.priors import PRIORS
from dtree.engine.sources import Source

FORMAT = 1


class RunFolder:
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

    @classmethod
    def create(cls, path: str | os.PathLike[str], method: str, attributes: Mapping[str, Any]) -> Self:
        """Start a new run in an empty or missing folder."""
        path = Path(path)
        if (path / "zarr.json").exists():
            raise ValueError(f"{path} already holds a run: resume it, or choose another folder")
        path.mkdir(parents=True, exist_ok=True)
        zarr.open_group(str(path / "checkpoints"), mode="a", zarr_format=3)
        header = {"format": FORMAT, "run_id": uuid.uuid4().hex, "status": "running", "method": method, **attributes}
        zarr.create_group(str(path), zarr_format=3, attributes=header)  # in one write: half a header is no run
        return cls(path)

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
        flush(beside)
        os.replace(beside, metadata)

    # The rows, for methods that read them in chunks -----------------------------------------------------------------

    @property
    def source(self) -> Source:
        """Where the rows are."""
        return Source.from_json(json.dumps(self.attributes["source"]))

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

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def generation_path(self, number: int) -> Path:
        """Where the checkpoint of a step lies."""
        return self.path / "checkpoints" / f"gen-{number:08d}"

    def generations(self) -> list[int]:
        """Steps that have a checkpoint, in order."""
        return sorted(int(path.name[4:]) for path in (self.path / "checkpoints").glob("gen-*"))

    def commit_generation(
        self, number: int, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any], keep: Iterable[int] = ()
    ) -> None:
        """Make the state after step `number` permanent, then forget the checkpoints not in `keep` (nor this one)."""
        write_in_place(self.generation_path(number), arrays, attributes)
        self.forget({number, *keep})

    def read_generation(self, number: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Arrays and attributes of a checkpoint."""
        group: Any = zarr.open_group(str(self.generation_path(number)), mode="r")
        return {name: np.asarray(array[...]) for name, array in group.arrays()}, dict(group.attrs)

    def forget(self, keep: set[int]) -> None:
        """Remove the other checkpoints, and what a writer that died left behind."""
        for number in self.generations():
            if number not in keep:
                shutil.rmtree(self.generation_path(number), ignore_errors=True)
        for orphan in (self.path / "checkpoints").glob(".writing-*"):
            shutil.rmtree(orphan, ignore_errors=True)


def write_in_place(final: Path, arrays: Mapping[str, np.ndarray], attributes: Mapping[str, Any]) -> None:
    """A group of small arrays that appears whole or not at all; a twin that wrote the same bits first is left alone."""
    beside = final.with_name(f".writing-{uuid.uuid4().hex}")
    group = zarr.open_group(str(beside), mode="w", zarr_format=3)
    for name, values in arrays.items():
        write_array(group, name, values)
    group.attrs.update(dict(attributes))
    flush_tree(beside)
    try:
        os.rename(beside, final)
    except OSError:
        if not final.exists():
            raise
        shutil.rmtree(beside)
    flush(final.parent)


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


def flush(path: Path) -> None:
    """Make sure that a file or the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(path: Path) -> None:
    """The same for everything under a folder."""
    for found in [path, *path.rglob("*")]:
        flush(found)
