"""The engine measured: kernels against scikit-learn, seconds per row and memory as rows grow, workers, overhead of
Dask.

python -m benchmarks.engine --folder DIR                     everything
python -m benchmarks.engine kernels growth --folder DIR      some parts
python -m benchmarks.engine growth workers overhead --folder DIR --rows 1000000     a quick look

| part | measures | aim |
| --- | --- | --- |
| kernels | an assignment pass, 200,000 x 16, 64 clusters, and scikit-learn's E-step | full at least 3 times faster, diagonal at most 1.5 times slower |
| growth | seconds per row and peak memory of a worker as rows grow, data 4 times all workers' memory; a plot | constant within 10%; flat |
| workers | the same fit on 1 and on 2 workers | 2 at least 1.7 times as fast |
| overhead | CPU of the Dask path and of the same tasks in a plain loop | at most 1.3 times |

The folder keeps the rows (128 bytes each: 6.5 GB for 1, 10 and 40 million) between runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from dask.utils import parse_bytes

from benchmarks.measure import print_table
from dtree import BayesKMeansBHC
from dtree.core.families import DiagonalGaussian, Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.engine.cluster import cluster_client
from dtree.engine.warm import warm
from dtree.kmeans.scoring import Scorer
from dtree.methods import method_named


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
    array = zarr.create_array(str(path), shape=(n, d), chunks=(rows, d), dtype=np.float64, compressors=None)
    for start in range(0, n, rows):
        rng = np.random.default_rng([1, start])
        size = min(rows, n - start)
        array[start : start + size] = centres[rng.integers(0, k, size)] + rng.normal(size=(size, d))


def peak_memory(dask_worker: Any = None) -> int:
    """Largest resident size of this process so far, in bytes.

    Not getrusage's ru_maxrss: Linux hands the parent's on to a new process, and the parent here is the benchmark
    itself.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not say how much memory a process has used at most")


class Timed(NamedTuple):
    """Passes that were timed, the first of a fit left out: in it workers load their kernels."""

    seconds: list[float]
    cpu: list[float]  # seconds of all workers together: the machine may be shared, and then only these are comparable
    clusters: list[int]  # a row is scored against every one


def timed_fit(source: Path, out: Path, client: Any, passes: int) -> Timed:
    """So many passes over the rows, fewer if nothing changes any more."""
    shutil.rmtree(out, ignore_errors=True)
    spent = []

    def note(_: Any) -> None:
        spent.append(sum(client.run(cpu_seconds).values()) if client is not None else cpu_seconds())

    few = {"max_iter": passes, "patience": passes, "tol": 0.0, "sample_rows": 4000}
    model = BayesKMeansBHC(**few, random_state=0, client=client, out=out, progress=note).fit(source)
    steps = model.trace_[1:]
    return Timed([step.seconds for step in steps], np.diff(spent).tolist(), [step.n_clusters for step in steps])


def growth(folder: Path, sizes: list[int], workers: int, limit: str, passes: int) -> None:
    """Seconds per row and peak worker memory as rows grow; fresh workers for each size, since memory only ever peaks.

    The speed of a shared machine drifts over minutes, so the small sizes are measured before and after the largest one.
    """
    allowed = workers * parse_bytes(limit)
    wall: dict[int, list[float]] = {n: [] for n in sizes}
    cpu: dict[int, list[float]] = {n: [] for n in sizes}
    peaks = dict.fromkeys(sizes, 0.0)
    print(f"{workers} workers of {limit}; ns a row in each pass: wall, CPU of all workers")
    for n in [*sizes, *sizes[-2::-1]]:
        source = folder / f"rows-{n}.zarr"
        write_rows(source, n)
        with cluster_client(n_workers=workers, memory_limit=limit, warm=False) as client:
            for _ in range(3 if n == sizes[0] else 1):
                timed = timed_fit(source, folder / "run", client, passes)
                wall[n] += [1e9 * seconds / n for seconds in timed.seconds]
                cpu[n] += [1e9 * seconds / n for seconds in timed.cpu]
                found = zip(timed.seconds, timed.cpu, timed.clusters, strict=True)
                each = ", ".join(f"{1e9 * a / n:.0f} {1e9 * b / n:.0f} (k={k})" for a, b, k in found)
                print(f"{n:12,d} rows: {each}", flush=True)
            peaks[n] = max(peaks[n], *(peak / 1e6 for peak in client.run(peak_memory).values()))
    print_table(
        "Growth",
        ["rows", "data / all workers' memory", "seconds a pass", "ns a row", "best", "CPU ns a row", "peak of a worker, MB"],
        [
            [
                f"{n:,}", f"{8 * 16 * n / allowed:.1f}", f"{np.median(wall[n]) * n / 1e9:.2f}", f"{np.median(wall[n]):.0f}",
                f"{min(wall[n]):.0f}", f"{np.median(cpu[n]):.0f}", f"{peaks[n]:.0f}",
            ]
            for n in sizes
        ],
    )  # fmt: skip
    for name, values in (("wall", wall), ("CPU", cpu)):
        middle = [float(np.median(values[n])) for n in sizes]
        print(f"{name}: the largest median is {max(middle) / min(middle):.3f} times the smallest")
    plot_memory(folder / "engine-memory.png", sizes, [peaks[n] for n in sizes], parse_bytes(limit) / 1e6)


