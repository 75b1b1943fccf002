"""SIGTERM and time limits: the run is left in order, one sentence says how it goes on, and the exit code says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dtree.cli.app import app
from dtree.cli.arguments import seconds_in
from dtree.engine.drive import OutOfTime, Place, resume
from dtree.runs.run import Run
from tests.faults.conftest import rows
from tests.faults.methods import METHODS, bits, fit, frame, save_rows

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "fit": ["--method", "bayes-kmeans", "--tol", "0", "--patience", "200", "--max-iter", "400"],
    "vb": ["--tol", "0", "--max-iter", "100000"],
    "sample": ["--draws", "1000000", "--chains", "1"],
    "ddt": ["--steps", "1000000", "--permutations", "1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_sigterm_stops_as_ctrl_c_does(command: str, tmp_path: Path) -> None:
    many = command in ("fit", "vb")
    np.save(tmp_path / "x.npy", rows(60_000 if many else 60))
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "dtree.cli", command, str(tmp_path / "x.npy"), "--out", str(out), *COMMANDS[command]],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = time.monotonic() + 240
    while not (list(out.glob("checkpoints/gen-0000000[1-9]")) or list(out.glob("parts/*/gen-*"))):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    said, noise = process.communicate(timeout=120)
    assert process.returncode == 143
    assert said.splitlines() == [f"Stopped. What was done is kept: 'dtree resume {out}' carries on."]
    assert "Traceback" not in noise
    assert "semaphore" not in noise
    assert not (out / ".lease").exists()
    assert not Run.open(out).header.done


def test_sigterm_in_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dtree.cli.command as command

    def stop(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command, "settings_for", stop)
    done = CliRunner().invoke(app, ["fit", str(save_rows(tmp_path)), "--out", str(tmp_path / "run")])
    assert done.exit_code == 143
    assert "interrupted; nothing was written" in done.output
    assert signal.getsignal(signal.SIGTERM) is before


# Time limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_a_time_limit_leaves_a_run_that_goes_on(name: str, tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    with pytest.raises(OutOfTime, match=r"was reached before there was an answer; 'dtree resume .*' carries on"):
        fit(name, data, Place(tmp_path / "run", time_limit=1e-9))  # not even one step is begun
    assert not (tmp_path / "run" / ".lease").exists()
    assert bits(resume(tmp_path / "run")) == bits(fit(name, frame().to_numpy()))


@pytest.mark.parametrize("name", ["bayes-kmeans", "vb"])
def test_passes_stop_with_the_best_so_far(name: str, tmp_path: Path) -> None:
    data = save_rows(tmp_path)
    until: list[float] = []

    class Soon(float):
        def __radd__(self, now: float) -> float:
            until.append(now)
            return float("inf")

    fit(name, data, Place(tmp_path / "run", time_limit=Soon(1.0)))
    assert until  # the limit is counted from the beginning
    import dtree.engine.sitting as sitting

    with pytest.MonkeyPatch.context() as patch:
        passes = iter([False, True])
        patch.setattr(sitting.Sitting, "over", property(lambda self: next(passes)))
        run = fit(name, data, Place(tmp_path / "stopped", time_limit=1.0))
    assert run.header.converged is False
    output = CliRunner().invoke(app, ["info", str(tmp_path / "stopped")]).output
    assert "not converged" in output
    assert "--time-limit" in output
    assert "converged: no" in output


def test_the_most_passes_are_said(tmp_path: Path) -> None:
    data, page = save_rows(tmp_path), tmp_path / "page.html"
    words = ["--method", "bayes-kmeans", "--family", "gaussian-diag", "--max-iter", "1"]
    done = CliRunner().invoke(app, ["fit", str(data), "--out", str(tmp_path / "run"), *words])
    assert "not converged: the objective was still rising after the last pass" in done.output
    assert Run.open(tmp_path / "run").header.converged is False
    assert CliRunner().invoke(app, ["report", str(tmp_path / "run"), "-o", str(page)]).exit_code == 0
    assert "not converged" in page.read_text()
    more = ["--max-iter", "50", "--tol", "1e-6", "--patience", "3", "--time-limit", "10m"]
    done = CliRunner().invoke(app, ["fit", str(data), "--out", str(tmp_path / "more"), *words[:4], *more])
    assert done.exit_code == 0, done.output
    assert Run.open(tmp_path / "more").header.converged is True
    assert "converged: yes" in CliRunner().invoke(app, ["info", str(tmp_path / "more")]).output


@pytest.mark.parametrize("text", ["", "soon", "-3s", "0", "nan", "infh"])
def test_a_time_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="--time-limit must be a time such as"):
        seconds_in(text)
