"""deploy/slurm/dtree.sbatch under a real Slurm: jobs killed in the middle are replaced, and the bits stay the same."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from dtree.runs.run import Run
from tests.deploy.slurm_of_our_own import Slurm, missing, slurm_in, until
from tests.engine.test_features import bits

PROJECT = Path(__file__).parents[2]
FIT = ("--method", "bayes-kmeans", "--family", "gaussian-diag", "--max-iter", "12", "--tol", "0", "--patience", "12")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"Slurm is not installed: {', '.join(missing())}"),
    pytest.mark.skipif(importlib.util.find_spec("dask_jobqueue") is None, reason="dask-jobqueue is not installed"),
]


class Submitted:
    """One folder of submission: data, runs and the logs of jobs."""

    def __init__(self, slurm: Slurm, folder: Path) -> None:
        self.slurm, self.folder, self.data = slurm, folder, folder / "rows.zarr"
        # Rows without clusters: every pass moves some, so that there is always one more to be killed in.
        rows = np.random.default_rng(0).uniform(size=(400_000, 8))
        array = zarr.create_array(self.data, shape=rows.shape, chunks=(50_000, 8), dtype="f8", compressors=None)
        array[...] = rows

    def submit(self, run: Path) -> int:
        """The number of the job that drives the fit."""
        here = str(Path(sys.executable).parent)
        words = ["sbatch", "--parsable", str(PROJECT / "deploy/slurm/dtree.sbatch"), str(self.data), str(run)]
        words += ["--jobs", "2", "--cores", "1", "--memory", "1.5GB", "--", *FIT]
        path = f"{here}:{self.slurm.environment['PATH']}"
        return int(self.slurm.ask(*words, cwd=self.folder, DTREE_HOME=str(PROJECT), PYTHONPATH=str(PROJECT), PATH=path))

    def said(self, job: int) -> str:
        log = self.folder / f"dtree-{job}.log"
        return log.read_text() if log.exists() else "nothing"

    def done(self, job: int) -> None:
        """Wait for the end of a job that must succeed, after which nothing of it is left."""
        until(lambda: self.slurm.state(job) not in ("PENDING", "RUNNING"), 400, f"job {job}: {self.said(job)}")
        assert self.slurm.state(job) == "COMPLETED", self.said(job)
        self.no_workers()

    def no_workers(self) -> None:
        states = "PENDING,RUNNING,COMPLETING"
        until(lambda: not self.slurm.jobs("dtree-worker", states), 60, "the workers' jobs to end")

    def passes(self, run: Path, number: int, job: int) -> None:
        """Wait until a run has come so far, in the middle of which the job goes on."""
        there = run / "checkpoints" / f"gen-{number:08d}"
        until(
            lambda: there.exists() or self.slurm.state(job) not in ("PENDING", "RUNNING"),
            300,
            f"pass {number}: {self.said(job)}",
        )
        assert self.slurm.state(job) == "RUNNING", self.said(job)


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    with slurm_in(tmp_path_factory.mktemp("slurm") / "daemons") as slurm:
        yield Submitted(slurm, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def undisturbed(submitted: Submitted) -> Run:
    run = submitted.folder / "undisturbed.zarr"
    submitted.done(submitted.submit(run))
    return Run.open(run)


def same_bits(one: Run, other: Run) -> None:
    assert bits(one) == bits(other)


def test_jobs_of_workers_that_are_lost_are_replaced(submitted: Submitted, undisturbed: Run) -> None:
    slurm, run = submitted.slurm, submitted.folder / "lost.zarr"
    job = submitted.submit(run)
    submitted.passes(run, 1, job)
    until(lambda: len(slurm.jobs("dtree-worker")) == 2, 60, "two jobs of workers")
    killed, cancelled = lost = slurm.jobs("dtree-worker")
    for process in slurm.processes(killed):
        os.kill(process, signal.SIGKILL)
    # Both are lost, so that the fit waits: one worker would be done before Dask takes the other for lost (15 s).
    slurm.ask("scancel", str(cancelled))
    until(lambda: len(set(slurm.jobs("dtree-worker")) - set(lost)) == 2, 120, "two other jobs")
    submitted.done(job)
    same_bits(Run.open(run), undisturbed)


def test_a_job_that_is_cancelled_takes_its_workers_with_it_and_is_resumed(
    submitted: Submitted, undisturbed: Run
) -> None:
    slurm, run = submitted.slurm, submitted.folder / "cancelled.zarr"
    job = submitted.submit(run)
    submitted.passes(run, 2, job)
    slurm.ask("scancel", str(job))
    until(lambda: slurm.state(job) == "CANCELLED", 30, "the job to end")
    submitted.no_workers()
    assert not Run.glance(run).header.done
    again = submitted.submit(run)
    submitted.done(again)
    same_bits(Run.open(run), undisturbed)


def test_a_job_that_is_killed_and_queued_again_by_slurm_resumes(submitted: Submitted, undisturbed: Run) -> None:
    slurm, run = submitted.slurm, submitted.folder / "killed.zarr"
    job = submitted.submit(run)
    submitted.passes(run, 2, job)
    slurm.ask("scontrol", "requeue", str(job))  # as Slurm itself does with the jobs of a node that is lost
    for process in slurm.processes(job):
        os.kill(process, signal.SIGKILL)
    until(lambda: slurm.state(job) == "PENDING", 60, "the job to be queued again")
    # It would wait two minutes; but slurmd refuses a job that starts in the second in which it was ended ("Job
    # credential revoked").
    slurm.ask("scontrol", "update", f"JobId={job}", "StartTime=now+5")
    submitted.done(job)
    same_bits(Run.open(run), undisturbed)
