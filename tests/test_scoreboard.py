"""The scoreboard on few rows: every row still runs and its answer is right; times are not looked at."""

from __future__ import annotations

import json

import pytest

from benchmarks import scoreboard

# In processes of their own, or with kernels that nothing else here needs.
SLOW = ("csv 569 x 30", "csv 6,435 x 36", "report", "first run", "chain of 5 rows")


@pytest.mark.parametrize("name", [name for name in scoreboard.ROWS if name not in SLOW])
def test_a_quick_row_has_the_right_answer(name, tmp_path):
    took = scoreboard.ROWS[name](scoreboard.Asked(True, None, tmp_path))
    assert took is None or took.here > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_a_slow_row_has_the_right_answer(name, tmp_path):
    took = scoreboard.ROWS[name](scoreboard.Asked(True, None, tmp_path))
    assert took is None or took.here > 0


def test_the_last_release_names_rows_that_are_there():
    assert set(json.loads(scoreboard._LAST_RELEASE.read_text())) <= set(scoreboard.ROWS)
