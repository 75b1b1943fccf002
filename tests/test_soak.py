"""A first stretch of the soak, the same cases every time; `python -m tests.soak --minutes 60` goes on."""

from __future__ import annotations

import pytest

from tests.soak.cases import PER_SEED, outcome_of

LONG = (136, 137, 143, 148, 152)  # need kernels that no other test does, which take up to a minute each to compile
CASES = [
    pytest.param(PER_SEED + case, marks=pytest.mark.slow) if case in LONG else PER_SEED + case
    for case in range(100, 160)  # about a minute on one core once kernels are compiled
]


@pytest.mark.parametrize("case", CASES)
def test_what_must_always_hold(case: int) -> None:
    found = outcome_of(case)
    assert found.broken is None, found.line()
