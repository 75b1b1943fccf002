"""The rows of the scoreboard: each asserts an answer, then says what was spent on it and on a peer."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from scipy import sparse
from scipy.cluster.hierarchy import linkage
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

import dtree
from benchmarks.measure import load
from dtree.core.families import FAMILIES, moments_of
from dtree.core.model import Model
from dtree.core.priors import DirichletProcess
from dtree.data.chunks import chunk_bounds, chunk_rows_for
from dtree.data.source import Source
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.defaults import choose_model

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


def spent(call: Callable[..., Any], *arguments: Any) -> tuple[Spent, Any]:
    """What a call spends, programs that it starts and waits for included, and its answer."""

    def processors() -> float:
        kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        return sum(sum(resource.getrusage(kind)[:2]) for kind in kinds)

    began, before = time.perf_counter(), processors()
    answer = call(*arguments)
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
    X = _cancer(asked)
    fitted = dtree.BHC("gaussian").fit(X)
    fitted.tree_.validate()
    assert 1 <= fitted.n_clusters_ < X.shape[0]

    def by_bic() -> None:
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        most = 3 if asked.quick else 12
        min(GaussianMixture(k, random_state=0).fit(Z).bic(Z) for k in range(1, most + 1))

    here = spent(lambda: dtree.BHC("gaussian").fit(X))[0]
    return Took(here, "Gaussian mixture by BIC, k = 1..12", spent(by_bic)[0])


def _cancer(asked: Asked) -> np.ndarray:
    return load_breast_cancer().data[: asked.rows(569, 80), : asked.rows(30, 6)]


def _narrow(asked: Asked) -> np.ndarray:
    return clusters(asked.rows(1000, 90), 2, 3)[0]


def _binary(asked: Asked) -> np.ndarray:
    n, d = asked.rows(2000, 60), asked.rows(500, 40)
    rng = np.random.default_rng(0)
    return (rng.random((n, d)) < rng.uniform(0.05, 0.95, (3, d))[np.arange(n) % 3]).astype(float)


def _choose(what: str, rows_of: Callable[[Asked], np.ndarray], family: str) -> Callable[[Asked], Took]:
    def row(asked: Asked) -> Took:
        X = rows_of(asked)
        assert choose_model(X, family).family.name == family
        return Took(spent(lambda: choose_model(X, family))[0])

    row.__doc__ = f"choosing the model of {what}."
    return row


def fit_narrow(asked: Asked) -> Took:
    """BHC().fit of 1,000 x 2."""
    X = _narrow(asked)
    _same_groups(np.arange(X.shape[0]) % 3, dtree.BHC("gaussian").fit(X).labels_)
    return Took(
        spent(lambda: dtree.BHC("gaussian").fit(X))[0], "scipy average", spent(lambda: linkage(X, "average"))[0]
    )


def fit_binary(asked: Asked) -> Took:
    """BHC("bernoulli").fit of 2,000 x 500."""
    X = _binary(asked)
    _same_groups(np.arange(X.shape[0]) % 3, dtree.BHC("bernoulli").fit(X).labels_)
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


@lru_cache(maxsize=4)
def _mixing(data: Path, quick: bool, sampler: str) -> Any:
    from benchmarks.mcmc import problem_for, run

    limit, settled = (0.3, 0.3) if quick else (15.0, 10.0)
    return run(problem_for(data, "10k-nggp"), sampler, "noisy", limit, 0, settled)  # compares a chain's log joint too


def _effective(what: str, key: str) -> Callable[[Asked], Took | None]:
    def row(asked: Asked) -> Took | None:
        if asked.data is None:
            return None

        def seconds(sampler: str) -> Spent:
            found = _mixing(asked.data, asked.quick, sampler)
            took = 100.0 * found.counted / getattr(found, key)
            return Spent(took, took)

        return Took(seconds("tgmcmc"), "Gibbs", seconds("gibbs"))

    row.__doc__ = f"tgmcmc on 10,000 x 6, settled: processor seconds for 100 effective draws of the {what}."
    return row


def first_draw(asked: Asked) -> Took | None:
    """DPMixtureMCMC of NIPS, 1,500 x 12,419: to the first draws, model and guide included."""
    if asked.data is None:
        return None
    X = load(asked.data, "nips")["X"]
    X = X[:40] if asked.quick else X

    def fit(rows: Any) -> Any:
        return dtree.DPMixtureMCMC("tgmcmc", "multinomial", chains=1, draws=2, warmup=1, random_state=0).fit(rows)

    assert fit(X[:30]).partitions_.shape == (1, 2, 30)
    return Took(spent(fit, X)[0])


def _average_linkage(X: np.ndarray) -> tuple[str, Spent]:
    try:
        import fastcluster
    except ImportError:
        return "scipy average", spent(lambda: linkage(X, "average"))[0]
    return "fastcluster average", spent(lambda: fastcluster.linkage(X, "average"))[0]


def on_workers(asked: Asked) -> Took:
    """BHC of 20,000 x 8, model given, for who has a client with two workers; beside who has none."""
    from dtree.engine.cluster import cluster_client

    X, _ = clusters(asked.rows(20_000, 300), 8, 5)
    model = _given(X, "gaussian-diag")
    given = model.family, model.prior
    dtree.BHC(*given).fit(X[:50])
    alone, one = spent(lambda: dtree.BHC(*given).fit(X))
    with cluster_client(n_workers=2, processes=not asked.quick, warm=False, memory_limit="2GB") as client:
        here, shared = spent(lambda: dtree.BHC(*given, client=client).fit(X))
    assert np.array_equal(one.tree_.merges, shared.tree_.merges)
    return Took(Spent(here.seconds, None), "without a client", alone)  # workers are still there and do not count yet


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


@lru_cache(maxsize=1)
def _like_kos(quick: bool) -> tuple[sparse.csr_array, np.ndarray]:
    """Word counts of the size of the kos blog entries, 3,430 x 6,906, of ten topics, and which is whose."""
    (n, v), rng = (120, 200) if quick else (3430, 6906), np.random.default_rng(0)
    topics, topic = rng.dirichlet(np.full(v, 0.05), 10), np.arange(n) % 10
    return sparse.csr_array(np.array([rng.multinomial(136, topics[t]) for t in topic])), topic


def _fit_words(*options: str) -> Callable[[Asked], Took]:
    def row(asked: Asked) -> Took:
        X, topic = _like_kos(asked.quick)
        sparse.save_npz(asked.folder / "words.npz", X)
        here = command(
            asked, "fit", "words.npz", "--family", "multinomial", *options, "--out", "words.zarr", "--overwrite"
        )
        _same_groups(topic, dtree.open(asked.folder / "words.zarr").labels_)
        return Took(here)

    row.__doc__ = f"dtree fit {' '.join(options)} of 3,430 x 6,906 word counts, all included."
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
    """dtree predict of 1,000,000 x 8 by 137 clusters, all included; beside labels alone in this process."""
    n, k = asked.rows(1_000_000, 2000), asked.rows(137, 5)
    X, y = clusters(n, 8, k)
    fitted = dtree.BayesKMeansBHC("gaussian", random_state=0, max_iter=2).fit(X[: min(n, 20_000)])
    dtree.save(fitted, asked.folder / "labels.zarr")
    np.save(asked.folder / "rows.npy", X)
    words = "predict", "labels.zarr", "rows.npy", "--out", "new.zarr", "--overwrite"
    command(asked, *words)
    here = command(asked, *words)
    labels, alone = zarr.open_array(str(asked.folder / "new.zarr" / "labels"), mode="r")[:], spent(fitted.predict, X)
    assert np.array_equal(labels, alone[1])
    _same_groups(y[:1000], labels[:1000])
    return Took(here, "labels alone", alone[0])


def chunks(asked: Asked) -> Took:
    """cutting 600,000 x 8 into chunks: even, at least four for each of two workers."""
    source = Source("npy", "", (600_000, 8), "float64")
    here, bounds = spent(lambda: chunk_bounds(600_000, chunk_rows_for(source)))
    sizes = [stop - start for start, stop in bounds]
    assert len(sizes) >= 8, sizes
    assert max(sizes) <= 1.1 * min(sizes), sizes
    return Took(here)


ROWS: dict[str, Callable[[Asked], Took | None]] = {
    "fit 569 x 30": fit_wide,
    "choose 569 x 30": _choose("breast cancer, 569 x 30", _cancer, "gaussian"),
    "fit 1,000 x 2": fit_narrow,
    "choose 1,000 x 2": _choose("1,000 x 2", _narrow, "gaussian"),
    "fit binary 2,000 x 500": fit_binary,
    "choose binary 2,000 x 500": _choose("2,000 x 500 zeros and ones", _binary, "bernoulli"),
    "fit counts 2,000 x 100": fit_counts,
    "fit NIPS": fit_words,
    "exact full 10,000 x 10": _exact("gaussian", 10_000, 120),
    "exact diagonal 10,000 x 10": _exact("gaussian-diag", 10_000, 120),
    "exact diagonal 50,000 x 10": _exact("gaussian-diag", 50_000, 120, peer=False),
    "exact diagonal 100,000 x 10": _exact("gaussian-diag", 100_000, 120, peer=False),
    "exact 20,000 x 8 on workers": on_workers,
    "csv 569 x 30": _fit_file(569, 30),
    "csv 6,435 x 36": _fit_file(6435, 36),
    "report": report,
    "mixing 10,000 x 6, log joint": _effective("log joint", "ess_log_joint"),
    "mixing 10,000 x 6, clusters": _effective("number of clusters", "ess"),
    "first draw of NIPS": first_draw,
    "chain of 5 rows": tiny_chain,
    "label 1,000,000 x 8": label_rows,
    "words exact": _fit_words("--method", "exact"),
    "words in passes": _fit_words("--method", "bayes-kmeans", "--workers", "2"),
    "chunks of 600,000 x 8": chunks,
    "first run": first_run,
}
