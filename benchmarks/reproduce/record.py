"""What an experiment leaves: rows with the paper's value beside ours and a verdict, a picture, and where it ran.

**The rule of the verdicts.** One of three words, by the same rule everywhere:

| the paper gives | reproduced | close | differs |
| --- | --- | --- | --- |
| a number | within 2 standard errors (both sides' together) or 2% | within 5 standard errors or 10% | else |
| a claim that one side wins | it wins by the mean over repetitions | it loses by less than 2 standard errors | else |
| a claim with a threshold | the threshold, stated in the row, is met | it is missed by less than a factor of two | else |
| a time | ours is not longer | up to twice as long | else |

Times say little across fifteen years of machines, and "differs" does not mean "wrong": the note of a row says what is
known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

REPRODUCED, CLOSE, DIFFERS = "reproduced", "close", "differs"


@dataclass
class Row:
    """One line of a table: what is compared, the paper's value, ours, the verdict, and what a reader should know."""

    what: str
    paper: str
    ours: str
    verdict: str
    note: str = ""


@dataclass
class Setting:
    """How to run: where the data are, how much to spend, where pictures go."""

    data: Path
    quick: bool
    pictures: Path

    def pick(self, quick: int, full: int) -> int:
        """A size for each mode."""
        return quick if self.quick else full

    def pick_list(self, quick: list[int], full: list[int]) -> list[int]:
        """Sizes for each mode."""
        return quick if self.quick else full


@dataclass
class Experiment:
    """One table or figure of a paper; `run` returns rows and names of pictures in `Setting.pictures` with spaces
    between, or None."""

    key: str
    where: str
    claim: str
    run: Callable[[Setting], tuple[list[Row], str | None]]


@dataclass
class Paper:
    """A paper, what is done again of it, and what is not, with the reason."""

    key: str
    title: str
    experiments: list[Experiment]
    not_redone: list[tuple[str, str]]
    remark: str = ""


@dataclass
class Finding:
    """The result of one experiment, as it is kept on disk."""

    paper: str
    key: str
    rows: list[Row]
    picture: str | None
    mode: str
    seconds: float
    commit: str
    machine: str
    made: str
    failure: str = ""

    def save(self, folder: Path) -> None:
        """Write it under its own name, so that a page can be put together from several runs."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.paper}-{self.key}.json").write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, paper: str, key: str) -> Finding | None:
        """The last result of an experiment, if there is one."""
        path = folder / f"{paper}-{key}.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**found, "rows": [Row(**row) for row in found["rows"]]})


@dataclass
class Sample:
    """A mean over repetitions with its standard error.

    >>> Sample.of([1.0, 2.0, 3.0]).text(2)
    '2.00 ± 0.58'
    """

    mean: float
    error: float = 0.0
    values: np.ndarray = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, values: object) -> Sample:
        """Mean and standard error of repeated values."""
        found = np.asarray(values, dtype=float)
        error = float(found.std(ddof=1) / math.sqrt(found.size)) if found.size > 1 else 0.0
        return cls(float(found.mean()), error, found)

    def text(self, digits: int = 3) -> str:
        """For reading."""
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


def number_verdict(ours: Sample, paper: float, paper_error: float = 0.0) -> str:
    """The verdict on a number.

    >>> number_verdict(Sample(1.0, 0.1), 1.15), number_verdict(Sample(1.0, 0.1), 1.4), number_verdict(Sample(1.0), 3.0)
    ('reproduced', 'close', 'differs')
    """
    gap, error = abs(ours.mean - paper), math.hypot(ours.error, paper_error)
    if gap <= max(2.0 * error, 0.02 * abs(paper)):
        return REPRODUCED
    return CLOSE if gap <= max(5.0 * error, 0.10 * abs(paper)) else DIFFERS


def wins_verdict(differences: object) -> str:
    """The verdict on a claim that one side wins, from paired differences (the claimed winner's less the other's).

    >>> wins_verdict([0.1, 0.2]), wins_verdict([-0.1, 0.05, -0.02]), wins_verdict([-1.0, -1.1, -0.9])
    ('reproduced', 'close', 'differs')
    """
    found = Sample.of(differences)
    if found.mean >= 0:
        return REPRODUCED
    return CLOSE if -found.mean < 2.0 * found.error else DIFFERS


def threshold_verdict(value: float, threshold: float) -> str:
    """The verdict on a claim that something reaches a threshold; a negative threshold is a loss that may not be
    exceeded.

    >>> threshold_verdict(0.9, 0.8), threshold_verdict(0.5, 0.8), threshold_verdict(0.1, 0.8)
    ('reproduced', 'close', 'differs')
    >>> threshold_verdict(-0.05, -0.1), threshold_verdict(-0.15, -0.1), threshold_verdict(-0.3, -0.1)
    ('reproduced', 'close', 'differs')
    """
    if value >= threshold:
        return REPRODUCED
    return CLOSE if value >= (0.5 * threshold if threshold > 0 else 2.0 * threshold) else DIFFERS


def time_verdict(ours: float, paper: float) -> str:
    """The verdict on a time, in the same unit."""
    if ours <= paper:
        return REPRODUCED
    return CLOSE if ours <= 2.0 * paper else DIFFERS
