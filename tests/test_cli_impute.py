"""`dtree impute` and `dtree predict --surprisal`: single values of a table by a run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from tests.tables import people_with_holes

PEOPLE = people_with_holes()
FITS = {
    "tree": ["fit", "--method", "tree"],
    "exact": ["fit", "--method", "exact"],
    "randomized": ["fit", "--method", "randomized"],
    "bayes-kmeans": ["fit", "--method", "bayes-kmeans"],
    "vb": ["vb", "--truncation", "6"],
}


def run(*words: object, code: int = 0) -> str:
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert found.exit_code == code, found.output
    return " ".join(found.output.split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    PEOPLE.to_csv(folder / "people.csv", index=False)
    for name, (command, *more) in FITS.items():
        run(command, folder / "people.csv", *more, "--out", folder / f"{name}.zarr")
    return folder


@pytest.mark.parametrize("name", FITS)
def test_holes_are_filled_and_nothing_else_changes(name: str, runs: Path, tmp_path: Path) -> None:
    told = run("impute", runs / f"{name}.zarr", runs / "people.csv", "--out", tmp_path / "f.csv", "--probabilities")
    assert "120 rows, 36 of 600 values filled in" in told
    assert re.search(r"filled in: .*city 12\b", told)
    read = {"dtype": str, "keep_default_na": False}
    before, after = pd.read_csv(runs / "people.csv", **read), pd.read_csv(tmp_path / "f.csv", **read)
    held = before != ""
    assert before.equals(after[before.columns].where(held, ""))
    assert not (after[before.columns] == "").any(axis=None)
    assert set(after["city"]) == {"Rome", "Oslo", "Bonn"}
    assert after["born"].str.fullmatch(r"\d{4}-\d\d-\d\d").all()
    filled = after["probability of city"] != ""
    assert np.array_equal(filled, before["city"] == "")
    assert after.loc[filled, "probability of city"].astype(float).between(1 / 3, 1).all()
    assert after.loc[after["probability of member"] != "", "probability of member"].astype(float).min() >= 0.5
    group = np.arange(len(PEOPLE)) % 3
    wanted = np.array(["Rome", "Oslo", "Bonn"])[group]
    assert np.mean(after["city"][filled] == wanted[filled]) > 0.8
    lacking = PEOPLE["height"].isna().to_numpy()
    assert np.abs(after["height"][lacking].astype(float) - 150 - 20 * group[lacking]).max() < 6


@pytest.mark.parametrize("name", FITS)
def test_a_planted_error_is_the_oddest_value(name: str, runs: Path, tmp_path: Path) -> None:
    wrong = PEOPLE.copy()
    wrong.loc[30, "height"] = 250.0
    wrong.sample(frac=1.0, axis=1, random_state=0).to_csv(tmp_path / "wrong.csv", index=False)
    told = run("predict", runs / f"{name}.zarr", tmp_path / "wrong.csv", "--surprisal", "--out", tmp_path / "odd.csv")
    assert told.startswith("p30: height 250 (")
    odd = pd.read_csv(tmp_path / "odd.csv")
    assert odd["surprisal of height"].idxmax() == 30
    assert np.array_equal(odd["surprisal of city"].isna(), PEOPLE["city"].isna())
    assert odd["row"].tolist() == PEOPLE["name"].tolist()
    model = dtree.open(runs / f"{name}.zarr")
    np.testing.assert_allclose(odd["surprisal of visits"], model.surprisal(wrong)[:, 2])
    np.testing.assert_array_equal(odd["label"], model.predict(wrong))


def test_a_parquet_table_may_be_filled_by_a_run_of_a_csv(runs: Path, tmp_path: Path) -> None:
    PEOPLE.to_parquet(tmp_path / "people.parquet", index=False)
    run("impute", runs / "exact.zarr", tmp_path / "people.parquet", "--out", tmp_path / "a.csv")
    run("impute", runs / "exact.zarr", runs / "people.csv", "--out", tmp_path / "b.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "a.csv"), pd.read_csv(tmp_path / "b.csv"))


def test_arrays_with_holes(tmp_path: Path) -> None:
    X = np.concatenate([np.random.default_rng(0).normal(centre, 1.0, (20, 3)) for centre in (0.0, 9.0)])
    X[3, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    run("fit", tmp_path / "x.npy", "--out", tmp_path / "run.zarr")
    run("impute", tmp_path / "run.zarr", tmp_path / "x.npy", "--out", tmp_path / "filled.csv")
    filled = pd.read_csv(tmp_path / "filled.csv")
    assert abs(filled.loc[3, "feature 1"]) < 1.5
    np.testing.assert_allclose(filled.to_numpy()[~np.isnan(X)], X[~np.isnan(X)])


def test_full_gaussians_fill_gaps_by_the_rest_of_the_row(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.multivariate_normal([0.0, 5.0], [[1.0, 0.99], [0.99, 1.0]], 60)
    np.save(tmp_path / "x.npy", X)
    run("fit", tmp_path / "x.npy", "--family", "gaussian", "--method", "exact", "--out", tmp_path / "run.zarr")
    holed, wrong = X.copy(), X.copy()
    holed[7, 1], wrong[9, 0] = np.nan, X[9, 0] + 2.0  # no odd value on its own
    np.save(tmp_path / "holed.npy", holed)
    np.save(tmp_path / "wrong.npy", wrong)
    run("impute", tmp_path / "run.zarr", tmp_path / "holed.npy", "--out", tmp_path / "filled.csv")
    assert abs(pd.read_csv(tmp_path / "filled.csv").iloc[7, 1] - X[7, 1]) < 0.6
    told = run("predict", tmp_path / "run.zarr", tmp_path / "wrong.npy", "--surprisal", "--out", tmp_path / "o.csv")
    assert "row 9: feature" in told
    run("predict", tmp_path / "run.zarr", tmp_path / "holed.npy", "--out", tmp_path / "labels.csv")
    assert np.isfinite(pd.read_csv(tmp_path / "labels.csv")["log_density"]).all()


def test_runs_that_say_nothing_of_single_values(runs: Path, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    np.save(tmp_path / "x.npy", X)
    quick = ["--chains", "1", "--draws", "4", "--warmup", "2"]
    run("sample", tmp_path / "x.npy", *quick, "--out", tmp_path / "chains.zarr")
    np.save(tmp_path / "counts.npy", np.random.default_rng(0).poisson(2.0, (12, 2)))
    run("fit", tmp_path / "counts.npy", "--family", "multinomial", "--out", tmp_path / "words.zarr")
    out = ["--out", tmp_path / "o.csv"]
    for name, sentence in {
        "chains": "holds a DPMixtureMCMC, which says nothing of single values",
        "words": "the multinomial family says nothing of single values",
    }.items():
        assert sentence in run("impute", tmp_path / f"{name}.zarr", tmp_path / "x.npy", *out, code=2)
        assert sentence in run("predict", tmp_path / f"{name}.zarr", tmp_path / "x.npy", "--surprisal", *out, code=2)
    assert not (tmp_path / "o.csv").exists()
    told = run("predict", runs / "vb.zarr", runs / "people.csv", "--surprisal", "--out", tmp_path / "o.zarr", code=2)
    assert "--surprisal writes a .csv, .npy or .npz file" in told


def test_the_front_door_knows_single_values() -> None:
    model = dtree.TreeClustering(random_state=0).fit(PEOPLE)
    filled, probability = model.impute(PEOPLE, return_probability=True)
    assert not np.isnan(filled).any()
    assert np.array_equal(~np.isnan(probability[:, 1]), PEOPLE["city"].isna())
    assert np.array_equal(np.isnan(model.surprisal(PEOPLE)[:, 0]), PEOPLE["height"].isna())
    influence = dtree.column_influence(model)
    assert influence[0] > influence[3]
