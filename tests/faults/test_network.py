"""A worker is cut off from the network without a word: its work is done by others, to the same bits.

Two "hosts" on one machine: network namespaces joined by a cable (veth). The cable is pulled in the middle of a fit;
nobody is told, as it is with a real one. The cut-off worker lives on and may still write its labels, which are the same
bits.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.faults.conftest import bits, committed, running, start, wait_for

pytestmark = pytest.mark.slow

ADDRESSES = ("192.0.2.1", "192.0.2.2")  # of the block kept for documentation: no real host has them
# A silent connection is given up after seconds instead of minutes, so that the test need not wait.
IMPATIENT = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s", "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "30s"}
FIT = """
import sys
from distributed import Client
from tests.faults.conftest import fit
data, out, address = sys.argv[1:]
with Client(address, set_as_default=False) as client:
    client.wait_for_workers(2, timeout=90)
    fit("bayes-kmeans-bhc", data, out, client)
"""


def ip(*words: str, check: bool = True) -> bool:
    return subprocess.run(["ip", *words], capture_output=True, check=check).returncode == 0


@pytest.fixture
def hosts():
    """Two network namespaces with a cable between them, where the machine allows it."""
    names = [f"dtree-{os.getpid()}-{side}" for side in ("here", "there")]
    if shutil.which("ip") is None or not ip("netns", "add", names[0], check=False):
        pytest.skip("this machine does not let us make network namespaces (ip netns add)")
    try:
        ip("netns", "add", names[1])
        if not ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1],
                  check=False):  # fmt: skip
            pytest.skip("this machine does not let us join network namespaces (ip link add type veth)")
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name, check=False)


def test_a_worker_is_cut_off(undisturbed, tmp_path, hosts):
    reference = undisturbed("bayes-kmeans-bhc")
    out, address_file = tmp_path / "run", tmp_path / "scheduler.json"
    here, there = (("ip", "netns", "exec", name) for name in hosts)

    def worker(through, host):
        return start("-m", "distributed.cli.dask_worker", f"tcp://{ADDRESSES[0]}:8786", "--host", host, "--nthreads", "1",  # noqa: E501
                     "--no-nanny", "--no-dashboard", "--memory-limit", "1.5GB", "--death-timeout", "60",
                     through=through, **IMPATIENT)  # fmt: skip

    with running(
        start("-m", "distributed.cli.dask_scheduler", "--host", ADDRESSES[0], "--port", "8786", "--no-dashboard",
              "--scheduler-file", str(address_file), through=here, **IMPATIENT),
        worker(here, ADDRESSES[0]),
        worker(there, ADDRESSES[1]),
    ):  # fmt: skip
        wait_for(address_file.exists)
        words = (str(reference / "x.npy"), str(out), f"tcp://{ADDRESSES[0]}:8786")
        with running(start("-c", FIT, *words, through=here, **IMPATIENT)) as (fitting,):
            wait_for(lambda: fitting.poll() is not None or committed(out) >= 1, 180.0)
            ip("-n", hosts[1], "link", "set", "cable", "down")
            assert fitting.poll() is None, "the fit was over before the cable was pulled"
            assert fitting.wait(timeout=300) == 0
    assert bits(out) == bits(reference / "run")
