"""Tables with categories and missing values against complete numbers: CPU time of a pass and of an exact tree.

    python -m benchmarks.tables [rows of the pass] [rows of the tree]

Rows have 8 numbers, 4 categories of 3 to 50 levels and 5 % missing values; the diagonal Gaussian has 12 numbers.
"""

import sys
import time

import numpy as np

import dtree
from dtree.core.model import Model
from dtree.hierarchy.bhc import build_tree
from dtree.kmeans.scoring import Scorer

LEVELS = (3, 8, 20, 50)
CLUSTERS = 50


def made(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels (n,), a table (n, 12) with holes and numbers (n, 12) without."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLUSTERS, n)
    numbers = rng.normal(scale=5.0, size=(CLUSTERS, 12))[labels] + rng.normal(size=(n, 12))
    table = numbers.copy()
    for j, levels in enumerate(LEVELS):
        likely = rng.dirichlet(np.full(levels, 0.3), CLUSTERS).cumsum(axis=1)
        table[:, 8 + j] = np.minimum((rng.random((n, 1)) > likely[labels]).sum(axis=1), levels - 1)
    table[rng.random(table.shape) < 0.05] = np.nan
    return labels, table, numbers


def models() -> tuple[Model, Model]:
    """A mixed model for the table, and a diagonal one for the numbers."""
    prior, hyper = dtree.DirichletProcess(1.0), (0.05, 2.0)
    real = dtree.DiagonalGaussian(np.zeros(8), *hyper, np.ones(8))
    categories = dtree.Categorical([np.full(levels + 1, 0.5) for levels in LEVELS])
    mixed = dtree.Mixed([(real, np.arange(8)), (categories, np.arange(8, 12))])
    return Model(mixed, prior), Model(dtree.DiagonalGaussian(np.zeros(12), *hyper, np.ones(12)), prior)


def cpu_seconds(task: object, *arguments: object) -> float:
    """The least of three measurements, after one that compiles."""
    task(*arguments)  # type: ignore[operator]
    found = []
    for _ in range(3):
        began = time.process_time()
        task(*arguments)  # type: ignore[operator]
        found.append(time.process_time() - began)
    return min(found)


def one_pass(model: Model, X: np.ndarray, statistics: np.ndarray, labels: np.ndarray) -> None:
    """Assign every row to its best cluster and add up statistics."""
    scorer = Scorer(model, statistics)
    found = scorer.assign(X, labels)
    scorer.accumulate(X, found.best, statistics.shape[0])


def main(pass_rows: int = 100_000, tree_rows: int = 5000) -> None:
    """Print both ratios."""
    labels, table, numbers = made(pass_rows)
    times = []
    for model, X in zip(models(), (table, numbers), strict=True):
        start = Scorer(model, np.zeros((0, model.atoms(X[:1]).shape[1]))).accumulate(X, labels, CLUSTERS)
        times.append(cpu_seconds(one_pass, model, X, start, labels))
    print(
        f"a pass over {pass_rows:,} rows: {times[0]:.3f} s, diagonal {times[1]:.3f} s, ratio {times[0] / times[1]:.2f}"
    )
    _, table, numbers = made(tree_rows, 1)
    times = [cpu_seconds(build_tree, m, m.atoms(X)) for m, X in zip(models(), (table, numbers), strict=True)]
    print(f"a tree of {tree_rows:,} rows: {times[0]:.3f} s, diagonal {times[1]:.3f} s, ratio {times[0] / times[1]:.2f}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
