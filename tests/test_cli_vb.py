"""`dtree vb` and what the other commands do with its runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest
import zarr
from typer.testing import CliRunner, Result

import dtree
from dtree.cli.app import app

ROOT = Path(__file__).resolve().parents[1]


def _run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return result


def rows(n: int = 300, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return 8.0 * np.eye(3)[random.integers(3, size=n)] + random.normal(size=(n, 3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vb")
    np.save(folder / "x.npy", rows())
    fitted = _run("vb", folder / "x.npy", "--variant", "O-TSB", "--truncation", 8, "--out", folder / "run.zarr")
    assert "300 rows, 3 features: 3 clusters" in fitted.output
    assert "log evidence at least" in fitted.output
    return folder


def test_passes_are_told_one_by_one(folder: Path, tmp_path: Path) -> None:
    words = ["--variant", "O-TSB", "--truncation", 8, "--sample-rows", 100, "--out", tmp_path / "run.zarr"]
    fitted = _run("vb", folder / "x.npy", *words).output
    assert "300 rows, 3 features: 3 clusters after" in fitted
    assert "pass" in fitted
    assert "iteration 1: ELBO" in fitted
    assert "rows/s" in fitted
    assert np.array_equal(dtree.open(tmp_path / "run.zarr").labels_, dtree.open(folder / "run.zarr").labels_)


def test_the_run_opens_as_the_estimator_python_would_fit(folder: Path) -> None:
    model = dtree.open(folder / "run.zarr")
    assert isinstance(model, dtree.DPMixtureVB)
    same = dtree.DPMixtureVB("O-TSB", truncation=8, random_state=0).fit(rows())
    assert np.array_equal(model.labels_, same.labels_)
    assert model.elbo_ == pytest.approx(same.elbo_, abs=1e-2)
    assert model.weights_ == pytest.approx(same.weights_, abs=1e-4)


def test_info_and_resume_of_a_finished_run(folder: Path) -> None:
    text = _run("info", folder / "run.zarr").output
    for word in (
        "300 rows, 3 features",
        "O-TSB, truncation 8",
        "3 clusters",
        "alpha: 1",
        "family: Gaussian",
        "seed: 0",
    ):
        assert word in text
    assert "3 clusters" in _run("resume", folder / "run.zarr").output


def test_a_mixture_saved_from_python(folder: Path, tmp_path: Path) -> None:
    dtree.save(dtree.DPMixtureVB("FSD", truncation=6, random_state=0).fit(rows()), tmp_path / "saved.zarr")
    text = _run("info", tmp_path / "saved.zarr").output
    assert "FSD, truncation 6" in text
    assert "3 clusters" in text
    assert "300 rows" in _run("predict", tmp_path / "saved.zarr", folder / "x.npy", "--out", tmp_path / "l.csv").output


@pytest.mark.parametrize("ending", ["npy", "zarr"])
def test_predict(folder: Path, tmp_path: Path, ending: str) -> None:
    new, target = rows(50, seed=1), tmp_path / f"labels.{ending}"
    np.save(tmp_path / "new.npy", new)
    assert "50 rows" in _run("predict", folder / "run.zarr", tmp_path / "new.npy", "--out", target).output
    model = dtree.open(folder / "run.zarr")
    if ending == "npy":
        labels, density = (np.load(target)[name] for name in ("label", "log_density"))
    else:
        group = zarr.open_group(str(target), mode="r")
        labels, density = (np.asarray(group[name][...]) for name in ("labels", "log_density"))
    assert np.array_equal(labels, model.predict(new))
    assert density == pytest.approx(model.score_samples(new), abs=1e-10)


def test_a_run_is_replaced_when_asked_for(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.zarr"
    for options in (["--variant", "TSB"], ["--variant", "FSD", "--overwrite"]):
        said = _run(
            "vb", folder / "x.npy", "--truncation", 4, "--family", "gaussian-diag", "--out", run, *options
        ).output
        assert f"run: {run}\n" in said
    assert "FSD, truncation 4" in _run("info", run).output
    assert "--overwrite" in _run("vb", folder / "x.npy", "--out", run, code=2).output
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]


def test_a_column_of_labels_is_left_out(tmp_path: Path) -> None:
    X = rows(60)
    lines = [",".join([*map(repr, map(float, row)), "word"]) for row in X]
    (tmp_path / "x.csv").write_text("\n".join(["a,b,c,kind", *lines]))
    _run("vb", tmp_path / "x.csv", "--labels-column", "kind", "--truncation", 5, "--out", tmp_path / "run.zarr")
    assert dtree.open(tmp_path / "run.zarr").n_features_in_ == 3
    assert "60 rows" in _run("predict", tmp_path / "run.zarr", tmp_path / "x.csv", "--out", tmp_path / "l.csv").output
    said = _run("vb", tmp_path / "x.csv", "--truncation", 5, "--out", tmp_path / "b.zarr").output
    assert "left out: kind (it is 'word' in every row)" in said
    _run("vb", tmp_path / "x.csv", "--labels-column", "sort", "--out", tmp_path / "c.zarr", code=2)


def test_names_of_rows_and_features_reach_every_command(tmp_path: Path) -> None:
    names = ["length", "width", "height"]
    frame = pandas.DataFrame(rows(60), columns=names, index=[f"leaf {i}" for i in range(60)])
    frame.insert(1, "same", 2.0)
    frame.to_csv(tmp_path / "x.csv", index_label="name")
    run = tmp_path / "run.zarr"
    _run("vb", tmp_path / "x.csv", "--truncation", 5, "--out", run)
    model = dtree.open(run)
    assert model.component_frame().columns.tolist() == names
    said = _run("info", run).output
    assert [line.split()[0] for line in said.splitlines()[2:6]] == ["length", "same", "width", "height"]
    assert "1 constant column left out: 'same'" in said
    assert ["cluster", "rows", "weight", *names, "for", "example"] in [line.split() for line in said.splitlines()]
    frame[["height", "same", "length", "width"]].to_csv(tmp_path / "turned.csv", index_label="name")
    for ending in ("csv", "zarr"):
        _run("predict", run, tmp_path / "turned.csv", "--out", tmp_path / f"labels.{ending}")
    written = pandas.read_csv(tmp_path / "labels.csv")
    assert written["row"].tolist() == list(frame.index)
    assert written["label"].tolist() == model.labels_.tolist()
    assert np.array_equal(zarr.open_array(str(tmp_path / "labels.zarr" / "labels"), mode="r")[...], model.labels_)
    frame[["height"]].to_csv(tmp_path / "short.csv", index=False)
    for target in ("s.csv", "s.zarr"):
        lacking = _run("predict", run, tmp_path / "short.csv", "--out", tmp_path / target, code=2).output
        assert "the rows lack features that the run was fitted on: 'length', 'same', 'width'" in lacking
    _run("report", run, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "leaf 7" in page
    assert "height" in page


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--truncation", "1"], "truncation must be at least 2"),
        (["--truncation", "301"], "truncation 301 is above the number of rows 300"),
        (["--variant", "VB"], "choose one of TSB, O-TSB, CTSB, O-CTSB, FSD, CFSD"),
        (["--family", "cauchy"], "cauchy"),
        (["--family", "poisson"], "row 0 is not a whole number"),
        (["--alpha", "0"], "alpha must be a positive number"),
        (["--max-passes", "0"], "max_iter must be a whole number of at least 1"),
        (["--tol", "-1"], "tol must be a number of at least 0"),
    ],
)
def test_bad_options_get_one_sentence_and_leave_nothing(
    folder: Path, tmp_path: Path, options: list[str], sentence: str
) -> None:
    result = _run("vb", folder / "x.npy", "--out", tmp_path / "bad.zarr", *options, code=2)
    assert sentence in result.output
    assert result.output.count("\n") == 1
    assert not (tmp_path / "bad.zarr").exists()


@pytest.mark.parametrize("kind", ["missing", "exists", "nan"])
def test_bad_files_get_one_sentence(folder: Path, tmp_path: Path, kind: str) -> None:
    data, out = folder / "x.npy", tmp_path / "run.zarr"
    if kind == "missing":
        data = tmp_path / "nothing.npy"
    elif kind == "exists":
        out = folder / "run.zarr"
    else:
        data = tmp_path / "nan.npy"
        np.save(data, np.where(rows() > 9.0, np.nan, rows()))
    result = _run("vb", data, "--family", "gaussian", "--out", out, code=2)
    assert {"missing": "there is no file", "exists": "already holds a run", "nan": "holds NaN"}[kind] in result.output


def test_constant_and_dependent_columns(tmp_path: Path) -> None:
    X = rows()
    np.save(tmp_path / "x.npy", np.column_stack([X, np.full(300, 2.0), X[:, 0] + X[:, 1]]))
    _run("vb", tmp_path / "x.npy", "--truncation", 6, "--out", tmp_path / "run.zarr")
    assert "1 constant column left out" in _run("info", tmp_path / "run.zarr").output
    model = dtree.open(tmp_path / "run.zarr")
    assert model.columns_.tolist() == [0, 1, 2, 4]
    assert np.isfinite(model.elbo_)


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    """A real process, stopped by the signal that Ctrl-C sends."""
    random = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", random.normal(size=(3_000, 6)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "TERM": "dumb", "OMP_NUM_THREADS": "1"}
    command = ["vb", "x.npy", "--variant", "FSD", "--tol", "0", "--max-passes", "100000", "--out", "run.zarr"]
    command += ["--sample-rows", "500", "--truncation", "5"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dtree.cli", *command], cwd=tmp_path, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        limit = time.monotonic() + 200
        while not list((tmp_path / "run.zarr" / "checkpoints").glob("gen-0000000[2-9]")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < limit
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "'dtree resume run.zarr' carries on" in said
    assert " done; 'dtree resume" in _run("info", tmp_path / "run.zarr").output
    with pytest.raises(ValueError, match="is not finished: 'dtree resume"):
        dtree.open(tmp_path / "run.zarr")
