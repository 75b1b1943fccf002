"""Evidence methods against quadrature on all four-leaf structures, and the speed of the reference sampler."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from dtree.diffusion import laplace, mcmc, prior
from dtree.diffusion.belief import leaves_from_data
from dtree.diffusion.em import log_evidence_em
from dtree.diffusion.message_passing import log_evidence_message_passing
from dtree.diffusion.objective import Hyper
from dtree.diffusion.tree import from_nested

SIZES = (2, 3, 4)  # leaves


def run_accuracy(data: Path, out: Path) -> dict:
    """Error of each evidence against quadrature on all structures over 2, 3 and 4 leaves, and how often each ranks the
    best of all 15 four-leaf structures first."""
    from tests.naive import diffusion as naive

    hyper = Hyper(1.0, 1.0)
    errors: dict[str, dict[int, list[float]]] = {}
    first: dict[str, int] = {}
    unconverged: dict[str, int] = {}
    data_sets = 12
    for n, seed in ((n, seed) for n in SIZES for seed in range(data_sets)):
        rng = np.random.default_rng(seed)
        rows, _ = prior.sample_data(n, 3, rng=rng)
        leaves = leaves_from_data(rows)
        table: dict[str, list[float]] = {}
        for structure in naive.structures(tuple(range(n))):
            columns = from_nested(structure, [0.2, 0.4, 0.6][: n - 1])
            exact = naive.log_evidence_given_structure(columns, rows, 1.0, 1.0, 0.0, nodes=32)
            table.setdefault("exact", []).append(exact + prior.log_structure_prior(columns))
            fit = laplace.log_evidence_laplace(columns, leaves, hyper)
            corrected, _ = laplace.importance_correction(fit, leaves, hyper, rng, draws=512)
            em, mp = log_evidence_em(columns, leaves, hyper), log_evidence_message_passing(columns, leaves, hyper)
            for name, value, converged in (
                ("laplace", fit.log_evidence, fit.converged),
                ("laplace + 512 draws", corrected, fit.converged),
                ("em", em.log_evidence, em.converged),
                ("message-passing", mp.log_evidence, mp.converged),
            ):
                table.setdefault(name, []).append(value)
                unconverged[name] = unconverged.get(name, 0) + (not converged)
        for name, values in table.items():
            if name != "exact":
                gaps = np.subtract(values, table["exact"])
                errors.setdefault(name, {}).setdefault(n, []).extend(gaps[np.isfinite(gaps)])
                if n == 4:
                    first[name] = first.get(name, 0) + int(np.argmax(values) == np.argmax(table["exact"]))
    return {
        "error_mean_and_range_by_leaves": {
            name: {n: [round(float(f(gaps)), 2) for f in (np.mean, np.min, np.max)] for n, gaps in by_size.items()}
            for name, by_size in errors.items()
        },
        "best_structure_found": {k: f"{v} of {data_sets}" for k, v in first.items()},
        "not_converged": {k: f"{v} of {(1 + 3 + 15) * data_sets}" for k, v in unconverged.items()},
    }


def run_mcmc(data: Path, out: Path) -> dict:
    """Sweeps per second and acceptance of the reference sampler (N = 200, D = 5)."""
    rows, truth = prior.sample_data(200, 5, rng=np.random.default_rng(2))
    chain = mcmc.init(truth, leaves_from_data(rows), Hyper())
    rng = np.random.default_rng(0)
    chain = mcmc.step(chain, rng)
    began = time.perf_counter()
    for _ in range(20):
        chain = mcmc.step(chain, rng)
    return {
        "seconds_per_sweep": (time.perf_counter() - began) / 20,
        "accepted": float(chain.counts[1] / chain.counts[0]),
    }
