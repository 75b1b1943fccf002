"""`dtree sample` and what resume, info and predict say about runs of chains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner, Result

import dtree
from dtree.cli.app import app
from dtree.runs.run import Run
from tests.faults.conftest import wait_for

ROOT = Path(__file__).resolve().parents[1]
FEW = ["--sampler", "gibbs", "--family", "gaussian-diag", "--seed", "3"]


def _run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return result


def rows(n: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.array([[0.0, 0.0], [8.0, 0.0]])[np.arange(n) % 2] + rng.normal(size=(n, 2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sampled")
    np.save(folder / "x.npy", rows())
    _run("sample", str(folder / "x.npy"), "--out", str(folder / "run.zarr"), "--chains", "1", "--draws", "30", *FEW)
    return folder


def test_the_run_is_that_of_the_estimator(folder: Path) -> None:
    found = dtree.open(folder / "run.zarr")
    twin = dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=1, draws=30, random_state=3).fit(rows())
    assert np.array_equal(found.partitions_, twin.partitions_)


def test_info_shows_summaries(folder: Path) -> None:
    text = _run("info", str(folder / "run.zarr")).stdout
    assert "1 chain of 30 draws after 100 sweeps, sampler gibbs" in text
    assert "ess_bulk" in text
    assert "n_clusters" in text
    assert "DiagonalGaussian" in text
    again = _run("resume", str(folder / "run.zarr")).stdout
    assert "2 clusters in the point estimate" in again


def test_predict_writes_labels_and_densities(folder: Path, tmp_path: Path) -> None:
    _run("predict", str(folder / "run.zarr"), str(folder / "x.npy"), "--out", str(tmp_path / "labels.csv"))
    found = pandas.read_csv(tmp_path / "labels.csv")
    model = dtree.open(folder / "run.zarr")
    assert np.array_equal(found["label"], model.predict(rows()))
    assert np.allclose(found["log_density"], model.score_samples(rows()))
    np.save(tmp_path / "wide.npy", np.zeros((3, 5)))
    wide = _run(
        "predict", str(folder / "run.zarr"), str(tmp_path / "wide.npy"), "--out", str(tmp_path / "w.csv"), code=2
    )
    assert "5 columns but the run was fitted on 2" in wide.output


def test_a_run_is_replaced_only_when_asked(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows(20))
    words = ["sample", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run.zarr"), "--chains", "1", *FEW]
    _run(*words, "--draws", "5")
    assert "--overwrite" in _run(*words, "--draws", "7", code=2).output
    assert f"run: {tmp_path / 'run.zarr'}" in _run(*words, "--draws", "7", "--overwrite").output
    assert dtree.open(tmp_path / "run.zarr").partitions_.shape == (1, 7, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.zarr", "x.npy"]


def test_names_reach_predictions_exports_and_the_page(tmp_path: Path) -> None:
    text = "who,width,height,kind\n" + "".join(f"r{i},{a},{b},{'xy'[i % 2]}\n" for i, (a, b) in enumerate(rows()))
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "turned.csv").write_text(
        "height,width,name\n" + "".join(f"{b},{a},n{i}\n" for i, (a, b) in enumerate(rows()))
    )
    run = str(tmp_path / "run.zarr")
    _run(
        "sample",
        str(tmp_path / "x.csv"),
        "--labels-column",
        "kind",
        "--out",
        run,
        "--chains",
        "1",
        "--draws",
        "30",
        *FEW,
    )
    _run(
        "export",
        run,
        "--labels",
        str(tmp_path / "l.csv"),
        "--newick",
        str(tmp_path / "t.nwk"),
        "--picture",
        str(tmp_path / "t.png"),
    )
    labels = pandas.read_csv(tmp_path / "l.csv")
    assert labels["row"].tolist() == [f"r{i}" for i in range(40)]
    assert np.array_equal(labels["label"], dtree.open(run).labels_)
    assert "r39:" in (tmp_path / "t.nwk").read_text()
    for name in ("x", "turned"):
        _run("predict", run, str(tmp_path / f"{name}.csv"), "--out", str(tmp_path / f"p_{name}.csv"))
    there, turned = (pandas.read_csv(tmp_path / f"p_{name}.csv") for name in ("x", "turned"))
    np.testing.assert_allclose(there["log_density"], turned["log_density"])
    assert turned["row"].tolist() == [f"n{i}" for i in range(40)]
    _run("report", run, "-o", str(tmp_path / "page.html"))
    assert "r39" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sampler", "hmc"], "unknown sampler 'hmc': use one of tgmcmc, tgmcmc-paper, gibbs"),
        (["--draws", "0"], "draws must be at least 1"),
        (["--family", "cauchy"], "unknown family"),
        (["--prior", "uniform"], "unknown prior"),
    ],
)
def test_bad_options(folder: Path, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    result = _run(
        "sample", str(folder / "x.npy"), "--out", str(tmp_path / "r.zarr"), "--chains", "1", *arguments, code=2
    )
    assert sentence in " ".join(result.output.split())
    assert not (tmp_path / "r.zarr").exists()


def test_bad_data(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", rows(1))
    one = _run("sample", str(tmp_path / "one.npy"), "--out", str(tmp_path / "r.zarr"), "--chains", "1", code=2)
    assert "at least 2 rows" in one.output
    gone = _run("sample", str(tmp_path / "gone.npy"), "--out", str(tmp_path / "r.zarr"), "--chains", "1", code=2)
    assert "there is no file" in gone.output


@pytest.mark.slow
def test_interrupted_chains_can_be_resumed_on_two_workers(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows(200))
    options = ["--out", "run.zarr", "--chains", "2", "--draws", "4000", "--workers", "2", *FEW]
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'dtree'; from dtree.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(
        [*command, "sample", "x.npy", *options],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        wait_for(lambda: any((tmp_path / "run.zarr" / "parts").glob("*/gen-*")), 180)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "dtree resume run.zarr" in text
    assert process.returncode == 130
    assert not Run.open(tmp_path / "run.zarr").header.done
    assert "not finished" in _run("info", str(tmp_path / "run.zarr")).stdout
    done = subprocess.run(
        [*command, "resume", "run.zarr", "--workers", "2"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "2 chains of 4,000 draws" in done.stdout
    twin = dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=2, draws=4000, random_state=3).fit(rows(200))
    assert np.array_equal(dtree.open(tmp_path / "run.zarr").partitions_, twin.partitions_)
