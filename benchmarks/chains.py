"""Many chains on few workers: 8 chains on 2 workers beside one chain, on the same workers and in this process.

    python -m benchmarks.chains --data DIR [--draws 4000]

Two workers can at best do 8 chains in 4 times the time of one; the rest is what Dask and the store cost. The cluster
runs already and the kernels are compiled; the chains differ, so the time of one in this process is the mean of all 8
run one by one, and on the workers the mean of three seeds. The draws of both ways are compared bit for bit.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measure import data_folder, load, machine, print_table
from dtree import DPMixtureMCMC
from dtree.core.families import Gaussian
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.cluster import cluster_client
from dtree.estimators.base import seed_of
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import begin_chain, run_chain

CHAINS, WORKERS, SEEDS, WARMUP = 8, 2, 3, 200


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--draws", type=int, default=4000)
    arguments = parse()
    print(machine())
    X = load(arguments.data, "tgmcmc_toy")["X"].astype(float)
    model = {"family": Gaussian.paper_prior(X), "prior": DirichletProcess(1.0)}
    settings = {**model, "draws": arguments.draws, "warmup": WARMUP}
    DPMixtureMCMC(**model, chains=2, draws=20, warmup=5).fit(X)
    whole = Model(model["family"], model["prior"])
    atoms = whole.atoms(X)
    began = time.perf_counter()
    found = []
    for chain in range(CHAINS):
        problem = Problem(whole, atoms)
        start = begin_chain(problem, "tgmcmc", seed_of(0), chain)
        found.append(run_chain(problem, "tgmcmc", start, WARMUP + arguments.draws, WARMUP)[0])
    one = (time.perf_counter() - began) / CHAINS
    partitions = np.stack([draws.labels for draws in found])
    with cluster_client(n_workers=WORKERS, memory_limit="2GB", warm=False) as client:
        DPMixtureMCMC(**model, chains=4, draws=20, warmup=5, client=client).fit(X)
        began = time.perf_counter()
        there = DPMixtureMCMC(**settings, chains=CHAINS, random_state=0, client=client).fit(X)
        together = time.perf_counter() - began
        assert np.array_equal(there.partitions_, partitions)
        began = time.perf_counter()
        for seed in range(SEEDS):
            DPMixtureMCMC(**settings, chains=1, random_state=seed, client=client).fit(X)
        on_worker = (time.perf_counter() - began) / SEEDS
    rows = [
        ["on the workers", on_worker, together, together / on_worker],
        ["in this process", one, together, together / one],
    ]
    title = f"toy data, {arguments.draws} draws a chain"
    print_table(title, ["one chain", "s", f"{CHAINS} chains on {WORKERS} workers, s", "ratio"], rows)


if __name__ == "__main__":
    main()
