"""Compile the kernels of a method once, on tiny data, so that worker processes load machine code from the cache."""

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple

import numpy as np

from dtree.core.families import FAMILIES, Family
from dtree.core.progress import report
from dtree.engine.drive import Given, drive
from dtree.methods import method_named
from dtree.methods.contract import Method

_ROWS = 24  # enough for a few clusters in several chunks
_CHUNK_ROWS = 8


def warm(method: Method, settings: Any) -> None:
    """Fit a few made-up rows in memory as the settings say, and label them.

    >>> from dtree.methods.chains import Chains, Settings
    >>> warm(Chains(), Settings("gibbs", "poisson"))
    """
    family = getattr(settings, "family", None)
    d = family.n_features if isinstance(family, Family) else 3
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, size=(_ROWS, d)).astype(np.float64)
    if method.value_kind(settings) == "real":
        rows += rng.normal(size=rows.shape)
    rows[0] = 1.0 - rows[1]  # no column is constant: it would be left out
    run = drive(method, method.tiny(settings), Given(rows, chunk_bytes=_CHUNK_ROWS * rows[0].nbytes))
    method.predict(run.fitted(method.Fitted), rows)


def warm_all() -> None:
    """The same for fits in passes of every family: for a machine image, or a cluster whose work is not known yet."""
    method = method_named("bayes-kmeans-bhc")
    for family in FAMILIES:
        warm(method, method.Settings(family=family))


class Wanted(NamedTuple):
    """A method and a family, by name."""

    method: str
    family: str


# What `dtree fit` may need: its own method and the exact one for tables of numbers and for others, passes for all.
FITS = (
    Wanted("tree-clustering", "gaussian"),
    Wanted("tree-clustering", "mixed"),
    Wanted("bhc", "gaussian"),
    *(Wanted("bayes-kmeans-bhc", family) for family in FAMILIES),
)


def _warm_named(wanted: Wanted) -> None:
    method = method_named(wanted.method)
    warm(method, method.Settings(family=wanted.family))


def warm_side_by_side(work: Sequence[Wanted], processes: int) -> None:
    """`warm` for several methods and families in processes of their own, because numba compiles in one thread."""
    # Not forked: a copy of a process with threads may wait for ever for a lock that one of them held.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        running = [pool.submit(_warm_named, wanted) for wanted in work]
        report("compiling", 0, len(running))
        for done, one in enumerate(as_completed(running), start=1):
            one.result()
            report("compiling", done, len(running))


if __name__ == "__main__":
    warm_all()
