"""Runs of dtree 0.1, which had two formats: one sentence says that they are such, and how to go on.

The files in `old` are headers that version 0.1.0 wrote: of a model saved by `dtree.save`, and of a finished and a
stopped run of the engine. Whole runs, which are converted, are in `test_convert`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.engine.drive import Given, Place, drive, resume
from dtree.engine.predict import predict_into
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.run import is_run

OLD = {
    "saved.zarr": r"\(it was made by: dtree fit rows.npy --out saved.zarr\)$",
    "fitted": r"\(it was made by: make.py\)$",
    "stopped": r"\(it was made by: make.py\)$",
}
CONVERT = r"was written by dtree 0\.1: 'dtree convert \S+ NEW' makes a run of this version of it "
SENTENCE = {
    "saved.zarr": CONVERT,
    "fitted": CONVERT,
    "stopped": r"was written by dtree 0\.1 and is not finished, .*: fit the data again with --overwrite, or .*",
}
X = np.random.default_rng(0).normal(size=(6, 2)) + np.repeat([[0.0], [9.0]], 3, axis=0)


@pytest.fixture(params=OLD)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    shutil.copytree(Path(__file__).parent / "old" / request.param, tmp_path / request.param)
    return tmp_path / request.param


def test_opening_resuming_and_predicting(old: Path, tmp_path: Path) -> None:
    for use in (dtree.open, resume, lambda run: predict_into(run, X, tmp_path / "out.zarr")):
        with pytest.raises(ValueError, match=SENTENCE[old.name] + OLD[old.name]) as caught:
            use(old)
        assert str(caught.value).startswith(f"{old} was written")
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [old.name]


def test_the_commands_say_the_same(old: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    labels = str(tmp_path / "labels.csv")
    for words in (
        ["info", str(old)],
        ["resume", str(old)],
        ["predict", str(old), f"{tmp_path}/x.npy", "--out", labels],
    ):
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 2, words
        said = " ".join(result.stderr.split())
        assert "was written by dtree 0.1" in said
        assert ("dtree convert" in said) == (old.name != "stopped")
        assert "Traceback" not in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([old.name, "x.npy"])


def test_an_old_run_is_a_run_and_can_be_replaced(old: Path) -> None:
    assert is_run(old)
    method = method_named("bhc")
    given = Given(X)
    with pytest.raises(ValueError, match="already holds a run"):
        drive(method, checked(method.Settings, {}), given, Place(old))
    drive(method, checked(method.Settings, {"family": "gaussian-diag"}), given, Place(old, overwrite=True))
    assert dtree.open(old).labels_.tolist() == [0, 0, 0, 1, 1, 1]
