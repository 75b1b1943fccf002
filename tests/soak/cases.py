"""A case: its number says which estimator or command, which rows, which settings and which checks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

os.environ.setdefault("DTREE_CACHE_DIR", str(Path(__file__).parents[2] / ".pytest_cache" / "dtree-kernels"))

from tests.soak.checks import CHECKS, Broken, Refused, fitted, only_sentences
from tests.soak.commands import run_commands
from tests.soak.models import KINDS
from tests.soak.rows import draw_rows

COMMANDS = "commands"
PER_SEED = 1_000_000  # cases of one seed have numbers of their own


class Outcome(NamedTuple):
    """How a case ended."""

    case: int
    kind: str
    what: str
    end: str  # "fine", "refused" or "broken"
    seconds: float
    broken: Exception | None = None

    def line(self) -> str:
        """One line that tells what happened and how to repeat it."""
        problem = f": {self.broken}" if self.broken is not None else ""
        return f"python -m tests.soak --case {self.case}  # {self.end}, {self.seconds:.1f} s, {self.what}{problem}"


def kinds_of_cases() -> list[str]:
    return [*KINDS, COMMANDS]


def outcome_of(case: int, only: str | None = None) -> Outcome:
    """Run one case. With `only` the case is one of that kind, with a number of its own."""
    rng = np.random.default_rng(case)
    kind = str(rng.choice(kinds_of_cases()))
    kind = kind if only is None else only
    began = time.monotonic()
    what = kind
    try:
        if kind == COMMANDS:
            with only_sentences():
                what = run_commands(rng)
            end = "refused" if ": refused" in what else "fine"
            return Outcome(case, kind, what, end, time.monotonic() - began)
        drawn = draw_rows(rng, KINDS[kind].most_rows)
        settings = KINDS[kind].settings(rng, drawn)
        what = f"{kind}({', '.join(f'{name}={value!r}' for name, value in settings.items())}) on {drawn.words}"
        with only_sentences():
            model = fitted(KINDS[kind].estimator(**settings), drawn)
        for check in CHECKS:
            with only_sentences():
                try:
                    check(model, drawn, rng)
                except ValueError as problem:
                    raise Broken(f"{check.__name__}: refused with {problem}") from problem
    except Refused as sentence:
        return Outcome(case, kind, f"{what}: {sentence}", "refused", time.monotonic() - began)
    except Broken as broken:
        again = f" --only {only}" if only is not None else ""
        return Outcome(case, kind, what + again, "broken", time.monotonic() - began, broken)
    return Outcome(case, kind, what, "fine", time.monotonic() - began)
