"""What a person waits for, in one table: seconds here, a peer in the same run, the ratio, and what the last release took.

    python -m benchmarks scoreboard [--data DIR] [--quick] [--only WORD] [--record]

Every row asserts its answer before anything is timed. --quick does the same on few rows, so that the answers are checked
in seconds; its times say nothing. Rows that need a data set are left out without --data. Beside the seconds that pass
stand those of the processor, which say more when the machine has other work. Figures of the last release are in
last_release.json, measured on a quiet machine of two cores; a slow-down is seen beside them on such a machine only.
--record keeps the rows in scoreboard.json, from which the site makes its page of performance.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import dtree
from benchmarks.measure import commit, load, machine, markdown_table
from dtree.core.families import FAMILIES, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.data.chunks import chunk_bounds, chunk_rows_for
from dtree.data.source import Source
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.defaults import choose_model

_LAST_RELEASE = Path(__file__).with_name("last_release.json")
_RECORD = Path(__file__).with_name("scoreboard.json")
_ROOT = Path(__file__).resolve().parents[1]


class Asked(NamedTuple):
    """How a row is to be measured."""

    quick: bool
    data: Path | None
    folder: Path  # for files

    def rows(self, many: int, few: int) -> int:
        """So many rows, or few of them."""
        return few if self.quick else many


class Spent(NamedTuple):
    """Seconds that passed, and those of all processors, where they are known."""

    seconds: float
    processor: float | None


class Took(NamedTuple):
    """What was spent here and by a peer."""

    here: Spent
    peer: str = ""
    there: Spent | None = None


def spent(call: Callable[[], Any]) -> tuple[Spent, Any]:
    """What a call spends, programs that it starts and waits for included, and its answer."""

    def processors() -> float:
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)

    began, before = time.perf_counter(), processors()
    answer = call()
    return Spent(time.perf_counter() - began, processors() - before), answer


def clusters(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) in k round clusters far apart, and where each belongs."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return 12.0 * rng.normal(size=(k, d))[y] + rng.normal(size=(n, d)), y


def _given(X: np.ndarray, name: str) -> Model:
    """A model that knows how tight clusters are."""
    d = X.shape[1]
    family = FAMILIES["gaussian-diag"].defaults(moments_of(X), 0.01)
    if name == "gaussian":
        family = dtree.Gaussian(X.mean(axis=0), 0.01, 2.0 * d + 1.0, d * np.eye(d)).anchored(moments_of(X))
    return Model(family, DirichletProcess(1.0))


def _same_groups(known: Any, found: Any) -> None:
    agreement = adjusted_rand_score(known, found)
    assert agreement > 0.9, f"the groups were found with an adjusted Rand index of {agreement:.3f} only"


def fit_wide(asked: Asked) -> Took:
    """BHC().fit of breast cancer, 569 x 30."""
    X = load_breast_cancer().data
    if asked.quick:
        X = X[:80, :6]
    fitted = dtree.BHC("gaussian").fit(X)
    fitted.tree_.validate()
    assert 1 <= fitted.n_clusters_ < X.shape[0]

    def by_bic() -> None:
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        most = 3 if asked.quick else 12
        min(GaussianMixture(k, random_state=0).fit(Z).bic(Z) for k in range(1, most + 1))

    here = spent(lambda: dtree.BHC("gaussian").fit(X))[0]
    return Took(here, "Gaussian mixture by BIC, k = 1..12", spent(by_bic)[0])


def choose_wide(asked: Asked) -> Took:
    """choosing the model of breast cancer, 569 x 30."""
    X = load_breast_cancer().data[: asked.rows(569, 80), : asked.rows(30, 6)]
    model = choose_model(X)
    assert model.family.name == "gaussian"
    return Took(spent(lambda: choose_model(X))[0])


def fit_narrow(asked: Asked) -> Took:
    """BHC().fit of 1,000 x 2."""
    X, y = clusters(asked.rows(1000, 90), 2, 3)
    _same_groups(y, dtree.BHC("gaussian").fit(X).labels_)
    return Took(
        spent(lambda: dtree.BHC("gaussian").fit(X))[0], "scipy average", spent(lambda: linkage(X, "average"))[0]
    )


def fit_binary(asked: Asked) -> Took:
    """BHC("bernoulli").fit of 2,000 x 500."""
    n, d = asked.rows(2000, 60), asked.rows(500, 40)
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = (rng.random((n, d)) < rng.uniform(0.05, 0.95, (3, d))[y]).astype(float)
    _same_groups(y, dtree.BHC("bernoulli").fit(X).labels_)
    here = spent(lambda: dtree.BHC("bernoulli").fit(X))[0]
    return Took(here, "scipy average", spent(lambda: linkage(X, "average"))[0])


def fit_counts(asked: Asked) -> Took:
    """BHC("poisson").fit of 2,000 x 100."""
    n, d = asked.rows(2000, 60), asked.rows(100, 20)
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.poisson(rng.gamma(1.0, 3.0, (3, d))[y]).astype(float)
    _same_groups(y, dtree.BHC("poisson").fit(X).labels_)
    here = spent(lambda: dtree.BHC("poisson").fit(X))[0]
    return Took(here, "scipy average", spent(lambda: linkage(X, "average"))[0])


def fit_words(asked: Asked) -> Took | None:
    """BHC("multinomial").fit of NIPS, 1,500 x 12,419."""
    if asked.data is None:
        return None
    X = load(asked.data, "nips")["X"]
    X = X[:40] if asked.quick else X
    dtree.BHC("multinomial").fit(X[:30]).tree_.validate()
    dense = X.toarray()
    here = spent(lambda: dtree.BHC("multinomial").fit(X))[0]
    return Took(here, "scipy average (dense)", spent(lambda: linkage(dense, "average"))[0])


def _exact(name: str, n: int, few: int, d: int = 10, peer: bool = True) -> Callable[[Asked], Took]:
    def row(asked: Asked) -> Took:
        X, y = clusters(asked.rows(n, few), d, 4)
        model = _given(X, name)
        atoms = model.atoms(X)
        small = build_tree(model, atoms[:100])
        small.validate()
        _same_groups(y[:100], small.cut(n_clusters=4))
        here = spent(lambda: build_tree(model, atoms))[0]
        if not peer:
            return Took(here)
        return Took(here, *_average_linkage(X))

    row.__doc__ = f"exact tree, {name}, {n:,} x {d}, model given."
    return row


def _average_linkage(X: np.ndarray) -> tuple[str, Spent]:
    try:
        import fastcluster
    except ImportError:
        return "scipy average", spent(lambda: linkage(X, "average"))[0]
    return "fastcluster average", spent(lambda: fastcluster.linkage(X, "average"))[0]


def on_workers(asked: Asked) -> Took:
    """exact tree, 20,000 x 8, with two workers as a method asks them; beside one process."""
    from dtree.engine.cluster import cluster_client
    from dtree.engine.pairs import SharedPairs, central_task

    X, _ = clusters(asked.rows(20_000, 300), 8, 5)
    model = _given(X, "gaussian-diag")
    atoms = model.atoms(X)
    alone, tree = spent(lambda: build_tree(model, atoms))
    with cluster_client(n_workers=2, processes=not asked.quick, warm=False, memory_limit="2GB") as client:
        here, shared = spent(lambda: client.submit(central_task, SharedPairs.tree, (model, atoms), pure=False).result())
    assert np.array_equal(tree.merges, shared.merges)
    return Took(Spent(here.seconds, None), "one process", alone)  # workers are still there and do not count yet


def command(asked: Asked, *words: str, cache: Path | None = None) -> Spent:
    """What `dtree WORDS` spends in a process of its own, imports and all."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), **({"DTREE_CACHE_DIR": str(cache)} if cache else {})}
    line = [sys.executable, "-m", "dtree.cli", *words]
    took, done = spent(
        lambda: subprocess.run(line, cwd=asked.folder, env=environment, capture_output=True, text=True, check=False)
    )
    assert done.returncode == 0, done.stderr
    return took


