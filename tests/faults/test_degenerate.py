"""An answer that says nothing is said to be one, with what to try."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.engine.drive import Given, drive
from dtree.methods import METHODS, method_named
from dtree.methods.degenerate import chains_that_stand, degenerate, facts_of_run
from dtree.methods.settings import checked
from tests.engine.test_features import METHODS as SETTINGS

ONE_CLUSTER = np.random.default_rng(0).normal(size=(40, 2))


@pytest.mark.parametrize("name", METHODS)
def test_one_cluster_is_said(name: str) -> None:
    method, more = method_named(name), {"n_clusters": 1} if name == "ddt" else {}
    run = drive(method, checked(method.Settings, {**SETTINGS[name], **more}), Given(ONE_CLUSTER))
    facts = facts_of_run(method, run.fitted(method.Fitted), run)
    expected = f"all 40 rows are in one cluster: if you expected more, try {method.instead}"
    assert (expected in facts.warnings) == (facts.n_clusters == 1)
    assert facts.n_clusters == 1


def test_every_method_says_what_to_try() -> None:
    for name in METHODS:
        assert "--" in method_named(name).instead


def test_all_rows_alone_are_said(tmp_path: Path) -> None:
    dtree.save(dtree.BHC("gaussian-diag", cut=1.0).fit(ONE_CLUSTER[:12]), tmp_path / "run")
    for command in (["info", str(tmp_path / "run")], ["report", str(tmp_path / "run"), "-o", str(tmp_path / "p.html")]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    assert "each of the 12 rows is a cluster of its own" in CliRunner().invoke(app, ["info", f"{tmp_path}/run"]).output
    assert "is a cluster of its own" in (tmp_path / "p.html").read_text()


def test_two_rows_are_nothing_to_wonder_at() -> None:
    assert degenerate(1, 2, "") == degenerate(2, 2, "") == degenerate(3, 9, "") == []


def test_chains_that_never_moved_are_said() -> None:
    moving, still = np.arange(20)[:, None] % np.array([1, 2, 3]), np.zeros((20, 3), dtype=int)
    assert chains_that_stand(np.stack([moving, moving]), "gibbs") == []
    assert "1 of 2 chains never moved in 20 draws" in chains_that_stand(np.stack([moving, still]), "gibbs")[0]
    assert chains_that_stand(still[None, :1], "gibbs") == []
    both = chains_that_stand(still[None], "slice")
    assert "the chain never moved" in both[0]
    assert "100% of its sweeps the slice sampler left every label as it was" in both[1]


def test_the_command_says_that_chains_never_moved(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.repeat([[0.0, 0.0], [1e6, 1e6]], 20, axis=0) + ONE_CLUSTER)
    words = ["--family", "gaussian-diag", "--sampler", "gibbs", "--chains", "2", "--draws", "5", "--warmup", "50"]
    done = CliRunner().invoke(app, ["sample", str(tmp_path / "x.npy"), "--out", str(tmp_path / "run"), *words])
    assert done.exit_code == 0, done.output
    assert "2 of 2 chains never moved in 5 draws" in done.output
