"""Run one fit on workers that are Slurm jobs, with TLS; carry on when the run has begun already.

    python deploy/slurm/run_on_slurm.py big.zarr run.zarr --jobs 8 --cores 16 --memory 20GB -- --family gaussian-diag

starts a Dask scheduler here and keeps 8 Slurm jobs of 16 one-thread workers each. What follows `--` goes to `dtree
fit`. Certificates must be on a file system that all nodes see; data and run there too, or in a bucket (s3://...). Needs
`pip install dask-jobqueue` beside dtree. SIGTERM (scancel, the walltime) ends the fit as Ctrl-C does and then the jobs
of its workers; the same line again resumes.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dask
from distributed import Security

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from make_certificates import make_files

_ALLOWED_DEATHS = 6  # how often a task's worker may die before the task is given up


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; `options.options` is what followed `--`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    own, options_of_fit = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="what follows -- goes to dtree fit"
    )
    parser.add_argument("data", help="the dataset, as dtree fit takes it")
    parser.add_argument("run", help="the run's folder, or s3://...; an unfinished run there is resumed")
    parser.add_argument("--jobs", type=int, default=4, help="how many Slurm jobs to keep running (4)")
    parser.add_argument("--cores", type=int, default=8, help="cores of each job, and worker processes in it (8)")
    parser.add_argument("--memory", default="10GB", help="memory of each job: at least 1.25 GB for each core (10GB)")
    parser.add_argument("--walltime", default="04:00:00", help="of each job, HH:MM:SS (04:00:00)")
    parser.add_argument("--partition", help="Slurm partition")
    parser.add_argument("--account", help="Slurm account")
    parser.add_argument("--interface", help="network interface that nodes share, e.g. ib0")
    parser.add_argument("--folder", type=Path, default=Path("dtree-slurm"), help="certificates and logs (dtree-slurm)")
    parser.add_argument("--print-job", action="store_true", help="print the Slurm job of the workers and end")
    parser.set_defaults(options=options_of_fit)
    options = parser.parse_args(own)
    if options.jobs < 1 or options.cores < 1:
        parser.error("--jobs and --cores must be at least 1")
    if dask.utils.parse_bytes(options.memory) < 1.25e9 * options.cores:
        parser.error(f"--memory {options.memory} is too little for {options.cores} workers: give 1.25 GB for each core")
    try:
        lifetime(options.walltime)
    except ValueError as problem:
        parser.error(str(problem))
    return options


def lifetime(walltime: str) -> int:
    """Seconds after which a worker hands its work on and ends, before Slurm kills it in the middle of a task."""
    parts = walltime.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise ValueError(f"--walltime must look like 04:00:00, not {walltime}")
    hours, minutes, seconds = map(int, parts)
    left = 3600 * hours + 60 * minutes + seconds - 300
    if left < 300:
        raise ValueError("--walltime must be at least 10 minutes: starting takes a part of it")
    return left


def cluster_settings(options: argparse.Namespace, certificates: Path) -> dict[str, Any]:
    """Arguments of dask_jobqueue.SLURMCluster."""
    ca, cert, key = (str(certificates / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    names = {f"tls_{role}_cert": cert for role in ("client", "scheduler", "worker")}
    names |= {f"tls_{role}_key": key for role in ("client", "scheduler", "worker")}
    folder = options.folder.resolve()
    return {
        "cores": options.cores,
        "processes": options.cores,  # one thread each
        "memory": options.memory,
        "walltime": options.walltime,
        "queue": options.partition,
        "account": options.account,
        "interface": options.interface,
        "protocol": "tls://",
        "security": Security(require_encryption=True, tls_ca_file=ca, **names),
        "shared_temp_directory": str(folder),
        "log_directory": str(folder / "logs"),
        "job_name": "dtree-worker",
        "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        "job_script_prologue": [
            "export OMP_NUM_THREADS=1",
            "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true",
            # HTTP is not encrypted: it answers /health on the node itself and nothing else.
            "export DASK_DISTRIBUTED__WORKER__HTTP__ROUTES='[\"distributed.http.health\"]'",
        ],
        "worker_extra_args": [
            "--no-dashboard",
            "--dashboard-address",
            "127.0.0.1:0",
            "--lifetime",
            f"{lifetime(options.walltime)}s",
            "--lifetime-stagger",
            "2m",
        ],
    }


def command(options: argparse.Namespace, scheduler: str, certificates: Path) -> list[str]:
    """`dtree fit`, or `dtree resume` of a run that has begun."""
    where = ["--scheduler", scheduler, "--tls-ca", str(certificates / "ca.pem")]
    where += ["--tls-cert", str(certificates / "cert.pem"), "--tls-key", str(certificates / "key.pem")]
    if has_begun(options.run):
        return ["dtree", "resume", options.run, *where]
    return ["dtree", "fit", options.data, "--out", options.run, *where, *options.options]


def has_begun(run: str) -> bool:
    """Whether there is a checkpoint to carry on from; a finished run has labels and no checkpoints any more."""
    if "://" in run:  # a bucket: dtree itself knows what is there
        from dtree.runs.run import has_begun as begun_in_bucket
        from dtree.storage import located

        return begun_in_bucket(located(run))
    return (Path(run) / "labels").exists() or any((Path(run) / "checkpoints").glob("gen-*"))


def clear_unborn(name: str) -> None:
    """Remove a run that died before its first checkpoint, and nothing else; see `fit_or_resume.sh`."""
    if "://" in name:  # dtree clears a bucket itself
        return
    run = Path(name)
    parts = ("zarr.json", "settings", "prepared", "checkpoints", "passes", "staged", "data")
    partial = tuple(f".{part}.partial-" for part in parts[:3])
    if not run.is_dir() or run.is_symlink() or has_begun(name):
        return
    if all(found.name.startswith(partial) or found.name in parts for found in run.iterdir()):
        shutil.rmtree(run)


class Fit:
    """The process that fits, and what SIGTERM does: to be told to end before this process ends its workers' jobs."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def stop(self, *_: Any) -> None:
        """Let the fit give up the run, or leave if it has not begun; either way the jobs of workers are cancelled."""
        if self.process is None:
            sys.exit(128 + signal.SIGTERM)
        self.process.terminate()

    def run(self, words: Sequence[str]) -> int:
        """Its exit code."""
        self.process = subprocess.Popen(words)
        return self.process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the cluster, run the job, end the cluster; the exit code is dtree's."""
    options = parse(arguments)
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError:
        print("run_on_slurm.py needs dask-jobqueue: pip install dask-jobqueue", file=sys.stderr)
        return 2
    certificates = options.folder.resolve() / "certificates"
    print(make_files(certificates), file=sys.stderr)
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": _ALLOWED_DEATHS,
            "distributed.scheduler.http.routes": ["distributed.http.health"],
        }
    )
    fit = Fit()
    signal.signal(signal.SIGTERM, fit.stop)
    with SLURMCluster(**cluster_settings(options, certificates)) as cluster:
        if options.print_job:
            print(cluster.job_script())
            return 0
        # Unlike scale(), adapt() asks Slurm for another job when one was lost or has reached its walltime.
        cluster.adapt(minimum_jobs=options.jobs, maximum_jobs=options.jobs)
        cluster.wait_for_workers(1)
        clear_unborn(options.run)
        return fit.run(command(options, cluster.scheduler_address, certificates))


if __name__ == "__main__":
    sys.exit(main())
