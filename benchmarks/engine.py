"""The engine measured: kernels against scikit-learn, seconds per row as rows grow, workers, overhead of Dask, memory.

python benchmarks/engine.py kernels
python benchmarks/engine.py scaling --folder DIR [--rows 1000000,3000000,10000000] [--workers 1,2]
python benchmarks/engine.py overhead --folder DIR
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from dtree.core.families import DiagonalGaussian, Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.cluster import cluster_client
from dtree.engine.fit import fit_dataset
from dtree.kmeans.scoring import Scorer


def best_of(run: Any, *args: Any, times: int = 5) -> float:
    """CPU seconds, the least of several: the machine may be shared, and both sides run on one thread."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        run(*args)
        seconds.append(time.process_time() - began)
    return min(seconds)


def kernels(n: int = 200_000, d: int = 16, k: int = 64) -> None:
    """One assignment pass against scikit-learn's E-step at the same parameters, one thread each."""
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    labels = rng.integers(0, k, n)
    X = rng.normal(0, 3, size=(k, d))[labels] + rng.normal(size=(n, d))
    for family, covariance in ((Gaussian, "full"), (DiagonalGaussian, "diag")):
        model = Model(family.defaults(moments_of(X)), DirichletProcess(1.0))
        empty = Scorer(model, np.zeros((0, model.atoms(X[:1]).shape[1])))
        scorer = Scorer(model, empty.accumulate(X, labels, k))
        found = scorer.assign(X, labels).best
        peer = GaussianMixture(k, covariance_type=covariance, max_iter=1, init_params="random_from_data")
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            peer.fit(X[:20_000])
            peer.weights_ = np.bincount(labels, minlength=k) / n
            resp = np.zeros((n, k))
            resp[np.arange(n), labels] = 1.0
            peer._m_step(X, np.log(np.maximum(resp, 1e-300)))
            agree = np.mean(peer.predict(X) == found)
            assert agree > 0.999, f"only {agree:.4f} of the rows go to the same cluster"
            theirs = best_of(peer._e_step, X)
            ours = best_of(scorer.assign, X, labels)
        adding = best_of(scorer.accumulate, X, labels, k)
        print(
            f"{covariance}: {n} x {d}, {k} clusters: dtree {ours:.3f} s (+ {adding:.3f} s statistics), "
            f"scikit-learn E-step {theirs:.3f} s, ratio {theirs / ours:.2f}, same cluster {agree:.5f}",
            flush=True,
        )


def write_rows(path: Path, n: int, d: int = 16, k: int = 64) -> None:
    """A zarr of n rows from k Gaussians, written a chunk at a time."""
    if path.exists():
        return
    centres = np.random.default_rng(0).normal(0, 3, size=(k, d))
    rows = 250_000
    array = zarr.create_array(str(path), shape=(n, d), chunks=(rows, d), dtype=np.float32, compressors=None)
    for start in range(0, n, rows):
        rng = np.random.default_rng([1, start])
        size = min(rows, n - start)
        array[start : start + size] = centres[rng.integers(0, k, size)] + rng.normal(size=(size, d))


def peak_memory(dask_worker: Any = None) -> int:
    """Largest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def timed_fit(source: Path, out: Path, client: Any, passes: int) -> tuple[float, float, int]:
    """Median seconds of a pass (the first left out), total seconds, clusters."""
    shutil.rmtree(out, ignore_errors=True)
    began = time.perf_counter()
    result = fit_dataset(
        source, out, max_passes=passes, patience=passes, tolerance=0.0, sample_rows=4000, client=client
    )
    seconds = [step.seconds for step in result.trace[1:]] or [result.trace[0].seconds]
    return float(np.median(seconds)), time.perf_counter() - began, result.n_clusters


def scaling(folder: Path, sizes: list[int], workers: list[int], passes: int) -> None:
    """Seconds per row and peak worker memory as rows grow, on 1 and 2 workers."""
    folder.mkdir(parents=True, exist_ok=True)
    print("workers      rows  clusters  seconds/pass  ns/row  total s  peak worker MB")
    for count in workers:
        for n in sizes:
            source = folder / f"rows-{n}.zarr"
            write_rows(source, n)
            with cluster_client(n_workers=count, memory_limit="2GB") as client:  # fresh workers: memory starts anew
                per_pass, total, k = timed_fit(source, folder / "run", client, passes)
                peak = max(client.run(peak_memory).values()) / 1e6
            print(
                f"{count:7d} {n:9d} {k:9d} {per_pass:13.2f} {1e9 * per_pass / n:7.0f} {total:8.1f} {peak:15.0f}",
                flush=True,
            )


def overhead(folder: Path, n: int, passes: int) -> None:
    """CPU seconds of the whole Dask path (client, scheduler, one worker) against the same tasks in a plain loop."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"rows-{n}.zarr"
    write_rows(source, n)
    from dtree.engine.warm import warm_kernels

    warm_kernels([Gaussian])

    began = os.times()
    timed_fit(source, folder / "plain", None, passes)
    ended = os.times()
    plain = ended.user + ended.system - began.user - began.system
    with cluster_client(n_workers=1, memory_limit="2GB", warm=False) as client:
        before = sum(client.run(cpu_seconds).values())
        began = os.times()
        timed_fit(source, folder / "dask", client, passes)
        ended = os.times()
        spent = sum(client.run(cpu_seconds).values()) - before + ended.user + ended.system - began.user - began.system
    same = all(
        np.array_equal(zarr.open_array(f"{folder}/plain/{a}")[...], zarr.open_array(f"{folder}/dask/{a}")[...])
        for a in ("labels", "statistics/clusters")
    )
    assert same, "the two paths gave different bits"
    print(f"{n} rows, {passes} passes: plain loop {plain:.1f} CPU s, Dask {spent:.1f} CPU s, ratio {spent / plain:.2f}")


def cpu_seconds(dask_worker: Any = None) -> float:
    """CPU seconds of this process so far."""
    times = os.times()
    return times.user + times.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("kernels", "scaling", "overhead"))
    parser.add_argument("--folder", type=Path, default=Path("engine-benchmark"))
    parser.add_argument("--rows", default="1000000,3000000,10000000")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--passes", type=int, default=4)
    options = parser.parse_args()
    sizes = [int(size) for size in options.rows.split(",")]
    if options.what == "kernels":
        kernels()
    elif options.what == "scaling":
        scaling(options.folder, sizes, [int(count) for count in options.workers.split(",")], options.passes)
    else:
        overhead(options.folder, sizes[0], options.passes)


if __name__ == "__main__":
    main()
