"""What the console and the report say of the clusters of a table, by kind."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import dtree
from dtree.cli.app import app
from dtree.methods.cluster_words import _figures
from dtree.reporting.sections_tree import node_features
from dtree.reporting.subject import subject_of
from tests.tables import people_with_holes

PEOPLE = people_with_holes()


def test_words_are_those_of_the_rows() -> None:
    model = dtree.BHC().fit(PEOPLE)
    assert model.n_clusters_ == 3
    subject = subject_of(model)
    words = subject.words(subject.facts.leaf_clusters)
    assert words is not None
    influence = dict(zip(model.feature_names_in_, dtree.column_influence(model), strict=True))
    assert dict(words.ranking) == pytest.approx(influence)
    assert [name for name, _ in words.ranking][-1] == "member"
    for cluster, phrases in enumerate(words.clusters):
        here = model.labels_ == cluster
        means = PEOPLE["height"][here].mean(), PEOPLE["height"][~here].mean()
        told = " ".join(phrases)
        assert "born: 198" in told
        if "height:" in told:
            assert f"height: {means[0]:.4g} ({means[1]:.4g})" in phrases
        shares = PEOPLE["city"][here].value_counts(normalize=True)
        assert f"city {shares.index[0]}: {100 * shares.iloc[0]:.0f}% (" in told
    assert sum("height:" in " ".join(phrases) for phrases in words.clusters) >= 2


def test_nodes_of_the_tree_name_the_level_that_differs() -> None:
    """Of a category the level by name, here and (in brackets) in the sibling; what is small beside it is 0."""
    subject = subject_of(dtree.BHC().fit(PEOPLE))
    found = node_features(subject)
    root = 2 * subject.shape.n_leaves - 2
    below = [node for node in found if subject.shape.parent[node] == root]
    assert len(below) == 2
    for node in below:
        assert any(re.fullmatch(r"city (Rome|Oslo|Bonn): \d+% \(\d+%\)", str(one)) for one in found[node])
    assert [_figures(value, 3.5e-11, 3.151) for value in (3.5e-11, 3.151)] == ["0", "3.151"]


def test_missing_values_are_told_where_they_set_a_cluster_apart() -> None:
    frame = PEOPLE.copy()
    frame.loc[np.arange(len(frame)) % 3 == 0, "city"] = None
    model = dtree.BHC().fit(frame)
    subject = subject_of(model)
    words = subject.words(subject.facts.leaf_clusters)
    assert words is not None
    phrases = " ".join(words.clusters[model.labels_[0]])
    assert "city" not in phrases or "100% missing" in phrases


@pytest.mark.parametrize("command", ["fit", "vb"])
def test_console_and_page_name_levels_and_no_nan(command: str, tmp_path: Path) -> None:
    PEOPLE[["name", "height", "city", "member"]].to_csv(tmp_path / "people.csv", index=False)
    run = str(tmp_path / "run.zarr")

    def said(*words: str) -> str:
        result = CliRunner().invoke(app, list(words), env={"COLUMNS": "250", "TERM": "dumb"})
        assert result.exit_code == 0, result.output
        return result.output

    first = said(command, str(tmp_path / "people.csv"), "--out", run)
    assert re.search(r"city (Rome|Oslo|Bonn): \d+% \(", first)
    assert "nan" not in first
    told = said("info", run)
    assert "what tells the clusters apart, in nats a row" in told
    said("report", run, "-o", str(tmp_path / "page.html"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert re.search(r"city (Rome|Oslo|Bonn): \d+% \(", page)
    assert "Columns by how much they tell the clusters apart" in page
