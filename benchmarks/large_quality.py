"""Bayes-K-means BHC on real data: beside the usual clusterers on large sets, and beside exact BHC as in [XHG09] Figure
8.

    python -m benchmarks.large_quality --data DIR [--only shuttle,skin] [--no-peers]

Nothing is set for dtree but the family; KMeans and MiniBatchKMeans are given the true number of classes, the mixture an
upper limit. Peers see standardised data. A peer that does not scale sees as many random rows as stated and its ARI is
of those.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import data_folder, load, machine, print_table, seconds
from dtree import BHC, BayesKMeansBHC

_LARGE = {
    "shuttle": "gaussian",
    "skin": "gaussian",
    "kddcup99_10pct": "gaussian-diag",
    "mnist_pca50_10k": "gaussian-diag",
}
_HDBSCAN_ROWS = 20_000  # its time grows with the square of the rows in many dimensions
_MIXTURE_ROWS = 20_000


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


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--only", default="", help="which large sets")
    parser.add_argument("--no-peers", action="store_true", help="only dtree")
    parser.add_argument("--no-large", action="store_true", help="only the comparison with BHC")
    args = parse()
    print(machine())
    figure_8(args)
    if not args.no_large:
        large_table(args)


if __name__ == "__main__":
    main()
