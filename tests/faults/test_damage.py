"""Damaged data, full disks, too little memory: one clear sentence, and the run can be carried on."""

from __future__ import annotations

import errno
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

from dtree.engine import cluster
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import resume
from dtree.engine.predict import predict_into
from dtree.runs.commit import DiskFull
from tests.faults.conftest import bits, committed, fill_disk, fit, rows

NAME = "bayes-kmeans-bhc"


def damage_after(number, action):
    def watch(step):
        if step.number == number:
            action()

    return watch


SMALL = {"chunk_bytes": 10_000}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    np.save(folder / "x.npy", rows(4000, k=10))
    fit(NAME, folder / "x.npy", folder / "run", **SMALL)
    return folder


def test_truncated_npy(small, tmp_path):
    shutil.copy(small / "x.npy", tmp_path / "x.npy")

    def truncate():
        with open(tmp_path / "x.npy", "r+b") as file:
            file.truncate(50_000)

    with pytest.raises(ValueError, match=r"rows \d+ to \d+ of .* cannot be read .* restore it and resume the run"):
        fit(NAME, tmp_path / "x.npy", tmp_path / "run", progress=damage_after(1, truncate), **SMALL)
    shutil.copy(small / "x.npy", tmp_path / "x.npy")
    resume(tmp_path / "run")
    assert bits(tmp_path / "run") == bits(small / "run")


def test_corrupted_zarr_chunk(small, tmp_path):
    X = np.load(small / "x.npy")
    array = zarr.create_array(str(tmp_path / "x.zarr"), shape=X.shape, chunks=(400, 3), dtype=X.dtype)
    array[:] = X
    victim = tmp_path / "x.zarr" / "c" / "4" / "0"
    whole = victim.read_bytes()

    with pytest.raises(ValueError, match=r"rows \d+ to \d+ of .*x.zarr cannot be read"):
        fit(
            NAME, tmp_path / "x.zarr", tmp_path / "run",
            progress=damage_after(2, lambda: victim.write_bytes(whole[: len(whole) // 2])), **SMALL,
        )  # fmt: skip
    victim.write_bytes(whole)
    done = committed(tmp_path / "run")
    seen = []
    resume(tmp_path / "run", progress=lambda step: seen.append(step.number))
    assert done == 2
    assert seen[0] == 3


def test_data_changed_in_size(small, tmp_path):
    np.save(tmp_path / "x.npy", np.load(small / "x.npy"))

    def shrink():
        np.save(tmp_path / "x.npy", np.load(small / "x.npy")[:, :2])

    with pytest.raises(ValueError, match="the data were changed since the run began"):
        fit(NAME, tmp_path / "x.npy", tmp_path / "run", progress=damage_after(1, shrink), **SMALL)


def test_lost_labels_are_noticed(small, tmp_path):
    out = tmp_path / "run"

    def lose():
        shutil.rmtree(out / "passes" / "labels-00000001" / "c")

    with pytest.raises(ValueError, match="it is damaged"):
        fit(NAME, small / "x.npy", out, progress=damage_after(1, lose), **SMALL)


def test_full_disk(small, tiny_disk):
    filler = tiny_disk / "filler"

    with pytest.raises(OSError, match="is full: free some space and resume the run"):
        fit(NAME, small / "x.npy", tiny_disk / "run", progress=damage_after(2, lambda: fill_disk(filler)), **SMALL)
    filler.unlink()
    done = committed(tiny_disk / "run")
    seen = []
    resume(tiny_disk / "run", progress=lambda step: seen.append(step.number))
    assert done == 2
    assert seen[0] == 3
    assert bits(tiny_disk / "run") == bits(small / "run")


@pytest.mark.parametrize("group", ["passes", "checkpoints"])
def test_a_disk_that_is_full_when_a_group_is_marked(group, small, tmp_path, monkeypatch):
    """There may be no room for the small file that makes a folder a zarr group: it is not left empty."""
    write, full = Path.write_text, []

    def write_text(path, text):
        if path.parent.name == group and not full:
            full.append(path)
            path.touch()
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OSError, match="is full: free some space and"):
        fit(NAME, small / "x.npy", tmp_path / "run", **SMALL)
    if (tmp_path / "run").exists():
        resume(tmp_path / "run")
    else:
        fit(NAME, small / "x.npy", tmp_path / "run", **SMALL)
    assert full
    assert bits(tmp_path / "run") == bits(small / "run")


def test_the_sentence_about_a_full_disk_survives_the_way_from_a_worker():
    there = pickle.loads(pickle.dumps(DiskFull(errno.ENOSPC, "the disk of run is full")))
    assert isinstance(there, DiskFull)
    assert there.errno == errno.ENOSPC
    assert str(there) == "the disk of run is full"


def test_full_disk_before_the_first_checkpoint(small, tiny_disk):
    fill_disk(tiny_disk / "filler")
    with pytest.raises(OSError, match="is full: free some space and fit again"):
        fit(NAME, small / "x.npy", tiny_disk / "run", **SMALL)
    with pytest.raises(OSError, match="is full: free some space and predict again"):
        predict_into(small / "run", small / "x.npy", tiny_disk / "labels.zarr")
    assert [path.name for path in tiny_disk.iterdir()] == ["filler"]


@pytest.mark.slow
def test_worker_without_enough_memory(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1_000_000, 40)))
    # The engine sizes chunks to the workers, so we must lie about their memory to get into this trouble: a chunk of 320
    # MB does not fit, and the nanny kills the worker each time it tries.
    monkeypatch.setattr(cluster, "worker_memory", lambda client: None)
    options = {"family": "gaussian-diag", "sample_rows": 100, "chunk_bytes": 320_000_000, "max_iter": 2}

    class Stop(Exception):
        pass

    def stop(step):
        raise Stop

    with pytest.raises(Stop):
        fit(NAME, tmp_path / "x.npy", tmp_path / "half", progress=stop, **options)
    with cluster_client(n_workers=1, memory_limit="430MB", warm=False) as client:
        with pytest.raises(RuntimeError, match="most likely for lack of memory"):
            fit(NAME, tmp_path / "x.npy", tmp_path / "run", client=client, **options)
        with pytest.raises(RuntimeError, match="most likely for lack of memory"):
            resume(tmp_path / "half", client)
    assert committed(tmp_path / "half") == 1
    resume(tmp_path / "half")  # where there is memory enough
    if (tmp_path / "run").exists():
        assert list((tmp_path / "run").glob("checkpoints/gen-*"))
        resume(tmp_path / "run")  # workers got through the first look and died in the first pass
    else:  # they died before anything was worth keeping, and nothing was kept
        fit(NAME, tmp_path / "x.npy", tmp_path / "run", **options)
    assert bits(tmp_path / "half") == bits(tmp_path / "run")
