"""Chaos: random faults on random methods until the time is up; each ends in the undisturbed bits or a true sentence.

    python -m tests.chaos --minutes 30 --seed 1

An episode begins a fit, disturbs it, and looks how it ended; then what was disturbed is put right, where it can be, and
the run is carried on. Ends are counted by fault: `bits` (nothing was lost), `sentence` (refused in one sentence, and
after putting it right the same bits), `refused` (a sentence that no putting right follows). What is neither is printed
and makes the exit code 1: `SILENT` is a wrong answer without a word, `CRASH` an error that is no sentence.
"""

from __future__ import annotations

import argparse
import collections
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

ROOT = Path(__file__).parents[1]
os.environ.setdefault("DTREE_CACHE_DIR", str(ROOT / ".pytest_cache" / "dtree-kernels"))  # as the tests have it
SLOW_FIT = """
import sys, time
from distributed import Client
from contextlib import nullcontext
from dtree.cli.console import hearing_sigterm
from tests.faults.methods import Place, fit
name, data, out, address = sys.argv[1:]
with hearing_sigterm(), Client(address, set_as_default=False) if address else nullcontext() as client:
    fit(name, data, Place(out, client=client), lambda event: time.sleep(0.3))
"""
EXPECTED = (ValueError, RuntimeError, OSError)  # with which dtree says a sentence


class Episode(NamedTuple):
    """One fit to be disturbed."""

    name: str  # of the method
    folder: Path
    data: Path
    chance: random.Random
    bits: dict[str, bytes]  # of the run that nothing disturbs

    @property
    def run(self) -> Path:
        return self.folder / "run"


class Wrong(Exception):
    """An end that must not be."""


# How an episode ends --------------------------------------------------------------------------------------------------


def same_bits(at: Episode) -> bool:
    from dtree.runs.run import Run
    from tests.faults.methods import bits

    return bits(Run.open(at.run)) == at.bits


def tried(action: Callable[[], Any]) -> str | None:
    """The sentence that an action ends with, or None when it goes through."""
    try:
        action()
    except EXPECTED as problem:
        sentence = str(problem)
        if not sentence or "\n" in sentence:
            raise Wrong(f"CRASH no sentence: {type(problem).__name__}: {sentence[:200]!r}") from problem
        return sentence
    return None


def carried_on(at: Episode) -> str:
    """Resume, or fit again where nothing had been kept; what the end is."""
    from dtree.engine.drive import Place, resume
    from dtree.runs.run import is_run
    from tests.faults.methods import fit

    sentence = tried(lambda: resume(at.run, progress=lambda event: None)) if is_run(at.run) else "nothing was kept"
    if sentence is None:
        if not same_bits(at):
            raise Wrong("SILENT another answer")
        return "bits"
    if "has no checkpoint yet" in sentence:
        shutil.rmtree(at.run)
    if not at.run.exists() or sentence == "nothing was kept":
        again = tried(lambda: fit(at.name, at.data, Place(at.run)))
        if again is None and same_bits(at):
            return "bits"
        raise Wrong(f"CRASH fitting again: {again}")
    return sentence


def ended(at: Episode, put_right: Callable[[], None]) -> str:
    """Carry on; if that is refused, put right what was disturbed and carry on again."""
    end = carried_on(at)
    if end == "bits":
        return "bits"
    put_right()
    return "sentence" if carried_on(at) == "bits" else "refused"


# Faults ---------------------------------------------------------------------------------------------------------------


@contextmanager
def fitting(at: Episode, address: str = "") -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", SLOW_FIT, at.name, str(at.data), str(at.run), address]
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def wait_until_begun(at: Episode, process: Any) -> None:
    """Until there is something of the run, and a moment more."""
    limit = time.monotonic() + 120
    while process.poll() is None and not (at.run / "zarr.json").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    time.sleep(at.chance.random())


def client_killed(at: Episode) -> str:
    with fitting(at) as process:
        wait_until_begun(at, process)
        process.send_signal(signal.SIGKILL)
    return ended(at, lambda: None)


def client_terminated(at: Episode) -> str:
    with fitting(at) as process:
        wait_until_begun(at, process)
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120)
    if (at.run / ".lease").exists():
        raise Wrong("CRASH a lease was left behind by SIGTERM")
    return ended(at, lambda: None)


