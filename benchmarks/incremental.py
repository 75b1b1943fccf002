"""Incremental BHC: the 10k data of [LC15], and a stream of a million rows whose cost per row may grow with the
logarithm only.

    python -m benchmarks.incremental --data DIR [--out DIR] [--rows 1000000]

All times are CPU seconds of the one thread that inserts. The authors' C++ takes about 3 s for the 10,000 x 6 rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.measure import data_folder, load, machine, print_table
from dtree.core.families import Gaussian, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.incremental_forest import Forest

EDGES = (0, 1_000, 3_000, 10_000, 30_000, 100_000)  # of the first blocks; then every 100,000 rows


def seconds(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Best CPU time of `repeats` calls, and the last answer."""
    best, answer = np.inf, None
    for _ in range(repeats):
        began = time.thread_time()
        answer = call()
        best = min(best, time.thread_time() - began)
    return best, answer


def grow(model: Model, atoms: np.ndarray, order: np.ndarray, balanced: bool) -> Forest:
    forest = Forest(model, balanced=balanced)
    forest.insert(atoms, order)
    return forest


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parse()
    print(machine())
    rows = []
    for name in ("tgmcmc_toy", "tgmcmc_10k"):
        arrays = load(arguments.data, name)
        X, y = arrays["X"].astype(float), arrays["y"]
        model = Model(Gaussian.paper_prior(X), DirichletProcess(1.0))
        atoms, order = model.atoms(X), np.random.default_rng(0).permutation(X.shape[0])
        grow(model, atoms[:50], np.arange(50), True).tree().validate()
        for balanced in (True, False):
            took, forest = seconds(lambda a=atoms, o=order, b=balanced, m=model: grow(m, a, o, b), 2)
            joined, tree = seconds(forest.tree)
            tree.validate()
            labels = tree.cut()
            title = "balanced" if balanced else "as printed"
            score = adjusted_rand_score(y, labels)
            rows.append([name, title, took, joined, labels.max() + 1, score, float(tree.log_phi_t[-1])])
        if X.shape[0] < 2000:
            took, tree = seconds(lambda m=model, a=atoms: build_tree(m, a), 2)
            labels = tree.cut()
            score = adjusted_rand_score(y, labels)
            rows.append([name, "exact BHC", took, 0.0, labels.max() + 1, score, float(tree.log_phi_t[-1])])
    print_table("Trees", ["data", "how", "insert s", "join s", "clusters", "ARI", "log phi_t"], rows)

    rng = np.random.default_rng(1)
    centres = 5.0 * rng.normal(size=(50, 6))
    first = centres[rng.integers(50, size=10_000)] + rng.normal(size=(10_000, 6))
    model = Model(Gaussian.defaults(moments_of(first), share=0.05), DirichletProcess(1.0))
    forest, blocks = Forest(model), []
    edges = [
        *(edge for edge in EDGES if edge < arguments.rows),
        *range(200_000, arguments.rows, 100_000),
        arguments.rows,
    ]
    for start, stop in pairwise(edges):
        size = stop - start
        atoms = model.atoms(centres[rng.integers(50, size=size)] + rng.normal(size=(size, 6)))
        began = time.thread_time()
        forest.insert(atoms)
        blocks.append([stop, 1e6 * (time.thread_time() - began) / size, forest.n_trees])
    print_table("Stream of 50 clusters in 6 dimensions", ["rows seen", "microseconds per row", "trees"], blocks)
    draw(np.array(blocks), arguments.out)


def draw(blocks: np.ndarray, out: Path) -> None:
    """Cost per row against rows seen, beside the straight line in the logarithm that fits best."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    out.mkdir(parents=True, exist_ok=True)
    rows, cost = blocks[:, 0], blocks[:, 1]
    slope, level = np.polyfit(np.log(rows), cost, 1)
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    axis.plot(rows, cost, "o-", label="measured")
    axis.plot(rows, level + slope * np.log(rows), "--", label=f"{level:.1f} + {slope:.1f} log(rows)")
    axis.set(xscale="log", xlabel="rows seen", ylabel="microseconds a row", ylim=(0, 1.3 * cost.max()))
    axis.set_title("Incremental BHC, a stream of 50 clusters in 6 dimensions")
    axis.grid(alpha=0.3)
    axis.legend()
    figure.savefig(out / "incremental_stream.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
