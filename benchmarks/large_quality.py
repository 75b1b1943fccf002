"""Large sets: the default's chosen level beside its components and what the level step costs, Bayes-K-means BHC beside
the usual clusterers, and beside exact BHC as in [XHG09] Figure 8.

    python -m benchmarks.large_quality --data DIR default [--only shuttle,skin,kddcup99_10pct,mnist_pca50,moons]
    python -m benchmarks.large_quality --data DIR default --only moons --rows 10000000 --workers 2
    python -m benchmarks.large_quality --data DIR peers [--only shuttle,skin] [--no-peers]
    python -m benchmarks.large_quality --data DIR figure-8

`default`: CPU seconds of all processes together, since the machine may be shared. `counting` is what there is because
of levels: rows counted between components, the tree and its cut. `all after` is everything after the last pass that
moves components: also the component, label, confidence and density of every row, which any mixture has to write. With
--workers the rows lie in a file in --folder, which is removed afterwards, and workers are processes of their own.

`peers`: nothing is set for dtree but the family; KMeans and MiniBatchKMeans are given the true number of classes, the
mixture an upper limit. Peers see standardised data. A peer that does not scale sees as many random rows as stated and
its ARI is of those.
"""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import StandardScaler

import dtree.methods.tree_clustering as method
from benchmarks.engine import cpu_seconds, peak_memory
from benchmarks.measure import data_folder, load, machine, print_table, seconds
from dtree import BHC, BayesKMeansBHC, TreeClustering
from dtree.engine.cluster import cluster_client

_LARGE = {
    "shuttle": "gaussian",
    "skin": "gaussian",
    "kddcup99_10pct": "gaussian-diag",
    "mnist_pca50_10k": "gaussian-diag",
}
_HDBSCAN_ROWS = 20_000  # its time grows with the square of the rows in many dimensions
_MIXTURE_ROWS = 20_000
_DEFAULT = ("shuttle", "skin", "kddcup99_10pct", "mnist_pca50", "moons")
_MADE_AT_A_TIME = 250_000


def ari_row(name: str, labels: np.ndarray, y: np.ndarray, took: float) -> list[Any]:
    """Name, rows, clusters, ARI and seconds of one clusterer."""
    found = len(np.unique(labels[labels >= 0]))
    return [name, labels.shape[0], found, float(adjusted_rand_score(y, labels)), took]


def ours(X: np.ndarray, y: np.ndarray, k: int, family: str) -> Iterator[list[Any]]:
    """dtree as it comes, then its tree cut into as many clusters as there are classes."""
    took, model = seconds(lambda: BayesKMeansBHC(family, random_state=0).fit(X))
    yield ari_row(f"dtree, {family}", model.labels_, y, took)
    yield ari_row("dtree, its tree cut into k", model.tree_.cut(n_clusters=k)[model.atom_labels_], y, took)


def peers(Z: np.ndarray, y: np.ndarray, k: int) -> Iterator[list[Any]]:
    """The usual clusterers on standardised rows."""
    rng = np.random.default_rng(0)
    for name, clusterer, most in (
        ("KMeans, k given", KMeans(k, n_init=3, random_state=0), None),
        ("MiniBatchKMeans, k given", MiniBatchKMeans(k, random_state=0), None),
        ("HDBSCAN", HDBSCAN(copy=True), _HDBSCAN_ROWS),
        (
            "BayesianGaussianMixture, at most 40",
            BayesianGaussianMixture(n_components=40, max_iter=100, random_state=0),
            _MIXTURE_ROWS,
        ),
    ):
        rows = slice(None) if most is None or most >= Z.shape[0] else rng.choice(Z.shape[0], most, replace=False)
        took, labels = seconds(lambda c=clusterer, r=rows: c.fit_predict(Z[r]))  # type: ignore[misc]
        yield ari_row(name, labels, y[rows], took)


