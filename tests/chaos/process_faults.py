"""Processes that are killed, terminated, stopped or disturbed by another: client, worker, scheduler, second writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dtree.engine.cluster import cluster_client
from dtree.engine.drive import Place, resume
from tests.chaos.episode import LATE, Episode, Wrong, ended, same_bits, tried

ROOT = Path(__file__).parents[2]
# Slow enough to be met in the middle: at every reading of rows and after every step.
SLOW_FIT = """
import sys, time
from contextlib import nullcontext
from distributed import Client
from dtree.cli.console import hearing_sigterm
from tests.chaos.episode import CountedReads, Place, fit, reading
name, data, out, address = sys.argv[1:]
class Slow(CountedReads):
    def count(self):
        time.sleep(0.05)
with hearing_sigterm(), Client(address, set_as_default=False) if address else nullcontext() as client, reading(Slow()):
    fit(name, data, Place(out, client=client), lambda event: time.sleep(0.3))
"""


def _quiet() -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}


@contextmanager
def fitting(at: Episode, address: str = "") -> Any:
    words = [sys.executable, "-c", SLOW_FIT, at.name, str(at.data), str(at.run), address]
    process = subprocess.Popen(words, **_quiet())
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def wait_until_begun(at: Episode, process: Any) -> None:
    """Until there is something of the run, and a moment more."""
    limit = time.monotonic() + 300
    while process.poll() is None and not at.run.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    # As long as the waiting in it lasts, at most: a busy machine only makes it longer.
    time.sleep(at.chance.random() * (0.05 * at.reads[1] + 0.3 * at.steps))


def client_killed(at: Episode) -> str:
    with fitting(at) as process:
        wait_until_begun(at, process)
        if process.poll() is not None:
            return _over(at)
        process.send_signal(signal.SIGKILL)
    return ended(at)


def _over(at: Episode) -> str:
    if not same_bits(at):
        raise Wrong("SILENT another answer")
    return LATE


def client_terminated(at: Episode) -> str:
    with fitting(at) as process:
        wait_until_begun(at, process)
        if process.poll() is not None:
            return _over(at)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=600)
    if (at.run / ".lease").exists():
        raise Wrong("CRASH a lease was left behind by SIGTERM")
    return ended(at)


def client_stopped(at: Episode) -> str:
    """SIGSTOP, and another who wants the run meanwhile."""
    with fitting(at) as process:
        wait_until_begun(at, process)
        if process.poll() is not None:
            return _over(at)
        process.send_signal(signal.SIGSTOP)
        tried(lambda: resume(at.run, progress=lambda event: None))
        process.send_signal(signal.SIGCONT)
        process.wait(timeout=600)
        if process.returncode == 0 and not same_bits(at):
            raise Wrong("SILENT two worked on one run")
    return ended(at)


def second_writer(at: Episode) -> str:
    with fitting(at) as one, fitting(at) as two:
        codes = sorted([one.wait(timeout=600), two.wait(timeout=300)])
    if codes != [0, 1] or not same_bits(at):
        raise Wrong(f"CRASH two fits into one place ended with {codes}")
    return "bits"


def worker_killed(at: Episode) -> str:
    with cluster_client(n_workers=2, memory_limit="1GB", warm=False) as client:
        killed: list[int] = []

        def kill(event: Any) -> None:
            pids = [worker.pid for worker in client.cluster.workers.values() if worker.pid]
            if pids and len(killed) < 2:
                killed.append(at.chance.choice(pids))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

        sentence = tried(lambda: at.fit(Place(at.run, client=client), kill))
    if sentence is None and not same_bits(at):
        raise Wrong("SILENT another answer")
    if sentence is None:
        return "bits" if killed else LATE
    return ended(at)


def _address_in(file: Path) -> str:
    """Where a scheduler listens; "" until its file is whole."""
    with suppress(FileNotFoundError, ValueError):
        return str(json.loads(file.read_text())["address"])
    return ""


def scheduler_killed(at: Episode) -> str:
    file = at.folder / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    scheduler = subprocess.Popen([*dask, "--scheduler-file", str(file)], **_quiet())
    worker = subprocess.Popen([*work, "--scheduler-file", str(file), "--death-timeout", "20"], **_quiet())
    try:
        limit = time.monotonic() + 240
        while not _address_in(file) and time.monotonic() < limit:
            time.sleep(0.1)
        with fitting(at, _address_in(file)) as process:
            wait_until_begun(at, process)
            if process.poll() is not None:
                return _over(at)
            scheduler.kill()
            process.wait(timeout=600)
    finally:
        for started in (scheduler, worker):
            started.kill()
            started.wait()
    return ended(at)


PROCESS_FAULTS = {
    client_killed: 3, client_terminated: 3, client_stopped: 2, second_writer: 2, worker_killed: 1, scheduler_killed: 1,
}  # fmt: skip
