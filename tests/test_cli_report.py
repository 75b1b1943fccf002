"""`dtree report`: the page of a run of either sort, and one sentence for every mistake."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner, Result

from dtree.cli.app import app
from dtree.datasets import nested_creatures


def _invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `dtree demo` has run."""
    folder = tmp_path_factory.mktemp("demo")
    assert _invoke("demo", "--out", f"{folder}/dtree-demo.zarr", "--rows", "180").exit_code == 0
    return folder


def test_the_example_of_the_help_works(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "dtree report dtree-demo.zarr -o report.html" in _invoke("report", "--help").output
    monkeypatch.chdir(folder)
    result = _invoke("report", "dtree-demo.zarr", "-o", "report.html")
    assert result.exit_code == 0, result.output
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "<h1>dtree-demo.zarr</h1>" in page
    assert "built-in creatures" in page
    assert "owl 1" in page
    again = _invoke("report", "dtree-demo.zarr", "-o", "report.html")
    assert again.exit_code == 2
    assert "exists already" in again.output
    assert _invoke("report", "dtree-demo.zarr", "-o", "report.html", "--overwrite").exit_code == 0


def test_rows_of_a_file_with_labels(folder: Path, tmp_path: Path) -> None:
    data = str(folder / "dtree-demo.csv")
    result = _invoke(
        "report",
        str(folder / "dtree-demo.zarr"),
        "-o",
        f"{tmp_path}/page.html",
        "--data",
        data,
        "--labels-column",
        "kind",
    )
    assert result.exit_code == 0, result.output


def test_names_of_the_rows_where_a_run_has_none(folder: Path, tmp_path: Path) -> None:
    run, page = f"{tmp_path}/run.zarr", f"{tmp_path}/page.html"
    frame = pandas.read_csv(folder / "dtree-demo.csv").drop(columns="kind")
    np.save(tmp_path / "rows.npy", frame.drop(columns="row").to_numpy())
    assert _invoke("fit", f"{tmp_path}/rows.npy", "--family", "gaussian-diag", "--out", run).exit_code == 0
    frame.to_csv(tmp_path / "rows.csv", index=False)
    result = _invoke("report", run, "-o", page, "--data", f"{tmp_path}/rows.csv")
    assert result.exit_code == 0, result.output
    text = Path(page).read_text(encoding="utf-8")
    assert "lifespan" in text
    assert "owl 1" in text


def test_a_run_in_passes(tmp_path: Path) -> None:
    data = nested_creatures(200)
    pandas.DataFrame(data.X, columns=data.feature_names).to_parquet(tmp_path / "creatures.parquet")
    words = ["--method", "bayes-kmeans", "--family", "gaussian-diag", "--out", f"{tmp_path}/run.zarr"]
    assert _invoke("fit", f"{tmp_path}/creatures.parquet", *words).exit_code == 0
    result = _invoke("report", f"{tmp_path}/run.zarr", "-o", f"{tmp_path}/page.html", "--title", "Two hundred")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h1>Two hundred</h1>" in page
    assert all(name in page for name in data.feature_names)
    assert "creatures.parquet" in page
    assert "rows per second" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "page.pdf"], "unknown ending"),
        (["-o", "page.html", "--image-shape", "28"], "must look like 28x28"),
        (["-o", "page.html", "--image-shape", "3x3"], "9 pixels but there are 4 features"),
        (["-o", "nowhere/page.html"], "nowhere"),
    ],
)
def test_mistakes_get_one_sentence(
    folder: Path, arguments: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = _invoke("report", "dtree-demo.zarr", *arguments)
    assert result.exit_code == 2, result.output
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(3))
    assert _invoke("report", f"{tmp_path}/a.npy", "-o", f"{tmp_path}/page.html").exit_code == 2
    assert not (tmp_path / "page.html").exists()
