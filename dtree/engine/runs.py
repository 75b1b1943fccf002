"""The folder of a run in passes: what `folder` says, one labels array per pass, and the results.

    run/
      passes/labels-00000003    raw labels (n,) int32 that the workers wrote in pass 3, -1 where not yet written
      checkpoints/gen-00000003  clusters after pass 3: statistics, label_map, birth_*, and the race so far in the attributes
      statistics/ tree/ trace/  the results, written at the end: clusters (the leaves of the tree), their tree, its cut
      leaves labels             (n,) int32 the leaf of every row, and its cluster after the cut

A checkpoint is written after the labels it speaks of. The newest two and the best one are kept, with their labels.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dtree.engine.folder import RunFolder, flush_tree
from dtree.kmeans.passes import ClusterState, PassSettings, Progress, Race

_LABEL_CHUNKS = 16  # chunks in a shard of labels


class Run(RunFolder):
    """The folder of a Bayes-K-means run."""

    @property
    def settings(self) -> PassSettings:
        """How passes are made."""
        return PassSettings(**self.attributes["settings"])

    # Labels ---------------------------------------------------------------------------------------------------------

    def labels_path(self, which: int | str) -> Path:
        """The labels that a pass wrote, or the final ones: "leaves" or "labels"."""
        return self.path / which if isinstance(which, str) else self.path / "passes" / f"labels-{which:08d}"

    def create_labels(self, which: int | str) -> None:
        """Make the labels array unless it is there; every chunk of rows is one shard, so it has one writer."""
        path = self.labels_path(which)
        if (path / "zarr.json").exists():
            return
        create_labels(path, self.source.shape[0], self.chunk_rows)

    def write_labels(self, which: int | str, chunk: int, labels: np.ndarray) -> None:
        """Write the labels of one chunk."""
        start, stop = self.bounds(chunk)
        zarr.open_array(str(self.labels_path(which)), mode="r+")[start:stop] = labels.astype(np.int32)

    def read_labels(self, number: int, chunk: int) -> np.ndarray:
        """Labels of one chunk; a label that was never written is an error, because missing pieces read as -1."""
        start, stop = self.bounds(chunk)
        labels = np.asarray(zarr.open_array(str(self.labels_path(number)), mode="r")[start:stop]).astype(np.int64)
        if labels.min(initial=0) < 0:
            raise ValueError(
                f"labels of rows {start} to {stop - 1} are missing in {self.path}: the run's folder is damaged"
            )
        return labels

    def clusters(self) -> np.ndarray:
        """Statistics (k, s) of the final clusters, numbered by their first row: the leaves of the tree."""
        return np.asarray(zarr.open_array(str(self.path / "statistics" / "clusters"), mode="r")[...])

    def leaf_clusters(self) -> np.ndarray:
        """The cluster (k,) of each leaf after the cut; written once the tree is there."""
        return np.asarray(zarr.open_array(str(self.path / "statistics" / "leaf_clusters"), mode="r")[...])

    # Checkpoints ----------------------------------------------------------------------------------------------------

    def commit(self, state: ClusterState, race: Race, trace: list[Progress]) -> None:
        """Make the state after a pass permanent."""
        if state.number > 0:
            flush_tree(self.labels_path(state.number))
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
        attributes = {
            "number": state.number,
            "objective": state.objective if np.isfinite(state.objective) else None,
            "moved": state.moved,
            "rows": state.rows,
            "trace": [list(step) for step in trace],
            "best_number": race.best_number,
            "best_objective": race.best_objective if np.isfinite(race.best_objective) else None,
            "stalled": race.stalled,
        }
        self.commit_generation(state.number, arrays, attributes, keep=(state.number - 1, race.best_number))

    def forget(self, keep: set[int]) -> None:
        """Remove other checkpoints with the labels they speak of."""
        for number in self.generations():
            if number not in keep:
                shutil.rmtree(self.labels_path(number), ignore_errors=True)
        super().forget(keep)

    def sweep(self, best: int) -> None:
        """Remove what only an unfinished run needs: other checkpoints, raw labels, copies of the data."""
        self.forget({best})
        shutil.rmtree(self.path / "passes", ignore_errors=True)
        shutil.rmtree(self.path / "staged", ignore_errors=True)

    def state(self, number: int) -> ClusterState:
        """The clusters after a pass."""
        arrays, attributes = self.read_generation(number)
        pieces = np.split(arrays["birth_ids"], np.cumsum(arrays["birth_lengths"])[:-1])
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
        _, attributes = self.read_generation(number)
        return Race(int(attributes["best_number"]), _number(attributes["best_objective"]), int(attributes["stalled"]))

    def trace(self, number: int) -> list[Progress]:
        """What happened in each pass up to `number`."""
        _, attributes = self.read_generation(number)
        return [Progress(*step) for step in attributes["trace"]]


def _number(value: Any) -> float:
    return -np.inf if value is None else float(value)


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
