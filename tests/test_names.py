"""Names survive: from frames, files and AnnData-like objects to the tree, the report and the exports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pandas
import pytest
import zarr
from scipy import sparse
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.datasets import nested_creatures
from tests.newick import read_newick

matplotlib.use("agg")
DATA = nested_creatures(27)
FRAME = pandas.DataFrame(DATA.X, index=DATA.row_names, columns=DATA.feature_names)


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    return result.output


def _leaves(nested: Any) -> list[str]:
    return [nested] if isinstance(nested, str) else [name for part in nested for name in _leaves(part)]


def _write(kind: str, folder: Path) -> Path:
    path = folder / f"creatures.{kind}"
    if kind == "csv":
        FRAME.to_csv(path)
    elif kind == "parquet":
        FRAME.to_parquet(path)
    elif kind == "npz":
        np.savez(path, X=DATA.X, row_names=DATA.row_names, feature_names=DATA.feature_names)
    else:
        array = zarr.create_array(str(path), data=DATA.X)
        array.attrs.update({"row_names": DATA.row_names, "feature_names": DATA.feature_names})
    return path


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "zarr"])
def test_names_in_files_reach_report_and_exports(kind: str, tmp_path: Path) -> None:
    run = f"{tmp_path}/run.zarr"
    _run("fit", str(_write(kind, tmp_path)), "--method", "exact", "--family", "gaussian-diag", "--out", run)
    _run("report", run, "-o", f"{tmp_path}/report.html")
    _run("export", run, "--newick", f"{tmp_path}/tree.nwk", "--labels", f"{tmp_path}/labels.csv")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in [*DATA.row_names, *DATA.feature_names])
    assert sorted(_leaves(read_newick((tmp_path / "tree.nwk").read_text())[0])) == sorted(DATA.row_names)
    assert pandas.read_csv(tmp_path / "labels.csv")["row"].tolist() == DATA.row_names


def test_names_in_a_frame_reach_picture_run_and_report(tmp_path: Path) -> None:
    model = dtree.BHC("gaussian-diag").fit(FRAME)
    assert model.row_names_.tolist() == DATA.row_names
    ax = dtree.plot_tree(model)
    assert sorted(text.get_text() for text in ax.get_yticklabels()) == sorted(DATA.row_names)
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert again.row_names_.tolist() == DATA.row_names
    assert again.feature_names_in_.tolist() == DATA.feature_names
    page = dtree.report(tmp_path / "run.zarr", tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in [*DATA.row_names, *DATA.feature_names])


def test_a_missing_value_is_found_by_its_names() -> None:
    frame = pandas.DataFrame({"length": [1.0, 2.0, 4.0], "width": [3.0, np.nan, 5.0]}, index=["ash", "box", "elm"])
    with pytest.raises(ValueError, match=r"row 1 \('box'\) holds NaN.* in column 1 \('width'\), 1 such value"):
        dtree.BHC("gaussian").fit(frame)


def test_info_rounds_the_model(tmp_path: Path) -> None:
    dtree.save(dtree.BHC("gaussian-diag").fit(nested_creatures().X), tmp_path / "run.zarr")
    text = CliRunner().invoke(app, ["info", str(tmp_path / "run.zarr")]).output
    assert "family: DiagonalGaussian: mean [" in text
    assert "array(" not in text


def test_a_counting_index_is_no_name_and_old_names_are_forgotten() -> None:
    model = dtree.BHC("gaussian-diag").fit(FRAME)
    model.fit(FRAME.reset_index(drop=True))
    assert not hasattr(model, "row_names_")


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_anndata_like_objects(make: Any, tmp_path: Path) -> None:
    counts = np.random.default_rng(0).poisson([[9.0, 1.0, 1.0]] * 8 + [[1.0, 1.0, 9.0]] * 8)
    cells, genes = [f"cell {i}" for i in range(16)], ["actin", "myosin", "titin"]
    annotated = SimpleNamespace(X=make(counts), obs_names=pandas.Index(cells), var_names=pandas.Index(genes))
    model = dtree.BHC("poisson").fit(annotated)
    assert model.row_names_.tolist() == cells
    assert model.feature_names_in_.tolist() == genes
    assert np.array_equal(model.predict(annotated), model.labels_)
    assert np.array_equal(model.labels_, dtree.BHC("poisson").fit(counts).labels_)
    page = dtree.report(model, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "cell 7" in page
    assert "titin" in page
    other = SimpleNamespace(X=make(counts), obs_names=cells, var_names=["actin", "myosin", "keratin"])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(other)
