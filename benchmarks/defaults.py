"""What someone gets who sets nothing: ARI and number of clusters on real and synthetic data, beside peers.

    python -m benchmarks.defaults --data DIR

BayesianGaussianMixture and HDBSCAN are not given the number of clusters (the former gets an upper limit), Ward is.
Peers see standardised data; dtree sees the data as they are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.cluster import HDBSCAN, AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import data_folder, load, machine, print_table, seconds
from dtree import BHC


def synthetic(
    name: str, k: int, d: int, spread: float, n: int, round_clusters: bool, seed: int
) -> tuple[str, Any, Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    shapes = np.tile(np.eye(d), (k, 1, 1)) if round_clusters else 0.5 * rng.normal(size=(k, d, d)) + 0.7 * np.eye(d)
    X = (spread * rng.normal(size=(k, d)))[y] + np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(n, d)))
    return name, X, y


def datasets(args: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    for name in ("iris", "wine", "glass", "digits", "abalone", "tgmcmc_toy"):
        arrays = load(args.data, name)
        # The classes of abalone that have something to do with groups are the sexes; rings are a count of years.
        yield name, arrays["X"].astype(np.float64), arrays["sex" if name == "abalone" else "y"]
    yield synthetic("round, apart", 5, 4, 6.0, 500, True, 1)
    yield synthetic("oblong, apart", 6, 3, 6.0, 600, False, 2)
    yield synthetic("round, overlapping", 4, 2, 3.0, 400, True, 3)
    yield synthetic("oblong, many", 15, 6, 5.0, 1500, False, 4)


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--components", type=int, default=30, help="upper limit given to BayesianGaussianMixture")
    args = parse()
    print(machine())
    rows = []
    for name, X, y in datasets(args):
        Z = StandardScaler().fit_transform(X)
        k = len(np.unique(y))
        took, ours = seconds(lambda X=X: BHC().fit(X))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a mixture that has not converged is judged by its labels all the same
            mixture = BayesianGaussianMixture(n_components=args.components, max_iter=500, random_state=0).fit_predict(Z)
        density = HDBSCAN(copy=True).fit_predict(Z)
        ward = AgglomerativeClustering(n_clusters=k).fit_predict(Z)
        row: list[Any] = [name, f"{X.shape[0]} x {X.shape[1]}", k]
        for labels in (ours.labels_, mixture, density):
            row += [float(adjusted_rand_score(y, labels)), len(np.unique(labels))]
        rows.append([*row, float(adjusted_rand_score(y, ward)), took])
        print(*rows[-1], flush=True)
    means = [float(np.mean([row[column] for row in rows])) for column in (3, 5, 7, 9)]
    rows.append(["**mean**", "", "", means[0], "", means[1], "", means[2], "", means[3], ""])
    print_table(
        "Adjusted Rand index with defaults",
        [
            "data",
            "rows",
            "classes",
            "dtree",
            "k",
            "BayesianGaussianMixture",
            "k",
            "HDBSCAN",
            "k",
            "Ward (k given)",
            "dtree s",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
