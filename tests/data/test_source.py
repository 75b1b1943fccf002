"""One reader: what memory and files know beside the features, what is copied, what a run remembers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import zarr
from scipy import sparse
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.data import Source, in_memory, open_source
from dtree.data.chunks import chunk_rows_for
from dtree.data.formats import csv

ROOT = Path(__file__).resolve().parents[2]
X = np.random.default_rng(0).normal(size=(12, 2)) + np.repeat([[0.0], [9.0]], 6, axis=0)
KIND = ["tree", "shrub"] * 6
NAMES = [f"row {i}" for i in range(12)]
FRAME = pd.DataFrame({"a": X[:, 0], "kind": KIND, "b": X[:, 1]}, index=NAMES)


def _parts(folder: Path, frame: pd.DataFrame = FRAME) -> Path:
    """A folder of parquet files whose own name says nothing."""
    folder.mkdir()
    frame[:5].to_parquet(folder / "0.parquet")
    frame[5:].to_parquet(folder / "1.parquet")
    return folder


def _csv(folder: Path) -> Path:
    FRAME.to_csv(folder / "x.csv", index_label="name", float_format="%.17g")
    return folder / "x.csv"


def _npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", X=X, kind=KIND, row_names=NAMES, feature_names=["a", "b"])
    return folder / "x.npz"


def _zarr(folder: Path) -> Path:
    group = zarr.create_group(folder / "x.zarr", attributes={"row_names": NAMES, "feature_names": ["a", "b"]})
    group.create_array("X", data=X)
    group.create_array("kind", data=np.array(KIND) == "tree")
    return folder / "x.zarr"


FORMS = {
    "frame": lambda folder: FRAME,
    "csv": _csv,
    "npz": _npz,
    "zarr": _zarr,
    "parquet folder": lambda folder: _parts(folder / "parts"),
}


@pytest.mark.parametrize("form", FORMS)
def test_names_and_labels_are_kept_apart_before_and_after_staging(form: str, tmp_path: Path) -> None:
    source = open_source(FORMS[form](tmp_path), labels_column="kind")
    staged = source.staged(tmp_path / "staged")
    for known in (source, staged):
        np.testing.assert_array_equal(known.load(), X)
        np.testing.assert_array_equal(known.read(3, 8), X[3:8])
        assert known.columns == ("a", "b")
        assert known.row_names == NAMES
        assert known.labels is not None
        kinds = ["tree" if label else "shrub" for label in known.labels] if form == "zarr" else known.labels.tolist()
        assert kinds == KIND
    assert staged.name == source.name
    assert Source.from_record(json.loads(json.dumps(staged.record()))) == staged


def test_arrays_have_labels_by_number(tmp_path: Path) -> None:
    values = np.insert(X, 1, np.arange(12), axis=1)
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "x.npz", X=values)
    rows = [values, sparse.csr_array(values), tmp_path / "x.npy", tmp_path / "x.npz"]
    for place, data in enumerate(rows):
        source = open_source(data, labels_column="1")
        for known in (source, source.staged(tmp_path / str(place))):
            assert known.labels is not None
            assert known.labels.tolist() == list(range(12))
            read = known.read(2, 5)
            np.testing.assert_array_equal(read.toarray() if known.is_sparse else read, X[2:5])


def test_anndata_like_objects_and_what_they_are_called() -> None:
    annotated = SimpleNamespace(X=sparse.csr_array(X), obs_names=NAMES, var_names=["a", "b"])
    source = open_source(annotated)
    assert (source.is_sparse, source.columns, source.row_names, source.name) == (True, ("a", "b"), NAMES, "an array")
    assert open_source(source) is source
    assert open_source(X.tolist()).shape == X.shape


def test_a_text_column_of_a_parquet_folder_may_be_the_labels(tmp_path: Path) -> None:
    for name in ("parts", "parts.parquet"):
        data = _parts(tmp_path / name)
        words = ["fit", str(data), "--method", "exact", "--labels-column", "kind", "--out", f"{tmp_path}/{name}.zarr"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
        assert "purity of the tree against 'kind'" in result.output
        assert dtree.open(tmp_path / f"{name}.zarr").feature_names_in_.tolist() == ["a", "b"]
        labels = ["predict", f"{tmp_path}/{name}.zarr", str(data), "--out", f"{tmp_path}/{name}.csv"]
        assert CliRunner().invoke(app, labels).exit_code == 0
        kinds = {column.name: column.kind for column in open_source(data).kinds}
        assert kinds == {"a": "real", "kind": "category", "b": "real"}


def test_a_numeric_index_of_a_parquet_file_names_the_rows(tmp_path: Path) -> None:
    years = [1900 + i * i for i in range(12)]
    frame = FRAME.drop(columns="kind").set_index(pd.Index(years, name="year"))
    frame.to_parquet(tmp_path / "x.parquet")
    source = open_source(tmp_path / "x.parquet")
    assert source.columns == open_source(frame).columns == ("a", "b")
    assert source.row_names == open_source(frame).row_names == [str(year) for year in years]


def test_a_first_text_column_without_repeats_names_the_rows_of_a_parquet_file(tmp_path: Path) -> None:
    FRAME.drop(columns="kind").reset_index(names="creature").to_parquet(tmp_path / "x.parquet")
    assert open_source(tmp_path / "x.parquet").row_names == NAMES


def test_gaps_in_a_parquet_file_are_nan(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": pd.array([True, None, False], "boolean")})
    frame.to_parquet(tmp_path / "x.parquet")
    np.testing.assert_array_equal(open_source(tmp_path / "x.parquet").load(), [[1, 1], [np.nan, np.nan], [3, 0]])


def _twins_in_parquet(folder: Path) -> Path:
    table = pyarrow.Table.from_arrays([pyarrow.array(X[:, 0]), pyarrow.array(X[:, 1])], names=["a", "a"])
    pyarrow.parquet.write_table(table, folder / "x.parquet")
    return folder / "x.parquet"


def _twins_in_csv(folder: Path) -> Path:
    (folder / "x.csv").write_text("a,b,a\n1,2,3\n4,5,6\n")
    return folder / "x.csv"


TWINS = {
    "frame": lambda folder: pd.DataFrame(X, columns=["a", "a"]),
    "parquet": _twins_in_parquet,
    "csv": _twins_in_csv,
}


@pytest.mark.parametrize("form", TWINS)
@pytest.mark.parametrize("use", [open_source, dtree.BHC().fit, dtree.DPMixtureVB().fit, dtree.DiffusionTree().fit])
def test_two_columns_of_one_name_get_one_sentence(form: str, use: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has two columns called 'a'") as caught:
        use(TWINS[form](tmp_path))
    assert "\n" not in str(caught.value)


COMMANDS = ["fit DATA", "fit DATA --method bayes-kmeans", "fit DATA --workers 2", "vb DATA --workers 2",
            "sample DATA --workers 2", "ddt DATA --workers 2"]  # fmt: skip
TOLD = """
import sys
from typer.testing import CliRunner
from dtree.cli.app import app
result = CliRunner().invoke(app, sys.argv[1:])
compiled = [name for name in ("dask", "distributed", "zarr") if name in sys.modules]
if "numba" in sys.modules:
    import gc
    from numba.core.dispatcher import Dispatcher
    compiled += [k.__name__ for k in gc.get_objects() if isinstance(k, Dispatcher) and k.signatures]
