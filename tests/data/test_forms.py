"""Every form data may come in gives the same rows."""

from __future__ import annotations

import json

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dtree.data import Source
from dtree.data.chunks import chunk_rows_for
from dtree.data.formats import csv
from dtree.data.formats.zarr import write_csr
from dtree.engine.rows import open_rows

X = np.random.default_rng(0).normal(size=(57, 3))
COUNTS = np.random.default_rng(1).poisson(0.4, size=(57, 9))


def whole(source: Source, step: int = 10) -> np.ndarray:
    parts = [source.read(a, min(a + step, source.shape[0])) for a in range(0, source.shape[0], step)]
    return np.concatenate([part.toarray() if source.is_sparse else part for part in parts])


def as_zarr(folder, zarr_format):
    array = zarr.create_array(str(folder / f"x{zarr_format}.zarr"), shape=X.shape, chunks=(8, 3), dtype=float,
                              zarr_format=zarr_format)  # fmt: skip
    array[:] = X
    return folder / f"x{zarr_format}.zarr"


def as_group(folder):
    zarr.open_group(str(folder / "g.zarr"), mode="w").create_array("X", data=X)
    return folder / "g.zarr"


def as_npy(folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def as_npz(folder):
    np.savez(folder / "x.npz", X=X, y=np.arange(57))
    return str(folder / "x.npz")


def as_csv(folder):
    pd.DataFrame(X, columns=list("abc")).to_csv(folder / "x.csv", index=False, float_format="%.17g")
    return folder / "x.csv"


def as_parquet_folder(folder):
    (folder / "parts").mkdir()
    frame = pd.DataFrame(X, columns=list("abc"))
    for i, (a, b) in enumerate([(0, 20), (20, 21), (21, 57)]):
        frame[a:b].to_parquet(folder / "parts" / f"part-{i}.parquet", row_group_size=7)
    return folder / "parts"


def as_parquet_file(folder):
    pd.DataFrame(X, columns=list("abc")).to_parquet(folder / "x.parquet")
    return folder / "x.parquet"


FORMS = {
    "zarr-2": lambda f: as_zarr(f, 2),
    "zarr-3": lambda f: as_zarr(f, 3),
    "zarr-group": as_group,
    "npy": as_npy,
    "npz": as_npz,
    "csv": as_csv,
    "parquet-folder": as_parquet_folder,
    "parquet-file": as_parquet_file,
    "numpy": lambda f: X,
    "fortran": lambda f: np.asfortranarray(X),
    "frame": lambda f: pd.DataFrame(X),
    "dask": lambda f: dask.array.from_array(X, chunks=(13, 2)),
    "dask-unknown": lambda f: dask.array.from_array(X, chunks=(13, 3))[dask.array.from_array(np.ones(57, bool), 13)],
    "dask-frame": lambda f: dask.dataframe.from_pandas(pd.DataFrame(X), npartitions=4),
}


@pytest.mark.parametrize("form", FORMS)
def test_same_rows(form, tmp_path):
    source = open_rows(FORMS[form](tmp_path), tmp_path / "staged")
    assert source.shape == X.shape
    assert np.array_equal(whole(source), X)
    assert Source.from_record(json.loads(json.dumps(source.record()))) == source


def test_sparse_rows(tmp_path):
    for i, data in enumerate([sparse.csr_array(COUNTS), sparse.csc_matrix(COUNTS)]):
        source = open_rows(data, tmp_path / str(i))
        assert source.is_sparse
        assert np.array_equal(whole(source), COUNTS)
    again = open_rows(tmp_path / "0" / "rows.zarr", tmp_path / "other")
    assert again.is_sparse
    assert not (tmp_path / "other").exists()
    rows = sparse.csr_array(COUNTS)
    np.savez(tmp_path / "s.npz", data=rows.data, indices=rows.indices, indptr=rows.indptr, shape=rows.shape)
    assert np.array_equal(whole(open_rows(tmp_path / "s.npz", tmp_path / "npz")), COUNTS)
    write_csr(tmp_path / "empty.zarr", sparse.csr_array((5, 4)))
    assert whole(open_rows(tmp_path / "empty.zarr", tmp_path)).sum() == 0


def labelled(folder):
    """The rows with a column of labels in the middle, and with one of text where a format can hold it."""
    values = np.insert(X, 1, np.arange(57) % 3, axis=1)
    frame = pd.DataFrame(values, columns=list("akbc"))
    named = frame.assign(k=[f"kind {i % 3}" for i in range(57)], name=[f"row {i}" for i in range(57)])
    named.to_csv(folder / "x.csv", index=False, float_format="%.17g")
    frame.to_csv(folder / "bare.csv", index=False, header=False, sep=";", float_format="%.17g")
    named.to_parquet(folder / "x.parquet")
    np.save(folder / "x.npy", values)
    np.savez(folder / "x.npz", Y=values, X=X, kinds=np.arange(57))
    group = zarr.open_group(str(folder / "x.zarr"), mode="w")
    group.create_array("X", data=X)
    group.create_array("values", data=values)
    group.create_array("kinds", data=np.arange(57))
    group.attrs["feature_names"] = list("abc")
    write_csr(folder / "s.zarr", sparse.csr_array(values))
    return frame


LABELLED = {
    "x.csv": "k",
    "bare.csv": "1",
    "x.parquet": "k",
    "x.npy": "1",
    "x.npz": "kinds",
    "x.npz:Y": "-3",
    "x.zarr": "kinds",
    "x.zarr:values": "1",
    "s.zarr": "1",
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_are_no_feature(tmp_path, name):
    labelled(tmp_path)
    source = open_rows(f"{tmp_path}/{name}", tmp_path / "staged", labels_column=LABELLED[name])
    assert source.shape == X.shape
    assert np.array_equal(whole(source), X)
    assert Source.from_record(json.loads(json.dumps(source.record()))) == source
    assert source.columns in ((), tuple("abc"))
    with pytest.raises(ValueError, match="has no column 'kindness'"):
        open_rows(f"{tmp_path}/{name}", tmp_path / "again", labels_column="kindness")


def test_columns_left_out_and_found_again_by_name(tmp_path):
    frame = labelled(tmp_path)
    fitted = open_rows(frame, tmp_path / "a", labels_column="k")
    assert np.array_equal(whole(fitted), X)
    for data in (frame[["c", "k", "b", "a"]], tmp_path / "x.csv", tmp_path / "x.parquet"):
        new = open_rows(data, tmp_path / "b", leave_out=["k", "nowhere"]).with_columns_of(
            fitted.columns, fitted.shape[1]
        )
        assert np.array_equal(whole(new), X)
    with pytest.raises(ValueError, match="the rows lack features that the run was fitted on: 'b'"):
        open_rows(frame[["a", "c"]], tmp_path / "c").with_columns_of(fitted.columns, fitted.shape[1])
    with pytest.raises(ValueError, match="the rows have 4 columns but the run was fitted on 3"):
        open_rows(tmp_path / "x.npy", tmp_path / "d").with_columns_of(fitted.columns, fitted.shape[1])
    assert open_rows(tmp_path / "x.parquet", tmp_path / "e").kinds[1].kind == "category"


def test_csv_in_pieces(tmp_path, monkeypatch):
    labelled(tmp_path)
    monkeypatch.setattr(csv, "PIECE_ROWS", 10)
    source = open_rows(tmp_path / "x.csv", tmp_path / "a", labels_column="k")
    assert np.array_equal(whole(source), X)
    assert np.array_equal(whole(open_rows(tmp_path / "bare.csv", tmp_path / "b", labels_column="1")), X)
    lines = (tmp_path / "bare.csv").read_text().splitlines()
    (tmp_path / "late.csv").write_text("\n".join([*lines[:33], "1;2;oops;3", *lines[33:]]))
    with pytest.raises(ValueError, match="the column '2' holds text \\('oops' in line 34\\)"):
        open_rows(tmp_path / "late.csv", tmp_path / "c")


@given(st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=20, deadline=None)
def test_any_range(tmp_path_factory, a, b):
    a, b = min(a, b) - 1, min(max(a, b), 57)
    if a >= b:
        return
    folder = tmp_path_factory.mktemp("range")
    source = open_rows(as_parquet_folder(folder), folder / "s")
    assert np.array_equal(source.read(a, b), X[a:b])


def test_chunk_rows():
    source = Source("zarr", "", (10**9, 16), "float64", step=1000)
    assert chunk_rows_for(source) == 249_000
    assert chunk_rows_for(source, worker_bytes=10**9) == 249_000  # the number of workers must not change the answer
    assert chunk_rows_for(source, worker_bytes=64_000_000) == 31_000
    assert chunk_rows_for(source, chunk_bytes=1_280_000) == 10_000
    few = [chunk_rows_for(Source("npy", "", (n, 8), "float64")) for n in (50_000, 600_000)]
    assert few == [50_000, 66_667]  # less than 4 MB is not cut; 38 MB are nine even chunks


def test_clear_sentences(tmp_path):
    cases = [
        (np.arange(3.0), "must be a table"),
        (np.empty((0, 3)), "at least one row"),
        (np.array([["a", "b"]]), "dtree takes numbers"),
        (tmp_path / "nothing.npy", "there is no file"),
        (pd.DataFrame({"a": [1.0, 2, 3], "b": [1, 2, "x"]}), r"the column 'b' holds text \('x' in row 2\)"),
    ]
    (tmp_path / "odd.txt").touch()
    cases.append((tmp_path / "odd.txt", "dtree reads"))
    (tmp_path / "folder").mkdir()
    cases.append((tmp_path / "folder", "neither a zarr store"))
    for data, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            open_rows(data, tmp_path / "staged")
