"""`dtree export` and `dtree info` of every kind of run, and pictures of models that have no tree of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
import pytest
from scipy.cluster.hierarchy import is_valid_linkage
from typer.testing import CliRunner

import dtree
from dtree.cli import app
from dtree.datasets import nested_creatures
from tests.newick import read_newick

matplotlib.use("agg")
DATA = nested_creatures(27)
FRAME = pandas.DataFrame(DATA.X, index=DATA.row_names, columns=DATA.feature_names)
MODELS: dict[str, Any] = {
    "tree": lambda: dtree.BHC("gaussian-diag"),
    "diffusion": lambda: dtree.DiffusionTree(random_state=0, n_permutations=1, search_steps=5, posterior_sweeps=0),
    "chains": lambda: dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=2, draws=8, warmup=4, random_state=0),
    "mixture": lambda: dtree.DPMixtureVB(family="gaussian-diag", truncation=12, random_state=0),
}
HAVE_TREES = ("tree", "diffusion", "chains")


@pytest.fixture(scope="module", params=MODELS)
def fitted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Path]:
    """Kind, model, and the run it was saved as."""
    model = MODELS[request.param]().fit(FRAME.to_numpy())
    run = tmp_path_factory.mktemp("run") / f"{request.param}.zarr"
    dtree.save(model, run, row_names=DATA.row_names)
    return request.param, model, run


def _run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return result.output


def test_labels_and_picture_of_every_kind(fitted: tuple[str, Any, Path], tmp_path: Path) -> None:
    _, model, run = fitted
    _run("export", str(run), "--labels", f"{tmp_path}/labels.csv", "--picture", f"{tmp_path}/tree.png")
    table = pandas.read_csv(tmp_path / "labels.csv")
    assert table["row"].tolist() == DATA.row_names
    assert table["label"].tolist() == model.labels_.tolist()
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_trees_of_those_that_have_one(fitted: tuple[str, Any, Path], tmp_path: Path) -> None:
    kind, _, run = fitted
    wanted = ["export", str(run), "--newick", f"{tmp_path}/tree.nwk", "--linkage", f"{tmp_path}/tree.npy"]
    if kind not in HAVE_TREES:
        assert "has no tree of its own" in _run(*wanted, code=2)
        assert list(tmp_path.iterdir()) == []
        return
    _run(*wanted)
    assert sorted(read_newick((tmp_path / "tree.nwk").read_text())[1]) == sorted(DATA.row_names)
    assert is_valid_linkage(np.load(tmp_path / "tree.npy"))


def test_every_kind_can_be_described(fitted: tuple[str, Any, Path]) -> None:
    assert "clusters" in _run("info", str(fitted[2]))


def test_every_kind_can_be_drawn(fitted: tuple[str, Any, Path]) -> None:
    kind, model, _ = fitted
    ax = dtree.plot_tree(model)
    texts = [text.get_text() for text in ax.get_yticklabels()]
    assert ax.get_title(loc="left") == f"27 rows, {model.n_clusters_} clusters"
    if kind in HAVE_TREES:
        assert len(texts) == 27
    else:  # one tip for each cluster
        assert len(texts) == model.n_clusters_
    assert ("time" in ax.get_xlabel()) == (kind == "diffusion")
