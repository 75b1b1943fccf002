"""Estimators and commands over tables: kinds are kept by the run, and new rows are read with its levels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.runs.run import Run

N = 40
RNG = np.random.default_rng(1)
GROUP = np.repeat([0, 1], N // 2)
PEOPLE = pd.DataFrame(
    {
        "person": [f"p{i}" for i in range(N)],
        "height": (RNG.normal(150, 3, N) + 40 * GROUP).round(2),
        "city": np.array(["Rome", "Oslo"])[GROUP],
        "member": np.array(["no", "yes"])[RNG.integers(0, 2, N)],
        "planet": "Earth",
    }
)
ESTIMATORS = {
    "BHC": dtree.BHC("auto"),
    "BayesKMeans": dtree.BayesKMeans("auto", random_state=0),
    "BayesKMeansBHC": dtree.BayesKMeansBHC("auto", random_state=0),
    "IncrementalBHC": dtree.IncrementalBHC("auto", random_state=0),
    "DPMixtureVB": dtree.DPMixtureVB(family="auto", truncation=4, random_state=0),
    "DPMixtureMCMC": dtree.DPMixtureMCMC("gibbs", "auto", chains=1, draws=10, warmup=5, random_state=0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_frames_in_another_order_with_unknown_levels(name: str, tmp_path: Path) -> None:
    model = clone(ESTIMATORS[name]).set_params(columns={"member": "skip"}).fit(PEOPLE)
    assert model.feature_names_in_.tolist() == ["height", "city"]
    assert [column.kind for column in model.kinds_] == ["real", "category"]
    assert dict(model.left_out_) == {
        "person": "it names the rows", "member": "you said so", "planet": "it is 'Earth' in every row",
    }  # fmt: skip
    assert model.row_names_.tolist() == PEOPLE["person"].tolist()
    new = PEOPLE[["city", "height"]].sample(frac=1.0, random_state=0)
    np.testing.assert_array_equal(model.predict(new), model.predict(PEOPLE)[new.index])
    strange = new.assign(city="Lima")
    assert model.predict(strange).shape == (N,)
    with pytest.raises(ValueError, match="the rows lack features that the run was fitted on: 'city'"):
        model.predict(PEOPLE.drop(columns="city"))
    with pytest.raises(ValueError, match=r"fitted on a table with categories \('city'\)"):
        clone(ESTIMATORS[name]).fit(PEOPLE).predict(np.ones((2, 3)))
    dtree.save(model, tmp_path / "run.zarr")
    again = dtree.open(tmp_path / "run.zarr")
    assert (again.kinds_, again.left_out_) == (model.kinds_, model.left_out_)
    np.testing.assert_array_equal(again.predict(new), model.predict(new))


def test_a_path_and_a_frame_are_one_table(tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "x.csv", index=False)
    said = {"member": "category"}
    frame, path = (dtree.BHC("auto", columns=said).fit(data) for data in (PEOPLE, tmp_path / "x.csv"))
    assert frame.kinds_ == path.kinds_
    np.testing.assert_array_equal(frame.labels_, path.labels_)
    np.testing.assert_array_equal(frame.predict(tmp_path / "x.csv"), path.predict(PEOPLE))


def test_batches_are_read_like_the_first() -> None:
    model = dtree.DPMixtureVB(family="auto", truncation=3, random_state=0).partial_fit(PEOPLE)
    later = PEOPLE[["member", "city", "height"]][:20].assign(city="Lima")
    assert model.partial_fit(later).kinds_[1].levels == ("Oslo", "Rome")
    grown = dtree.IncrementalBHC("auto", random_state=0).fit(PEOPLE).partial_fit(later)
    assert grown.n_seen_ == N + 20


def test_arrays_whose_columns_someone_knows() -> None:
    rows = np.column_stack([PEOPLE["height"], GROUP * 5 + 2])
    model = dtree.BHC("auto", columns={"1": "category"}).fit(rows)
    assert model.kinds_[1].levels == ("2", "7")
    assert model.predict(rows[:3]).shape == (3,)


def test_frames_of_numbers_are_as_they_were() -> None:
    frame = pd.DataFrame({"a": PEOPLE["height"], "b": GROUP + 0.5})
    model, array = dtree.BHC().fit(frame), dtree.BHC().fit(frame.to_numpy())
    assert model.log_evidence_bound_ == array.log_evidence_bound_
    assert [column.kind for column in model.kinds_] == ["real", "real"]
    with pytest.raises(ValueError, match="feature names"):  # scikit-learn's rule for numbers
        model.predict(frame[["b", "a"]])


def _run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("command", ["fit", "vb", "fit --method bayes-kmeans"])
def test_the_command_line_shows_keeps_and_uses_kinds(command: str, tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "x.csv", index=False)
    run = tmp_path / "run.zarr"
    words = ("--column", "planet=category", "--column", "member=skip", "--out", run)
    said = _run(*command.split()[:1], tmp_path / "x.csv", *command.split()[1:], *words)
    assert "Oslo, Rome" in said
    assert "left out: member (you said so)" in said
    header = Run.open(run).header
    assert [column.name for column in header.kinds] == header.feature_names == ["height", "city", "planet"]
    assert ["person", "it names the rows"] in [list(pair) for pair in header.left_out]
    told = _run("info", run)
    assert "you said so" in told
    assert "left out: person (it names the rows)" in told
    _run("report", run, "--out", tmp_path / "report.html")
    assert "What the columns were taken for" in (tmp_path / "report.html").read_text()
    new = PEOPLE[["city", "planet", "height", "person"]].assign(city=["Lima", *PEOPLE["city"][1:]])
    new.to_csv(tmp_path / "new.csv", index=False)
    for ending in ("csv", "zarr"):
        _run("predict", run, tmp_path / "new.csv", "--out", tmp_path / f"labels.{ending}")
    labels = pd.read_csv(tmp_path / "labels.csv")
    assert labels["row"].tolist() == PEOPLE["person"].tolist()
    assert labels["label"].nunique() >= 2
    new.drop(columns="city").to_csv(tmp_path / "less.csv", index=False)
    told = _run("predict", run, tmp_path / "less.csv", "--out", tmp_path / "other.csv", code=2)
    assert "the rows lack features that the run was fitted on: 'city'" in told.replace("\n", " ")


def test_mistakes_with_columns(tmp_path: Path) -> None:
    PEOPLE.to_csv(tmp_path / "x.csv", index=False)
    for words, sentence in [
        ("fit --column city", "--column must look like zip=category"),
        ("fit --column city=ordinal", "the kinds are real, count, binary, category, and skip"),
        ("fit --column town=real", "has no column 'town'"),
        ("ddt", "ddt takes numbers, and the column 'city' is a category"),
    ]:
        command, *rest = words.split()
        told = _run(command, tmp_path / "x.csv", *rest, "--out", tmp_path / "run.zarr", code=2)
        assert sentence in told.replace("\n", " ")
        assert not (tmp_path / "run.zarr").exists()


def test_a_header_with_columns_that_do_not_fit_is_refused(tmp_path: Path) -> None:
    dtree.save(dtree.BHC("auto").fit(PEOPLE), tmp_path / "run.zarr")
    place = tmp_path / "run.zarr" / "zarr.json"
    for change in (lambda kinds: kinds.pop(), lambda kinds: kinds[1].update(levels=["a", "a"])):
        stored = json.loads(place.read_text())
        change(stored["attributes"]["dtree"]["kinds"])
        (tmp_path / "run.zarr" / "zarr.json").write_text(json.dumps(stored))
        with pytest.raises(ValueError, match="is damaged: its header is wrong"):
            dtree.open(tmp_path / "run.zarr")
        dtree.save(dtree.BHC("auto").fit(PEOPLE), tmp_path / "run.zarr", overwrite=True)
