"""Runs and input files made by somebody who means no good: one sentence each, nothing run, nothing written elsewhere."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr

import dtree
from dtree.engine.dataset import open_dataset, write_csr
from dtree.engine.fit import fit_dataset, predict_dataset, resume
from dtree.engine.methods import method_of

X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0], [9.0]], 30, axis=0)


class Stop(Exception):
    pass


def stop(step):
    raise Stop


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished run and one that was stopped after its first pass."""
    folder = tmp_path_factory.mktemp("good")
    np.save(folder / "x.npy", X)
    options = {"family": "gaussian-diag", "chunk_bytes": 320}
    fit_dataset(folder / "x.npy", folder / "done", **options)
    with pytest.raises(Stop):
        fit_dataset(folder / "x.npy", folder / "stopped", progress=stop, **options)
    return folder


def edit(path: Path, change) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def attribute(*keys, value):
    """Change one attribute of the run."""

    def change(run: Path) -> None:
        def inside(document):
            place = document["attributes"]
            for key in keys[:-1]:
                place = place[key]
            place[keys[-1]] = value

        edit(run / "zarr.json", inside)

    return change


def metadata(array: str, **fields):
    """Change what an array says of itself."""
    return lambda run: edit(newest(run, array) / "zarr.json", lambda document: document.update(fields))


def newest(run: Path, array: str) -> Path:
    """`gen/name` stands for the newest checkpoint's array."""
    if not array.startswith("gen/"):
        return run / array
    return max((run / "checkpoints").glob("gen-*")) / array[4:]


def values(array: str, change):
    """Change the numbers of an array, everything else being in order."""

    def act(run: Path) -> None:
        place = newest(run, array)
        found = np.asarray(zarr.open_array(str(place), mode="r")[...])
        changed = change(found)
        shutil.rmtree(place)
        group = zarr.open_group(str(place.parent), mode="a")
        made = group.create_array(place.name, shape=changed.shape, chunks=tuple(max(n, 1) for n in changed.shape),
                                  dtype=changed.dtype, compressors=None, config={"write_empty_chunks": True})  # fmt: skip
        made[...] = changed

    return act


def with_nan(found):
    found = found.copy()
    found[0, -1] = np.nan
    return found


def huge_declared(run: Path) -> None:
    edit(newest(run, "gen/statistics") / "zarr.json", lambda document: document.update(shape=[10**12, 5]))


def linked(name: str):
    def act(run: Path) -> None:
        shutil.move(run / name, run.parent / "elsewhere")
        (run / name).symlink_to(run.parent / "elsewhere")

    return act


def pipe(run: Path) -> None:
    os.mkfifo(run / "model" / "pipe")


def unpickling_array(folder: Path, monkey: Path) -> None:
    """A zarr array of format 2 whose chunk, unpickled, makes the file `monkey`."""
    zarr.create_array(str(folder), data=np.zeros((60, 2)), chunks=(60, 2), zarr_format=2, compressors=None)
    edit(folder / ".zarray", lambda document: document.update(compressor={"id": "pickle", "protocol": 5}))
    (folder / "0.0").write_bytes(pickle.dumps(Bomb(str(monkey))))


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (Path(self.target),)


def pickle_codec(run: Path) -> None:
    codecs = [{"name": "numcodecs.pickle", "configuration": {}}]
    edit(newest(run, "gen/statistics") / "zarr.json", lambda document: document.update(codecs=codecs))


def old_format(run: Path) -> None:
    (newest(run, "gen/statistics") / ".zarray").write_text("{}")


def consolidated(run: Path) -> None:
    edit(newest(run, "gen/statistics").parent / "zarr.json",
         lambda document: document.update(consolidated_metadata={"metadata": {}, "kind": "inline"}))  # fmt: skip


def deep_json(run: Path) -> None:
    (run / "zarr.json").write_text('{"attributes": {"run_id": "x", "method": "bayes-kmeans", "a": ' + "[" * 100_000)


