"""What a person sees: one sentence when something fails, and how far a pass is while it lasts."""

from __future__ import annotations

import errno
import io
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import dtree.cli.console as consoles
from dtree.cli.app import app
from dtree.core.progress import listening
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Place, resume
from dtree.runs.folder import FolderStore
from tests.faults.methods import IN_PASSES, fit, frame, half_done, save_rows

ROOT = Path(__file__).parents[2]


def spoiled(folder: Path) -> Path:
    X = frame().to_numpy().copy()
    X[77, 1] = np.inf
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def fail(folder: Path) -> None:
    with cluster_client(n_workers=1, processes=False, warm=False) as client, pytest.raises(ValueError, match="row 77"):
        fit("bayes-kmeans", spoiled(folder), Place(folder / "run", client=client))


def test_dask_says_nothing_of_a_task_that_failed(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DTREE_DEBUG", raising=False)
    fail(tmp_path)
    assert capfd.readouterr().err == ""


def test_dask_may_speak_when_asked_to(tmp_path: Path, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTREE_DEBUG", "1")
    for name in ("distributed", "distributed.worker"):  # another cluster of this process may have silenced them
        caplog.set_level(logging.WARNING, logger=name)
    fail(tmp_path)
    assert "Compute Failed" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("debug", ["", "1"])
def test_the_command_says_the_sentence_alone(debug: str, tmp_path: Path) -> None:
    words = ["fit", str(spoiled(tmp_path)), "--out", str(tmp_path / "run"), "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "dtree.cli", *words], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "DTREE_DEBUG": debug},
    )  # fmt: skip
    if debug:
        assert "Traceback" in done.stderr
    else:
        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            line for line in done.stderr.splitlines() if line.startswith("Error: row 77")
        ]
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_folder_that_cannot_be_written(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_done("bayes-kmeans", save_rows(tmp_path), tmp_path / "run", 1)

    def refuse(*_: Any) -> bool:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(FolderStore, "swap_lease", refuse)
    done = CliRunner().invoke(app, ["resume", str(tmp_path / "run")])
    assert done.exit_code == 2
    assert done.output.splitlines() == [
        f"Error: {tmp_path}/run cannot be written: {os.strerror(code)}; ask for the right to, or copy the run"
    ]


def test_a_disk_that_can_only_be_read(tiny_disk: Path, tmp_path: Path) -> None:
    half_done("bayes-kmeans", save_rows(tmp_path), tiny_disk / "run", 1)
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    done = CliRunner().invoke(app, ["resume", str(tiny_disk / "run")])
    assert done.exit_code == 2
    assert "run cannot be written: Read-only file system" in done.output
    assert "stopped" in CliRunner().invoke(app, ["status", str(tiny_disk / "run")]).output


def test_missing_values_in_parquet(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DTREE_DEBUG", raising=False)
    table = frame()
    table.iloc[77, 1] = None
    table.to_parquet(tmp_path / "x.parquet", index=False)
    with (
        cluster_client(n_workers=1, processes=False, warm=False) as client,
        pytest.raises(ValueError, match="row 77 holds NaN or infinity in column 1"),
    ):
        fit("bayes-kmeans-bhc", tmp_path / "x.parquet", Place(tmp_path / "run", client=client))
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "run").exists()


# How far it is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_PASSES)
@pytest.mark.parametrize("on_workers", [False, True])
def test_every_pass_counts_its_rows(name: str, on_workers: bool, tmp_path: Path) -> None:
    reports: list[tuple[str, int, int]] = []
    data = save_rows(tmp_path)
    with listening(lambda *report: reports.append(report)):
        if on_workers:
            with cluster_client(n_workers=1, processes=False, warm=False) as client:
                fit(name, data, Place(tmp_path / "run", client=client))
        else:
            fit(name, data, Place(tmp_path / "run"))
    stages = list(dict.fromkeys(stage for stage, _, _ in reports if stage.endswith(": rows")))
    assert stages[:2] == ["first reading: rows", "pass 1: rows"]
    for stage in stages:
        done = [done for at, done, total in reports if at == stage and total == 120]
        assert done[0] == 0
        assert sorted(done) == done
        assert len(done) > 3
        assert done[-1] == 120 or on_workers  # a callback may come after the sum


def test_a_resumed_run_names_the_pass_that_it_is_in(tmp_path: Path) -> None:
    half_done("bayes-kmeans", save_rows(tmp_path), tmp_path / "run", 1)
    reports: list[str] = []
    with listening(lambda stage, done, total: reports.append(stage)):
        resume(tmp_path / "run")
    assert next(stage for stage in reports if stage.endswith(": rows")) == "pass 2: rows"


def test_a_log_says_rows_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now, text = [100.0], io.StringIO()
    monkeypatch.setattr(consoles.time, "monotonic", lambda: now[0])
    log = consoles.Log(Console(file=text))
    for seconds, done in ((0, 0), (10, 100), (40, 400), (50, 500), (100, 1000)):
        now[0] = 100.0 + seconds
        log.listen("pass 3: rows", done, 1000)
    assert text.getvalue().splitlines() == ["pass 3: rows 400 of 1,000, 10/s, 60 s left"]
