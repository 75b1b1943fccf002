"""`dtree convert`: finished runs of dtree 0.1 as runs of this version.

`old/runs.tar.xz` holds tiny runs that version 0.1.0 wrote, one of each kind, what it said of them (`expected.json`) and
the script that made them. Only the folder in which that happened is called /data, and of `ddt.zarr` there is only the
header.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.runs.run import Run

KINDS = {
    "exact.zarr": "bhc",
    "saved.zarr": "bhc",  # with rows of weight 0
    "passes.zarr": "bayes-kmeans-bhc",
    "flat.zarr": "bayes-kmeans",
    "randomized.zarr": "randomized",
    "vb.zarr": "vb",
    "saved-vb.zarr": "vb",
    "chains.zarr": "chains",
    "saved-chains.zarr": "chains",  # with draws of `more_draws`
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(Path(__file__).parent / "old" / "runs.tar.xz") as runs:
        runs.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return found


def _run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_converted_run_says_what_version_0_1_said(
    name: str, folder: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    new, said = tmp_path / "new", expected[name]
    assert "clusters" in _run("convert", folder / name, new)
    model, rows = dtree.open(new), np.array(said["rows"])
    assert type(model).__name__ == said["estimator"]
    assert model._run.header.method == KINDS[name]
    assert model.labels_.tolist() == said["labels"]
    assert model.predict(rows).tolist() == said["predicted"]
    assert np.allclose(model.score_samples(rows), said["log_density"], rtol=1e-13)
    assert np.allclose(model.predict_proba(rows), said["proba"], rtol=1e-13, atol=1e-300)
    if said["merges"] is not None:
        assert model.tree_.merges.tolist() == said["merges"]
    bound = getattr(model, "elbo_", None) or getattr(model, "log_evidence_bound_", None)
    assert bound == pytest.approx(said["bound"], rel=1e-13) if said["bound"] else bound is None
    if said["log_joint"] is not None:
        assert model.log_joint_ == pytest.approx(said["log_joint"], rel=1e-13)
    if "partitions" in said:
        assert model.partitions_.tolist() == said["partitions"]
        assert model.posterior_["posterior"]["log_joint"].values.tolist() == said["log_joints"]
    dtree.save(model, tmp_path / "again")
    assert dtree.open(tmp_path / "again").labels_.tolist() == said["labels"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, method in KINDS.items() if method == "chains"])
def test_converted_chains_go_on_as_version_0_1_did(
    name: str, folder: Path, expected: dict[str, Any], tmp_path: Path
) -> None:
    _run("convert", folder / name, tmp_path / "new")
    model = dtree.open(tmp_path / "new").more_draws(3)
    assert model.partitions_[:, -3:].tolist() == expected[name]["next"]


def test_the_commands_take_it(folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    _run("convert", folder / "exact.zarr", new)
    said = _run("info", new)
    assert "dtree fit rows.csv --labels-column kind --seed 3 --out exact.zarr" in said
    assert "versions: dtree 0.1.0, " in said
    assert "converted: from the format of dtree 0.1" in said
    assert "seed: 3 " in said
    assert "column of labels, left out: kind" in said
    assert "row 0, row 1" in said
    assert "every array is what was written" in _run("verify", new)
    _run("predict", new, folder / "rows.csv", "--out", tmp_path / "labels.csv")
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 19
    _run("export", new, "--newick", tmp_path / "tree.nwk", "--labels", tmp_path / "clusters.csv")
    assert "row 17" in (tmp_path / "tree.nwk").read_text()
    _run("report", new, "--out", tmp_path / "report.html")
    assert "is not a run of dtree 0.1" in _run("convert", new, tmp_path / "twice", code=2)
    assert "exists already" in _run("convert", folder / "exact.zarr", new, code=2)
    _run("convert", folder / "exact.zarr", new, "--overwrite")


def test_weights_of_0_do_not_hinder_the_report(folder: Path, tmp_path: Path) -> None:
    _run("convert", folder / "saved.zarr", tmp_path / "new")
    assert Run.open(tmp_path / "new").header.notes["why"] == "a test"
    _run("info", tmp_path / "new")
    _run("report", tmp_path / "new", "--out", tmp_path / "report.html")


def test_what_is_not_converted_is_named(folder: Path, tmp_path: Path) -> None:
    said = _run("convert", folder / "ddt.zarr", tmp_path / "new", code=2)
    assert "is a run of the kind 'diffusion', which this version does not convert" in said
    assert "made by: dtree ddt real.npy" in said
    said = _run("convert", folder / "weighted-chains.zarr", tmp_path / "new", code=2)
    assert "has rows of weight 0, and which ones they were was not kept, so it cannot be converted" in said
    stopped = Path(__file__).parent / "old" / "stopped"
    assert "is not finished, which this version does not convert" in _run("convert", stopped, tmp_path / "new", code=2)
    assert "there is no run" in _run("convert", tmp_path / "none", tmp_path / "new", code=2)
    assert not list(tmp_path.iterdir())


def _drop(run: Path, name: str) -> None:
    shutil.rmtree(run / name)


def _change(run: Path, name: str) -> None:
    chunk = next(path for path in (run / name / "c").rglob("*") if path.is_file())
    chunk.write_bytes(b"\x01" + chunk.read_bytes()[1:])


def _forget(run: Path, name: str) -> None:
    header = json.loads((run / "zarr.json").read_text())
    del header["attributes"].get("dtree", header["attributes"])[name]
    (run / "zarr.json").write_text(json.dumps(header))


@pytest.mark.parametrize(
    ("name", "damage", "what"),
    [
        ("exact.zarr", _drop, "labels"),
        ("exact.zarr", _change, "statistics/atoms"),
        ("exact.zarr", _forget, "settings"),
        ("passes.zarr", _drop, "labels"),
        ("passes.zarr", _drop, "tree/left/c"),
        ("passes.zarr", _change, "tree/left"),
        ("passes.zarr", _forget, "threshold"),
        ("flat.zarr", _drop, "model"),
        ("vb.zarr", _drop, "checkpoints"),
        ("vb.zarr", _forget, "shown"),
        ("chains.zarr", _drop, "chains/0001"),
        ("chains.zarr", _drop, "chains/0000/block-00000000/labels"),
        ("chains.zarr", _forget, "warmup"),
        ("saved-chains.zarr", _change, "chains/labels"),
    ],
)
def test_damage_gets_one_sentence(name: str, damage: Any, what: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / name, tmp_path / name)
    damage(tmp_path / name, what)
    said = _run("convert", tmp_path / name, tmp_path / "new", code=2)
    assert "is damaged: " in said
    assert "(a run of dtree 0.1 of the kind '" in said
    assert not (tmp_path / "new").exists()