print(result.exit_code, *compiled)
print(result.output)
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_misspelt_file_is_told_before_workers_start_and_kernels_compile(command: str, tmp_path: Path) -> None:
    words = [*command.replace("DATA", "nowhere.csv").split(), "--out", "run.zarr"]
    done = subprocess.run(
        [sys.executable, "-c", TOLD, *words], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.startswith("2\n"), done.stdout + done.stderr
    assert "there is no file nowhere.csv" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_room_imports_numpy_at_most() -> None:
    heavy = ["numba", "scipy", "sklearn", "dask", "distributed", "zarr", "pandas", "pyarrow"]
    code = f"import sys, dtree.data; print(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_csv_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    look = csv.look_at
    monkeypatch.setattr(csv, "look_at", lambda path: looks.append(path) or look(path))
    words = ["--labels-column", "kind", "--method", "bayes-kmeans", "--out", f"{tmp_path}/run.zarr"]
    result = CliRunner().invoke(app, ["fit", str(_csv(tmp_path)), *words])
    assert result.exit_code == 0, result.output
    assert len(looks) == 1


def test_a_staged_source_travels_without_what_it_was_copied_from(tmp_path: Path) -> None:
    rows = np.ones((10_000, 20))
    staged = open_source(rows).staged(tmp_path)
    assert staged.original is not None
    text = pickle.dumps(staged)
    assert len(text) < 2000
    assert pickle.loads(text) == staged
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(open_source(rows))).read(3, 5), rows[3:5])


