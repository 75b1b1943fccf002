"""Runs made by somebody who means no good: one sentence each, nothing run, nothing written elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import dtree
from dtree.data import Source
from dtree.engine.drive import Given, Place, drive, resume
from dtree.engine.predict import predict_into
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.run import Run
from tests.engine.test_hostile_files import unpickling_array
from tests.sealing import seal_again

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
    method = method_named("bayes-kmeans-bhc")
    settings, given = checked(method.Settings, {"family": "gaussian-diag"}), Given(folder / "x.npy", chunk_bytes=320)
    drive(method, settings, given, Place(folder / "done"))
    with pytest.raises(Stop):
        drive(method, settings, given, Place(folder / "stopped"), progress=stop)
    return folder


# What is done to a run. Names of arrays and fields are those of a finished run; `place` finds them in a stopped one.


def place(run: Path, name: str) -> tuple[Path, str]:
    """The folder whose header lists an array or holds a field, and its name there.

    A finished run holds its results itself. In a stopped one clusters are in the newest checkpoint, the model in what
    was prepared.
    """
    if (run / "prepared").exists() and name.split("/")[0] != "settings":
        if name.startswith("model"):
            return run / "prepared", name
        return max((run / "checkpoints").glob("gen-*")), name if name.startswith("race") else f"clusters/{name}"
    if name.startswith("settings/"):
        return run / "settings", name.removeprefix("settings/")
    return run, name


def edit(path: Path, change) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def header(*keys, value):
    """Change one thing that the run says of itself."""

    def change(run: Path) -> None:
        def inside(document):
            found = document["attributes"]["dtree"]
            for key in keys[:-1]:
                found = found[key]
            found[keys[-1]] = value

        edit(run / "zarr.json", inside)

    return change


def record(name: str, change):
    """Change what stands in the JSON of a record: `change` gets the record with the field, and its values."""

    def act(run: Path) -> None:
        folder, _ = place(run, name)
        key = "results" if folder == run else "value"
        edit(folder / "zarr.json", lambda document: change(document["attributes"]["dtree"][key]))

    return act


def metadata(name: str, **fields):
    """Change what an array says of itself."""

    def act(run: Path) -> None:
        folder, array = place(run, name)
        edit(folder / array / "zarr.json", lambda document: document.update(fields))

    return act


def values(name: str, change):
    """Change the numbers of an array, everything else being in order: its shape, its type and its hash are listed."""

    def act(run: Path) -> None:
        folder, array = place(run, name)
        changed = np.ascontiguousarray(change(np.asarray(zarr.open_array(str(folder / array), mode="r")[...])))
        shutil.rmtree(folder / array)
        group = zarr.open_group(str((folder / array).parent), mode="a")
        chunks = tuple(max(n, 1) for n in changed.shape)
        options = {"compressors": None, "config": {"write_empty_chunks": True}}
        made = group.create_array(Path(array).name, shape=changed.shape, dtype=changed.dtype, chunks=chunks, **options)
        made[...] = changed
        listing = {"shape": list(changed.shape), "dtype": changed.dtype.name,
                   "sha256": hashlib.sha256(changed.tobytes()).hexdigest()}  # fmt: skip
        edit(folder / "zarr.json", lambda document: document["attributes"]["dtree"]["arrays"].update({array: listing}))

    return act


def with_nan(found):
    found = found.copy()
    found[0, -1] = np.nan
    return found


def huge_declared(run: Path) -> None:
    folder, array = place(run, "statistics")
    shape = [10**12, 5]
    edit(folder / array / "zarr.json", lambda document: document.update(shape=shape))
    edit(folder / "zarr.json", lambda document: document["attributes"]["dtree"]["arrays"][array].update(shape=shape))


def gone(name: str):
    def act(run: Path) -> None:
        folder, array = place(run, name)
        shutil.rmtree(folder / array)

    return act


def linked(name: str):
    def act(run: Path) -> None:
        shutil.move(run / name, run.parent / "elsewhere")
        (run / name).symlink_to(run.parent / "elsewhere")

    return act


def pipe(run: Path) -> None:
    os.mkfifo(run / "settings" / "pipe")


def old_format(run: Path) -> None:
    folder, array = place(run, "statistics")
    (folder / array / ".zarray").write_text("{}")


def consolidated(run: Path) -> None:
    edit(run / "settings" / "zarr.json",
         lambda document: document.update(consolidated_metadata={"metadata": {}, "kind": "inline"}))  # fmt: skip


def deep_json(run: Path) -> None:
    (run / "zarr.json").write_text('{"attributes": {"dtree": {"method": "bayes-kmeans", "a": ' + "[" * 100_000)


def family(stored):
    def change(found):
        found["model"]["$model"][0].update(stored)

    return record("model", change)


MEAN = "model/family/mean"
BOTH = {
    "no-json": (lambda run: (run / "zarr.json").write_text("{"), "not valid JSON"),
    "deep-json": (deep_json, "not valid JSON"),
    "a-list": (lambda run: (run / "zarr.json").write_text("[]"), "not a JSON object"),
    "run-id": (header("run_id", value="../../etc"), "run_id"),
    "format": (header("format", value=99), "has format 99"),
    "method": (header("method", value="__import__"), "method that this dtree does not know"),
    "method-type": (header("method", value=["bayes-kmeans"]), "header is wrong: .*method"),
    "source-type": (header("source", value="x.npy"), "header is wrong: .*source"),
    "chunk-rows": (header("chunk_rows", value=0), "chunk_rows"),
    "nan": (values("statistics", with_nan), "hold NaN or infinity"),
    "narrow": (values("statistics", lambda found: found[:, 1:]), "have not 5 columns"),
    "no-clusters": (values("statistics", lambda found: found[:0]), "have not 5 columns"),
    "integers": (values("statistics", lambda found: found.astype(np.int64)), "have not 5 columns"),
    "empty-cluster": (values("statistics", np.zeros_like), "empty cluster"),
    "huge": (huge_declared, "declares .* bytes but holds"),
    "type": (metadata("statistics", data_type="complex128"), "not stored in the way that runs are"),
    "type-object": (metadata("statistics", data_type={"name": "pickle"}), "not stored in the way that runs are"),
    "shape-type": (metadata("statistics", shape="long"), "no proper shape"),
    "no-array": (gone("statistics"), "statistics' is missing"),
    "pickle": (metadata("statistics", codecs=[{"name": "numcodecs.pickle", "configuration": {}}]),
               "wants the codecs numcodecs.pickle"),
    "old-format": (old_format, "files of a format in which runs are not written"),
    "consolidated": (consolidated, "consolidated metadata"),
    "model-family": (family({"$family": "os.system"}), "damaged: .*'os.system'"),
    "model-shape": (values(MEAN, lambda found: np.zeros(3)), "damaged"),
    "model-nan": (values(MEAN, lambda found: found * np.nan), "damaged"),
    "model-missing": (record("model", lambda found: found.pop("model")), "damaged: .*'model'"),
    "link": (linked("settings"), "neither a file nor a folder"),
    "pipe": (pipe, "neither a file nor a folder"),
}  # fmt: skip
# Settings are read where a run is opened or resumed, not where rows are labelled.
SETTINGS = {
    "settings": (record("settings/", lambda found: found.update(max_iter="x")), "damaged: .*max_iter"),
    "settings-range": (
        record("settings/", lambda found: found.update(patience=-1)),
        "damaged: patience must be at least",
    ),
    "settings-type": (record("settings/", lambda found: found.update(cut="x")), "damaged: .*cut"),
    "threshold": (record("settings/", lambda found: found.update(cut=7.0)), "damaged: cut must be at most 1"),
}  # fmt: skip
GRID = {"name": "regular", "configuration": {"chunk_shape": [10**12]}}
FINISHED = {
    "tree-cycle": (values("tree/left", lambda found: found + 10), "the tree breaks the invariant"),
    "tree-nan": (values("tree/log_phi_t", lambda found: found * np.nan), "the tree breaks the invariant"),
    "tree-leaves": (values("tree/left", lambda found: found[:0]), "the tree breaks the invariant"),
    "tree-of-others": (values("tree/log_phi_h", lambda found: found - 1.0), "the tree breaks|do not belong together"),
    "labels-shape": (metadata("labels", shape=[10**9]), "its labels are not one for each of 60 rows"),
    "labels-type": (metadata("labels", data_type="int64"), "its labels are not one for each of 60 rows"),
    "labels-chunk": (metadata("labels", chunk_grid=GRID), "more than this machine's memory"),
    "labels-gone": (lambda run: shutil.rmtree(run / "labels" / "c"), "some of its labels are missing"),
    "labels-some": (lambda run: (run / "labels" / "c" / "1").unlink(), "some of its labels are missing"),
    "leaves-shape": (metadata("leaves", shape=[3]), "its leaves are not one for each of 60 rows"),
    "leaf-clusters": (values("leaf_clusters", lambda found: found + 5), "its clusters are not numbered 0, 1, 2"),
    "leaf-clusters-few": (values("leaf_clusters", lambda found: found[:1]), "leaves are not each in a cluster"),
    "clusters-few": (values("statistics", lambda found: found[:1]), "leaves are not each in a cluster"),
    "columns": (values("columns", lambda found: found + 1), "its columns are not distinct numbers below 2"),
    "joint": (record("", lambda found: found.update(log_joint=None)), "damaged: .*log_joint"),
    "joint-nan": (record("", lambda found: found.update(log_joint={"$float": "nan"})), "log_joint is not a number"),
    "trace": (record("", lambda found: found["trace"]["$list"][0]["$list"].pop()), "damaged: .*trace"),
    "row-names": (header("row_names", value=["a", "b"]), "it has 2 row names for 60 rows"),
    "feature-names": (header("feature_names", value=["a"]), "it has 1 feature names for 2 features"),
    "features": (header("n_features", value=1), "its columns are not distinct numbers below 1"),
    "linked-labels": (linked("labels"), "neither a file nor a folder"),
}  # fmt: skip


def clusters(change):
    """Change the clusters in a checkpoint: number, statistics, objective, label map, births, moved, rows."""
    return record("race", lambda found: change(found["clusters"]["$list"]))


def births(stored):
    return clusters(lambda found: found.__setitem__(4, stored))


def race(change):
    return record("race", lambda found: change(found["race"]["$list"]))


def wrong_labels(run: Path) -> None:
    labels = max((run / "passes").glob("labels-*"))
    zarr.open_array(str(labels), mode="r+")[:] = np.full(60, 10**6, np.int32)


STOPPED = {
    "source-kind": (header("source", "kind", value="pickle"), "unknown kind 'pickle'"),
    "source-up": (header("source", "path", value="../../etc/passwd"), "names a place outright"),
    "source-inside-up": (header("source", "path", value="/tmp/../etc/passwd"), "names a place outright"),
    "source-number": (header("source", "path", value=7), "names a place outright"),
    "source-shape": (header("source", "shape", value=[10**30, 2]), "impossible shape"),
    "source-negative": (header("source", "shape", value=[-1, 2]), "impossible shape"),
    "source-dtype": (header("source", "dtype", value="object"), "no numbers"),
    "source-step": (header("source", "step", value=0), "step of its source"),
    "source-more": (header("source", "surprise", value=1), "more than dtree ever writes"),
    "features": (header("source", "shape", value=[60, 3]), "damaged: its source has not the rows and features"),
    "label-map": (values("label_map", lambda found: found + 10**9), "clusters that are not there"),
    "label-map-type": (values("label_map", lambda found: found.astype(float)), "clusters that are not there"),
    "births": (births({"7000": {"$array": "clusters/label_map"}}), "the births .* are those of no chunk"),
    "births-far": (births({"0": {"$array": "clusters/statistics"}}), "the births .* are not in its label map"),
    "births-type": (births({"x": {"$array": "clusters/label_map"}}), "damaged"),
    "rows": (clusters(lambda found: found.__setitem__(6, 61)), "the rows .* do not add up"),
    "moved": (clusters(lambda found: found.__setitem__(5, -1)), "the rows .* do not add up"),
    "objective": (clusters(lambda found: found.__setitem__(2, {"$float": "nan"})), "the objective .* is not a number"),
    "number": (clusters(lambda found: found.__setitem__(0, 7)), "its checkpoint 1 says that it is number 7"),
    "best-pass": (race(lambda found: found.__setitem__(0, 7)), "the best pass .* is impossible"),
    "best-objective": (race(lambda found: found.__setitem__(1, {"$float": "nan"})), "the objective .* is not a number"),
    "stalled": (race(lambda found: found.__setitem__(2, -1)), "the best pass .* is impossible"),
    "trace": (record("race", lambda found: found["trace"]["$list"].append("x")), "damaged: .*trace"),
    "prepared": (lambda run: shutil.rmtree(run / "prepared"), "has no checkpoint yet"),
    "labels-out-of-range": (wrong_labels, "labels of chunk 0 name clusters that"),
    "link-checkpoints": (linked("checkpoints"), "neither a file nor a folder"),
    "link-prepared": (linked("prepared"), "neither a file nor a folder"),
    "linked-passes": (linked("passes"), "neither a file nor a folder"),
}  # fmt: skip


def copied(runs, tmp_path, name):
    shutil.copytree(runs / name, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("case", BOTH | SETTINGS | FINISHED)
def test_a_finished_run_is_opened_with_suspicion(runs, tmp_path, case):
    run = copied(runs, tmp_path, "done")
    dtree.open(run)
    harm, sentence = (BOTH | SETTINGS | FINISHED)[case]
    harm(run)
    uses = [dtree.open, resume, lambda path: predict_into(path, X, tmp_path / "out.zarr")]
    for use in uses if case not in SETTINGS else [dtree.open]:
        with pytest.raises(ValueError, match=sentence) as caught:
            use(run)
        assert "\n" not in str(caught.value)
        assert str(run) in str(caught.value)
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("case", BOTH | SETTINGS | STOPPED)
def test_a_stopped_run_is_resumed_with_suspicion(runs, tmp_path, case):
    run = copied(runs, tmp_path, "stopped")
    shutil.rmtree(run / "checkpoints" / "gen-00000000")  # or the run would go on from there, and say so
    harm, sentence = (BOTH | SETTINGS | STOPPED)[case]
    harm(run)
    with pytest.raises(ValueError, match=sentence) as caught:
        resume(run)
    assert "\n" not in str(caught.value)
    assert str(run) in str(caught.value)


def test_untouched_runs_are_fine(runs, tmp_path):
    resume(copied(runs, tmp_path, "stopped"))
    assert np.array_equal(dtree.open(tmp_path / "run").labels_, dtree.open(runs / "done").labels_)


def test_a_setting_that_there_is_not_is_not_believed(runs, tmp_path):
    run = copied(runs, tmp_path, "stopped")
    record("settings/", lambda found: found.update(surprise=1, _mixture="x"))(run)
    seal_again(run / "settings")
    resume(run)
    opened = dtree.open(run)
    assert not hasattr(opened, "surprise")
    assert np.array_equal(opened.labels_, dtree.open(runs / "done").labels_)


def test_a_finished_run_asks_for_its_rows_no_more(runs, tmp_path):
    """So nothing in it can lead anywhere, and a run opens where the data are not."""
    run = copied(runs, tmp_path, "done")
    header("source", "path", value="../../etc/passwd")(run)
    seal_again(run)
    for opened in (dtree.open(run), dtree.open(resume(run).path)):
        assert np.array_equal(opened.labels_, dtree.open(runs / "done").labels_)


def test_a_run_cannot_make_a_worker_unpickle(runs, tmp_path):
    """The source is named by the run, so what it leads to is asked again when it is read."""
    run = copied(runs, tmp_path, "stopped")
    unpickling_array(tmp_path / "x.zarr", tmp_path / "monkey")
    header("source", "path", value=str(tmp_path / "x.zarr"))(run)
    header("source", "kind", value="zarr")(run)
    seal_again(run)
    with pytest.raises(ValueError, match=r"x.zarr cannot be read as it was .*pickle"):
        resume(run)
    source = Source.from_record(Run.open(run).header.source)  # as a worker has it
    with pytest.raises(ValueError, match=r"rows 0 to \d+ of .* cannot be read .*pickle"):
        source.read(0, 5)
    assert not (tmp_path / "monkey").exists()