BOTH = {
    "no-json": (lambda run: (run / "zarr.json").write_text("{"), "not valid JSON"),
    "deep-json": (deep_json, "not valid JSON"),
    "a-list": (lambda run: (run / "zarr.json").write_text("[]"), "not a JSON object"),
    "no-run-id": (attribute("run_id", value="../../etc"), "run_id"),
    "format": (attribute("format", value=99), "written in format 99"),
    "method": (attribute("method", value="__import__"), "method that this dtree does not know"),
    "method-type": (attribute("method", value=["bayes-kmeans"]), "by which method"),
    "source-type": (attribute("source", value="x.npy"), "not a description of rows"),
    "source-kind": (attribute("source", "kind", value="pickle"), "unknown kind 'pickle'"),
    "source-up": (attribute("source", "path", value="../../etc/passwd"), "names a place outright"),
    "source-inside-up": (attribute("source", "path", value="/tmp/../etc/passwd"), "names a place outright"),
    "source-number": (attribute("source", "path", value=7), "names a place outright"),
    "source-shape": (attribute("source", "shape", value=[10**30, 2]), "impossible shape"),
    "source-negative": (attribute("source", "shape", value=[-1, 2]), "impossible shape"),
    "source-dtype": (attribute("source", "dtype", value="object"), "no numbers"),
    "source-step": (attribute("source", "step", value=0), "step of its source"),
    "source-more": (attribute("source", "surprise", value=1), "more than dtree ever writes"),
    "chunk-rows": (attribute("chunk_rows", value=0), "chunk_rows"),
    "settings": (attribute("settings", value={"seed": "x"}), "damaged"),
    "settings-surprise": (attribute("settings", "surprise", value=1), "damaged"),
    "features": (attribute("source", "shape", value=[60, 3]), "damaged"),
    "nan": (values("gen/statistics", with_nan), "hold NaN or infinity"),
    "narrow": (values("gen/statistics", lambda found: found[:, 1:]), "have not 5 columns"),
    "no-clusters": (values("gen/statistics", lambda found: found[:0]), "have not 5 columns"),
    "integers": (values("gen/statistics", lambda found: found.astype(np.int64)), "have not 5 columns"),
    "empty-cluster": (values("gen/statistics", np.zeros_like), "empty cluster"),
    "label-map": (values("gen/label_map", lambda found: found + 10**9), "clusters that are not there"),
    "births": (values("gen/birth_lengths", lambda found: np.array([3, 10**6])), "damaged"),
    "huge": (huge_declared, "declares .* bytes but holds"),
    "type": (metadata("gen/statistics", data_type="complex128"), "no proper shape or type"),
    "type-object": (metadata("gen/statistics", data_type={"name": "pickle"}), "no proper shape or type"),
    "shape-type": (metadata("gen/statistics", shape="long"), "no proper shape or type"),
    "no-array": (lambda run: shutil.rmtree(newest(run, "gen/statistics")), "damaged: 'statistics'"),
    "pickle": (pickle_codec, "wants the codecs numcodecs.pickle"),
    "old-format": (old_format, "files of a format in which runs are not written"),
    "consolidated": (consolidated, "consolidated metadata"),
    "model-family": (lambda run: edit(run / "model" / "zarr.json",
                                      lambda d: d["attributes"].update(family="os.system")), "damaged"),
    "model-shape": (values("model/family.mean", lambda found: np.zeros(3)), "damaged"),
    "model-nan": (values("model/family.mean", lambda found: found * np.nan), "damaged"),
    "model-missing": (lambda run: shutil.rmtree(run / "model"), "damaged"),
    "link": (linked("checkpoints"), "neither a file nor a folder"),
    "link-model": (linked("model"), "neither a file nor a folder"),
    "pipe": (pipe, "neither a file nor a folder"),
}  # fmt: skip
FINISHED = {
    "tree-cycle": (values("tree/left", lambda found: found + 10), "the tree breaks the invariant"),
    "tree-nan": (values("tree/log_phi_t", lambda found: found * np.nan), "the tree breaks the invariant"),
    "tree-leaves": (values("tree/left", lambda found: found[:0]), "the tree breaks the invariant"),
    "labels-shape": (metadata("labels", shape=[10**9]), "its labels are not one for each of 60 rows"),
    "labels-chunk": (metadata("labels", chunk_grid={"name": "regular", "configuration": {"chunk_shape": [10**12]}}),
                     "more than this machine's memory"),
    "labels-gone": (lambda run: shutil.rmtree(run / "labels" / "c"), "some of its labels are missing"),
    "leaves-shape": (metadata("leaves", shape=[3]), "its leaves are not one for each of 60 rows"),
    "leaf-clusters": (values("statistics/leaf_clusters", lambda found: found + 5), "its leaves are not in 2 clusters"),
    "clusters-nan": (values("statistics/clusters", with_nan), "hold NaN or infinity"),
    "clusters-few": (values("statistics/clusters", lambda found: found[:1]), "number of clusters"),
    "threshold": (attribute("threshold", value="x"), "threshold is not a probability"),
    "n-clusters": (attribute("n_clusters", value="many"), "number of clusters"),
    "joint": (attribute("log_joint", value=None), "log_joint is not a number"),
    "trace": (values("trace/moved", lambda found: found[:0]), "differ in length"),
    "linked-labels": (linked("labels"), "neither a file nor a folder"),
}  # fmt: skip
STOPPED = {
    "labels-out-of-range": (lambda run: wrong_labels(run), "labels of chunk 0 name clusters that"),
    "linked-passes": (linked("passes"), "neither a file nor a folder"),
}