def client_stopped(at: Episode) -> str:
    """SIGSTOP, and another who wants the run meanwhile."""
    from dtree.engine.drive import resume

    with fitting(at) as process:
        wait_until_begun(at, process)
        process.send_signal(signal.SIGSTOP)
        refused = tried(lambda: resume(at.run, progress=lambda event: None))
        alive = process.poll() is None
        process.send_signal(signal.SIGCONT)
        process.wait(timeout=300)
        if alive and refused is None and process.returncode == 0 and not same_bits(at):
            raise Wrong("SILENT two worked on one run")
    return ended(at, lambda: None)


def second_writer(at: Episode) -> str:
    with fitting(at) as one, fitting(at) as two:
        codes = {one.wait(timeout=300), two.wait(timeout=300)}
    if codes != {0, 1} or not same_bits(at):
        raise Wrong(f"CRASH two fits into one place ended with {codes}")
    return "bits"


def worker_killed(at: Episode) -> str:
    from dtree.engine.cluster import cluster_client
    from dtree.engine.drive import Place
    from tests.faults.methods import fit

    with cluster_client(n_workers=2, memory_limit="1GB", warm=False) as client:
        killed: list[int] = []

        def kill(event: Any) -> None:
            pids = [worker.pid for worker in client.cluster.workers.values() if worker.pid]
            if pids and len(killed) < 2:
                killed.append(at.chance.choice(pids))
                with suppress(ProcessLookupError):
                    os.kill(killed[-1], signal.SIGKILL)

        sentence = tried(lambda: fit(at.name, at.data, Place(at.run, client=client), kill))
    if sentence is None and not same_bits(at):
        raise Wrong("SILENT another answer")
    return "bits" if sentence is None else ended(at, lambda: None)


def scheduler_killed(at: Episode) -> str:
    file = at.folder / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    quiet: dict[str, Any] = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = subprocess.Popen([*dask, "--scheduler-file", str(file)], **quiet)
    worker = subprocess.Popen([*work, "--scheduler-file", str(file), "--death-timeout", "20"], **quiet)
    try:
        limit = time.monotonic() + 60
        while not file.exists() and time.monotonic() < limit:
            time.sleep(0.1)
        from json import loads

        with fitting(at, loads(file.read_text())["address"]) as process:
            wait_until_begun(at, process)
            scheduler.kill()
            process.wait(timeout=300)
    finally:
        for started in (scheduler, worker):
            started.kill()
            started.wait()
    return ended(at, lambda: None)


def half(at: Episode, most: int = 4) -> None:
    """Stop a run after a few steps; after one there is nearly always something left that reads the data."""
    from tests.faults.methods import half_done

    with suppress(AssertionError):  # it may be over sooner
        half_done(at.name, at.data, at.run, at.chance.randint(1, most))


def flip_some(chance: random.Random, files: list[Path]) -> Callable[[], None]:
    """Flip a bit of one of some files; gives what puts it right."""
    path = chance.choice([file for file in files if file.stat().st_size])
    content = path.read_bytes()
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    path.write_bytes(changed)
    return lambda: path.write_bytes(content) and None if path.parent.exists() else None


def files_of(run: Path) -> list[Path]:
    return [path for path in run.rglob("*") if path.is_file() and "staged" not in path.parts]


def byte_of_a_stopped_run(at: Episode) -> str:
    half(at)
    return ended(at, flip_some(at.chance, files_of(at.run)))


def byte_of_a_finished_run(at: Episode) -> str:
    import dtree
    from dtree.engine.drive import Place
    from dtree.runs.verify import damages
    from tests.faults.methods import fit

    fit(at.name, at.data, Place(at.run))
    flip_some(at.chance, files_of(at.run))
    sentence = tried(lambda: (dtree.open(at.run), same_bits(at) or _silent()))
    verified: list[str] = []
    found = tried(lambda: verified.extend(damages(at.run)))
    if sentence is not None and found is None and not verified:
        raise Wrong(f"SILENT refused ({sentence}), but verify finds nothing")
    return "bits" if sentence is None else "refused"


def _silent() -> None:
    raise Wrong("SILENT another answer")


def byte_of_the_data(at: Episode) -> str:
    half(at, 1)
    return ended(at, flip_some(at.chance, [at.data]))


