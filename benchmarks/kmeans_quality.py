"""Bayes K-means by passes against the sequential reference of [XHG09]: final objective over seeds, on the same data and
model.

python benchmarks/kmeans_quality.py --data DIR [--seeds 10] [--names abalone,digits,shuttle,tgmcmc_10k]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dtree.core.families import DiagonalGaussian, Family, Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.drive import Given, drive
from dtree.kmeans.fit import sample_size
from dtree.kmeans.greedy import sequential_kmeans
from dtree.methods.bayes_kmeans import BayesKMeans, Settings


def compare(X: np.ndarray, family: type[Family], seeds: int, chunks: int = 8) -> dict[str, float]:
    """Mean objectives, their mean difference with its standard error, and seconds of both."""
    n = X.shape[0]
    model = Model(family.defaults(moments_of(X)), DirichletProcess(1.0))
    atoms = model.atoms(X)
    chunk_rows = -(-n // chunks)
    sample_rows = min(sample_size(X.shape[1], atoms.shape[1], n), n // 2)  # never all rows: passes must do the work
    reference, passes, seconds = [], [], np.zeros(2)
    for seed in range(seeds):
        began = time.perf_counter()
        reference.append(sequential_kmeans(model, atoms, np.random.default_rng(seed).permutation(n)).objective)
        middle = time.perf_counter()
        settings = Settings(model.family, model.prior, sample_rows=sample_rows)
        run = drive(BayesKMeans(), settings, Given(X, chunk_bytes=chunk_rows * X[0].nbytes), seed=seed)
        passes.append(run.fitted(BayesKMeans.Fitted).log_joint - model.prior.log_normaliser(n))
        seconds += (middle - began, time.perf_counter() - middle)
    difference = np.array(passes) - np.array(reference)
    return {
        "reference": float(np.mean(reference)),
        "passes": float(np.mean(passes)),
        "difference": float(difference.mean()),
        "standard_error": float(difference.std(ddof=1) / seeds**0.5) if seeds > 1 else 0.0,
        "wins": int((difference >= 0).sum()),
        "reference_seconds": seconds[0] / seeds,
        "passes_seconds": seconds[1] / seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--names", default="abalone,digits,shuttle,tgmcmc_10k")
    options = parser.parse_args()
    print("data         family         reference      passes   difference (s.e.)  wins  seconds each")
    for name in options.names.split(","):
        X = np.load(options.data / f"{name}.npz")["X"].astype(np.float64)
        for family in (Gaussian, DiagonalGaussian):
            if family is Gaussian and X.shape[1] > 30:
                continue  # the full covariance of so many features is not identified by these rows
            found = compare(X, family, options.seeds)
            print(
                f"{name:12s} {family.name:13s} {found['reference']:11.1f} {found['passes']:11.1f} "
                f"{found['difference']:9.1f} ({found['standard_error']:.1f}) {found['wins']:4d}/{options.seeds} "
                f"{found['reference_seconds']:8.2f} {found['passes_seconds']:8.2f}",
                flush=True,
            )
            assert found["difference"] >= 0, "the passes fell below the sequential reference"


if __name__ == "__main__":
    main()
