"""Is the answer right with nothing set? Adjusted Rand index on labelled sets, the number of clusters not given.

    python -m benchmarks.answers --data DIR [--group shapes|real|tables] [--only NAME] [--peers]
    python -m benchmarks.answers --nothing [--draws 40] [--features 2 5 20]   # rows of one group: is one cluster found?
    python -m benchmarks.answers --data DIR --evidence [--group ...]   # held-out density beside dtree's other estimators

DIR/shapes/*.npz hold X and one or more accepted labellings y0, y1, ... (-1 marks noise, which is not scored; the best
labelling counts), DIR/*.npz the sets named below with X and y, DIR/tables/*.csv a column `class`. Rows above --rows are
drawn at random. Peers get standardised columns; HDBSCAN and the mixtures are not told the number of clusters, k-means
is. Data go to dtree as they are.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

REAL = ["iris", "wine", "glass", "digits", "optdigits", "letter", "abalone", "shuttle", "skin", "mnist_pca50_10k", "spambase", "tgmcmc_toy", "tgmcmc_10k"]  # fmt: skip
LABELS = {"abalone": "sex"}  # where they are not called y


def labelled_sets(folder: Path, group: str, most_rows: int) -> Iterator[tuple[str, Any, list[np.ndarray]]]:
    """Name, rows and accepted labellings of every set of a group."""
    random = np.random.default_rng(0)
    if group == "tables":
        import pandas

        for file in sorted((folder / "tables").glob("*.csv")):
            frame = pandas.read_csv(file)
            yield file.stem, frame.drop(columns="class"), [pandas.factorize(frame["class"])[0]]
        return
    files = (
        sorted((folder / "shapes").glob("*.npz")) if group == "shapes" else [folder / f"{name}.npz" for name in REAL]
    )
    for file in files:
        with np.load(file, allow_pickle=False) as held:
            names = [name for name in held.files if name[0] == "y" and name[1:].isdigit()]
            X, labellings = held["X"].astype(float), [held[n] for n in names or [LABELS.get(file.stem, "y")]]
        if X.shape[0] > most_rows:
            rows = random.permutation(X.shape[0])[:most_rows]
            X, labellings = X[rows], [labels[rows] for labels in labellings]
        yield file.stem, X, labellings


def best_index(labellings: list[np.ndarray], found: np.ndarray) -> float:
    """The highest adjusted Rand index against any accepted labelling, noise left out."""
    return max(adjusted_rand_score(labels[labels >= 0], found[labels >= 0]) for labels in labellings)


def peers(k: int) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Labels by other methods, from standardised rows; k is the true number of clusters."""
    from sklearn.cluster import HDBSCAN, KMeans
    from sklearn.mixture import BayesianGaussianMixture, GaussianMixture

    def by_bic(Z: np.ndarray) -> np.ndarray:
        fits = [GaussianMixture(n_components=m, random_state=0, reg_covar=1e-5).fit(Z) for m in range(1, 21)]
        return min(fits, key=lambda fit: fit.bic(Z)).predict(Z)

    bayes = BayesianGaussianMixture(n_components=30, random_state=0, max_iter=200, reg_covar=1e-5)
    return {
        "HDBSCAN": HDBSCAN(min_cluster_size=10, copy=True).fit_predict,
        "BayesianGaussianMixture": bayes.fit_predict,
        "mixture by BIC": by_bic,
        "k-means, k told": KMeans(n_clusters=k, n_init=5, random_state=0).fit_predict,
    }


def nothing_there(kind: str, n: int, d: int, random: np.random.Generator) -> np.ndarray:
    """Rows (n, d) of one group."""
    if kind == "one Gaussian":
        return random.normal(size=(n, d)) @ random.normal(size=(d, d))
    if kind == "uniform box":
        return random.uniform(size=(n, d))
    if kind == "Student t, 3 degrees":
        return random.normal(size=(n, d)) / np.sqrt(random.chisquare(3, n) / 3.0)[:, None]
    return random.exponential(size=(n, d)) if random.random() < 0.5 else random.lognormal(size=(n, d))


def score_nothing(draws: int, features: list[int], sizes: list[int]) -> None:
    """How often one cluster is found in rows of one group."""
    import dtree

    for n in sizes:
        for d in features:
            for kind in ("one Gaussian", "uniform box", "Student t, 3 degrees", "skewed columns"):
                random = np.random.default_rng([n, d])
                found = [
                    dtree.TreeClustering(random_state=0).fit(nothing_there(kind, n, d, random)).n_clusters_
                    for _ in range(draws)
                ]
                one = sum(k == 1 for k in found)
                print(
                    f"{kind:22s} {n:6d} rows x {d:2d}: one cluster in {one} of {draws}  {sorted(found)[-3:]}",
                    flush=True,
                )