def _fit_file(n: int, d: int) -> Callable[[Asked], Took]:
    def row(asked: Asked) -> Took:
        X, _ = clusters(asked.rows(n, 60), asked.rows(d, 3), 3)
        name = f"rows-{n}.csv"
        np.savetxt(
            asked.folder / name, X, delimiter=",", header=",".join(f"x{j}" for j in range(X.shape[1])), comments=""
        )
        first = command(asked, "fit", name, "--out", f"{n}.zarr")
        found = dtree.open(asked.folder / f"{n}.zarr")
        assert found.n_clusters_ == 3, found.n_clusters_
        return Took(first if asked.quick else command(asked, "fit", name, "--out", f"{n}.zarr", "--overwrite"))

    row.__doc__ = f"dtree fit of a csv of {n:,} x {d}, warm, all included."
    return row


def report(asked: Asked) -> Took:
    """dtree report of the demo's run."""
    command(asked, "demo", "--out", "board.zarr")
    here = command(asked, "report", "board.zarr", "-o", "board.html")
    assert "<html" in (asked.folder / "board.html").read_text()[:500]
    return Took(here)


def first_run(asked: Asked) -> Took | None:
    """dtree demo on a machine that never ran it: kernels are compiled."""
    if asked.quick:
        return None  # nothing but time is asked
    return Took(command(asked, "demo", "--out", "cold.zarr", cache=asked.folder / "kernels"))


def tiny_chain(asked: Asked) -> Took:
    """DPMixtureMCMC of 5 rows, 80,000 draws."""
    X = np.array([[0.0], [0.1], [3.0], [3.1], [9.0]])
    family = dtree.Gaussian([0.0], 0.1, 3.0, [[1.0]])
    draws = asked.rows(80_000, 200)

    def fit() -> Any:
        chain = dtree.DPMixtureMCMC("gibbs", family, dtree.DirichletProcess(1.0), chains=1, draws=draws, random_state=0)
        return chain.fit(X)

    here, fitted = spent(fit)
    together = (fitted.partitions_[..., 0] == fitted.partitions_[..., 1]).mean()
    apart = (fitted.partitions_[..., 0] == fitted.partitions_[..., 4]).mean()
    assert together > apart
    return Took(here)


