"""Chains die: killed processes, a full disk. The draws do not change, and at most one block of a chain is lost."""

from __future__ import annotations

import signal

import numpy as np
import pytest

from dtree.core.families import DiagonalGaussian
from dtree.engine.chain_folder import ChainRun
from dtree.engine.chains import open_run, resume, sample_dataset
from dtree.engine.cluster import cluster_client
from tests.faults.conftest import fill_disk, running, start, wait_for

OPTIONS = {"sampler": "tgmcmc", "chains": 2, "draws": 120, "warmup": 20, "seed": 5, "block_draws": 10}

SAMPLE = """
import sys
from distributed import Client
from dtree.core.families import DiagonalGaussian
from dtree.engine.chains import sample_dataset
data, out, address, options = sys.argv[1:]
family = DiagonalGaussian([3.0, 3.0], 0.05, 3.0, [3.0, 3.0])
with Client(address, set_as_default=False) if address else __import__("contextlib").nullcontext() as client:
    sample_dataset(data, out, family=family, client=client, **eval(options))
"""


def family() -> DiagonalGaussian:
    return DiagonalGaussian([3.0, 3.0], 0.05, 3.0, [3.0, 3.0])


def bits(run) -> list[bytes]:
    model = open_run(run)
    return [
        model.partitions_.tobytes(),
        *(v.values.tobytes() for v in model.posterior_["posterior"].data_vars.values()),
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains")
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[np.arange(300) % 3] + rng.normal(size=(300, 2))
    np.save(folder / "x.npy", X)
    sample_dataset(folder / "x.npy", folder / "run", family=family(), **OPTIONS)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("with_cluster", [False, True], ids=["alone", "with-cluster"])
def test_the_sampling_process_is_killed(undisturbed, tmp_path, with_cluster):
    out = tmp_path / "run"

    def sample_until_killed(address):
        with running(start("-c", SAMPLE, str(undisturbed / "x.npy"), str(out), address, repr(OPTIONS))) as (process,):
            wait_for(lambda: len(list(out.glob("chains/*/block-*"))) >= 5)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def carry_on(client=None):
        run, seen = ChainRun(out), []
        done = {chain: run.traces(chain)[2] for chain in range(2)}
        assert not run.done
        resume(out, client, progress=seen.append)
        for chain in range(2):
            first = min(status.sweep for status in seen if status.chain == chain)
            assert done[chain] < first  # nothing that was committed is done again

    if with_cluster:
        with cluster_client(n_workers=2, memory_limit="1.5GB", warm=False) as client:
            sample_until_killed(client.scheduler.address)
            carry_on(client)
    else:
        sample_until_killed("")
        carry_on()
    assert bits(out) == bits(undisturbed / "run")


def test_full_disk(undisturbed, tiny_disk):
    filler, seen = tiny_disk / "filler", []

    def fill_after_three(status):
        seen.append(status)
        if len(seen) == 3:
            fill_disk(filler)

    out = tiny_disk / "run"
    with pytest.raises(OSError, match="is full: free some space and resume the run"):
        sample_dataset(undisturbed / "x.npy", out, family=family(), progress=fill_after_three, **OPTIONS)
    filler.unlink()
    assert sum(len(ChainRun(out).blocks(chain)) for chain in range(2)) == 3
    resume(out)
    assert bits(out) == bits(undisturbed / "run")
