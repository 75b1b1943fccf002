"""SIGTERM and time limits: the run is left in order, one sentence says how it goes on, and the exit code says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.cli.arguments import seconds_in
from dtree.engine.drive import Given, OutOfTime, Place, drive, resume
from dtree.methods import method_named
from dtree.methods.settings import checked, options_of
from dtree.runs.run import Run
from tests.engine.test_features import METHODS as SETTINGS
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
    limit = time.monotonic() + 600  # kernels may have to be compiled first, on a busy machine
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


# When passes end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_what_iterates_can_be_told_when_to_stop(name: str) -> None:
    """The same words everywhere: who has a most number of passes has a tolerance and patience too."""
    method = method_named(name)
    names = {option.name for option in options_of(method.Settings)}
    assert not names & {"max_passes", "max_iterations", "tolerance", "eps", "n_iter"}
    assert {"max_iter", "tol", "patience"} <= names or not names & {"max_iter", "tol", "patience"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_fitting_command_has_the_options_of_stopping(command: str) -> None:
    words = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    wanted = ["--time-limit"]
    if command in ("fit", "vb"):  # chains and walks are as long as they are told to be
        wanted += ["--max-iter", "--max-passes", "--tol", "--patience"]
    assert [word for word in wanted if word not in words] == []


@pytest.mark.parametrize("name", ["vb", "tree-clustering"])
def test_patience_waits_for_so_many_passes_that_change_little(name: str) -> None:
    X, method = frame().to_numpy(), method_named(name)

    def bounds(**more: Any) -> list[float]:
        settings = checked(method.Settings, {**SETTINGS[name], "max_iter": 40, "tol": 1e-3, **more})
        fitted: Any = drive(method, settings, Given(X)).fitted(method.Fitted)
        assert fitted.converged
        return (fitted.components if name == "tree-clustering" else fitted).trace.tolist()

    one, three = bounds(), bounds(patience=3)
    assert three[: len(one)] == one
    assert len(three) >= len(one) + 2
    assert np.all(np.abs(np.diff(three[-4:])) < 1e-3 * 120)


def test_patience_holds_for_rows_that_are_fitted_whole() -> None:
    X = frame().to_numpy()
    one, four = (dtree.DPMixtureVB("TSB", "gaussian-diag", 5, split_merge=0, patience=p, random_state=0).fit(X) for p in (1, 4))  # fmt: skip  # noqa: E501
    assert four.n_iter_ == one.n_iter_ + 3
    with pytest.raises(ValueError, match="patience must be at least 1"):
        dtree.DPMixtureVB(patience=0).fit(X)
