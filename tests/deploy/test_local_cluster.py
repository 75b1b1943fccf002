"""The local cluster for real: processes, TLS, a killed worker that comes back, a clean end."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed import Client, Security

from deploy import make_certificates

SCRIPT = Path(__file__).parents[2] / "deploy" / "local_cluster.sh"


def _until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


class Cluster:
    """A started cluster: its folder, and the line that it printed."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.folder, self.output = folder / "cluster", folder / "output"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                ["bash", str(SCRIPT), "start", "--workers", "2", "--port", str(port), "--dir", str(self.folder)],
                env={**os.environ, "PYTHON": sys.executable},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the test must not reach it, nor ours the tests
            )
        _until(lambda: "ready" in self.said() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said()
        words = shlex.split(next(line for line in self.said().splitlines() if "dtree fit" in line))
        self.options = dict(itertools.pairwise(words))

    def said(self) -> str:
        return self.output.read_text()

    def pid(self, name: str) -> int:
        return int((self.folder / f"{name}.pid").read_text() or 0)

    def client(self) -> Client:
        cert, key = self.options["--tls-cert"], self.options["--tls-key"]
        security = Security(
            require_encryption=True, tls_ca_file=self.options["--tls-ca"], tls_client_cert=cert, tls_client_key=key
        )
        return Client(self.options["--scheduler"], security=security, timeout=30, set_as_default=False)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    started = Cluster(tmp_path_factory.mktemp("local"))
    yield started
    if started.process.poll() is None:
        started.process.terminate()
        started.process.wait(60)


def test_a_task_runs_over_tls_and_strangers_are_refused(cluster, tmp_path):
    with cluster.client() as client:
        assert client.submit(sum, [1, 2, 3]).result(30) == 6
        workers = client.scheduler_info(n_workers=-1)["workers"]
        assert len(workers) == 2
        assert all(address.startswith("tls://") for address in workers)
        assert all(worker["nthreads"] == 1 and worker["memory_limit"] == 10**9 for worker in workers.values())
        assert client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.allowed_failures) == 6
    address = cluster.options["--scheduler"]
    with pytest.raises(OSError):
        Client(address.replace("tls://", "tcp://"), timeout=2, set_as_default=False)
    make_certificates.make_files(tmp_path)  # good certificates, of an authority that the cluster does not know
    ca, cert, key = (str(tmp_path / name) for name in ("ca.pem", "cert.pem", "key.pem"))
    stranger = Security(require_encryption=True, tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key)
    with pytest.raises(OSError):
        Client(address, security=stranger, timeout=2, set_as_default=False)


def _get(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_http_answers_health_and_nothing_else(cluster):
    with cluster.client() as client:
        info = client.scheduler_info(n_workers=-1)
    ports = [party["services"]["dashboard"] for party in (info, *info["workers"].values())]
    assert len(ports) == 3
    for port in ports:
        assert _get(port, "/health") == 200
        for path in ("/status", "/metrics", "/info/main/workers.html", "/api/v1/retire_workers"):
            assert _get(port, path) == 404


def test_killed_workers_come_back(cluster):
    with cluster.client() as client:
        before = client.run(os.getpid)
        assert len(before) == 2
        names = {worker["name"]: address for address, worker in client.scheduler_info(-1)["workers"].items()}
        supervised = cluster.pid("worker-1")
        os.kill(supervised, signal.SIGKILL)  # the whole worker: our script starts it again
        os.kill(before[names["worker-2"]], signal.SIGKILL)  # the process that computes: its nanny does

        def both_are_new() -> bool:
            now = client.run(os.getpid, on_error="return")
            numbers = [value for value in now.values() if isinstance(value, int)]
            return len(numbers) == 2 and not set(numbers) & set(before.values())

        _until(both_are_new)
        assert cluster.pid("worker-1") != supervised
        assert client.submit(sum, [4, 5]).result(30) == 9
    assert re.search(r"worker-1 ended: starting it again", cluster.said())


def test_a_second_start_in_the_same_folder_is_refused(cluster):
    done = _run("start", "--dir", str(cluster.folder))
    assert done.returncode == 2
    assert "already running" in done.stderr


def test_stop_leaves_no_process_and_the_certificates_private(cluster):
    pids = [cluster.pid(name) for name in ("scheduler", "worker-1", "worker-2")]
    assert all(map(_alive, pids))
    assert _run("stop", "--dir", str(cluster.folder)).returncode == 0
    assert cluster.process.wait(30) == 0
    _until(lambda: not any(map(_alive, pids)))
    assert cluster.said().rstrip().endswith("stopped")
    assert (cluster.folder / "certificates" / "key.pem").stat().st_mode & 0o077 == 0
    assert list(cluster.folder.glob("*.pid")) == []


@pytest.mark.slow
def test_a_killed_scheduler_comes_back_with_its_workers_and_ctrl_c_ends_them(tmp_path):
    cluster = Cluster(tmp_path)
    before = {name: cluster.pid(name) for name in ("scheduler", "worker-1", "worker-2")}
    os.kill(before["scheduler"], signal.SIGKILL)

    def all_are_back() -> bool:
        if cluster.pid("scheduler") == before["scheduler"]:
            return False
        try:
            with cluster.client() as client:
                return len(client.scheduler_info(n_workers=-1)["workers"]) == 2
        except OSError:
            return False

    _until(all_are_back, 120.0)
    after = {name: cluster.pid(name) for name in before}
    assert not set(before.values()) & set(after.values())
    ended = cluster.said().count("starting it again")
    os.killpg(cluster.process.pid, signal.SIGINT)  # as a terminal does: to the script and to all its children
    assert cluster.process.wait(60) == 0
    assert cluster.said().count("starting it again") == ended
    _until(lambda: not any(map(_alive, after.values())))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["stop"], "no cluster is running"),
        (["start", "--workers", "none"], "--workers must be"),
        (["start", "--port", "0"], "--port must be"),
        (["dance"], "local_cluster.sh start"),
    ],
)
def test_mistakes_get_one_sentence(arguments, sentence, tmp_path):
    done = _run(*arguments, "--dir", str(tmp_path / "none"))
    assert done.returncode == 2
    assert sentence in done.stdout + done.stderr
