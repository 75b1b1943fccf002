"""What every method can do wherever it runs: one suite over all methods, in this process and on workers.

A method is listed once in METHODS below; every test runs for each of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dtree
from dtree.engine.cluster import cluster_client
from dtree.engine.drive import IN_MEMORY, Given, Place, drive, resume
from dtree.estimators.base import seed_of
from dtree.methods import METHODS as KNOWN
from dtree.methods import method_named
from dtree.methods.settings import checked
from dtree.runs.codec import encode
from dtree.runs.run import ROW_ARRAYS, Run

ROOT = Path(__file__).resolve().parents[2]
# Settings that make a fit quick and still take several steps or blocks.
METHODS: dict[str, dict[str, Any]] = {
    "bhc": {"family": "gaussian-diag"},
    "bayes-kmeans": {"family": "gaussian-diag", "tol": 0.0, "sample_rows": 40},
    "bayes-kmeans-bhc": {"family": "gaussian", "tol": 0.0, "sample_rows": 40},
    "randomized": {"family": "gaussian-diag", "subset": 25},
    "incremental": {"family": "gaussian-diag"},
    "chains": {"sampler": "gibbs", "family": "gaussian-diag", "chains": 2, "draws": 30, "warmup": 10},
    "vb": {"variant": "FSD", "family": "gaussian-diag", "truncation": 6, "sample_rows": 60, "tol": 1e-9},
    "tree-clustering": {"family": "gaussian-diag", "sample_rows": 60, "tol": 1e-9},
    "ddt": {
        "n_permutations": 2, "search_steps": 8, "posterior_sweeps": 2, "checkpoint_seconds": 0.0,
        "n_trees": 3, "noise": 0.01, "scaling": "standardize",
    },
}  # fmt: skip
IN_PASSES = [
    name for name in METHODS if name in ("bayes-kmeans", "bayes-kmeans-bhc", "randomized", "vb", "tree-clustering")
]
QUICK = "bayes-kmeans"  # which is tried in a bucket whenever tests are run
SEED = seed_of(3)
CHUNK_BYTES = 900  # several chunks of the rows below


def frame(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 30.0]])[rng.integers(0, 3, n)] + rng.normal(size=(n, 2))
    return pd.DataFrame(values, columns=["width", "height"], index=[f"row {i}" for i in range(n)])


def settings(name: str) -> Any:
    return checked(method_named(name).Settings, METHODS[name])


def fit(name: str, data: Any, place: Place = IN_MEMORY, progress: Any = None) -> Run:
    given = Given(data, chunk_bytes=CHUNK_BYTES, random_state=3)
    return drive(method_named(name), settings(name), given, place, SEED, progress)


def bits(run: Run) -> dict[str, bytes]:
    """Every array of the results, but for how long things took."""
    arrays: dict[str, np.ndarray] = {}
    encode(run.fitted(method_named(run.header.method).Fitted), "", arrays)
    rows = {name: run.row_array(name) for name in ROW_ARRAYS if run.store.has_rows(name)}
    return {name: np.ascontiguousarray(v).tobytes() for name, v in {**arrays, **rows}.items() if "seconds" not in name}


class Stop(Exception):
    """Raised by a progress callback to end a run in the middle."""


def stop(event: Any) -> None:
    raise Stop


def copied(folder: Path, target: Any) -> Any:
    """A run on disk, copied file by file to another place."""
    for path in folder.rglob("*"):
        if path.is_file():
            there = target / path.relative_to(folder).as_posix()
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(path.read_bytes())
    return target


def test_every_method_is_tried() -> None:
    assert set(METHODS) == set(KNOWN)


@pytest.mark.parametrize("name", METHODS)
def test_same_bits_in_memory_and_in_a_folder(name: str, finished: dict[str, Path]) -> None:
    expected = bits(Run.open(finished[name]))
    assert len(expected) > 2
    assert bits(fit(name, frame())) == expected


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_same_bits_on_any_number_of_workers(
    workers: int, data: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    with cluster_client(n_workers=workers, processes=False, warm=False) as client:
        for name in METHODS:
            run = fit(name, data, Place(tmp_path / name, client=client))
            assert bits(run) == bits(Run.open(finished[name])), name


@pytest.mark.parametrize("name", METHODS)
def test_same_bits_in_any_place(name: str, data: Path, finished: dict[str, Path], home: Any) -> None:
    assert bits(fit(name, data, Place(home / "run"))) == bits(Run.open(finished[name]))


@pytest.mark.parametrize("name", METHODS)
def test_same_bits_on_processes(name: str, data: Path, finished: dict[str, Path], tmp_path: Path, client: Any) -> None:
    assert bits(fit(name, data, Place(client=client))) == bits(Run.open(finished[name]))


@pytest.mark.parametrize("name", METHODS)
def test_a_stopped_run_goes_on_to_the_same_bits(name: str, data: Path, finished: dict[str, Path], home: Any) -> None:
    out = home / "run"
    with pytest.raises(Stop):
        fit(name, data, Place(out), stop)
    with pytest.raises(ValueError, match="is not finished"):
        dtree.open(out)
    with pytest.raises(ValueError, match="already holds a run"):
        fit(name, data, Place(out))
    seen: list[Any] = []
    assert bits(resume(out, progress=seen.append)) == bits(Run.open(finished[name]))
    if name in IN_PASSES:
        assert seen[0].number == 2  # the first pass is not done again
    assert not {path.name for path in out.iterdir()} & {"checkpoints", "parts", "passes", "prepared", "staged"}
    assert bits(resume(out)) == bits(Run.open(finished[name]))  # a finished run is left as it is


FIT = """
import sys
from tests.engine.test_features import Place, fit
fit(sys.argv[1], sys.argv[2], Place(sys.argv[3]), lambda event: __import__("time").sleep(60))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_killed_process_leaves_a_run_that_goes_on(
    name: str, data: Path, finished: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-c", FIT, name, str(data), str(out)], env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        limit = time.monotonic() + 120
        while not (list(out.glob("checkpoints/gen-0000000[1-9]")) or list(out.glob("parts/*/gen-*"))):
            assert process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    told: list[Any] = []
    assert bits(resume(out, progress=told.append)) == bits(Run.open(finished[name]))
    assert any("which is dead" in str(event) for event in told)  # the killed process had not let go of the run


@pytest.mark.parametrize("name", METHODS)
def test_names_and_origin_are_kept(name: str, data: Path, finished: dict[str, Path], home: Any) -> None:
    run = copied(finished[name], home / "run")
    header = Run.open(run).header
    assert header.row_names == list(frame().index)
    assert header.feature_names == ["width", "height"]
    assert header.data == str(data)
    assert header.random_state == 3
    assert header.versions["dtree"] == dtree.__version__
    assert len(header.fingerprint) == 64
    assert header.command
    model = dtree.open(run)
    assert model.row_names_.tolist() == header.row_names
    assert model.feature_names_in_.tolist() == header.feature_names
    assert type(model).__name__ == method_named(name).estimator


@pytest.mark.parametrize("name", METHODS)
def test_saved_and_opened_models_are_equal(name: str, finished: dict[str, Path], home: Any) -> None:
    fitted = dtree.open(finished[name])
    dtree.save(fitted, home / "saved.zarr")
    again = dtree.open(home / "saved.zarr")
    new = frame(40) + 0.5
    for model in (fitted, again):
        assert np.array_equal(model.labels_, fitted.labels_)
        assert np.array_equal(model.predict(new), fitted.predict(new))
        assert np.array_equal(model.score_samples(new), fitted.score_samples(new))
    assert bits(Run.open(home / "saved.zarr")) == bits(Run.open(finished[name]))
    assert again.get_params() == fitted.get_params()


@pytest.mark.parametrize("name", METHODS)
def test_predictions_of_workers_are_those_of_the_estimator(
    name: str, finished: dict[str, Path], tmp_path: Path, home: Any, client: Any
) -> None:
    import zarr

    from dtree.engine.predict import predict_into
    from dtree.storage.zarr_places import zarr_at

    new = frame(40)[["height", "width"]] + 0.5  # in another order
    new.to_parquet(tmp_path / "new.parquet")
    (home / "rows.parquet").write_bytes((tmp_path / "new.parquet").read_bytes())
    run = copied(finished[name], home / "run")
    assert predict_into(run, str(home / "rows.parquet"), home / "out.zarr", client) == 40
    group: Any = zarr.open_group(zarr_at(home / "out.zarr"), mode="r")
    model = dtree.open(finished[name])
    turned = new[["width", "height"]]
    assert np.array_equal(group["labels"][...], model.predict(turned))
    np.testing.assert_allclose(group["log_density"][...], model.score_samples(turned), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", METHODS)
def test_same_bits_on_any_number_of_blas_threads(name: str) -> None:
    from threadpoolctl import threadpool_limits

    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(bits(fit(name, frame())))
    assert found[0] == found[1]
