"""Approximate trees beside exact BHC, fastcluster and genieclust, in one run.

    python -m benchmarks.approximate [--rows 20000 200000 1000000]

Rows are of 50 overlapping Gaussian groups in 8 columns. Every size is run in a fresh process, after its kernels were compiled. Up to 20,000
rows exact BHC and fastcluster are run too. The index is that of the cut into 50 clusters against the groups; purity is that of the tree.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster
from sklearn.metrics import adjusted_rand_score

from benchmarks.bhc import model_for
from benchmarks.measure import machine, print_table
from dtree import dendrogram_purity
from dtree.hierarchy.approximate import build_approximate_tree
from dtree.hierarchy.bhc import build_tree

_GROUPS, _MOST_PAIRS = 50, 20_000


def _cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def one_size(n: int) -> list[list[Any]]:
    """Rows of the table for n rows."""
    rng = np.random.default_rng(0)
    groups = rng.integers(_GROUPS, size=n)
    X = (rng.normal(size=(_GROUPS, 8)) * 3.0)[groups] + rng.normal(size=(n, 8))
    found: list[list[Any]] = []

    def tell(name: str, seconds: float, labels: np.ndarray, bound: Any = "", purity: Any = "") -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found.append([name, n, seconds, adjusted_rand_score(groups, labels), bound, purity, round(memory)])

    for family in ("gaussian-diag", "gaussian"):
        model = model_for(family, X)
        atoms = model.atoms(X)
        build_approximate_tree(model, atoms[:2000], np.random.default_rng(0), exact=500)  # compiles
        trees = [("approximate", partial(build_approximate_tree, model, atoms, np.random.default_rng(0)))]
        if n <= _MOST_PAIRS:
            trees.append(("exact", partial(build_tree, model, atoms)))
        for name, grow in trees:
            took, tree = _cpu(grow)
            tree.validate()
            purity = dendrogram_purity(tree, groups) if n <= _MOST_PAIRS else ""
            tell(f"{name}, {family}", took, tree.cut(n_clusters=_GROUPS), tree.log_phi_t[-1] / n, purity)
    try:
        import genieclust

        took, labels = _cpu(lambda: genieclust.Genie(n_clusters=_GROUPS).fit_predict(X))
        tell("genieclust, 50 told", took, labels)
    except ImportError:
        pass
    if n <= _MOST_PAIRS:
        try:
            import fastcluster

            took, merges = _cpu(lambda: fastcluster.linkage(X, "average"))
            tell("fastcluster, average", took, fcluster(merges, _GROUPS, "maxclust"))
        except ImportError:
            pass
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[20_000, 200_000, 1_000_000])
    args = parser.parse_args()
    print(machine())
    rows = []
    for n in args.rows:
        code = f"import json; from benchmarks.approximate import one_size; print(json.dumps(one_size({n})))"
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
        rows += json.loads(done.stdout.splitlines()[-1])
    head = ["tree", "rows", "CPU s", "index", "log phi_t a row", "purity", "peak of the process, MB"]
    print_table("Approximate trees", head, rows)


if __name__ == "__main__":
    main()
