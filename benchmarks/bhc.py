"""Exact BHC against SciPy's average linkage, in one run.

    python -m benchmarks.bhc --data DIR [--quick]

Every tree is validated, and its start compared with the naive twin's on a subset, before it is timed.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage

from benchmarks.measure import data_folder, load, machine, print_table, seconds
from dtree.core.families import FAMILIES, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from tests.naive.bhc import greedy_tree


def mixture(n: int, d: int, k: int = 50, seed: int = 0) -> np.ndarray:
    """n rows of k Gaussian clusters in d dimensions."""
    rng = np.random.default_rng(seed)
    return 3.0 * rng.normal(size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


def model_for(name: str, X: Any) -> Model:
    return Model(FAMILIES[name].defaults(moments_of(X, FAMILIES[name].needs_covariance)), DirichletProcess(1.0))


def checked(model: Model, atoms: np.ndarray) -> None:
    """The compiled tree of the first rows is the naive twin's; this also compiles the kernels."""
    few = atoms[:20]
    assert build_tree(model, few).merges.tolist() == greedy_tree(model, few).merges.tolist()


def time_tree(name: str, X: Any, repeats: int = 1) -> tuple[float, Tree]:
    model = model_for(name, X)
    atoms = model.atoms(X)
    checked(model, atoms)
    took, tree = seconds(lambda: build_tree(model, atoms), repeats)
    tree.validate()
    return took, tree


def compare(args: Any) -> None:
    rows = []
    sizes = [("gaussian-diag", 10_000, 10), ("gaussian", 10_000, 10), ("gaussian", 1_000, 2)]
    if args.quick:
        sizes = [("gaussian-diag", 2_000, 10), ("gaussian", 2_000, 10), ("gaussian", 1_000, 2)]
    for name, n, d in sizes:
        X = mixture(n, d)
        repeats = 5 if n <= 1000 else 2
        ours, _ = time_tree(name, X, repeats)
        peer, _ = seconds(lambda X=X: linkage(X, "average"), repeats)
        rows.append([name, f"{n} x {d}", ours, peer, f"{ours / peer:.2f}x"])
    rng = np.random.default_rng(1)
    probabilities = rng.beta(0.3, 0.3, (20, 500))
    binary = (rng.random((2000, 500)) < probabilities[rng.integers(0, 20, 2000)]).astype(float)
    took, _ = time_tree("bernoulli", binary)
    peer, _ = seconds(lambda: linkage(binary, "average"))
    rows.append(["bernoulli", "2000 x 500", took, peer, f"{took / peer:.2f}x"])
    if not args.no_text:
        words = load(args.data, "nips")["X"]
        took, _ = time_tree("multinomial", words)
        dense = words.toarray()
        peer, _ = seconds(lambda: linkage(dense, "average"))
        rows.append(["multinomial (sparse)", f"{words.shape[0]} x {words.shape[1]}", took, peer, f"{took / peer:.2f}x"])
    print_table(
        "Exact BHC, all pairs (seconds, warm)", ["family", "rows", "dtree", "scipy average linkage", "ratio"], rows
    )


def growth(args: Any) -> None:
    """Time and peak memory against the number of atoms, in fresh processes, and a picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = [1000, 2000, 5000] if args.quick else [1000, 2000, 5000, 10_000, 20_000, 50_000]
    found = []
    for n in sizes:
        code = f"from benchmarks.bhc import one_size; one_size({n})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        took, megabytes = map(float, done.stdout.split())
        found.append((n, took, megabytes))
    print_table(
        "Diagonal Gaussian, 10 features: growth with the number of atoms",
        ["atoms", "seconds", "peak memory, MB"],
        found,
    )
    args.out.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(5, 3.5))
    n = np.array([row[0] for row in found])
    axis.loglog(n, [row[1] for row in found], "o-", label="dtree, exact BHC")
    axis.loglog(n, found[-1][1] * (n / n[-1]) ** 2, "k:", label="quadratic")
    axis.set(xlabel="atoms", ylabel="seconds", title="Exact greedy BHC over all pairs")
    axis.legend()
    figure.tight_layout()
    figure.savefig(args.out / "bhc_growth.png", dpi=150)


def one_size(n: int) -> None:
    """Print the seconds and the peak memory in MB of one fit; meant for a fresh process."""
    X = mixture(n, 10)
    took, _ = time_tree("gaussian-diag", X)
    print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser, parse = data_folder(__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--no-growth", action="store_true", help="leave the growth curve out")
    parser.add_argument("--no-text", action="store_true", help="leave the 12,419 words of the NIPS papers out")
    args = parse()
    print(machine())
    compare(args)
    if not args.no_growth:
        growth(args)


if __name__ == "__main__":
    main()
