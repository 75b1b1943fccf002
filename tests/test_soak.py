"""A first stretch of the soak, the same cases every time; `python -m tests.soak --minutes 60` goes on."""

from __future__ import annotations

import pytest

from tests.soak.cases import PER_SEED, outcome_of

CASES = range(PER_SEED + 100, PER_SEED + 160)  # about a minute on one core once kernels are compiled


@pytest.mark.parametrize("case", CASES)
def test_what_must_always_hold(case: int) -> None:
    found = outcome_of(case)
    assert found.broken is None, found.line()
