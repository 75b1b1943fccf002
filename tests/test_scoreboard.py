"""The scoreboard on few rows: every row still runs and its answer is right; times are not looked at."""

from __future__ import annotations

import json

import pytest

from benchmarks import scoreboard

# In processes of their own, or with kernels that nothing else here needs.
SLOW = ("csv 569 x 30", "csv 6,435 x 36", "report", "first run", "chain of 5 rows", "label 1,000,000 x 8")
SLOW += ("words exact", "words in passes")


@pytest.mark.parametrize("name", [name for name in scoreboard.ROWS if name not in SLOW])
def test_a_quick_row_has_the_right_answer(name, tmp_path):
    took = scoreboard.ROWS[name](scoreboard.Asked(True, None, tmp_path))
    assert took is None or took.here.seconds > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_row_has_the_right_answer(name, tmp_path):
    took = scoreboard.ROWS[name](scoreboard.Asked(True, None, tmp_path))
    assert took is None or took.here.seconds > 0


def test_the_last_release_names_rows_that_are_there():
    assert set(json.loads(scoreboard._LAST_RELEASE.read_text())) <= set(scoreboard.ROWS)


def test_rows_are_kept_until_they_are_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(scoreboard, "_RECORD", tmp_path / "scoreboard.json")
    row = {"what": "a fit", "here": {"seconds": 2.0, "processor": 1.0}, "peer": "", "there": None}
    beside = row | {"peer": "scipy", "there": {"seconds": 3.0, "processor": 4.0}}
    scoreboard.record({"report": row, "fit NIPS": row})
    scoreboard.record({"report": beside})
    assert json.loads((tmp_path / "scoreboard.json").read_text()) == {"fit NIPS": row, "report": beside}
    assert scoreboard.lines_of({"report": beside})[0][:-1] == ["a fit", "2.00", "1.00", "scipy", "3.00", "4.00", "0.25"]


def test_the_kept_rows_are_rows_of_the_scoreboard():
    found = json.loads(scoreboard._RECORD.read_text())
    assert set(found) <= set(scoreboard.ROWS)
    assert len(scoreboard.lines_of(found)[0]) == len(scoreboard.HEADER)
