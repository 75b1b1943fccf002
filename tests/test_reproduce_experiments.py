"""Every experiment of the papers still fits the benchmarks it calls: quickly by its imports, and to the end on made-up
data."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import matplotlib
import numpy as np
import pytest
from scipy import sparse

from benchmarks.diffusion_animals import GROUPS
from benchmarks.reproduce import heller2005, knowles2011, kurihara2007, lee2015, xu2009
from benchmarks.reproduce.__main__ import PAPERS, run
from benchmarks.reproduce.record import Experiment, Paper, Setting

matplotlib.use("agg")


@pytest.mark.parametrize("module", [heller2005, kurihara2007, xu2009, knowles2011, lee2015])
def test_what_is_imported_when_an_experiment_runs_is_there(module: ModuleType) -> None:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            source = importlib.import_module(str(node.module))
            for name in node.names:
                assert hasattr(source, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}"), name.name


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives with the names, keys and shapes of the real ones where an experiment relies on them, smaller elsewhere."""  # noqa: E501
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(0)

    def classes(name: str, n: int, d: int, k: int, **more: object) -> None:
        y = random.integers(k, size=n)
        X = random.normal(size=(k, d))[y] * 4 + random.normal(size=(n, d))
        np.savez(folder / f"{name}.npz", X=X, y=y, **more)

    for name, n, d, k in (("iris", 150, 4, 3), ("abalone", 620, 8, 4), ("wine", 178, 13, 3), ("glass", 214, 9, 4), ("tgmcmc_toy", 130, 2, 3), ("tgmcmc_10k", 300, 6, 5), ("howells_skulls_substitute", 300, 12, 2), ("prostate_yu2004", 320, 12, 3)):  # fmt: skip  # noqa: E501
        classes(name, n, d, k)
    y = random.integers(10, size=1797)
    np.savez(folder / "digits.npz", X=random.binomial(16, random.random((10, 64))[y]), y=y)
    spam = random.integers(2, size=4601)
    np.savez(folder / "spambase.npz", X=random.poisson(random.random((2, 57))[spam]), y=spam)
    np.savez(folder / "mnist.npz", X=random.integers(0, 256, (11_000, 784), dtype=np.uint8))
    four = random.integers(4, size=800)
    words = random.poisson(random.gamma(0.1, 1.0, (4, 600))[four]).astype(float)
    words[:, 0] += 1.0
    some, names = (words[:, :50] > 0).astype(np.uint8), np.array([f"word{i}" for i in range(50)])
    np.savez(folder / "newsgroups4_800x50.npz", X=some, y=four, feature_names=names, target_names=np.array(list("abcd")))  # fmt: skip  # noqa: E501
    for name, counts in (("newsgroups4", words), ("nips", words[:120])):
        csr = sparse.csr_array(counts)
        np.savez(folder / f"{name}.npz", data=csr.data, indices=csr.indices, indptr=csr.indptr, shape=csr.shape, y=four)
    species = sorted({animal for text in GROUPS.values() for animal in text.split()})
    yes = np.array([random.random(30) < 0.2 + 0.6 * (hash_of(s) % 2) for s in species])
    np.savez(folder / "animals33.npz", X=yes, row_names=np.array(species))
    return folder


def hash_of(name: str) -> int:
    """The same in every process, unlike hash()."""
    return sum(map(ord, name))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "experiment"),
    [pytest.param(paper, e, id=f"{paper.key}-{e.key}") for paper in PAPERS for e in paper.experiments],
)
def test_an_experiment_runs_to_the_end(paper: Paper, experiment: Experiment, data: Path, tmp_path: Path) -> None:
    """Verdicts mean nothing here; that there are some, and the pictures that are named, does."""
    (tmp_path / "pictures").mkdir()
    found = run(paper, experiment, Setting(data, True, tmp_path / "pictures"))
    assert not found.failure
    assert any(row.verdict for row in found.rows)
    for name in (found.picture or "").split():
        assert (tmp_path / "pictures" / name).stat().st_size > 1000
