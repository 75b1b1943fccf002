"""`dtree ddt` and what the other commands do with its runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas
import pytest
import zarr
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.diffusion.prior import sample_data
from dtree.engine.drive import job_of
from dtree.runs.run import Run

ROWS = sample_data(16, 2, noise=0.02, rng=np.random.default_rng(0))[0]
NAMES = np.array([f"row {i}" for i in range(16)])
QUICK = ["--permutations", "1", "--steps", "5", "--sweeps", "2"]


@pytest.fixture
def data(tmp_path):
    np.savez(tmp_path / "data.npz", X=ROWS, row_names=NAMES)
    return tmp_path / "data.npz"


def run(*arguments, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_fit_info_predict_export(data, tmp_path):
    out = tmp_path / "run.zarr"
    assert "log evidence of the best tree" in run("ddt", data, "--out", out, "--clusters", 3, "--seed", 1, *QUICK)
    model = dtree.open(out)
    expected = dtree.DiffusionTree(
        n_permutations=1, search_steps=5, posterior_sweeps=2, n_clusters=3, random_state=1
    ).fit(ROWS)
    assert np.array_equal(model.score_samples(ROWS), expected.score_samples(ROWS))
    told = run("info", out)
    assert "16 leaves" in told
    assert "3 clusters" in told
    assert "row 0" in told
    assert f"2 features from {data}" in told
    run("predict", out, data, "--out", tmp_path / "labels.npz")
    found = np.load(tmp_path / "labels.npz")
    assert np.array_equal(found["label"], model.predict(ROWS))
    assert np.array_equal(found["log_density"], model.score_samples(ROWS))
    run("predict", out, data, "--out", tmp_path / "labels.zarr")
    run("export", out, "--newick", tmp_path / "t.nwk", "--linkage", tmp_path / "t.npy", "--labels", tmp_path / "l.csv")
    assert (tmp_path / "t.nwk").read_text().count("'row ") == 16
    assert np.array_equal(np.load(tmp_path / "t.npy"), model.linkage_)
    pytest.importorskip("matplotlib")
    run("export", out, "--picture", tmp_path / "t.png")
    assert (tmp_path / "t.png").stat().st_size > 1000


def test_features_are_found_by_name_and_a_run_is_replaced_when_asked(tmp_path):
    here, there, out = tmp_path / "here.csv", tmp_path / "there.csv", tmp_path / "run.zarr"
    here.write_text("width,height\n" + "".join(f"{a},{b}\n" for a, b in ROWS))
    there.write_text("height,width\n" + "".join(f"{b},{a}\n" for a, b in ROWS))
    run("ddt", here, "--out", out, "--clusters", 3, *QUICK)
    assert "--overwrite" in run("ddt", here, "--out", out, *QUICK, code=2)
    run("ddt", here, "--out", out, "--clusters", 4, "--overwrite", *QUICK)
    model, frame = dtree.open(out), pandas.DataFrame(ROWS, columns=["width", "height"])
    assert model.n_clusters_ == 4
    for target in ("labels.npz", "labels.zarr"):
        run("predict", out, there, "--out", tmp_path / target)
    assert np.array_equal(np.load(tmp_path / "labels.npz")["log_density"], model.score_samples(frame))
    assert np.array_equal(
        zarr.open(str(tmp_path / "labels.zarr"), mode="r")["log_density"][:], model.score_samples(frame)
    )
    again = ("predict", out, there, "--out", tmp_path / "labels.zarr")
    assert "--overwrite" in run(*again, code=2)
    zarr.open(str(tmp_path / "labels.zarr"), mode="r+")["labels"][:] = 99
    run(*again, "--overwrite")
    assert np.array_equal(zarr.open(str(tmp_path / "labels.zarr"), mode="r")["labels"][:], model.predict(frame))
    # only predictions are ever replaced
    assert "does not hold predictions" in run("predict", out, there, "--out", out, "--overwrite", code=2)
    run("report", out, "-o", tmp_path / "report.html")
    assert "height" in (tmp_path / "report.html").read_text()


def test_a_saved_model_is_described_and_exported(tmp_path, data):
    model = dtree.DiffusionTree(n_permutations=1, search_steps=2, random_state=0).fit(ROWS)
    dtree.save(model, tmp_path / "run.zarr", row_names=NAMES.tolist())
    assert "row 3" in run("info", tmp_path / "run.zarr")
    run("export", tmp_path / "run.zarr", "--newick", tmp_path / "t.nwk")
    assert "'row 3'" in (tmp_path / "t.nwk").read_text()
    run("predict", tmp_path / "run.zarr", data, "--out", tmp_path / "labels.csv")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (["--inference", "magic"], "inference must be one of"),
        (["--likelihood", "probit"], "binary entries"),
        (["--likelihood", "probit", "--inference", "em"], "probit likelihood works with inference='laplace' ("),
        (["--scaling", "magic"], "scaling must be one of"),
        (["--clusters", "50"], "16 leaves cannot be cut into 50 clusters"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing(change, sentence, data, tmp_path):
    assert sentence in run("ddt", data, "--out", tmp_path / "run.zarr", *QUICK, *change, code=2)
    assert not (tmp_path / "run.zarr").exists()


def test_ctrl_c_leaves_a_run_that_is_resumed(tmp_path):
    rows = sample_data(60, 2, noise=0.02, rng=np.random.default_rng(1))[0]
    np.save(tmp_path / "x.npy", rows)
    out = tmp_path / "run.zarr"
    options = ["--permutations", "1", "--steps", "10000", "--sweeps", "2", "--noise", "0.02"]
    command = [sys.executable, "-c", "from dtree.cli import main; main()", "ddt", "x.npy", "--out", str(out), *options]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    deadline = time.monotonic() + 240
    while not (out / "prepared").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert process.poll() is None, process.communicate()[0]
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[0]
    assert process.returncode == 130, told
    assert "dtree resume" in told
    assert "not finished" in run("info", out)
    job = job_of(Run.open(out))
    done, length = job.method.steps_done(job)
    assert done < length == 10002
    assert f"{done:,} of 10,002 steps done" in run("info", out)
    assert "log evidence of the best tree" in run("resume", out)
    assert Run.open(out).header.done