def large_table(args: Any) -> None:
    """ARI and clusters on data that exact BHC cannot take row by row."""
    warnings.simplefilter("ignore")  # a mixture that has not converged is judged by its labels all the same
    rows = []
    for name in args.only.split(",") if args.only else _LARGE:
        arrays = load(args.data, name)
        X, y = arrays["X"].astype(np.float64), arrays["y"]
        k = len(np.unique(y))
        entries = ours(X, y, k, _LARGE[name])
        if not args.no_peers:
            entries = chain(entries, peers(StandardScaler().fit_transform(X), y, k))
        for entry in entries:
            rows.append([f"{name} ({k} classes)", *entry])
            print(*rows[-1], flush=True)
    print_table(
        "Large real data: ARI against the classes",
        ["data", "clusterer", "rows", "clusters", "ARI", "seconds"],
        rows,
    )


def figure_8(args: Any) -> None:
    """Log evidence and time of Bayes-K-means BHC beside BHC, same model, mean over seeds [XHG09, Figure 8]."""
    rows = []
    for name, n in (("iris", None), ("wine", None), ("abalone", 600), ("abalone", None)):
        X = load(args.data, name)["X"].astype(np.float64)[:n]
        exact = BHC().fit(X)
        took, exact = seconds(lambda X=X, m=exact: BHC(m.family_, m.prior_).fit(X), 3)
        bounds, times = [], []
        for seed in range(10):
            started = time.perf_counter()
            quick = BayesKMeansBHC(exact.family_, exact.prior_, random_state=seed).fit(X)
            times.append(time.perf_counter() - started)
            bounds.append(quick.log_evidence_bound_)
        spread = float(np.std(bounds, ddof=1) / len(bounds) ** 0.5)
        rows.append(
            [
                name, X.shape[0], f"{exact.log_evidence_bound_:.1f}", f"{np.mean(bounds):.1f} ± {spread:.1f}",
                f"{np.max(bounds):.1f}", took, float(np.median(times)), f"{took / np.median(times):.1f}x",
            ]
        )  # fmt: skip
    print_table(
        "BHC and Bayes-K-means BHC with the same model (10 seeds)",
        ["data", "rows", "log evidence, BHC", "Bayes-K-means BHC", "best", "seconds, BHC", "seconds", "speed-up"],
        rows,
    )