def score_evidence(name: str, X: np.ndarray) -> None:
    """Bounds on the evidence of four fifths of the rows, and mean log density of the others: is the default's fit caught?

    The default counts the rounding of values that were recorded to a step, the others do not. So each such value gets an
    even draw within its step, and everybody is given the same exact values.
    """
    import dtree
    from dtree.methods.components import recorded_steps

    X = X + recorded_steps(X) * np.random.default_rng(0).uniform(-0.5, 0.5, X.shape)
    order = np.random.default_rng(0).permutation(X.shape[0])
    kept, held_out = X[order[X.shape[0] // 5 :]], X[order[: X.shape[0] // 5]]
    others = {
        "TreeClustering": dtree.TreeClustering(random_state=0),
        "BayesKMeansBHC": dtree.BayesKMeansBHC(random_state=0),
        "DPMixtureVB": dtree.DPMixtureVB(random_state=0),
    }
    if X.shape[0] <= 5000:  # its pairs take minutes beyond
        others["BHC"] = dtree.BHC()
    found: dict[str, tuple[float, float]] = {}
    for who, model in others.items():
        model.fit(kept)
        evidence = model.elbo_ if who == "DPMixtureVB" else model.log_evidence_bound_
        found[who] = float(evidence) / kept.shape[0], float(np.mean(model.score_samples(held_out)))
    own = found.pop("TreeClustering")
    ahead = [mine - max(theirs) for mine, theirs in zip(own, zip(*found.values(), strict=True), strict=True)]
    told = "  ".join(f"{who} {one:.3f} {two:.3f}" for who, (one, two) in {"TreeClustering": own, **found}.items())
    print(f"{name:24s} {told}  ahead by {ahead[0]:+.3f} and {ahead[1]:+.3f} nats a row", flush=True)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=Path)
    words.add_argument("--nothing", action="store_true", help="rows without groups, made on the spot")
    words.add_argument("--draws", type=int, default=40)
    words.add_argument("--features", type=int, nargs="+", default=[2, 5, 20])
    words.add_argument("--sizes", type=int, nargs="+", default=[200, 2_000, 20_000], help="rows without groups")
    words.add_argument("--group", choices=("shapes", "real", "tables"), default="shapes")
    words.add_argument("--only", default="", help="sets whose name holds this")
    words.add_argument("--rows", type=int, default=10_000)
    words.add_argument("--peers", action="store_true")
    words.add_argument("--evidence", action="store_true", help="held-out density beside dtree's other estimators")
    given = words.parse_args()
    warnings.filterwarnings("ignore")
    if given.nothing:
        return score_nothing(given.draws, given.features, given.sizes)
    if given.data is None:
        words.error("say where the labelled sets are: --data DIR")
    from sklearn.preprocessing import StandardScaler

    import dtree

    scores: dict[str, dict[str, list[float]]] = {}
    for name, X, labellings in labelled_sets(given.data, given.group, given.rows):
        if given.only not in name:
            continue
        if given.evidence:
            score_evidence(name, X)
            continue
        began = time.perf_counter()
        model = dtree.TreeClustering(random_state=0).fit(X)
        seconds = time.perf_counter() - began
        row = {"dtree": best_index(labellings, model.labels_)}
        offered = [model.at_level(level) for level in model.levels_["level"]]
        row["best of its levels"] = max(best_index(labellings, labels) for labels in offered)
        if given.peers and given.group != "tables":
            Z = StandardScaler().fit_transform(X)
            k = np.unique(labellings[0][labellings[0] >= 0]).size
            row |= {peer: best_index(labellings, np.asarray(labels(Z))) for peer, labels in peers(k).items()}
        group = name.split("_")[0] if given.group == "shapes" else given.group
        for who, score in row.items():
            scores.setdefault(group, {}).setdefault(who, []).append(score)
        told = "  ".join(f"{who} {score:.2f}" for who, score in row.items())
        print(
            f"{name:24s} {X.shape!s:14s} {model.n_components_:4d} components {model.n_clusters_:4d} clusters  {told}  {seconds:.1f} s",
            flush=True,
        )
    for group, held in scores.items():
        print(f"{group:24s}", "  ".join(f"{who} {np.mean(values):.3f}" for who, values in held.items()))


if __name__ == "__main__":
    main()