def chunk_of_the_data(at: Episode) -> str:
    """Lost in the middle of a run, when the data are zarr."""
    from dtree.engine.drive import Place
    from tests.faults.methods import bits, fit

    X = np.load(at.data)
    data = at.folder / "x.zarr"
    zarr.create_array(str(data), shape=X.shape, chunks=(15, 2), dtype=X.dtype)[:] = X
    at = at._replace(data=data, bits=bits(fit(at.name, data, Place(at.folder / "alone"))))
    half(at, 1)
    chunk = at.chance.choice([path for path in (data / "c").rglob("*") if path.is_file()])
    content = chunk.read_bytes()
    chunk.unlink()
    return ended(at, lambda: chunk.write_bytes(content) and None)


def full_disk(at: Episode) -> str:
    """The disk is full at one moment or another."""
    import dtree.runs.folder as folder
    from dtree.engine.drive import Place
    from tests.faults.methods import fit

    real, after = {name: getattr(folder, name) for name in ("write_group", "write_arrays")}, at.chance.randint(0, 8)
    calls = [0]

    def full(name: str) -> Callable[..., Any]:
        def write(*arguments: Any) -> Any:
            calls[0] += 1
            if calls[0] > after:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real[name](*arguments)

        return write

    try:
        for name in real:
            setattr(folder, name, full(name))
        sentence = tried(lambda: fit(at.name, at.data, Place(at.run)))
    finally:
        for name, function in real.items():
            setattr(folder, name, function)
    if sentence is not None and "is full: free some space" not in sentence:
        raise Wrong(f"CRASH of a full disk it said: {sentence}")
    return ended(at, lambda: None)


FAULTS: dict[Callable[[Episode], str], int] = {  # and how often, where those with processes take much longer
    byte_of_a_stopped_run: 6, byte_of_a_finished_run: 6, byte_of_the_data: 4, chunk_of_the_data: 4, full_disk: 4,
    client_killed: 3, client_terminated: 3, client_stopped: 3, second_writer: 3, worker_killed: 1, scheduler_killed: 1,
}  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Disturb until the time is up; print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a fault, or METHOD:FAULT, to be looked at alone")
    options = parser.parse_args(arguments)
    from tests.faults.methods import METHODS, Place, bits, fit, save_rows

    warnings.simplefilter("ignore")
    chance, limit = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    methods: collections.Counter[str] = collections.Counter()
    expected: dict[str, dict[str, bytes]] = {}
    with tempfile.TemporaryDirectory(prefix="dtree-chaos-") as temporary:
        while time.monotonic() < limit:
            name, fault = chance.choice(list(METHODS)), chance.choices(list(FAULTS), list(FAULTS.values()))[0]
            if options.only:
                only, _, one = options.only.rpartition(":")
                name, fault = only or name, next(fault for fault in FAULTS if fault.__name__ == one)
            folder = Path(tempfile.mkdtemp(dir=temporary))
            data = save_rows(folder)
            if name not in expected:
                expected[name] = bits(fit(name, data, Place(folder / "undisturbed")))
            seed = chance.randrange(2**31)
            try:
                end = fault(Episode(name, folder, data, random.Random(seed), expected[name]))
            except Wrong as wrong:
                end = str(wrong).split()[0]
                print(f"{fault.__name__} on {name} (seed {seed}): {wrong}", flush=True)
            except Exception:
                end = "CRASH"
                print(f"{fault.__name__} on {name} (seed {seed}):\n{traceback.format_exc()}", flush=True)
            counts[fault.__name__, end] += 1
            methods[name] += 1
            shutil.rmtree(folder, ignore_errors=True)
    ends = ("bits", "sentence", "refused", "SILENT", "CRASH")
    print(f"{'fault':24}" + "".join(f"{end:>10}" for end in ends))
    for fault in FAULTS:
        print(f"{fault.__name__:24}" + "".join(f"{counts[fault.__name__, end]:>10}" for end in ends))
    print(f"{'all':24}" + "".join(f"{sum(n for (_, at), n in counts.items() if at == end):>10}" for end in ends))
    print("by method: " + ", ".join(f"{name} {number}" for name, number in sorted(methods.items())))
    return 1 if any(end in ("SILENT", "CRASH") for _, end in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
