"""Processes of a variational run die; the answer does not change, and at most one pass is done again."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from dtree.engine.cluster import cluster_client
from dtree.engine.variational import fit_variational, resume
from dtree.engine.variational_folder import VariationalRun
from tests.engine.test_variational import bits
from tests.faults.conftest import killing_workers, rows, running, start, wait_for

pytestmark = pytest.mark.slow

OPTIONS = {
    "variant": "O-CTSB", "truncation": 15, "chunk_bytes": 100_000, "seed": 5, "sample_rows": 800, "init": "kmeans",
    "split_merge": 0, "max_iter": 25, "tol": 0.0,
}  # fmt: skip

FIT = """
import sys
from distributed import Client
from dtree.engine.variational import fit_variational
data, out, address, options = sys.argv[1:]
with Client(address, set_as_default=False) if address else __import__("contextlib").nullcontext() as client:
    fit_variational(data, out, client=client, **eval(options))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    np.save(folder / "x.npy", rows(40_000))
    fit_variational(folder / "x.npy", folder / "run", **OPTIONS)
    return folder


def test_a_random_worker_is_killed_every_few_seconds(undisturbed, tmp_path):
    with (
        cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client,
        killing_workers(client, every=3.0, most=3) as deaths,
    ):
        fit_variational(undisturbed / "x.npy", tmp_path / "run", client=client, **OPTIONS)
    assert len(deaths) >= 2
    assert bits(tmp_path / "run") == bits(undisturbed / "run")


@pytest.mark.parametrize("with_cluster", [False, True], ids=["alone", "with-cluster"])
def test_the_fitting_process_is_killed(undisturbed, tmp_path, with_cluster):
    out = tmp_path / "run"

    def fit_until_killed(address):
        with running(start("-c", FIT, str(undisturbed / "x.npy"), str(out), address, repr(OPTIONS))) as (fitting,):
            wait_for(lambda: list((out / "checkpoints").glob("gen-0000000[2-9]")))
            fitting.send_signal(signal.SIGKILL)
            fitting.wait()

    seen = []
    if with_cluster:
        with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client:
            fit_until_killed(client.scheduler.address)
            committed = VariationalRun(out).generations()[-1]
            resume(out, client, progress=lambda step: seen.append(step.number))
    else:
        fit_until_killed("")
        committed = VariationalRun(out).generations()[-1]
        resume(out, progress=lambda step: seen.append(step.number))
    assert not seen or seen[0] == committed + 1
    assert bits(out) == bits(undisturbed / "run")