def label_rows(asked: Asked) -> Took:
    """labels and log densities of 1,000,000 x 8 by 137 clusters; beside a pass over them."""
    n, k = asked.rows(1_000_000, 2000), asked.rows(137, 5)
    X, y = clusters(n, 8, k)
    fitted = dtree.BayesKMeansBHC("gaussian", random_state=0, max_iter=2).fit(X[: min(n, 20_000)])
    from dtree.kmeans.scoring import Scorer

    scorer = Scorer(fitted.model_, fitted.statistics_) if hasattr(fitted, "model_") else None
    _same_groups(y[:1000], fitted.predict(X[:1000]))
    here = spent(lambda: (fitted.predict(X), fitted.score_samples(X)))[0]
    if scorer is None:
        return Took(here)
    return Took(here, "assignment alone", spent(lambda: scorer.assign(X))[0])


def chunks(asked: Asked) -> None:
    """chunks of 600,000 x 8: even, at least four for each of two workers."""
    sizes = [
        stop - start
        for start, stop in chunk_bounds(600_000, chunk_rows_for(Source("npy", "", (600_000, 8), "float64")))
    ]
    assert len(sizes) >= 8, sizes
    assert max(sizes) <= 1.1 * min(sizes), sizes  # nothing is timed


ROWS: dict[str, Callable[[Asked], Took | None]] = {
    "fit 569 x 30": fit_wide,
    "choose 569 x 30": choose_wide,
    "fit 1,000 x 2": fit_narrow,
    "fit binary 2,000 x 500": fit_binary,
    "fit counts 2,000 x 100": fit_counts,
    "fit NIPS": fit_words,
    "exact full 10,000 x 10": _exact("gaussian", 10_000, 120),
    "exact diagonal 10,000 x 10": _exact("gaussian-diag", 10_000, 120),
    "exact diagonal 50,000 x 10": _exact("gaussian-diag", 50_000, 120, peer=False),
    "exact 20,000 x 8 on workers": on_workers,
    "csv 569 x 30": _fit_file(569, 30),
    "csv 6,435 x 36": _fit_file(6435, 36),
    "report": report,
    "chain of 5 rows": tiny_chain,
    "label 1,000,000 x 8": label_rows,
    "chunks of 600,000 x 8": chunks,
    "first run": first_run,
}


def board(quick: bool, data: Path | None, only: str = "") -> dict[str, dict[str, Any]]:
    """Every row by its name: what it is, what was spent here and by a peer, and when and where that was."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, row in ROWS.items():
            if only not in name:
                continue
            took = row(Asked(quick, data, Path(folder)))
            if took is None:
                continue
            found[name] = {
                "what": (row.__doc__ or "").strip().rstrip("."),
                "here": took.here._asdict(),
                "peer": took.peer,
                "there": None if took.there is None else took.there._asdict(),
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "commit": commit(),
                "load": round(os.getloadavg()[0], 1),
                "machine": machine(),
            }
            print(name, f"{took.here.seconds:.2f}", file=sys.stderr, flush=True)
    return found


def lines_of(found: dict[str, dict[str, Any]]) -> list[list[Any]]:
    """The rows of the table: seconds and processor seconds here and there, their ratio, seconds of the last release."""
    last = json.loads(_LAST_RELEASE.read_text())

    def shown(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    lines = []
    for name, row in found.items():
        here, there = row["here"], row["there"] or {"seconds": None, "processor": None}
        # The load of a machine is in the seconds that pass; processors' seconds are compared where both are known.
        unit = "processor" if here["processor"] and there["processor"] else "seconds"
        ratio = here[unit] / there[unit] if there[unit] else None
        times = [shown(side[unit]) for side in (here, there) for unit in ("seconds", "processor")]
        lines.append([row["what"], *times[:2], row["peer"], *times[2:], shown(ratio), last.get(name, "")])
    return lines


HEADER = ["what", "s", "processor s", "peer", "its s", "its processor s", "ratio", "last release s"]


def record(found: dict[str, dict[str, Any]]) -> None:
    """Keep rows in place of what was measured of them before."""
    known = json.loads(_RECORD.read_text()) if _RECORD.exists() else {}
    kept = {name: found.get(name, known.get(name)) for name in ROWS}
    _RECORD.write_text(json.dumps({name: row for name, row in kept.items() if row}, indent=1) + "\n")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with more data sets as .npz")
    parser.add_argument("--quick", action="store_true", help="few rows: the answers are checked, times say nothing")
    parser.add_argument("--only", default="", help="rows whose name holds this word")
    parser.add_argument("--record", action="store_true", help="keep the figures in scoreboard.json, for the site")
    arguments = parser.parse_args(words)
    if arguments.quick and arguments.record:
        parser.error("--quick times say nothing and are not kept: leave out --record")
    found = board(arguments.quick, arguments.data, arguments.only)
    if arguments.record:
        record(found)
    print(machine(), "\n")
    print("\n".join(markdown_table(HEADER, lines_of(found))))


if __name__ == "__main__":
    main()