def wrong_labels(run: Path) -> None:
    place = max((run / "passes").glob("labels-*"))
    zarr.open_array(str(place), mode="r+")[:] = np.full(60, 10**6, np.int32)


def copied(runs, tmp_path, name):
    shutil.copytree(runs / name, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("case", BOTH | FINISHED)
def test_a_finished_run_is_opened_with_suspicion(runs, tmp_path, case):
    run = copied(runs, tmp_path, "done")
    dtree.open(run)
    harm, sentence = (BOTH | FINISHED)[case]
    harm(run)
    uses = [dtree.open, resume, lambda path: predict_dataset(path, X, tmp_path / "out.zarr")]
    for use in uses if case != "method" else [dtree.open, method_of]:
        with pytest.raises(ValueError, match=sentence) as caught:
            use(run)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("case", BOTH | STOPPED)
def test_a_stopped_run_is_resumed_with_suspicion(runs, tmp_path, case):
    run = copied(runs, tmp_path, "stopped")
    harm, sentence = (BOTH | STOPPED)[case]
    harm(run)
    with pytest.raises(ValueError, match=sentence) as caught:
        method_of(run) if case == "method" else resume(run)
    assert "\n" not in str(caught.value)


def test_untouched_runs_are_fine(runs, tmp_path):
    resume(copied(runs, tmp_path, "stopped"))
    assert np.array_equal(dtree.open(tmp_path / "run").labels_, dtree.open(runs / "done").labels_)


# Input files ---------------------------------------------------------------------------------------------------------


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
        open_dataset(path, tmp_path / "staged")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "in" / "monkey").exists()
    assert sorted(path for path in tmp_path.rglob("*") if "staged" not in str(path)) == before


def test_a_run_cannot_make_a_worker_unpickle(runs, tmp_path):
    """The source is named by the run, so what it leads to is asked again when it is read."""
    run = copied(runs, tmp_path, "stopped")
    unpickling_array(tmp_path / "x.zarr", tmp_path / "monkey")
    attribute("source", "path", value=str(tmp_path / "x.zarr"))(run)
    attribute("source", "kind", value="zarr")(run)
    with pytest.raises(ValueError, match=r"rows 0 to \d+ of .* cannot be read .*pickle"):
        resume(run)
    assert not (tmp_path / "monkey").exists()


def test_column_numbers_out_of_range(tmp_path):
    source = open_dataset(csr(tmp_path, indices=np.array([0, 1, 2, 3, 99])), tmp_path / "staged")
    with pytest.raises(ValueError, match="out of range"):
        source.read(0, 5)
