"""Input files made by somebody who means no good: one sentence each, nothing run, nothing written elsewhere."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

from dtree.data import open_source
from dtree.data.formats.zarr import write_csr

X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)


def unpickling_array(folder: Path, monkey: Path) -> None:
    """A zarr array of format 2 whose chunk, unpickled, makes the file `monkey`."""
    zarr.create_array(str(folder), data=np.zeros((60, 2)), chunks=(60, 2), zarr_format=2, compressors=None)
    described = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(described | {"compressor": {"id": "pickle", "protocol": 5}}))
    (folder / "0.0").write_bytes(pickle.dumps(Bomb(str(monkey))))


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (Path(self.target),)


def declared(folder, shape, chunks):
    zarr.create_array(str(folder / "x.zarr"), shape=shape, chunks=chunks, dtype=float)
    return folder / "x.zarr"


def object_npy(folder):
    np.save(folder / "x.npy", np.array([[Bomb(str(folder / "monkey")), 1]], dtype=object), allow_pickle=True)
    return folder / "x.npy"


def long_npy(folder):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000, 16), }"
    padded = header.ljust(117) + "\n"
    (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode())
    return folder / "x.npy"


def npz(folder, name, content=None):
    np.save(folder / "part.npy", X)
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        archive.writestr(name, content or (folder / "part.npy").read_bytes())
    return folder / "x.npz"


def object_npz(folder):
    np.savez(folder / "x.npz", X=np.array([[Bomb(str(folder / "monkey"))]], dtype=object))
    return folder / "x.npz"


def written(folder, name, content: bytes):
    (folder / name).write_bytes(content)
    return folder / name


def pickled_zarr(folder):
    unpickling_array(folder / "x.zarr", folder / "monkey")
    return folder / "x.zarr"


def csr(folder, **changes):
    from scipy import sparse

    source = write_csr(folder / "x.zarr", sparse.csr_array(np.eye(5)))
    group = zarr.open_group(source.path, mode="a")
    for name, found in changes.items():
        if name == "shape":
            group.attrs["shape"] = found
        else:
            del group[name]
            group.create_array(name, data=np.asarray(found))
    return folder / "x.zarr"


INPUT = {
    "zarr-huge": (lambda f: declared(f, (10**9, 16), (1000, 16)), "declares 128 GB but holds almost nothing"),
    "zarr-rows": (lambda f: declared(f, (10**15, 16), (1000, 16)), "declares .* GB but holds almost nothing"),
    "zarr-chunk": (lambda f: declared(f, (10**9, 16), (10**9, 16)), "a chunk of .* more than this machine's memory"),
    "zarr-columns": (lambda f: declared(f, (3, 10**13), (1, 1000)), "declares .* GB but holds almost nothing"),
    "zarr-pickle": (pickled_zarr, "stored with pickles|neither a zarr store"),  # zarr itself refuses most of them
    "npy-object": (object_npy, "Python objects, which are never loaded"),
    "npy-long": (long_npy, "cannot be read, it may be damaged"),
    "npy-garbage": (lambda f: written(f, "x.npy", b"\x93NUMPY" + bytes(100)), "cannot be read, it may be damaged"),
    "npy-empty": (lambda f: written(f, "x.npy", b""), "cannot be read, it may be damaged"),
    "npz-up": (lambda f: npz(f, "../../x.npy"), "is a path and not a name"),
    "npz-root": (lambda f: npz(f, "/tmp/x.npy"), "is a path and not a name"),
    "npz-object": (object_npz, "Python objects, which are never loaded"),
    "npz-garbage": (lambda f: npz(f, "X.npy", b"garbage"), "cannot be read|numbers|dimension"),
    "npz-no-zip": (lambda f: written(f, "x.npz", b"garbage"), "not an .npz file"),
    "parquet-garbage": (lambda f: written(f, "x.parquet", b"PAR1" + bytes(100) + b"PAR1"), "cannot be read"),
    "parquet-empty": (lambda f: written(f, "x.parquet", b""), "cannot be read"),
    "csv-binary": (lambda f: written(f, "x.csv", b"a,b\n\xff\xfe\x00\x01,2\n"), "cannot be read|not numeric"),
    "csv-empty": (lambda f: written(f, "x.csv", b""), "is empty"),
    "csr-shape": (lambda f: csr(f, shape=[10**12, 5]), "do not fit their shape"),
    "csr-shape-type": (lambda f: csr(f, shape="five"), "must be .rows, columns."),
    "csr-shape-float": (lambda f: csr(f, shape=[5.0, "5"]), "must be .rows, columns."),
    "csr-pointers": (lambda f: csr(f, indptr=np.arange(6.0)), "must be whole numbers"),
    "csr-lengths": (lambda f: csr(f, data=np.ones(3)), "do not fit their shape"),
    "csr-dimensions": (lambda f: csr(f, data=np.ones((5, 1))), "one dimension each"),
}


@pytest.mark.parametrize("case", INPUT)
def test_hostile_input(tmp_path, case):
    make, sentence = INPUT[case]
    (tmp_path / "in").mkdir()
    path = make(tmp_path / "in")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=sentence) as caught:
        open_source(path).staged(tmp_path / "staged")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "in" / "monkey").exists()
    assert sorted(path for path in tmp_path.rglob("*") if "staged" not in str(path)) == before


def test_column_numbers_out_of_range(tmp_path):
    source = open_source(csr(tmp_path, indices=np.array([0, 1, 2, 3, 99])))
    with pytest.raises(ValueError, match="out of range"):
        source.read(0, 5)