def plot_memory(path: Path, sizes: list[int], peaks: list[float], limit: float) -> None:
    """Peak memory of a worker against rows, with the size of the data and the limit of a worker."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(sizes, [8 * 16 * n / 1e6 for n in sizes], "o--", color="0.6", label="the data")
    axes.axhline(limit, color="0.6", linestyle=":", label="limit of a worker")
    axes.plot(sizes, peaks, "o-", label="peak of a worker")
    axes.set(xscale="log", yscale="log", xlabel="rows of 16 features", ylabel="MB")
    axes.legend()
    figure.savefig(path, dpi=150)
    print(f"plot: {path}")


def compare_workers(folder: Path, n: int, passes: int) -> None:
    """The same fit on 1 and on 2 workers, to the same bits."""
    source = folder / f"rows-{n}.zarr"
    write_rows(source, n)
    seconds, found = [], []
    for count in (1, 2):
        with cluster_client(n_workers=count, memory_limit="2GB", warm=False) as client:
            seconds.append(float(np.median(timed_fit(source, folder / f"run-{count}", client, passes).seconds)))
        found.append(results(folder / f"run-{count}"))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True)), "1 and 2 workers gave different bits"
    print(
        f"{n:,} rows: {seconds[0]:.2f} s a pass on 1 worker, {seconds[1]:.2f} s on 2, {seconds[0] / seconds[1]:.2f} times as fast"
    )


def results(run: Path) -> list[np.ndarray]:
    """Labels and statistics of a run."""
    return [np.asarray(zarr.open_array(f"{run}/{name}", mode="r")[...]) for name in ("labels", "statistics")]


def overhead(folder: Path, n: int, passes: int) -> None:
    """CPU seconds of the whole Dask path (client, scheduler, one worker) against the same tasks in a plain loop."""
    source, small = folder / f"rows-{n}.zarr", folder / "rows-50000.zarr"
    write_rows(source, n)
    write_rows(small, 50_000)
    timed_fit(small, folder / "plain", None, 2)  # kernels are loaded once in a process, not once in a pass
    began = os.times()
    timed_fit(source, folder / "plain", None, passes)
    ended = os.times()
    plain = ended.user + ended.system - began.user - began.system
    with cluster_client(n_workers=1, memory_limit="2GB", warm=False) as client:
        timed_fit(small, folder / "dask", client, 2)
        before = sum(client.run(cpu_seconds).values())
        began = os.times()
        timed_fit(source, folder / "dask", client, passes)
        ended = os.times()
        spent = sum(client.run(cpu_seconds).values()) - before + ended.user + ended.system - began.user - began.system
    both = zip(results(folder / "plain"), results(folder / "dask"), strict=True)
    assert all(np.array_equal(a, b) for a, b in both), "the two paths gave different bits"
    print(f"{n} rows, {passes} passes: plain loop {plain:.1f} CPU s, Dask {spent:.1f} CPU s, ratio {spent / plain:.2f}")


def cpu_seconds(dask_worker: Any = None) -> float:
    """CPU seconds of this process so far."""
    times = os.times()
    return times.user + times.system


PARTS = ("kernels", "growth", "workers", "overhead")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; none for all")
    parser.add_argument("--folder", type=Path, default=Path("engine-benchmark"))
    parser.add_argument("--rows", default="1000000,10000000,40000000")
    parser.add_argument("--memory-limit", default="640MB", help="of each of the two workers of `growth`")
    parser.add_argument("--passes", type=int, default=3, help="over the data; twice as many over the smallest")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    parts = options.parts or PARTS
    sizes = [int(size) for size in options.rows.split(",")]
    options.folder.mkdir(parents=True, exist_ok=True)
    if "kernels" in parts:
        kernels()
    if set(parts) - {"kernels"}:
        method = method_named("bayes-kmeans-bhc")
        warm(method, method.Settings())  # workers load machine code
    if "growth" in parts:
        growth(options.folder, sizes, 2, options.memory_limit, options.passes)
    if "workers" in parts:
        compare_workers(options.folder, sizes[min(1, len(sizes) - 1)], options.passes)
    if "overhead" in parts:
        overhead(options.folder, sizes[0], options.passes)


if __name__ == "__main__":
    main()
