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
from scipy.cluster.hierarchy import dendrogram, fcluster
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import dtree
from dtree.cli import app
from dtree.core.partition import canonical_labels
from dtree.datasets import nested_creatures
from dtree.runs import open as open_run
from dtree.runs import save
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
    _run("fit", str(_write(kind, tmp_path)), "--family", "gaussian-diag", "--out", run)
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
    save(model, tmp_path / "run.zarr")
    again = open_run(tmp_path / "run.zarr")
    assert again.row_names_.tolist() == DATA.row_names
    assert again.feature_names_in_.tolist() == DATA.feature_names
    page = dtree.report(tmp_path / "run.zarr", tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(name in page for name in [*DATA.row_names, *DATA.feature_names])


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


# What other programs make of a tree ----------------------------------------------------------------------------------


def test_scipy_draws_and_cuts_the_same_tree() -> None:
    model = dtree.BHC("gaussian-diag").fit(FRAME)
    drawn = dendrogram(model.linkage_, labels=model.row_names_.tolist(), no_plot=True)
    assert sorted(drawn["ivl"]) == sorted(DATA.row_names)
    flat = fcluster(model.linkage_, np.log(2.0) + 1e-9, "distance")
    assert np.array_equal(canonical_labels(flat), model.labels_)


def test_newick_read_back_is_the_same_tree() -> None:
    names = [f"it's {name}" if i % 5 == 0 else name for i, name in enumerate(DATA.row_names)]
    model = dtree.BHC("gaussian-diag").fit(FRAME)
    nested, depth = read_newick(model.tree_.to_newick(names))

    def groups(part: Any, found: set[frozenset[str]]) -> set[frozenset[str]]:
        if not isinstance(part, str):
            found.add(frozenset(_leaves(part)))
            for child in part:
                groups(child, found)
        return found

    m = model.tree_.n_leaves
    expected = {frozenset(names[i] for i in model.tree_.leaves_below(k)) for k in range(m, 2 * m - 1)}
    assert groups(nested, set()) == expected
    np.testing.assert_allclose(list(depth.values()), model.linkage_[-1, 2], rtol=1e-4)


def test_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), dtree.BHC("gaussian-diag"))
    labels = pipeline.fit_predict(FRAME)
    assert len(set(labels)) == 9
    assert pipeline[-1].feature_names_in_.tolist() == DATA.feature_names
    assert np.array_equal(pipeline.predict(FRAME), labels)


def test_in_a_grid_search_by_held_out_density() -> None:
    search = GridSearchCV(dtree.BHC(), {"family": ["gaussian-diag", "gaussian"], "cut": [0.5]}, cv=3)
    search.fit(DATA.X)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert search.best_estimator_.n_clusters_ >= 3
