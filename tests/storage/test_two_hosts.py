"""A run in a bucket is watched, and carried on, from another machine than the one that began it.

Two "hosts" on one machine: network namespaces joined by a cable, each with a name of its own. The S3 server is on the
first, where the run is begun and killed; the second knows nothing but its address.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engine.test_features import ROOT
from tests.faults.conftest import wait_for
from tests.faults.test_network import ADDRESSES
from tests.faults.test_network import hosts as hosts
from tests.storage.server import KEY, SECRET

pytestmark = pytest.mark.slow

ENDPOINT = f"http://{ADDRESSES[0]}:5000"
BUCKET = f"""
import boto3
boto3.client("s3", endpoint_url="{ENDPOINT}", region_name="us-east-1").create_bucket(Bucket="bucket")
"""
FIT = ("--method", "bayes-kmeans", "--family", "gaussian-diag", "--max-iter", "400", "--tol", "0", "--patience", "400")


def test_a_run_is_watched_and_carried_on_from_another_host(hosts: Any, tmp_path: Path) -> None:
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "AWS_ENDPOINT_URL": ENDPOINT, "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
    }  # fmt: skip
    here, there = (
        [
            "ip",
            "netns",
            "exec",
            name,
            "unshare",
            "--uts",
            "sh",
            "-c",
            f'hostname {host}; exec "$@"',
            "sh",
            sys.executable,
        ]
        for name, host in zip(hosts, ("first-host", "second-host"), strict=True)
    )

    def dtree(where: list[str], *words: str) -> subprocess.CompletedProcess[str]:
        command = [*where, "-m", "dtree.cli", *words]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)

    def status() -> dict[str, Any]:
        found = dtree(there, "status", "s3://bucket/run.zarr", "--json")
        return json.loads(found.stdout) if found.returncode == 0 else {}

    # Rows without clusters: every pass moves some, so that there is always one more to be killed in.
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).uniform(size=(200_000, 8)))
    quiet: Any = {"env": environment, "cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*here, "-m", "moto.server", "-H", ADDRESSES[0], "-p", "5000"], **quiet)]
    try:
        wait_for(lambda: subprocess.run([*here, "-c", BUCKET], check=False, **quiet).returncode == 0, 60.0)
        command = [*here, "-m", "dtree.cli", "fit", "rows.npy", "--out", "s3://bucket/run.zarr", *FIT]
        processes.append(subprocess.Popen(command, **quiet))
        wait_for(lambda: (status().get("done") or 0) >= 2, 120.0)
        seen = status()
        assert seen["state"] == "running"
        assert seen["rows"] == 200_000
        assert "on first-host" in seen["owner"]
        processes[-1].send_signal(signal.SIGKILL)
        processes[-1].wait()
        refused = dtree(there, "resume", "s3://bucket/run.zarr")
        assert refused.returncode == 1
        assert "is being worked on by process" in refused.stderr  # nobody there can know that it is dead
        time.sleep(1.0)
        wait_for(lambda: status().get("state") == "dead", 180.0)  # it has been silent for two minutes
        resumed = dtree(there, "resume", "s3://bucket/run.zarr", "--time-limit", "5")
        assert resumed.returncode == 0, resumed.stderr
        assert "on first-host" in resumed.stdout + resumed.stderr  # from whom it was taken over
        assert status()["state"] == "done"
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
