"""The page of the papers done again: the rule of its verdicts is tested beside them.

here what the page says and holds."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest

from benchmarks.reproduce import xu2009
from benchmarks.reproduce.__main__ import PAPERS, run
from benchmarks.reproduce.page import html, markdown
from benchmarks.reproduce.record import DIFFERS, REPRODUCED, Experiment, Finding, Paper, Row, Setting

matplotlib.use("agg")


def test_five_papers_each_with_experiments_and_what_is_missing() -> None:
    assert [paper.key for paper in PAPERS] == ["heller2005", "kurihara2007", "xu2009", "knowles2011", "lee2015"]
    for paper in PAPERS:
        keys = [experiment.key for experiment in paper.experiments]
        assert len(keys) == len(set(keys)) >= 3
        assert paper.not_redone
        assert all(experiment.run.__doc__ for experiment in paper.experiments)


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    (tmp_path / "pictures").mkdir()
    return Setting(tmp_path, True, tmp_path / "pictures")


def test_an_experiment_from_end_to_end(setting: Setting, tmp_path: Path) -> None:
    experiment = next(e for e in xu2009.PAPER.experiments if e.key == "figure-2")
    found = run(xu2009.PAPER, experiment, setting)
    assert not found.failure
    assert {row.verdict for row in found.rows} == {REPRODUCED}
    found.save(tmp_path / "results")
    assert Finding.load(tmp_path / "results", "xu2009", "figure-2") == found
    page = html(PAPERS, tmp_path / "results", setting.pictures)
    assert "data:image/png;base64," in page
    assert not re.search(r"(src|href)=.?https?:", page)
    assert "not run yet" in page
    assert "| Figure 2 |" in markdown(PAPERS, tmp_path / "results")


def test_a_failure_is_reported_and_not_hidden(setting: Setting, tmp_path: Path) -> None:
    def broken(setting: Setting) -> tuple[list[Row], str | None]:
        """Fail."""
        raise ValueError("no such <data>")

    def differing(setting: Setting) -> tuple[list[Row], str | None]:
        """Differ."""
        return [Row("height", "1 m", "2 m", DIFFERS, "measured twice")], None

    paper = Paper("short", "Short, A paper, 2000", [Experiment("a", "Table 1", "high", broken), Experiment("b", "Table 2", "low", differing)], [])  # fmt: skip  # noqa: E501
    for experiment in paper.experiments:
        run(paper, experiment, setting).save(tmp_path / "results")
    page = html([paper], tmp_path / "results", setting.pictures)
    assert "the run failed: ValueError: no such &lt;data&gt;" in page
    assert "0 reproduced, 0 close, 1 differs" in page
    assert "height: *differs*" in markdown([paper], tmp_path / "results")
