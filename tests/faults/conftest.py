"""Real processes to be killed: a scheduler, workers and a fitting client, each a process of its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import zarr

from dtree.engine.fit import fit_dataset

RESULTS = ("labels", "leaves", "statistics/clusters", "tree/left", "tree/right", "tree/log_phi_t")
OPTIONS = {"chunk_bytes": 100_000, "seed": 5, "sample_rows": 300, "tolerance": 0.0, "max_passes": 12}
_ROOT = str(Path(__file__).parents[2])


def rows(n: int = 60_000, d: int = 3, k: int = 20) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.normal(0, 6.0, size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


def bits(run):
    return {name: np.asarray(zarr.open_array(f"{run}/{name}", mode="r")[...]).tobytes() for name in RESULTS}


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The data, and the run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    np.save(folder / "x.npy", rows())
    fit_dataset(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def start(*command: str, through: tuple[str, ...] = (), **settings: str) -> subprocess.Popen:
    """A Python process, started by the command `through` if there is one, with more environment variables."""
    environment = {**os.environ, "PYTHONPATH": _ROOT, "OMP_NUM_THREADS": "1", **settings}
    return subprocess.Popen(
        [*through, sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@contextmanager
def running(*processes: subprocess.Popen):
    """End the processes, and only them, whatever happens."""
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for(condition, seconds: float = 90.0) -> None:
    """Wait until the condition holds."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise TimeoutError("the test waited too long")
        time.sleep(0.1)


@contextmanager
def killing_workers(client, every: float, most: int):
    """SIGKILL a random worker of a local cluster every few seconds; yields the list of the dead."""
    done, deaths = threading.Event(), []

    def kill() -> None:
        choice = random.Random(0)
        while len(deaths) < most and not done.wait(every):
            pids = [worker.pid for worker in client.cluster.workers.values() if worker.pid]
            if pids:
                deaths.append(choice.choice(pids))
                os.kill(deaths[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield deaths
    finally:
        done.set()
        killer.join()


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 3 MB, where the machine allows one."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if made.returncode != 0:
        pytest.skip("this machine does not let us mount a small file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(filler: Path) -> None:
    """Write a file until the disk is full."""
    with open(filler, "wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(os.urandom(4096))
