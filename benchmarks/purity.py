"""Dendrogram purity of BHC beside single, complete and average linkage on the tasks of [HG05], means over folds.

    python -m benchmarks.purity --data DIR

As in the paper: Bernoulli BHC on binary data (newsgroups, digits and spambase binarised), Gaussian BHC on real
data (glass, synthetic); the linkages use Euclidean distance. Each fold is a random part of the rows; hyperparameters
are chosen by the evidence on the fold itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage

import dtree
from benchmarks.measure import data_folder, load, machine, print_table


def binarised(X: np.ndarray) -> np.ndarray:
    """Each feature above its mean or not, as the paper does for spambase; constant features go."""
    return (X[:, X.var(axis=0) > 0] > X[:, X.var(axis=0) > 0].mean(axis=0)).astype(np.float64)


def gaussian_mixture(seed: int, n: int = 200, k: int = 4, d: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """n rows of k Gaussian classes with random centres and random covariances (the paper does not print its own)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    shapes = 0.7 * rng.normal(size=(k, d, d)) + 0.5 * np.eye(d)
    return (4.0 * rng.normal(size=(k, d)))[y] + np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(n, d))), y


def tasks(args: Any) -> Iterator[tuple[str, str, list[tuple[np.ndarray, np.ndarray]]]]:
    """Name, family, and the folds (X, y) of each task."""

    def folds(X: np.ndarray, y: np.ndarray, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for fold in range(args.folds):
            rows = np.random.default_rng(fold).choice(X.shape[0], min(size, X.shape[0]), replace=False)
            found.append((X[rows], y[rows]))
        return found

    news = load(args.data, "newsgroups4_800x50")
    yield "newsgroups (4 groups, 50 words)", "bernoulli", folds(news["X"].astype(np.float64), news["y"], 400)
    digits = load(args.data, "digits")
    yield "digits, binarised", "bernoulli", folds((digits["X"] > 7).astype(np.float64), digits["y"], 400)
    some = np.isin(digits["y"], [0, 2, 4])
    yield (
        "digits 0, 2, 4, binarised",
        "bernoulli",
        folds((digits["X"][some] > 7).astype(np.float64), digits["y"][some], 120),
    )
    spam = load(args.data, "spambase")
    yield "spambase, binarised", "bernoulli", folds(binarised(spam["X"].astype(np.float64)), spam["y"], 400)
    glass = load(args.data, "glass")
    yield "glass", "gaussian-diag", folds(glass["X"].astype(np.float64), glass["y"], 150)
    yield "synthetic", "gaussian", [gaussian_mixture(fold) for fold in range(args.folds)]


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--folds", type=int, default=10)
    args = parse()
    print(machine())
    table = []
    for name, family, folds in tasks(args):
        found: dict[str, list[float]] = {"BHC": []}
        for X, y in folds:
            found["BHC"].append(dtree.dendrogram_purity(dtree.BHC(family).fit(X).tree_, y))
            for kind in ("single", "complete", "average"):
                found.setdefault(kind, []).append(dtree.dendrogram_purity(linkage(X, kind), y))
        cells = [f"{np.mean(v):.3f} ± {np.std(v, ddof=1) / np.sqrt(len(v)):.3f}" for v in found.values()]
        table.append([name, family, f"{folds[0][0].shape[0]} x {folds[0][0].shape[1]}", *cells])
        print(*table[-1], flush=True)
    print_table(
        f"Dendrogram purity, mean over {args.folds} folds ± standard error",
        ["data", "family", "rows a fold", "BHC", "single", "complete", "average"],
        table,
    )


if __name__ == "__main__":
    main()
