"""Processes die; the answer does not change, and at most one step is done again.

For every method that takes a while.
"""

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
from dtree.engine.drive import resume
from dtree.runs.run import Run
from tests.faults.conftest import CASES, bits, committed, fit, killing_workers, running, start, wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIT = """
import sys
from distributed import Client
from tests.faults.conftest import fit
name, data, out, address = sys.argv[1:]
with Client(address, set_as_default=False) if address else __import__("contextlib").nullcontext() as client:
    fit(name, data, out, client)
"""


@pytest.mark.parametrize("name", CASES)
def test_random_workers_are_killed(name, undisturbed, tmp_path):
    reference = undisturbed(name)
    with (
        cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client,
        killing_workers(client, every=1.5, most=4) as deaths,
    ):
        fit(name, reference / "x.npy", tmp_path / "run", client)
    assert deaths
    assert bits(tmp_path / "run") == bits(reference / "run")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("with_cluster", [False, True], ids=["alone", "with-cluster"])
def test_the_fitting_process_is_killed(name, undisturbed, tmp_path, with_cluster):
    reference, out = undisturbed(name), tmp_path / "run"

    def fit_until_killed(address):
        with running(start("-c", FIT, name, str(reference / "x.npy"), str(out), address)) as (fitting,):
            wait_for(lambda: committed(out) >= 2 or fitting.poll() is not None)
            assert fitting.poll() is None, "the fit was over before it could be killed"
            fitting.send_signal(signal.SIGKILL)
            fitting.wait()

    seen = []
    if with_cluster:
        with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client:
            fit_until_killed(client.scheduler.address)
            done = committed(out)
            resume(out, client, seen.append)
    else:
        fit_until_killed("")
        done = committed(out)
        resume(out, progress=seen.append)
    assert done >= 2
    assert seen, "there was something left to do"
    if hasattr(seen[0], "moved"):  # passes are numbered: none of those committed is done again
        assert seen[0].number == done + 1
    assert bits(out) == bits(reference / "run")


def test_the_scheduler_is_killed(undisturbed, tmp_path):
    reference = undisturbed("bayes-kmeans-bhc")
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
                fit("bayes-kmeans-bhc", reference / "x.npy", out, client, kill_scheduler)
    done = committed(out)
    assert done >= 2
    address_file.unlink()
    seen = []
    with running(*cluster()):
        wait_for(address_file.exists)
        with Client(scheduler_file=str(address_file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            resume(out, client, lambda step: seen.append(step.number))
    assert seen[0] == done + 1
    assert bits(out) == bits(reference / "run")


def test_the_command_is_killed_and_another_one_resumes(undisturbed, tmp_path):
    reference = undisturbed("bayes-kmeans-bhc")

    def command(out):
        words = ("fit", str(reference / "x.npy"), "--family", "gaussian-diag", "--seed", "3", "--out", str(out))
        return start("-m", "dtree.cli", *words, "--method", "bayes-kmeans", "--workers", "2", "--memory-limit", "1GB")

    with running(command(tmp_path / "undisturbed")) as (fitting,):
        assert fitting.wait(timeout=180) == 0
    out = tmp_path / "run"
    with running(command(out)) as (fitting,):
        wait_for(lambda: (out / "zarr.json").exists() and list(out.glob("checkpoints/gen-*")))
        fitting.send_signal(signal.SIGKILL)
        fitting.wait()
    assert not Run.open(out).header.done
    with running(start("-m", "dtree.cli", "resume", str(out))) as (resuming,):  # in its own process this time
        assert resuming.wait(timeout=180) == 0
    assert bits(out) == bits(tmp_path / "undisturbed")


DIE = """
import os, sys
from dtree.runs.run import Run
from tests.faults.conftest import fit
Run.commit = lambda *_: os._exit(9)
fit("bayes-kmeans-bhc", sys.argv[1], sys.argv[2])
"""


def test_a_job_that_died_before_its_first_checkpoint_starts_over(undisturbed, tmp_path):
    reference, out = undisturbed("bayes-kmeans-bhc"), tmp_path / "run"
    with running(start("-c", DIE, str(reference / "x.npy"), str(out))) as (fitting,):
        assert fitting.wait(timeout=90) == 9
    assert (out / "zarr.json").exists()
    with pytest.raises(ValueError, match="has no checkpoint yet: remove it and fit again"):
        resume(out)
    program = tmp_path / "bin" / "dtree"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -c "from dtree.cli import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    with cluster_client(n_workers=1, memory_limit="1.5GB", warm=False) as client:
        job = [str(ROOT / "deploy" / "fit_or_resume.sh"), client.scheduler.address, str(reference / "x.npy"), str(out)]
        environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        for _ in range(2):  # the second time there is nothing left to do
            assert subprocess.run(job, env=environment, capture_output=True, check=False).returncode == 0
            assert Run.open(out).header.done
