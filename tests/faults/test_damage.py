"""Damaged data, full disks, too little memory: one clear sentence, and the run can be carried on."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import zarr

from dtree.engine.cluster import cluster_client
from dtree.engine.fit import fit_dataset, resume
from dtree.engine.runs import Run
from tests.faults.conftest import OPTIONS, bits, fill_disk, rows


def damage_after(number, action):
    def watch(step):
        if step.number == number:
            action()

    return watch


SMALL = {**OPTIONS, "chunk_bytes": 10_000}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    np.save(folder / "x.npy", rows(4000, k=10))
    fit_dataset(folder / "x.npy", folder / "run", **SMALL)
    return folder


def test_truncated_npy(small, tmp_path):
    shutil.copy(small / "x.npy", tmp_path / "x.npy")

    def truncate():
        with open(tmp_path / "x.npy", "r+b") as file:
            file.truncate(50_000)

    with pytest.raises(ValueError, match=r"rows \d+ to \d+ of .* cannot be read .* restore it and resume the run"):
        fit_dataset(tmp_path / "x.npy", tmp_path / "run", progress=damage_after(1, truncate), **SMALL)
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
        fit_dataset(
            tmp_path / "x.zarr", tmp_path / "run",
            progress=damage_after(2, lambda: victim.write_bytes(whole[: len(whole) // 2])), **SMALL,
        )  # fmt: skip
    victim.write_bytes(whole)
    committed = Run(tmp_path / "run").generations()[-1]
    seen = []
    resume(tmp_path / "run", progress=lambda step: seen.append(step.number))
    assert committed == 2
    assert seen[0] == 3


def test_data_changed_in_size(small, tmp_path):
    np.save(tmp_path / "x.npy", np.load(small / "x.npy"))

    def shrink():
        np.save(tmp_path / "x.npy", np.load(small / "x.npy")[:, :2])

    with pytest.raises(ValueError, match="the data were changed since the run began"):
        fit_dataset(tmp_path / "x.npy", tmp_path / "run", progress=damage_after(1, shrink), **SMALL)


def test_lost_labels_are_noticed(small, tmp_path):
    out = tmp_path / "run"

    def lose():
        shutil.rmtree(out / "passes" / "labels-00000001" / "c")

    with pytest.raises(ValueError, match="the run's folder is damaged"):
        fit_dataset(small / "x.npy", out, progress=damage_after(1, lose), **SMALL)


def test_full_disk(small, tiny_disk):
    filler = tiny_disk / "filler"

    with pytest.raises(OSError, match="is full: free some space and resume the run"):
        fit_dataset(small / "x.npy", tiny_disk / "run", progress=damage_after(2, lambda: fill_disk(filler)), **SMALL)
    filler.unlink()
    committed = Run(tiny_disk / "run").generations()[-1]
    seen = []
    resume(tiny_disk / "run", progress=lambda step: seen.append(step.number))
    assert committed == 2
    assert seen[0] == 3
    assert bits(tiny_disk / "run") == bits(small / "run")


@pytest.mark.slow
def test_worker_without_enough_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(1_000_000, 40)))
    # A chunk of 320 MB does not fit: the nanny kills the worker each time it tries.
    with (
        cluster_client(n_workers=1, memory_limit="600MB", warm=False) as client,
        pytest.raises(RuntimeError, match="most likely for lack of memory"),
    ):
        fit_dataset_with_large_chunks(tmp_path, client)
    fit_dataset(tmp_path / "x.npy", tmp_path / "again", family="gaussian-diag", max_passes=1, sample_rows=100)


def fit_dataset_with_large_chunks(folder, client):
    from dtree.engine import begin

    # The engine sizes chunks to the workers, so we must lie about their memory to get into this trouble.
    real, begin.worker_memory = begin.worker_memory, lambda client: None
    try:
        fit_dataset(
            folder / "x.npy",
            folder / "run",
            family="gaussian-diag",
            chunk_bytes=320_000_000,
            client=client,
            max_passes=1,
        )
    finally:
        begin.worker_memory = real
