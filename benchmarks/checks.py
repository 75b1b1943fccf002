"""What it costs that rows are compared with what they were at the first reading, as a share of a pass.

    python -m benchmarks.checks --folder DIR [--rows 1000000]

Every chunk of rows is checked whenever it is read again. The clock runs inside the check itself, so the share is not a
difference of two long times; CPU seconds, since the machine may be shared. The cheapest pass there is (few columns,
few clusters) is the hardest case. The aim is at most 3 % of a pass.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import dtree.methods.contract as contract
from benchmarks.engine import cpu_seconds, write_rows
from benchmarks.measure import machine, print_table
from dtree.engine.drive import Given, Place, drive
from dtree.methods import method_named
from dtree.methods.settings import checked

CASES = (  # method and settings, columns, clusters
    ("bayes-kmeans", {"family": "gaussian-diag"}, 4, 4),
    ("bayes-kmeans", {"family": "gaussian-diag"}, 16, 64),
    ("bayes-kmeans", {"family": "gaussian"}, 16, 64),
    ("vb", {"family": "gaussian-diag", "truncation": 8}, 4, 4),
)


class Clock:
    """The check of a chunk, with a clock around it."""

    def __init__(self, check: Any) -> None:
        self.check, self.spent, self.chunks = check, 0.0, 0

    def __call__(self, *arguments: Any) -> None:
        began = time.thread_time()
        self.check(*arguments)
        self.spent += time.thread_time() - began
        self.chunks += 1


def share(
    name: str, settings: dict[str, Any], passes: int, source: Path, out: Path, clock: Clock
) -> tuple[int, float, float]:
    """Passes measured, CPU seconds of a pass, and of its checks: the median pass after the first."""
    noted: list[tuple[float, float, int]] = []

    def note(_: Any) -> None:
        noted.append((cpu_seconds(), clock.spent, clock.chunks))

    method = method_named(name)
    few = {"max_iter": passes, "patience": passes, "tol": 0.0, "sample_rows": 4000}  # nothing ends it before the last
    drive(method, checked(method.Settings, {**settings, **few}), Given(source), Place(out, overwrite=True), 0, note)
    steps = np.diff(np.array(noted), axis=0)
    steps = steps[steps[:, 2] > 0]  # a step that reads no rows is no pass
    whole, checks, _ = steps[np.argsort(steps[:, 1] / steps[:, 0])[steps.shape[0] // 2]]
    return steps.shape[0], whole, checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("checks-benchmark"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=6)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    clock = Clock(contract.check_rows_seen)
    contract.check_rows_seen = clock
    rows = []
    for number, (name, settings, d, k) in enumerate(CASES):
        source, out = options.folder / f"rows-{options.rows}x{d}.zarr", options.folder / f"run-{number}"
        write_rows(source, options.rows, d, k)
        n_passes, whole, checks = share(name, settings, options.passes, source, out, clock)
        what = f"{name}, {settings['family']}"
        rows.append([what, d, k, n_passes, whole, f"{checks:.4f}", f"{100 * checks / whole:.2f} %"])
    print(machine())
    header = ["fit", "columns", "clusters", "passes", "CPU s a pass", "of it checks", "share"]
    print_table(f"Checks of {options.rows:,} rows", header, rows)


if __name__ == "__main__":
    main()
