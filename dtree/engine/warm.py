"""Compile the kernels of a method once, on tiny data, so that worker processes load machine code from the cache."""

from typing import Any

import numpy as np

from dtree.core.families import FAMILIES, Family
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


if __name__ == "__main__":
    warm_all()
