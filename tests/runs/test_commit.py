"""Runs and files are written whole or not at all, and nothing but a run is ever replaced by one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zarr

import dtree
from dtree.runs.commit import check_place, file_in_place, folder_in_place
from dtree.runs.folder import FolderStore
from dtree.runs.run import begin_at, check_output, unfinished
from tests.runs.toy import Fitted, read_run, visible_and_hidden, write_run, write_unfinished_run


def test_an_existing_run_is_refused_and_stays(tmp_path: Path) -> None:
    write_run(tmp_path / "run.zarr", {"a": 1})
    with pytest.raises(ValueError, match="exists already"):
        write_run(tmp_path / "run.zarr", {"a": 2})
    assert read_run(tmp_path / "run.zarr") == {"a": 1}
    assert visible_and_hidden(tmp_path) == ["run.zarr"]


def test_overwriting_replaces_a_run(tmp_path: Path) -> None:
    write_run(tmp_path / "run.zarr", {"a": [1, 2, 3]})
    write_run(tmp_path / "run.zarr", {"a": 2}, overwrite=True)
    assert read_run(tmp_path / "run.zarr") == {"a": 2}
    assert visible_and_hidden(tmp_path) == ["run.zarr"]


def test_overwriting_without_an_exchange_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtree.runs.commit._exchange", lambda a, b: False)
    test_overwriting_replaces_a_run(tmp_path)


def test_the_old_run_stays_when_the_new_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run.zarr", {"a": 1})

    def full_disk(*_: Any) -> None:
        (tmp_path / "run.zarr").joinpath("zarr.json").read_bytes()  # the old one is still in its place
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("dtree.runs.commit.flush_to_disk", full_disk)
        with pytest.raises(OSError, match=r"the disk of .*run\.zarr is full: free some space and save again"):
            write_run(tmp_path / "run.zarr", {"a": 2}, overwrite=True)
    assert read_run(tmp_path / "run.zarr") == {"a": 1}
    assert visible_and_hidden(tmp_path) == ["run.zarr"]


@pytest.mark.parametrize("content", ["folder", "file", "zarr", "link"])
def test_what_is_not_a_run_is_never_replaced(tmp_path: Path, content: str) -> None:
    place = tmp_path / "precious"
    if content == "folder":
        place.mkdir()
        (place / "thesis.tex").write_text("years of work")
    elif content == "file":
        place.write_text("years of work")
    elif content == "zarr":
        zarr.create_group(place)
    else:
        write_run(tmp_path / "elsewhere.zarr", {"a": 1})
        place.symlink_to(tmp_path / "elsewhere.zarr")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="is not a dtree run, so it is not replaced"):
        write_run(place, {"a": 1}, overwrite=True)
    with pytest.raises(ValueError, match="is not a dtree run, so it is not replaced"):
        begin_at(place, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


def test_places_where_nothing_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist; make it first"):
        check_output(tmp_path / "nowhere" / "run.zarr")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is not a folder"):
        check_output(tmp_path / "file" / "run.zarr")
    with pytest.raises(ValueError, match="is not a name for an output"):
        check_place(Path("/"))


def test_saving_goes_by_the_same_rules(tmp_path: Path) -> None:
    model = dtree.BHC("gaussian-diag").fit([[0.0], [0.1], [5.0], [5.2]])
    dtree.save(model, tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="exists already"):
        dtree.save(model, tmp_path / "run.zarr")
    dtree.save(model, tmp_path / "run.zarr", overwrite=True)
    (tmp_path / "thesis").mkdir()
    with pytest.raises(ValueError, match="is not a dtree run, so it is not replaced"):
        dtree.save(model, tmp_path / "thesis", overwrite=True)
    assert visible_and_hidden(tmp_path) == ["run.zarr", "thesis"]


WRITER = """
import sys, time
from pathlib import Path
from dtree.runs.commit import folder_in_place
with folder_in_place(Path(sys.argv[1])) as partial:
    (partial / "half").write_text("x")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_a_killed_writer_leaves_nothing_visible_and_the_next_one_sweeps(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "run.zarr")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert writer.stdout is not None
    with writer:
        writer.stdout.readline()
        writer.kill()
    assert not (tmp_path / "run.zarr").exists()
    assert len(visible_and_hidden(tmp_path)) == 1
    write_run(tmp_path / "run.zarr", {"a": 1})
    assert visible_and_hidden(tmp_path) == ["run.zarr"]


def test_a_twin_of_a_checkpoint_is_kept(tmp_path: Path) -> None:
    for text in ("first", "second"):
        with folder_in_place(tmp_path / "gen-00000042", existing="keep") as partial:
            (partial / "draws").write_text(text)
    assert (tmp_path / "gen-00000042" / "draws").read_text() == "first"
    assert visible_and_hidden(tmp_path) == ["gen-00000042"]


def test_a_twin_of_a_record_is_kept(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for text in ("first", "second"):
        store.put("checkpoints/gen-00000042", Fitted(text))
    assert store.get("checkpoints/gen-00000042", Fitted).value == "first"
    assert visible_and_hidden(tmp_path / "checkpoints") == ["gen-00000042", "zarr.json"]


def test_a_file_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("old")

    def fail_midway() -> None:
        with file_in_place(tmp_path / "labels.csv") as partial:
            partial.write_text("half")
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        fail_midway()
    assert (tmp_path / "labels.csv").read_text() == "old"
    assert visible_and_hidden(tmp_path) == ["labels.csv"]


# Runs that are made over many steps ----------------------------------------------------------------------------------


def test_a_new_run_is_made_beside_the_one_it_replaces(tmp_path: Path) -> None:
    assert begin_at(tmp_path / "run", overwrite=False) == tmp_path / "run"
    (tmp_path / "run").mkdir()
    assert begin_at(tmp_path / "run", overwrite=False) == tmp_path / "run"  # an empty folder is as good as none
    (tmp_path / "run").rmdir()
    write_run(tmp_path / "run", 1)
    with pytest.raises(ValueError, match="already holds a run: resume it, choose another name"):
        begin_at(tmp_path / "run", overwrite=False)
    beside = begin_at(tmp_path / "run", overwrite=True)
    assert beside == tmp_path / ".run.replacement"
    assert unfinished(tmp_path / "run") == tmp_path / "run"
    write_unfinished_run(beside)
    assert unfinished(tmp_path / "run") == beside
    begin_at(tmp_path / "run", overwrite=True)  # starts over
    assert visible_and_hidden(tmp_path) == ["run"]


def test_a_replacement_that_is_older_than_the_run_is_forgotten(tmp_path: Path) -> None:
    write_unfinished_run(tmp_path / ".run.replacement")
    write_run(tmp_path / "run", 1)
    os.utime(tmp_path / ".run.replacement" / "zarr.json", (0, 0))
    assert unfinished(tmp_path / "run") == tmp_path / "run"
