"""Kernels are compiled before workers start: every method can be warmed, and workers then compile nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtree
from dtree.engine import warm as warm_module
from dtree.engine.drive import Given
from dtree.engine.warm import warm
from dtree.methods import METHODS, method_named

ROOT = Path(__file__).resolve().parents[2]
# What decides which kernels are compiled; a tiny fit keeps it.
DECIDING = {"family", "prior", "sampler", "variant", "likelihood", "inference", "method", "optimize", "coarsening",
            "resample_hyperparameters", "expectation", "schedule", "order", "noise", "scaling", "init"}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_tiny_fit_keeps_what_decides_which_kernels_are_compiled(name: str) -> None:
    method = method_named(name)
    settings = method.Settings()
    tiny = method.tiny(settings)
    assert type(tiny) is type(settings)
    for field in DECIDING & set(settings.__struct_fields__):
        assert getattr(tiny, field) == getattr(settings, field)


@pytest.mark.parametrize(
    ("name", "given", "kind", "features"),
    [
        ("bhc", {"family": "gaussian-diag"}, "real", 3),
        ("bayes-kmeans-bhc", {"family": dtree.Poisson([1.0] * 5, [1.0] * 5)}, "count", 5),
        ("vb", {"variant": "FSD", "family": "bernoulli"}, "binary", 3),
        ("randomized", {"family": "gaussian-diag"}, "real", 3),
        ("chains", {"sampler": "gibbs"}, "real", 3),
        ("ddt", {"likelihood": "probit"}, "binary", 3),
    ],
)
def test_the_rows_are_of_the_right_kind(
    name: str, given: dict[str, Any], kind: str, features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class Enough(Exception):
        pass

    def look(method: Any, settings: Any, given: Given) -> None:
        seen.append(given.data)
        raise Enough

    monkeypatch.setattr(warm_module, "drive", look)
    method = method_named(name)
    with pytest.raises(Enough):
        warm(method, method.Settings(**given))
    (rows,) = seen
    assert rows.shape[1] == features
    assert np.all(np.ptp(rows, axis=0) > 0)  # a constant column would be left out
    whole = np.array_equal(rows, np.rint(rows)) and rows.min() >= 0
    assert whole == (kind != "real")
    assert (rows.max() <= 1) == (kind == "binary") or kind == "count"


WARM = """
from dtree.engine.warm import warm
from dtree.methods import method_named
method = method_named("bayes-kmeans-bhc")
warm(method, method.Settings(family="poisson"))
"""
FIT = """
import gc, sys
import numpy as np, dtree
from dtree.engine.cluster import cluster_client

def misses():
    from numba.core.dispatcher import Dispatcher
    kernels = [k for k in gc.get_objects() if isinstance(k, Dispatcher) and k.py_func.__module__.startswith("dtree")]
    return [k.py_func.__name__ for k in kernels if sum(k.stats.cache_misses.values())]

if __name__ == "__main__":
    np.save(sys.argv[1], np.random.default_rng(0).poisson(np.repeat([[1, 9], [30, 2]], 300, axis=0)))
    with cluster_client(n_workers=1, memory_limit="1.5GB", warm=False) as client:
        dtree.BayesKMeansBHC("poisson", client=client, sample_rows=100, random_state=0).fit(sys.argv[1])
        print(*[name for names in client.run(misses).values() for name in names])
"""


@pytest.mark.slow
def test_workers_compile_nothing_after_warming(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DTREE_CACHE_DIR": str(tmp_path / "kernels")}
    (tmp_path / "fit.py").write_text(FIT)
    subprocess.run([sys.executable, "-c", WARM], env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "fit.py", str(tmp_path / "x.npy")],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == []
