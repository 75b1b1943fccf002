"""`dtree fit` in passes: columns of labels, runs that are replaced, small files without worker processes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from typer.testing import CliRunner, Result

import dtree
from dtree.cli import cluster
from dtree.cli.app import app
from dtree.cli.fit import choose
from dtree.data import open_source
from dtree.engine import drive as drive_module
from dtree.methods import method_named
from dtree.runs.commit import replacement_of
from dtree.runs.folder import FolderStore
from dtree.runs.run import Run, unfinished


def _run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in arguments], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return result


def frame(n: int = 400, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    member = random.integers(3, size=n)
    values = 9.0 * np.eye(3)[member] + random.normal(size=(n, 3))
    return pd.DataFrame(values, columns=["x", "y", "z"]).assign(kind=np.array(["ant", "bee", "cat"])[member])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    frame().to_csv(folder / "x.csv", index=False)
    words = ["--method", "bayes-kmeans", "--family", "gaussian-diag", "--labels-column", "kind"]
    fitted = _run("fit", folder / "x.csv", *words, "--out", folder / "run.zarr")
    assert "400 rows, 3 features: 3 clusters" in fitted.output
    return folder


def labels_in(path: Path) -> np.ndarray:
    return np.asarray(zarr.open_array(str(path / "labels"), mode="r")[...])


def test_labels_column_is_left_out_and_remembered(folder: Path, tmp_path: Path) -> None:
    told = _run("info", folder / "run.zarr").output
    assert f"400 rows, 3 features from {folder}/x.csv" in told
    assert "column of labels, left out: kind" in told
    fitted = labels_in(folder / "run.zarr")
    assert len({*zip(fitted.tolist(), frame().kind, strict=True)}) == 3
    frame()[["kind", "z", "y", "x"]].to_parquet(tmp_path / "new.parquet")  # in another order
    _run("predict", folder / "run.zarr", tmp_path / "new.parquet", "--out", tmp_path / "a.zarr")
    assert np.array_equal(labels_in(tmp_path / "a.zarr"), fitted)
    _run("predict", folder / "run.zarr", folder / "x.csv", "--out", tmp_path / "a.csv")
    assert np.array_equal(pd.read_csv(tmp_path / "a.csv").label, fitted)


def test_a_labels_column_known_by_its_number(folder: Path, tmp_path: Path) -> None:
    X = frame()[["x", "y", "z"]].to_numpy()
    for column in (0, -1):
        np.save(tmp_path / "x.npy", np.insert(X, column if column == 0 else 3, np.arange(400), axis=1))
        np.save(tmp_path / "new.npy", X)
        run = tmp_path / f"{column}.zarr"
        words = ("--method", "bayes-kmeans", "--family", "gaussian-diag", "--labels-column", column, "--out", run)
        _run("fit", tmp_path / "x.npy", *words)
        for name in ("x.npy", "new.npy"):  # with the labels, and without
            _run("predict", run, tmp_path / name, "--out", tmp_path / f"{column}-{name}.zarr")
            assert np.array_equal(labels_in(tmp_path / f"{column}-{name}.zarr"), labels_in(run))


def test_predictions_are_replaced_only_when_asked(folder: Path, tmp_path: Path) -> None:
    words = ("predict", folder / "run.zarr", folder / "x.csv", "--out", tmp_path / "a.zarr")
    _run(*words)
    assert "exists already" in _run(*words, code=2).output
    zarr.open_array(str(tmp_path / "a.zarr" / "labels"), mode="r+")[:] = 7
    _run(*words, "--overwrite")
    assert np.array_equal(labels_in(tmp_path / "a.zarr"), labels_in(folder / "run.zarr"))
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    precious = folder / "run.zarr"
    refused = _run(*words[:-1], precious, "--overwrite", code=2)
    assert "does not hold predictions, so it is not replaced" in refused.output


def test_a_run_is_replaced_when_the_new_one_is_complete(folder: Path, tmp_path: Path, monkeypatch) -> None:
    run = tmp_path / "run.zarr"
    words = ("fit", folder / "x.csv", "--method", "bayes-kmeans", "--labels-column", "kind", "--out", run)
    _run(*words, "--family", "gaussian-diag")
    before = Run.open(run).header.run_id
    assert "already holds a run" in _run(*words, code=2).output

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        create = FolderStore.create_rows  # the known labels are written when the run begins

        def stop_later(store, name, *rest):
            return create(store, name, *rest) if name == "known" else interrupt(0)

        patch.setattr(FolderStore, "create_rows", stop_later)
        stopped = _run(*words, "--seed", 3, "--overwrite", code=130)
    assert f"'dtree resume {run}' carries on. Until it is done, {run} stays as it was." in stopped.output
    assert Run.open(run).header.run_id == before  # the old run is whole
    assert dtree.open(run).n_clusters_ == 3
    assert not Run.open(replacement_of(run)).header.done
    assert unfinished(run) == replacement_of(run)
    os.utime(replacement_of(run) / "zarr.json", (0, 0))  # begun before the run that is there now
    assert unfinished(run) == run
    os.utime(replacement_of(run) / "zarr.json")
    carried_on = _run("resume", run)
    assert f"run: {run}" in carried_on.output
    assert Run.open(run).header.run_id != before
    assert Run.open(run).header.random_state == 3
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]
    with monkeypatch.context() as patch:  # bad input: the old run stays, and nothing beside it
        patch.setattr(drive_module, "_begin", lambda *_: (_ for _ in ()).throw(ValueError("bad rows")))
        assert "bad rows" in _run(*words, "--overwrite", code=2).output
    assert [path.name for path in tmp_path.iterdir()] == ["run.zarr"]
    _run(*words, "--family", "gaussian-diag", "--overwrite")
    assert dtree.open(run).family_.name == "gaussian-diag"


def test_a_run_of_another_kind_is_replaced_too(folder: Path, tmp_path: Path) -> None:
    words = ("fit", folder / "x.csv", "--labels-column", "kind", "--out", tmp_path / "run.zarr")
    _run(*words)
    _run(*words, "--method", "bayes-kmeans", "--overwrite")
    assert isinstance(dtree.open(tmp_path / "run.zarr"), dtree.BayesKMeansBHC)
    _run(*words, "--overwrite")
    assert isinstance(dtree.open(tmp_path / "run.zarr"), dtree.TreeClustering)
    _run(*words, "--method", "exact", "--overwrite")
    assert isinstance(dtree.open(tmp_path / "run.zarr"), dtree.BHC)
    refused = _run(*words, "--method", "bayes-kmeans", "--optimize", "--out", tmp_path / "b.zarr", code=2).output
    assert "does not take --optimize" in refused


def test_bad_input_leaves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((40, 2), np.nan))
    _run("fit", tmp_path / "x.npy", "--method", "bayes-kmeans", "--out", tmp_path / "run.zarr", code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_many_rows_in_any_file_go_through_the_engine(tmp_path: Path) -> None:
    X = np.zeros((10_001, 2))
    np.save(tmp_path / "x.npy", X)
    np.savez_compressed(tmp_path / "x.npz", y=np.zeros((3, 2)), X=X)
    pd.DataFrame(X).to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "parts.parquet").mkdir()
    pd.DataFrame(X, columns=list("ab")).to_parquet(tmp_path / "x.parquet")
    pd.DataFrame(X, columns=list("ab")).to_parquet(tmp_path / "parts.parquet" / "0.parquet")
    zarr.open_group(str(tmp_path / "x.zarr"), mode="w").create_array("X", data=X)
    for name in ("x.npy", "x.npz", "x.npz:X", "x.csv", "x.parquet", "parts.parquet", "x.zarr", "x.zarr:X"):
        source = open_source(f"{tmp_path}/{name}")
        assert source.shape == (10_001, 2), name
        assert choose(source, {}, cluster.Cluster()) == "tree-clustering", name
        assert choose(source, {"method": "randomized"}, cluster.Cluster()) == "randomized", name
    few = open_source(f"{tmp_path}/x.npz:y")
    assert few.shape == (3, 2)
    assert choose(few, {}, cluster.Cluster()) == "tree-clustering"
    assert choose(few, {"method": "randomized"}, cluster.Cluster()) == "bhc"
    with pytest.raises(ValueError, match="there is no file"):
        open_source(f"{tmp_path}/nothing.csv")


def test_few_rows_need_no_worker_processes() -> None:
    method = method_named("bayes-kmeans-bhc")
    with cluster.Cluster().client_for(method, method.Settings(), 1000) as client:
        assert client is None


def test_rows_of_single_precision_are_fitted_without_a_warning(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", frame()[["x", "y", "z"]].to_numpy(np.float32))
    words = ("--method", "bayes-kmeans", "--family", "gaussian-diag", "--out", tmp_path / "run.zarr")
    assert "3 clusters" in _run("fit", tmp_path / "x.npy", *words).output
