"""One byte of a run is flipped, anywhere: whoever reads it says so in one sentence, and `dtree verify` names it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner
from zarr.core.sync import sync

import dtree
from dtree.cli.app import app
from dtree.data.opening import open_source
from dtree.engine.drive import resume
from dtree.engine.predict import predict_into
from dtree.runs.folder import FolderStore
from dtree.runs.run import Run
from dtree.runs.verify import damages
from tests.faults.methods import METHODS, copied, flip, half_done, largest_chunk, save_rows


def said(*words: str) -> str:
    """What a command that must refuse says."""
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 2, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.output


@pytest.mark.parametrize("name", METHODS)
def test_a_run_in_order_is_verified(name: str, finished: dict[str, Path]) -> None:
    assert damages(finished[name]) == []
    assert CliRunner().invoke(app, ["verify", str(finished[name])]).exit_code == 0


def test_a_damaged_chunk_leaves_no_other_under_way(tmp_path: Path) -> None:
    """Else asyncio complains of each when the process ends, a page below the one sentence."""

    async def under_way() -> int:
        return len(asyncio.all_tasks()) - 1

    store, n = FolderStore(tmp_path / "run"), 60_000
    store.create_rows("labels", n, 100, np.int32, -2)
    store.write_rows("labels", 0, np.arange(n, dtype=np.int32))
    store.flush_rows("labels")
    flip(largest_chunk(tmp_path / "run" / "labels"), at=0.2)
    data = tmp_path / "x.zarr"
    zarr.create_array(str(data), shape=(n, 1), chunks=(100, 1), dtype=float)[:] = np.ones((n, 1))
    source = open_source(str(data))
    (data / "c" / "3" / "0").write_bytes(b"no chunk")
    for read in (lambda: store.read_rows("labels", 0, n), lambda: source.read(0, n)):
        with pytest.raises((OSError, RuntimeError, ValueError)):
            read()
        assert sync(under_way()) == 0


@pytest.mark.parametrize("name", METHODS)
def test_a_flipped_label_is_refused_by_every_command(
    name: str, data: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    run, new = copied(finished[name], tmp_path / "run"), str(data)
    flip(largest_chunk(run / "labels"), at=0.2)
    with pytest.raises(ValueError, match=r"the array 'labels' of .* is damaged"):
        _ = dtree.open(run).labels_
    with pytest.raises(ValueError, match=r"the array 'labels' of .* is damaged"):
        resume(run)  # which has nothing to do
    with pytest.raises(ValueError, match=r"the array 'labels' of .* is damaged"):
        predict_into(run, new, tmp_path / "out.zarr")
    commands = {
        "info": [], "report": ["-o", f"{tmp_path}/page.html"], "export": ["--labels", f"{tmp_path}/labels.csv"],
        "predict": [new, "--out", f"{tmp_path}/new.csv"], "verify": [],
    }  # fmt: skip
    for command, more in commands.items():
        assert "the array 'labels'" in said(command, str(run), *more), command
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize("name", METHODS)
def test_a_flipped_number_of_the_results_is_refused(name: str, finished: dict[str, Path], tmp_path: Path) -> None:
    for number, array in enumerate(Run.open(finished[name]).header.arrays):
        if not any((finished[name] / array / "c").rglob("*")):
            continue  # an array without values
        run = copied(finished[name], tmp_path / f"run-{number}")
        flip(largest_chunk(run / array))
        with pytest.raises(ValueError, match=f"'{array}' is not what was written"):
            dtree.open(run)
        assert [array in sentence for sentence in damages(run)] == [True]


@pytest.mark.parametrize("name", METHODS)
def test_a_changed_digit_of_the_header_is_noticed(name: str, finished: dict[str, Path], tmp_path: Path) -> None:
    run = copied(finished[name], tmp_path / "run")
    document = json.loads((run / "zarr.json").read_text())
    document["attributes"]["dtree"]["seed"] ^= 1
    (run / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is damaged: its header is not what was written"):
        dtree.open(run)
    assert ["its header" in sentence for sentence in damages(run)] == [True]


def test_lost_labels_and_leaves_are_missed(finished: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    for array in ("labels", "leaves"):
        run = copied(finished["bayes-kmeans"], tmp_path / array)
        shutil.rmtree(run / array)
        with pytest.raises(ValueError, match=f"'{array}' is missing"):
            dtree.open(run)
        assert f"'{array}' is missing" in said("verify", str(run))


def test_the_posterior_for_other_programs_has_checksums(finished: dict[str, Path], tmp_path: Path) -> None:
    run = copied(finished["chains"], tmp_path / "run")
    flip(largest_chunk(run / "posterior" / "posterior" / "log_joint"))
    assert ["posterior/posterior/log_joint" in sentence for sentence in damages(run)] == [True]


@pytest.mark.parametrize("name", METHODS)
def test_damage_of_an_unfinished_run_is_named(name: str, tmp_path: Path) -> None:
    half_done(name, save_rows(tmp_path), tmp_path / "run")
    assert damages(tmp_path / "run") == []
    prepared = next(path for path in sorted((tmp_path / "run" / "prepared").rglob("c")) if any(path.iterdir()))
    flip(largest_chunk(prepared.parent))
    assert ["prepared" in sentence for sentence in damages(tmp_path / "run")] == [True]
