"""Every way in gives the same rows, and every broken file one sentence."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest
import zarr
from scipy import sparse

from dtree.data import open_source

X = np.array([[1.5, 2.0], [3.25, -4.0], [0.1, 1e-12]])
FEATURES = ["height", "width"]
NAMES = ["ash", "box", "elm"]
KIND = ["tree", "shrub", "tree"]


class Read(NamedTuple):
    """Everything that a file holds."""

    X: Any
    feature_names: list[str] | None
    row_names: list[str] | None
    labels: np.ndarray | None


def read_rows(path: str | Path, **choice: Any) -> Read:
    source = open_source(path, **choice)
    return Read(source.load(), list(source.columns) or None, source.row_names, source.labels)


def _frame() -> pandas.DataFrame:
    return pandas.DataFrame({"name": NAMES, "height": X[:, 0], "kind": KIND, "width": X[:, 1]})


def test_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    rows = read_rows(tmp_path / "a.npy")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.feature_names is None
    assert rows.row_names is None


def test_npz_with_names_and_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X, y=[0, 1, 0], feature_names=FEATURES, row_names=NAMES, other=X[:, :1])
    rows = read_rows(tmp_path / "a.npz", labels_column="y")
    np.testing.assert_array_equal(rows.X, X)
    assert (rows.feature_names, rows.row_names) == (FEATURES, NAMES)
    assert rows.labels is not None
    assert rows.labels.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(read_rows(f"{tmp_path}/a.npz:other").X, X[:, :1])
    np.testing.assert_array_equal(read_rows(Path(f"{tmp_path}/a.npz:other")).X, X[:, :1])


def test_an_npz_with_one_array_needs_no_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", points=X)
    np.testing.assert_array_equal(read_rows(tmp_path / "a.npz").X, X)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_sparse_npz_as_scipy_saves_it(tmp_path: Path, layout: str) -> None:
    counts = sparse.random_array((7, 5), density=0.4, rng=np.random.default_rng(0)) * 10
    sparse.save_npz(tmp_path / "a.npz", counts.asformat(layout))
    rows = read_rows(tmp_path / "a.npz")
    assert sparse.issparse(rows.X)
    assert rows.X.format == "csr"
    np.testing.assert_array_equal(rows.X.toarray(), counts.toarray())


def test_sparse_npz_in_parts_without_a_layout(tmp_path: Path) -> None:
    counts = sparse.csr_array(np.array([[0, 200, 0], [100, 0, 250]], dtype=np.uint8))
    np.savez(
        tmp_path / "a.npz",
        data=counts.data,
        indices=counts.indices,
        indptr=counts.indptr,
        shape=np.array(counts.shape),
        feature_names=["a", "b", "c"],
    )
    rows = read_rows(tmp_path / "a.npz")
    assert rows.X.sum() == 550  # unsigned bytes would have wrapped around
    assert rows.feature_names == ["a", "b", "c"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_names_and_labels(tmp_path: Path, delimiter: str) -> None:
    _frame().to_csv(tmp_path / "a.csv", index=False, sep=delimiter)
    rows = read_rows(tmp_path / "a.csv", labels_column="kind")
    np.testing.assert_array_equal(rows.X, X)
    assert (rows.feature_names, rows.row_names) == (FEATURES, NAMES)
    assert rows.labels is not None
    assert rows.labels.tolist() == KIND


def test_csv_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2\n3,4\n\n")
    rows = read_rows(tmp_path / "a.csv")
    assert rows.X.tolist() == [[1, 2], [3, 4]]
    assert rows.feature_names is None
    labels = read_rows(tmp_path / "a.csv", labels_column="1")
    assert labels.X.tolist() == [[1], [3]]
    assert labels.labels is not None
    assert labels.labels.tolist() == [2, 4]


def test_csv_with_numbered_columns(tmp_path: Path) -> None:
    pandas.DataFrame(X).to_csv(tmp_path / "a.csv", index=False)
    rows = read_rows(tmp_path / "a.csv")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.feature_names == ["0", "1"]
    (tmp_path / "b.csv").write_text("0,1\n1,1\n")  # bits, not a header
    assert read_rows(tmp_path / "b.csv").X.tolist() == [[0, 1], [1, 1]]


def test_csv_with_the_index_that_pandas_writes(tmp_path: Path) -> None:
    pandas.DataFrame(X, columns=FEATURES).to_csv(tmp_path / "a.csv")
    rows = read_rows(tmp_path / "a.csv")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.row_names == ["0", "1", "2"]


def test_csv_with_a_byte_order_mark_blank_cells_and_truth_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,True\r\n,False\r\n2,True\r\n")
    rows = read_rows(tmp_path / "a.csv")
    assert rows.feature_names == ["a", "b"]
    np.testing.assert_array_equal(rows.X, [[1, 1], [np.nan, 0], [2, 1]])


def test_leave_out_drops_only_what_is_there(tmp_path: Path) -> None:
    _frame().to_csv(tmp_path / "a.csv", index=False)
    assert read_rows(tmp_path / "a.csv", leave_out=["kind", "absent"]).feature_names == FEATURES


def test_parquet_with_names_and_labels(tmp_path: Path) -> None:
    _frame().to_parquet(tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet", labels_column="kind")
    np.testing.assert_array_equal(rows.X, X)
    assert (rows.feature_names, rows.row_names) == (FEATURES, NAMES)


def test_parquet_with_names_in_the_index(tmp_path: Path) -> None:
    pandas.DataFrame(X, columns=FEATURES, index=NAMES).to_parquet(tmp_path / "a.parquet")
    rows = read_rows(tmp_path / "a.parquet")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.row_names == NAMES


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_array_and_group(tmp_path: Path, zarr_format: int) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", data=X, chunks=(2, 2), zarr_format=zarr_format)
    array.attrs["feature_names"] = FEATURES
    rows = read_rows(tmp_path / "a.zarr")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.feature_names == FEATURES
    group = zarr.create_group(tmp_path / "g.zarr", zarr_format=zarr_format, attributes={"row_names": NAMES})
    group.create_array("X", data=X)
    group.create_array("other", data=X[:, :1])
    rows = read_rows(tmp_path / "g.zarr")
    np.testing.assert_array_equal(rows.X, X)
    assert rows.row_names == NAMES
    np.testing.assert_array_equal(read_rows(f"{tmp_path}/g.zarr:other").X, X[:, :1])


# Broken files --------------------------------------------------------------------------------------------------------


def _npy(values: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=True)
    return buffer.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _huge_npy() -> bytes:
    return _npy(np.zeros((2, 2))).replace(b"(2, 2), }      ", b"(2, 9000000), }", 1)


def _huge_npz() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        header = _npy(np.zeros((2, 2))).replace(b"(2, 2), }             ", b"(2, 90000000000000), }", 1)
        archive.writestr("X.npy", header)
    return buffer.getvalue()


def _bad_indices() -> bytes:
    return _npz(data=np.ones(1), indices=np.array([77]), indptr=np.array([0, 1]), shape=np.array([1, 3]))


BROKEN: dict[str, tuple[str, bytes | None, str]] = {
    "missing": ("a.npy", None, "there is no file"),
    "unknown ending": ("a.xlsx", b"", r"unknown ending: the known ones are \.npy \.npz \.csv \.parquet \.zarr"),
    "no ending": ("a", b"", "unknown ending"),
    "empty npy": ("a.npy", b"", "cannot be read"),
    "corrupt npy": ("a.npy", b"\x93NUMPY nonsense", "cannot be read"),
    "truncated npy": ("a.npy", _npy(X)[:-8], "cannot be read"),
    "npy larger than its file": ("a.npy", _huge_npy(), "cannot be read"),
    "npy of objects": ("a.npy", _npy(np.array([[1, "a"], [None, 2]], dtype=object)), "holds Python objects"),
    "npy of text": ("a.npy", _npy(np.array([["a"]])), "holds text"),
    "npy of complex numbers": ("a.npy", _npy(X * 1j), "not real numbers"),
    "npy of dates": ("a.npy", _npy(np.array([["2020-01-01"]], dtype="datetime64[D]")), "not real numbers"),
    "npy of records": ("a.npy", _npy(np.zeros((2, 2), dtype=[("a", float)])), "records"),
    "npy with one dimension": ("a.npy", _npy(X[0]), "has one dimension"),
    "npy with three dimensions": ("a.npy", _npy(np.zeros((2, 2, 2))), "has 3 dimensions"),
    "npy without rows": ("a.npy", _npy(np.zeros((0, 3))), "is empty: it holds 0 rows of 3 features"),
    "npy without columns": ("a.npy", _npy(np.zeros((3, 0))), "is empty: it holds 3 rows of 0 features"),
    "npz that is no zip": ("a.npz", b"nonsense", r"is not an \.npz file"),
    "truncated npz": ("a.npz", _npz(X=X)[:-30], r"is not an \.npz file"),
    "npz of objects": ("a.npz", _npz(X=np.array([[None]], dtype=object)), "holds Python objects"),
    "npz without X": ("a.npz", _npz(A=X, B=X), "has no array 'X'; choose one of 'A', 'B'"),
    "npz without the array asked for": ("a.npz:C", _npz(A=X, B=X), "has no array 'C'; it has 'A', 'B'"),
    "empty npz": ("a.npz", _npz(), "is empty"),
    "npz larger than its file": ("a.npz", _huge_npz(), "cannot be read|memory"),
    "npz with an index out of range": ("a.npz", _bad_indices(), "cannot be read"),
    "npz with half a sparse matrix": ("a.npz", _npz(data=np.ones(1), shape=np.array([1, 3])),
                                      "lacks 'indices', 'indptr'"),
    "empty csv": ("a.csv", b"", "is empty"),
    "blank csv": ("a.csv", b"\n \n", "is empty"),
    "csv with a header only": ("a.csv", b"a,b\n", "is empty: it holds 0 rows"),
    "ragged csv, a row too short": ("a.csv", b"a,b\n1,2\n3\n",
                                    "is ragged: line 3 has 1 values but the first line has 2"),
    "ragged csv, a row too long": ("a.csv", b"a,b\n1,2\n3,4,5\n", "is ragged: line 3 has 3 values"),
    "csv with nothing but names": ("a.csv", b"a,b\nv,x\nw,y\n", "has no column to cluster by: all were left out"),
    "csv with decimal commas": ("a.csv", b"a;b\n1,5;2\n2,5;3\n", "with a point instead of a comma"),
    "csv with one word among numbers": ("a.csv", b"a,b\n1,2\noops,4\n7,8\n",
                                        "the column 'a' holds text \\('oops' in line 3\\)"),
    "csv of names only": ("a.csv", b"name\nx\ny\n", "is empty: it holds 2 rows of 0 features"),
    "csv that is not text": ("a.csv", b"\xff\xfe\x00a,b\n", "UTF-8"),
    "corrupt parquet": ("a.parquet", b"PAR1nonsense", "cannot be read"),
    "empty parquet": ("a.parquet", b"", "cannot be read"),
    "zarr that is a file": ("a.zarr", b"nonsense", "not a folder"),
    "an array name for a csv": ("a.csv:C", b"1,2\n", "array cannot be chosen by name"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_get_one_sentence(tmp_path: Path, case: str) -> None:
    name, content, sentence = BROKEN[case]
    if content is not None:
        (tmp_path / name.split(":")[0]).write_bytes(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_rows(f"{tmp_path}/{name}")
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def _zarr_too_large(path: Path) -> None:
    zarr.create_array(path, shape=(10**9, 10**6), chunks=(10, 10), dtype="f8")


def _zarr_of_text(path: Path) -> None:
    zarr.create_array(path, data=np.array([["a", "b"]], dtype="U1"), zarr_format=2)


def _zarr_with_one_dimension(path: Path) -> None:
    zarr.create_array(path, data=X[0])


def _not_a_zarr(path: Path) -> None:
    path.mkdir()


def _broken_metadata(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("{")


def _empty_group(path: Path) -> None:
    zarr.create_group(path)


def _other_arrays(path: Path) -> None:
    group = zarr.create_group(path)
    group.create_array("A", data=X)
    group.create_array("B", data=X)


def _a_run(path: Path) -> None:
    zarr.create_group(path, attributes={"dtree": {"format": 1}})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_zarr_too_large, "more than this machine's memory"),
        (_zarr_of_text, "holds text"),
        (_zarr_with_one_dimension, "has one dimension"),
        (_not_a_zarr, "cannot be read"),
        (_broken_metadata, "cannot be read"),
        (_empty_group, "holds no arrays"),
        (_other_arrays, "has no array 'X'; choose one of 'A', 'B'"),
        (_a_run, "is a dtree run, not data"),
    ],
)
def test_broken_zarr_gets_one_sentence(tmp_path: Path, make: Callable[[Path], None], sentence: str) -> None:
    make(tmp_path / "a.zarr")
    with pytest.raises(ValueError, match=sentence) as caught:
        read_rows(tmp_path / "a.zarr")
    assert "\n" not in str(caught.value)


class _Trap:
    """Unpickling this makes a file."""

    def __init__(self, sprung: Path) -> None:
        self.sprung = sprung

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.sprung,)


@pytest.mark.parametrize("filters", [["pickle"], ["delta", "pickle"]])
def test_pickles_in_zarr_are_never_loaded(tmp_path: Path, filters: list[str]) -> None:
    path = tmp_path / "a.zarr"
    zarr.create_array(path, data=X, chunks=X.shape, zarr_format=2, compressors=None)
    codecs = [{"id": "pickle", "protocol": 5} if name == "pickle" else {"id": name, "dtype": "<f8"} for name in filters]
    metadata = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**metadata, "filters": codecs}))
    (path / "0.0").write_bytes(pickle.dumps(_Trap(tmp_path / "sprung")))
    with pytest.raises(ValueError, match="pickle"):
        read_rows(path)
    assert not (tmp_path / "sprung").exists()


def test_names_of_the_wrong_number_are_refused(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "a.zarr", data=X)
    array.attrs["feature_names"] = ["only one"]
    with pytest.raises(ValueError, match="1 feature names but 2 features"):
        read_rows(tmp_path / "a.zarr")


@pytest.mark.parametrize("column", ["nowhere", "9", "-5"])
def test_a_labels_column_that_is_not_there(tmp_path: Path, column: str) -> None:
    _frame().to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match=f"has no column '{column}'; it has 'name', 'height'"):
        read_rows(tmp_path / "a.csv", labels_column=column)
