"""A Slurm of one machine in a folder of its own: munged, slurmctld and slurmd from Debian's packages, and nothing kept.

apt-get install slurmctld slurmd slurm-client munge. The machine pretends to have more cores than it has, since the job
that drives a fit and the jobs of its workers must all be there at once.
"""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo")
_PATH = f"{os.environ['PATH']}:/usr/sbin"  # where Debian puts the daemons, outside an ordinary user's path
_CORES, _MEGABYTES = 16, 16_000


def missing() -> list[str]:
    """Programs of Slurm that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]


def until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for something; AssertionError with `what` when it does not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.2)


class Slurm:
    """A running Slurm: its commands see it by the variables in `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": _PATH}

    def ask(self, *command: str, cwd: Path | None = None, **more: str) -> str:
        """What a command of Slurm's prints."""
        done = subprocess.run(
            command, env={**self.environment, **more}, cwd=cwd, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def jobs(self, name: str, state: str = "RUNNING") -> list[int]:
        """The numbers of jobs of that name in that state."""
        return [int(job) for job in self.ask("squeue", "-h", "-n", name, "-t", state, "-o", "%i").split()]

    def state(self, job: int) -> str:
        """Of a job, such as RUNNING or COMPLETED."""
        words = self.ask("scontrol", "show", "job", str(job)).split()
        return next(word.partition("=")[2] for word in words if word.startswith("JobState="))

    def processes(self, job: int) -> list[int]:
        """Every process that a job has started, found by the variable that Slurm sets."""
        mark, found = f"SLURM_JOB_ID={job}".encode(), []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile, or another user's
                continue
        return found


@contextmanager
def slurm_in(folder: Path) -> Iterator[Slurm]:
    """Start the daemons, and end them with every job."""
    folder.mkdir(mode=0o755)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o600)
    ports = _free_ports(2)
    (folder / "slurm.conf").write_text(_configuration(folder, *ports))
    slurm, daemons = Slurm(folder), []
    munged = ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.socket"]
    munged += [f"--{kind}-file={folder}/munged.{kind}" for kind in ("log", "pid", "seed")]
    try:
        for command in (munged, ["slurmctld", "-D"], ["slurmd", "-D"]):
            with (folder / f"{command[0]}.output").open("w") as output:
                daemon = subprocess.Popen(command, env=slurm.environment, stdout=output, stderr=output)
            daemons.append(daemon)
            if command is munged:
                until((folder / "munge.socket").exists, 20, "munged")
        until(lambda: _idle(slurm), 60, f"an idle node; see {folder}")
        yield slurm
    finally:
        for name in ("dtree", "dtree-worker"):
            subprocess.run(["scancel", "-n", name], env=slurm.environment, capture_output=True, check=False)
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _idle(slurm: Slurm) -> bool:
    done = subprocess.run(
        ["sinfo", "-h", "-o", "%T"], env=slurm.environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() == "idle"


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _configuration(folder: Path, control_port: int, node_port: int) -> str:
    """No cgroups, no accounting, no MPI: what a container or a virtual machine without systemd can do."""
    host, user = socket.gethostname().partition(".")[0], getpass.getuser()
    return f"""\
ClusterName=dtree
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
MinJobAge=3600
NodeName={host} NodeAddr=127.0.0.1 CPUs={_CORES} RealMemory={_MEGABYTES}
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
