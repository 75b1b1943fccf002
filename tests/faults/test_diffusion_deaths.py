"""Workers die in the middle of a walk; the trees are the same to the bit."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import dtree
from dtree.diffusion.prior import sample_data
from dtree.engine.cluster import cluster_client
from dtree.engine.diffusion import fit_diffusion
from tests.engine.test_diffusion import bits

pytestmark = pytest.mark.slow

OPTIONS = {"n_permutations": 3, "search_steps": 4000, "posterior_sweeps": 40, "noise": 0.02, "n_trees": 3}


def test_a_worker_is_killed_again_and_again(tmp_path):
    rows = sample_data(40, 2, noise=0.02, rng=np.random.default_rng(0))[0]
    expected = dtree.DiffusionTree(**OPTIONS, random_state=5).fit(rows)
    done, deaths = threading.Event(), []
    for workers in (1, 2):
        with cluster_client(n_workers=workers, memory_limit="1.5GB", warm=False) as client:

            def kill_workers(client=client):
                while len(deaths) < 4 and not done.wait(2.0):
                    pids = [worker.pid for worker in client.cluster.workers.values() if worker.pid]
                    if pids:
                        deaths.append(pids[len(deaths) % len(pids)])
                        os.kill(deaths[-1], signal.SIGKILL)

            killer = threading.Thread(target=kill_workers)
            if workers == 2:
                killer.start()
            try:
                run = tmp_path / f"run-{workers}"
                fit_diffusion(rows, run, seed=5, client=client, checkpoint_seconds=0.5, **OPTIONS)
            finally:
                done.set()
                if workers == 2:
                    killer.join()
            if workers == 1:
                done.clear()
        assert bits(dtree.open(run)) == bits(expected)
    assert len(deaths) >= 1
