"""A run in a folder: a plain zarr group, records by name, arrays with a value for every row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import zarr

from dtree.core.fingerprint import fingerprint
from dtree.engine.drive import Given, Place, drive
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.folder import FolderStore
from dtree.runs.memory import MemoryStore
from dtree.runs.run import Run
from tests.runs.toy import Fitted, read_run, small_tree, write_run, write_unfinished_run


class Step(msgspec.Struct, frozen=True):
    number: int
    values: np.ndarray


STORES = {"folder": FolderStore, "memory": lambda path: MemoryStore()}


def test_a_run_is_a_plain_zarr_group_that_says_where_it_came_from(tmp_path: Path) -> None:
    write_run(tmp_path / "run.zarr", {"tree": small_tree()}, command=["dtree", "fit"], seed=3, notes={"why": "a test"})
    group = zarr.open_group(tmp_path / "run.zarr", mode="r")
    np.testing.assert_array_equal(group["value/tree/left"][...], [0, 2])
    np.testing.assert_array_equal(group["labels"][...], [0, 1, 2])
    header = Run.open(tmp_path / "run.zarr").header
    assert header.method == "toy"
    assert header.seed == 3
    assert header.command == ["dtree", "fit"]
    assert header.notes == {"why": "a test"}
    assert header.versions["numpy"] == np.__version__
    assert {"dtree", "numba", "zarr", "python"} <= set(header.versions)
    assert header.created


def test_a_record_that_was_being_dropped_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(tmp_path)
    for number in range(2):
        store.put(f"checkpoints/gen-{number}", Step(number, np.arange(3.0)))

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dtree.runs.folder.shutil.rmtree", die)
    with pytest.raises(KeyboardInterrupt):
        store.drop("checkpoints/gen-0")
    assert store.names("checkpoints") == ["checkpoints/gen-1"]
    assert store.get("checkpoints/gen-1", Step).number == 1
    monkeypatch.undo()
    store.drop("checkpoints/gen-7")  # which never was


def test_large_arrays_are_chunked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtree.runs.arrays._CHUNK_BYTES", 64)
    values = np.arange(70.0).reshape(35, 2)
    write_run(tmp_path / "run.zarr", {"values": values})
    assert zarr.open_array(tmp_path / "run.zarr/value/values", mode="r").chunks == (4, 2)
    np.testing.assert_array_equal(read_run(tmp_path / "run.zarr")["values"], values)


@pytest.mark.parametrize("kind", STORES)
def test_records_by_name(tmp_path: Path, kind: str) -> None:
    store: Any = STORES[kind](tmp_path)
    assert store.names("checkpoints") == []
    for number in (2, 10, 1):
        store.put(f"checkpoints/gen-{number:08d}", Step(number, np.arange(number)))
    assert store.names("checkpoints") == [f"checkpoints/gen-{number:08d}" for number in (1, 2, 10)]
    assert store.has("checkpoints/gen-00000010")
    np.testing.assert_array_equal(store.get("checkpoints/gen-00000010", Step).values, np.arange(10))
    store.drop("checkpoints/gen-00000002")
    assert store.names("checkpoints") == [f"checkpoints/gen-{number:08d}" for number in (1, 10)]
    store.drop("checkpoints")
    assert store.names("checkpoints") == []
    assert not store.has("checkpoints/gen-00000001")


@pytest.mark.parametrize("kind", STORES)
def test_arrays_that_several_workers_fill(tmp_path: Path, kind: str) -> None:
    store: Any = STORES[kind](tmp_path)
    assert not store.has_rows("passes/labels")
    store.create_rows("passes/labels", 10, 4, np.int32, -1)
    store.write_rows("passes/labels", 8, np.array([5, 6]))
    store.write_rows("passes/labels", 0, np.arange(4))
    store.flush_rows("passes/labels")
    assert store.has_rows("passes/labels")
    assert store.read_rows("passes/labels", 2, 10).tolist() == [2, 3, -1, -1, -1, -1, 5, 6]
    assert store.read_rows("passes/labels", 0, 1).dtype == np.int32


def test_each_chunk_of_rows_is_a_file_of_its_own(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.create_rows("labels", 10, 4, np.int32, -1)
    store.write_rows("labels", 0, np.zeros(10))
    assert sorted(path.name for path in (tmp_path / "labels/c").iterdir()) == ["0", "1", "2"]
    store.create_rows("long", 3 << 16, 1 << 16, np.int32, -1)
    array = zarr.open_array(tmp_path / "long", mode="r")
    assert (array.shards, array.chunks) == ((1 << 16,), (1 << 12,))


def test_all_but_the_newest_two_checkpoints_and_those_to_keep_are_forgotten(tmp_path: Path) -> None:
    write_run(tmp_path / "run", 1)
    run = Run.open(tmp_path / "run")
    for number in range(6):
        run.commit(number, Step(number, np.arange(2)), keep=(2,))
    assert run.checkpoints() == [2, 4, 5]
    (tmp_path / "run/checkpoints/gen-surprise").mkdir()
    assert run.checkpoints() == [2, 4, 5]


def test_a_finished_run_is_not_one_that_is_running(tmp_path: Path) -> None:
    write_unfinished_run(tmp_path / "run")
    with pytest.raises(ValueError, match=r"is not finished: 'dtree resume .*run' carries on"):
        Run.open(tmp_path / "run").fitted(Fitted)


def test_runs_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no run"):
        read_run(tmp_path / "run.zarr")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="a run is a folder"):
        read_run(tmp_path / "file")


def test_the_fingerprint_is_of_the_values() -> None:
    X = np.random.default_rng(0).poisson(0.5, size=(9000, 3)).astype(float)
    assert fingerprint(X) == fingerprint(np.asfortranarray(X.astype(np.int16)))
    assert fingerprint(X) != fingerprint(X.T)
    changed = X.copy()
    changed[-1, -1] += 1
    assert fingerprint(X) != fingerprint(changed)


@pytest.mark.parametrize("name", ["bhc", "chains"])
def test_chunks_of_rows_that_are_in_no_leaf_are_not_taken_for_lost(tmp_path: Path, name: str) -> None:
    method = method_named(name)
    settings = {"family": "gaussian-diag"} | ({"draws": 5, "warmup": 5, "chains": 1} if name == "chains" else {})
    X = np.random.default_rng(0).normal(size=(64, 2))
    weight = np.where(np.arange(64) < 32, 1, 0)
    given = Given(X, weight=weight, chunk_bytes=16 * 16)
    drive(method, checked(method.Settings, settings), given, Place(tmp_path / "run"))
    leaves = Run.open(tmp_path / "run").row_array("leaves")
    assert len(list((tmp_path / "run/leaves/c").iterdir())) == 4
    assert (leaves >= 0).tolist() == (weight > 0).tolist()
