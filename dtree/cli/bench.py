"""`dtree bench`: how fast dtree is on this machine, beside SciPy's average linkage."""

import os
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dtree.cli.console import err, out, say


def command(
    rows: Annotated[int, typer.Option(min=10, max=50_000, help="Rows of the largest tree.")] = 4000,
    features: Annotated[int, typer.Option(min=1, max=200, help="Features of each row.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the made-up rows.")] = 0,
) -> None:
    """Time exact trees of made-up rows here, beside SciPy's average linkage, and say on what machine.

    Kernels are compiled and every tree is checked before anything is timed; the best of three counts. The comparison
    with more peers on real data is in the repository: `python -m benchmarks`.

    Example: `dtree bench --rows 500 --features 4`
    """
    import numpy as np
    from rich.table import Table
    from scipy.cluster.hierarchy import linkage

    from dtree.core.families import FAMILIES, moments_of
    from dtree.core.model import Model
    from dtree.core.priors import DirichletProcess
    from dtree.hierarchy.bhc import build_tree
    from dtree.runs.header import versions_here

    rng = np.random.default_rng(seed)
    X = 3.0 * rng.normal(size=(20, features))[rng.integers(0, 20, rows)] + rng.normal(size=(rows, features))
    found = versions_here()
    say(
        f"{os.cpu_count()} cores, "
        + ", ".join(f"{name} {found[name]}" for name in ("python", "numpy", "numba", "dtree"))
    )
    table = Table("family", "rows", "features", "dtree, s", "scipy, s", "ratio", box=None, header_style="dim")
    for name in ("gaussian-diag", "gaussian"):
        kind = FAMILIES[name]
        for n in sorted({max(10, rows // 4), rows}):
            part = X[:n]
            model = Model(kind.defaults(moments_of(part, kind.needs_covariance)), DirichletProcess(1.0))
            atoms = model.atoms(part)
            with err().status(f"{name}, {n:,} rows"):
                build_tree(model, atoms).validate()
                ours, theirs = _best(build_tree, model, atoms), _best(linkage, part, "average")
            table.add_row(name, f"{n:,}", str(features), f"{ours:.3f}", f"{theirs:.3f}", f"{ours / theirs:.2f}")
    out().print(table)


def _best(call: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of the fastest of three calls."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        call(*arguments)
        took.append(time.perf_counter() - began)
    return min(took)