def test_a_column_left_out_by_its_number_comes_back_where_rows_have_no_labels(tmp_path: Path) -> None:
    values = np.insert(X, 2, np.arange(12), axis=1)
    np.savetxt(tmp_path / "x.csv", values, delimiter=",")
    np.savetxt(tmp_path / "new.csv", X, delimiter=",")
    for place, (data, name) in enumerate(
        [(values, "2"), (X, "-1"), (tmp_path / "x.csv", "2"), (tmp_path / "new.csv", "1")]
    ):
        source = open_source(data, leave_out=[name])
        for known in (source, source.staged(tmp_path / str(place))):
            np.testing.assert_array_equal(known.with_columns_of((), 2).load(), X)
            assert known.with_columns_of((), 2).name == source.name


def test_rows_beyond_memory_are_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy")
    monkeypatch.setattr("dtree.core.memory.memory_bytes", lambda: 100)
    with pytest.raises(ValueError, match=r"x\.npy declares .* more than this machine's memory"):
        source.load()


def test_a_folder_that_is_data_and_one_that_is_a_run(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").mkdir()
    with pytest.raises(ValueError, match=r"is a folder without \.parquet files"):
        open_source(tmp_path / "empty.parquet")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(ValueError, match=r"is a folder, not a \.csv file"):
        open_source(tmp_path / "x.csv")
    zarr.create_array(tmp_path / "plain", data=X)  # a store needs no ending
    np.testing.assert_array_equal(open_source(tmp_path / "plain").load(), X)
    zarr.create_group(tmp_path / "run", attributes={"run_id": "0", "method": "bayes-kmeans"})
    with pytest.raises(ValueError, match="is a dtree run, not data"):
        open_source(tmp_path / "run")


def test_only_what_any_process_can_read_is_recorded() -> None:
    with pytest.raises(ValueError, match="an array must be staged"):
        open_source(X).record()


def test_chunks_of_sparse_rows_count_what_is_stored(tmp_path: Path) -> None:
    rows = sparse.random_array((5000, 100), density=0.1, rng=np.random.default_rng(0), format="csr")
    source = open_source(rows)
    assert source.n_stored == source.staged(tmp_path).n_stored == rows.nnz
    assert chunk_rows_for(source, chunk_bytes=168_000) == 1000


def test_estimators_take_sources(tmp_path: Path) -> None:
    source = open_source(_csv(tmp_path), labels_column="kind")
    rows = in_memory(source)
    assert (rows.row_names.tolist(), rows.feature_names.tolist()) == (NAMES, ["a", "b"])
    assert np.array_equal(dtree.BHC().fit(source).labels_, dtree.BHC().fit(X).labels_)
    mixture = dtree.DPMixtureVB(truncation=4, random_state=0).fit(source)
    assert mixture.feature_names_in_.tolist() == ["a", "b"]
    assert mixture.row_names_.tolist() == NAMES
    assert np.array_equal(mixture.predict(source), mixture.labels_)
