"""Arrays of runs are what zarr itself would have written, and zarr reads them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import zarr

from dtree.runs import arrays as arrays_module
from dtree.runs.arrays import HEADER, files_of_arrays, read_arrays, read_metadata, write_arrays, write_group

ARRAYS = {
    "numbers": np.random.default_rng(0).normal(size=(7, 3)),
    "group/in/group": np.arange(11),
    "few": np.arange(5, dtype=np.uint32),
    "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "nothing": np.zeros((0, 4)),
    "no_columns": np.zeros((4, 0)),
    "one": np.float64(2.5),
    "cube": np.random.default_rng(1).normal(size=(5, 2, 2)),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("chunk_bytes", [64 << 20, 48])
def test_they_are_those_of_zarr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(arrays_module, "_CHUNK_BYTES", chunk_bytes)
    write_group(tmp_path, ARRAYS, {"seed": 3})
    files, listing = files_of_arrays(ARRAYS)
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    theirs = zarr.create_group(store=tmp_path / "theirs", zarr_format=3)
    for name, values in ARRAYS.items():
        ours = zarr.open_array(tmp_path / name, mode="r", zarr_format=3)
        assert np.array_equal(ours[...], np.atleast_1d(values)), name
        twin = theirs.create_array(
            name, shape=ours.shape, dtype=ours.dtype, chunks=ours.chunks, fill_value=ours.fill_value, compressors=None,
            config={"write_empty_chunks": True},
        )  # fmt: skip
        if twin.size:
            twin[...] = np.atleast_1d(values)
        made = sorted(path for path in (tmp_path / "theirs" / name).rglob("*") if path.is_file())
        assert {path.relative_to(tmp_path / "theirs").as_posix() for path in made} <= set(files)
        for path in made:
            ours_, theirs_ = files[path.relative_to(tmp_path / "theirs").as_posix()], path.read_bytes()
            same = json.loads(ours_) == json.loads(theirs_) if path.name == "zarr.json" else ours_ == theirs_
            assert same, path
    assert json.loads(files["group/in/zarr.json"]) == json.loads((tmp_path / "theirs/group/in/zarr.json").read_bytes())
    read = read_arrays(tmp_path, read_metadata(tmp_path, "")["attributes"][HEADER])
    assert list(read) == list(listing)
    assert all(np.array_equal(read[name], np.atleast_1d(values)) for name, values in ARRAYS.items())


def test_nothing_is_left_of_an_earlier_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays_module, "_CHUNK_BYTES", 16)
    for values in (np.arange(9), np.arange(3)):
        listing = write_arrays(tmp_path, {"labels": values})
        assert np.array_equal(read_arrays(tmp_path, {"arrays": listing})["labels"], values)
    assert sorted(path.name for path in (tmp_path / "labels" / "c").iterdir()) == ["0", "1"]
