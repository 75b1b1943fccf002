"""Choosing the model by the evidence: the rule in use beside the plain one, by processor seconds and by evidence.

    python -m benchmarks.choice --data DIR [--rows 1500]

The plain rule grows two trees for each of seven shares on the whole subsample and climbs from the best three. Evidence is
the bound, hyperprior of alpha included, of the tree that the chosen model grows over all rows (at most --rows of them; 300
of more than 30 features with a covariance matrix each, whose trees are slow). A difference above 0 is in favour of the
rule in use. Without --data only made-up rows and what comes with scikit-learn are looked at.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from benchmarks.measure import load, machine, print_table
from dtree.core.families import family_type, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.defaults import _refine, _Search, _subsample, choose_model
from dtree.hierarchy.hyperparameters import log_bound

PLAIN_SHARES = (0.8, 0.5, 0.2, 0.1, 0.05, 0.02, 0.005)


def plain_choice(X: Any, family: str) -> Model:
    """Two trees for every share, the best three climbed to the end: what the rule in use is measured against."""
    kind = family_type(family)
    moments = moments_of(X, kind.needs_covariance)
    candidates = [kind.defaults(moments, share) for share in PLAIN_SHARES]
    rows = _subsample(X.shape[0], X.shape[1], kind.needs_covariance, 0)
    search = _Search(Model(candidates[0], DirichletProcess(1.0)).atoms(X[rows]), True)
    first = [search.grown(Model(candidate, DirichletProcess(1.0))) for candidate in candidates]
    started = sorted((search.grown(fit.model) for fit in first), key=lambda fit: -fit.score)
    ends = []
    for best in started[:3]:
        for _ in range(6):
            refined = _refine(best)
            if refined.family is best.model.family:
                break
            risen = search.grown(search.on_tree(refined, best.tree, best.statistics).model)
            if risen.score < best.score + 0.1:
                break
            best = risen
        ends.append(best)
    return max(ends, key=lambda fit: fit.score).model


def mixture(k: int, d: int, spread: float, n: int, seed: int) -> np.ndarray:
    """Rows of oblong Gaussian clusters."""
    rng = np.random.default_rng(seed)
    y, shapes = rng.integers(0, k, n), 0.5 * rng.normal(size=(k, d, d)) + 0.7 * np.eye(d)
    return (spread * rng.normal(size=(k, d)))[y] + np.einsum("nij,nj->ni", shapes[y], rng.normal(size=(n, d)))


def datasets(folder: Path | None) -> Iterator[tuple[str, str, Any]]:
    """Name, family and rows."""
    digits = load_digits().data
    real = {"breast cancer": load_breast_cancer().data, "iris": load_iris().data, "wine": load_wine().data}
    if folder is not None:
        real |= {name: load(folder, name)["X"].astype(float) for name in ("glass", "abalone", "tgmcmc_toy")}
    for seed, shape in enumerate([(5, 4, 6.0, 500), (4, 2, 3.0, 400), (15, 6, 5.0, 1500), (1, 3, 1.0, 300), (3, 20, 4.0, 300), (30, 2, 20.0, 1000)]):  # fmt: skip
        real[f"mixture of {shape[0]}, {shape[1]} features"] = mixture(*shape, seed)
    for name, X in real.items():
        yield name, "gaussian", X
        yield name, "gaussian-diag", X
    yield "digits", "gaussian-diag", digits + 1e-3 * np.random.default_rng(0).normal(size=digits.shape)
    yield "binary digits", "bernoulli", (digits > 7).astype(float)
    rng = np.random.default_rng(6)
    yield "poisson", "poisson", rng.poisson(rng.gamma(2, 3, (8, 10))[rng.integers(0, 8, 600)]).astype(float)
    if folder is not None:
        words = load(folder, "newsgroups4_800x50")["X"].astype(float)
        yield "newsgroups4", "bernoulli", (words > 0).astype(float)
        yield "newsgroups4", "multinomial", words
        nips = load(folder, "nips")
        parts = nips["data"].astype(float), nips["indices"], nips["indptr"]
        yield "nips", "multinomial", sparse.csr_matrix(parts, shape=tuple(nips["shape"]))


def evidence(model: Model, X: Any, most: int) -> tuple[float, int]:
    """The bound of the tree over all rows (at most so many), and its number of clusters."""
    if model.family.needs_covariance and X.shape[1] >= 30:
        most = min(most, 300)
    rows = (
        np.arange(X.shape[0])
        if X.shape[0] <= most
        else np.sort(np.random.default_rng(1).choice(X.shape[0], most, False))
    )
    tree = build_tree(model, model.atoms(X[rows]))
    return log_bound(tree, model, float(rows.shape[0])) + model.prior.log_hyperprior()[0], len(np.unique(tree.cut()))


def measured(choose: Callable[[Any, str], Model], X: Any, family: str) -> tuple[float, Model]:
    """Processor seconds and the model; the family's kernels have been used before."""
    began = time.process_time()
    model = choose(X, family)
    return time.process_time() - began, replace(model)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets (*.npz)")
    parser.add_argument("--rows", type=int, default=1500, help="rows on which evidence is compared, at most")
    args = parser.parse_args()
    print(machine())
    rows, seen = [], set()
    for name, family, X in datasets(args.data):
        if family not in seen:
            seen.add(family)
            choose_model(X[:60], family)  # compiles
        plain_seconds, plain = measured(plain_choice, X, family)
        seconds, model = measured(choose_model, X, family)
        (plain_bound, plain_k), (bound, k) = (evidence(one, X, args.rows) for one in (plain, model))
        shape = f"{X.shape[0]} x {X.shape[1]}"
        rows.append([name, family, shape, plain_seconds, seconds, plain_bound, bound - plain_bound, plain_k, k])
        print(*rows[-1], flush=True)
    names = ["data", "family", "rows", "plain s", "s", "plain evidence", "difference", "plain k", "k"]
    print_table("Choosing the model: processor seconds and evidence", names, rows)


if __name__ == "__main__":
    main()
