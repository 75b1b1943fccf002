"""Many chains on few workers: 8 chains on 2 workers beside one chain, on the same workers and in this process.

    python -m benchmarks.chains --data DIR [--draws 4000]

Two workers can at best do 8 chains in 4 times the time of one; the rest is what Dask and the store cost. The cluster runs already and the
kernels are compiled; the chains differ, so the time of one in this process is the mean of all 8 run one by one, and on the workers the mean of
three seeds. The draws of both ways are compared bit for bit.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measure import data_folder, load, machine, print_table
from dtree.core.families import Gaussian
from dtree.core.priors import DirichletProcess
from dtree.engine.chains import open_run, sample_dataset
from dtree.engine.cluster import cluster_client
from dtree.mcmc.estimator import InMemoryDPMixtureMCMC

CHAINS, WORKERS, SEEDS = 8, 2, 3


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--draws", type=int, default=4000)
    arguments = parse()
    print(machine())
    X = load(arguments.data, "tgmcmc_toy")["X"].astype(float)
    model = {"family": Gaussian.paper_prior(X), "prior": DirichletProcess(1.0)}
    settings = {"chains": CHAINS, "draws": arguments.draws, "warmup": 200}
    InMemoryDPMixtureMCMC(**model, chains=2, draws=20, warmup=5).fit(X)
    began = time.perf_counter()
    here = InMemoryDPMixtureMCMC(**model, **settings, random_state=0)
    here._prepare(X)
    found = here._run([None] * CHAINS, 200 + arguments.draws)
    one = (time.perf_counter() - began) / CHAINS
    partitions = np.stack([draws.labels for draws, _ in found])
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster_client(n_workers=WORKERS, memory_limit="2GB", warm=False) as client,
    ):
        sample_dataset(X, Path(folder) / "warm", chains=4, draws=20, warmup=5, **model, client=client)
        began = time.perf_counter()
        run = sample_dataset(X, Path(folder) / "run", **settings, **model, client=client)
        together = time.perf_counter() - began
        assert np.array_equal(open_run(run).partitions_, partitions)
        alone = dict(settings, chains=1)
        began = time.perf_counter()
        for seed in range(SEEDS):
            sample_dataset(X, Path(folder) / f"alone-{seed}", **alone, **model, seed=seed, client=client)
        on_worker = (time.perf_counter() - began) / SEEDS
    rows = [
        ["on the workers", on_worker, together, together / on_worker],
        ["in this process", one, together, together / one],
    ]
    title = f"toy data, {arguments.draws} draws a chain"
    print_table(title, ["one chain", "s", f"{CHAINS} chains on {WORKERS} workers, s", "ratio"], rows)


if __name__ == "__main__":
    main()