def moons_and_skewed_groups(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Two half moons and four groups with one skewed column, (n, 5), and the group of each row."""
    shares, places = [0.25, 0.25, 0.2, 0.15, 0.1, 0.05], np.zeros((6, 5))
    places[2:, :2] = [[6, 0], [0, 6], [0, 0], [6, 6]]
    places[4, 2] = 6
    X, groups = np.empty((n, 5), dtype=np.float32), np.empty(n, dtype=np.int32)
    for start in range(0, n, _MADE_AT_A_TIME):
        random, rows = np.random.default_rng([0, start]), slice(start, min(start + _MADE_AT_A_TIME, n))
        size = rows.stop - rows.start
        own = random.choice(6, size, p=shares)
        angle, sign = random.uniform(0.0, np.pi, size), np.where(own == 0, 1.0, -1.0)
        made, moon = places[own] + random.normal(0.0, 0.1, (size, 5)), own < 2
        made[moon, 0] += np.where(own == 0, 0.0, 1.0)[moon] + (sign * np.cos(angle))[moon]
        made[moon, 1] += np.where(own == 0, 0.0, 0.5)[moon] + (sign * np.sin(angle))[moon]
        made[~moon, 3] += random.exponential(0.7, np.count_nonzero(~moon))
        X[rows], groups[rows] = made, own
    return X, groups


def on_principal_axes(images: np.ndarray, axes: int = 50) -> np.ndarray:
    """Images (n, p) on so many principal axes."""
    X = images.reshape(images.shape[0], -1).astype(np.float32) / 255.0
    X -= X.mean(axis=0)
    return np.asarray(X @ np.linalg.eigh(X.T @ X)[1][:, ::-1][:, :axes], dtype=np.float64)


def rows_of(name: str, folder: Path, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their groups."""
    if name == "moons":
        return moons_and_skewed_groups(n)
    arrays = load(folder, "mnist" if name == "mnist_pca50" else name)
    X = on_principal_axes(arrays["X"]) if name == "mnist_pca50" else arrays["X"].astype(np.float64)
    return X, arrays["y"]


class Clock:
    """CPU seconds of this process and of the workers, at moments of the last fit."""

    def __init__(self, client: Any) -> None:
        self.client, self.at = client, dict[str, float]()
        finish, found_levels = method.TreeClustering.finish, method.found_levels

        def timed_finish(*arguments: Any) -> Any:
            self.note("passes over")
            fitted = finish(*arguments)
            self.note("all done")
            return fitted

        def timed_levels(*arguments: Any) -> Any:
            found = found_levels(*arguments)
            self.note("levels found")
            return found

        method.TreeClustering.finish, method.found_levels = timed_finish, timed_levels  # type: ignore[method-assign]

    def note(self, moment: str) -> None:
        workers = self.client.run(cpu_seconds).values() if self.client is not None else ()
        self.at[moment] = cpu_seconds() + sum(workers)

    def between(self, first: str, last: str) -> float:
        """CPU seconds from one moment to another."""
        return self.at[last] - self.at[first]


def measured(X: Any, y: np.ndarray, clock: Clock, **settings: Any) -> list[Any]:
    """One line of the table."""
    clock.note("begun")
    model = TreeClustering(client=clock.client, **settings).fit(X)
    clock.note("ended")
    whole = clock.between("begun", "ended")
    counting, after = clock.between("passes over", "levels found"), clock.between("passes over", "all done")
    offered = max(adjusted_rand_score(y, model.at_level(level)) for level in model.levels_["level"])
    return [
        model.n_clusters_, float(adjusted_rand_score(y, model.labels_)), offered, model.n_components_,
        float(adjusted_rand_score(y, model.component_labels_)), model.n_iter_, whole,
        f"{counting:.2f} ({100 * counting / whole:.1f} %)", f"{after:.2f} ({100 * after / whole:.1f} %)",
    ]  # fmt: skip


def default_table(given: Any) -> None:
    """The default on large sets, in this process or on workers."""
    warnings.simplefilter("ignore")
    local = {"n_workers": given.workers, "memory_limit": given.memory_limit}
    lines = []
    with cluster_client(**local) if given.workers else nullcontext() as client:
        clock = Clock(client)
        measured(*moons_and_skewed_groups(20_000), clock, random_state=0)  # kernels are loaded
        for name in given.only.split(",") if given.only else _DEFAULT:
            X, y = rows_of(name, given.data, given.rows)
            shape, source = f"{X.shape[0]:,} x {X.shape[1]}", X
            if client is not None:
                given.folder.mkdir(parents=True, exist_ok=True)
                np.save(given.folder / "rows.npy", X)
                source = X = given.folder / "rows.npy"
            for seed in range(given.seeds):
                lines.append([name, shape, *measured(source, y, clock, random_state=seed)])
                print(*lines[-1], flush=True)
                if client is not None:
                    peaks = (f"{peak / 1e6:.0f} MB" for peak in client.run(peak_memory).values())
                    print("peak of each worker:", ", ".join(peaks), flush=True)
            shutil.rmtree(given.folder, ignore_errors=True)
    header = ["data", "rows", "clusters", "index", "best of its levels", "components", "their index", "passes", "CPU s"]
    print_table("The default on large sets", [*header, "counting", "all after"], lines)


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("part", choices=("default", "peers", "figure-8"))
    parser.add_argument("--only", default="", help="which large sets")
    parser.add_argument("--no-peers", action="store_true", help="only dtree")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the moons")
    parser.add_argument("--seeds", type=int, default=1, help="of the default")
    parser.add_argument("--workers", type=int, default=0, help="processes that make the passes; 0: this one")
    parser.add_argument("--memory-limit", default="2GB", help="of each of them")
    parser.add_argument("--folder", type=Path, default=Path("large-benchmark"), help="for the file that workers read")
    given = parse()
    print(machine())
    {"default": default_table, "peers": large_table, "figure-8": figure_8}[given.part](given)


if __name__ == "__main__":
    main()
