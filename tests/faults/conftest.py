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

from dtree.engine.drive import Given, Place, drive
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.codec import encode
from dtree.runs.run import ROW_ARRAYS, Run

SEED = 5
# Chunks and settings with which 60,000 rows (or few, where rows are costly) take several steps.
CASES = {
    "bayes-kmeans-bhc": ({"sample_rows": 300, "tol": 0.0, "max_iter": 12}, 60_000),
    "randomized": ({"family": "gaussian-diag", "subset": 100}, 60_000),
    "vb": ({"variant": "TSB", "truncation": 12, "sample_rows": 600, "tol": 0.0, "max_iter": 12}, 60_000),
    "chains": ({"sampler": "gibbs", "family": "gaussian-diag", "chains": 2, "draws": 3000, "warmup": 10}, 300),
    "ddt": ({"n_permutations": 2, "search_steps": 600, "posterior_sweeps": 20}, 40),
}
_ROOT = str(Path(__file__).parents[2])


def rows(n: int = 60_000, d: int = 3, k: int = 20) -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.normal(0, 6.0, size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


def fit(name, data, out=None, client=None, progress=None, chunk_bytes=100_000, **more):
    """Fit a method with its settings of CASES, `more` instead of some of them."""
    method = method_named(name)
    settings = checked(method.Settings, {**CASES[name][0], **more})
    return drive(method, settings, Given(data, chunk_bytes=chunk_bytes), Place(out, client=client), SEED, progress)


def bits(run):
    """Every array of the results of a run, but for how long things took."""
    opened = Run.open(run)
    arrays = {}
    encode(opened.fitted(method_named(opened.header.method).Fitted), "", arrays)
    arrays |= {name: opened.row_array(name) for name in ROW_ARRAYS if opened.store.has_rows(name)}
    return {name: np.ascontiguousarray(v).tobytes() for name, v in arrays.items() if "seconds" not in name}


def committed(run):
    """Steps, or blocks of all parts together, that a run has committed."""
    steps = [int(path.name[-8:]) for path in Path(run).glob("checkpoints/gen-*")]
    blocks = [max(int(p.name[-8:]) for p in part.glob("*-*")) for part in Path(run).glob("parts/*") if any(part.glob("gen-*"))]  # fmt: skip  # noqa: E501
    return max(steps, default=0) + sum(blocks)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """name -> the folder with its data `x.npy` and the run that nothing disturbed."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            np.save(made[name] / "x.npy", rows(CASES[name][1]))
            fit(name, made[name] / "x.npy", made[name] / "run")
        return made[name]

    return make


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
