"""Processes die; the answer does not change, and at most one pass is done again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from distributed import Client

from dtree.engine.cluster import cluster_client
from dtree.engine.fit import fit_dataset, resume
from dtree.engine.runs import Run
from tests.faults.conftest import OPTIONS, bits, killing_workers, running, start, wait_for

pytestmark = pytest.mark.slow

FIT = """
import sys
from distributed import Client
from dtree.engine.fit import fit_dataset
data, out, address, options = sys.argv[1:]
with Client(address, set_as_default=False) if address else __import__("contextlib").nullcontext() as client:
    fit_dataset(data, out, client=client, **eval(options))
"""


def test_a_random_worker_is_killed_every_few_seconds(reference, tmp_path):
    with (
        cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client,
        killing_workers(client, every=2.0, most=4) as deaths,
    ):
        fit_dataset(reference / "x.npy", tmp_path / "run", client=client, **OPTIONS)
    assert len(deaths) >= 2
    assert bits(tmp_path / "run") == bits(reference / "run")


def test_the_scheduler_is_killed(reference, tmp_path):
    out, address_file = tmp_path / "run", tmp_path / "scheduler.json"

    def cluster():
        scheduler = start("-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard",
                          "--scheduler-file", str(address_file))  # fmt: skip
        worker = start("-m", "distributed.cli.dask_worker", "--scheduler-file", str(address_file), "--nthreads", "1",
                       "--memory-limit", "1.5GB", "--no-dashboard", "--death-timeout", "30")  # fmt: skip
        return scheduler, worker

    with running(*cluster()) as (scheduler, _):
        wait_for(address_file.exists)
        with Client(scheduler_file=str(address_file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)

            def kill_scheduler(step):
                if step.number == 2:
                    threading.Timer(0.3, scheduler.kill).start()

            with pytest.raises(RuntimeError, match="the connection to the Dask scheduler was lost"):
                fit_dataset(reference / "x.npy", out, client=client, progress=kill_scheduler, **OPTIONS)
    committed = Run(out).generations()[-1]
    assert committed >= 2
    address_file.unlink()
    seen = []
    with running(*cluster()):
        wait_for(address_file.exists)
        with Client(scheduler_file=str(address_file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            resume(out, client, progress=lambda step: seen.append(step.number))
    assert seen[0] == committed + 1
    assert bits(out) == bits(reference / "run")


@pytest.mark.parametrize("with_cluster", [False, True], ids=["alone", "with-cluster"])
def test_the_fitting_process_is_killed(reference, tmp_path, with_cluster):
    out = tmp_path / "run"

    def fit_until_killed(address):
        with running(start("-c", FIT, str(reference / "x.npy"), str(out), address, repr(OPTIONS))) as (fitting,):
            wait_for(lambda: (out / "zarr.json").exists() and max(Run(out).generations(), default=0) >= 2)
            fitting.send_signal(signal.SIGKILL)
            fitting.wait()

    seen = []
    if with_cluster:
        with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client:
            fit_until_killed(client.scheduler.address)
            committed = Run(out).generations()[-1]
            resume(out, client, progress=lambda step: seen.append(step.number))
    else:
        fit_until_killed("")
        committed = Run(out).generations()[-1]
        resume(out, progress=lambda step: seen.append(step.number))
    assert not seen or seen[0] == committed + 1
    assert bits(out) == bits(reference / "run")


def test_the_command_is_killed_and_another_one_resumes(reference, tmp_path):
    def fit(out):
        words = ("fit", str(reference / "x.npy"), "--family", "gaussian-diag", "--seed", "3", "--out", str(out))
        return start("-m", "dtree.cli", *words, "--workers", "2", "--memory-limit", "1GB")

    with running(fit(tmp_path / "undisturbed")) as (fitting,):
        assert fitting.wait(timeout=180) == 0
    out = tmp_path / "run"
    with running(fit(out)) as (fitting,):
        wait_for(lambda: (out / "zarr.json").exists() and Run(out).generations())
        fitting.send_signal(signal.SIGKILL)
        fitting.wait()
    assert not Run(out).done
    with running(start("-m", "dtree.cli", "resume", str(out))) as (resuming,):  # by threads of its own this time
        assert resuming.wait(timeout=180) == 0
    assert bits(out) == bits(tmp_path / "undisturbed")


DIE = """
import os, sys
from dtree.engine.fit import fit_dataset
from dtree.engine.runs import Run
Run.commit = lambda *_: os._exit(9)
data, out, options = sys.argv[1:]
fit_dataset(data, out, **eval(options))
"""


def test_a_job_that_died_before_its_first_checkpoint_starts_over(reference, tmp_path):
    out = tmp_path / "run"
    with running(start("-c", DIE, str(reference / "x.npy"), str(out), repr(OPTIONS))) as (fitting,):
        assert fitting.wait(timeout=90) == 9
    assert (out / "zarr.json").exists()
    with pytest.raises(ValueError, match="has no checkpoint yet: remove the folder and fit again"):
        resume(out)
    root = Path(__file__).parents[2]
    program = tmp_path / "bin" / "dtree"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{root}" exec "{sys.executable}" -c "from dtree.cli import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    with cluster_client(n_workers=1, memory_limit="1.5GB", warm=False) as client:
        job = [str(root / "deploy" / "fit_or_resume.sh"), client.scheduler.address, str(reference / "x.npy"), str(out)]
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        for _ in range(2):  # the second time there is nothing left to do
            assert subprocess.run(job, env=environment, capture_output=True, check=False).returncode == 0
            assert Run(out).done
