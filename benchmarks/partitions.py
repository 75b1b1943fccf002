"""One partition for many draws: how often the search finds the optimum, how long it takes, and its expected loss.

    python -m benchmarks.partitions [--sets 500] [--draws FILE.npy] [--skip-large]

First, sets of draws of at most seven rows, for which all partitions are looked at: variation of information and Binder's
loss, as they are and generalised. Then 10,000 rows and 1,000 draws. With --draws, labels (draws, rows) of any sampler:
the expected loss of the estimate, in bits as the R package salso prints it (`salso(draws, VI(a = 1.5))` is apart_cost 1.5).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import dtree
from benchmarks.measure import machine, print_table

LOSSES = [(loss, cost) for loss in ("vi", "binder") for cost in (1.0, 0.4, 1.6)]
MOST_ROWS = 7


def all_partitions(n: int) -> np.ndarray:
    """Labels (partitions, n), each numbered 0, 1, 2, ... in order of appearance."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, label] for labels in found for label in range(max(labels) + 2)]
    return np.array(found)


def expected_losses(draws: np.ndarray, estimates: np.ndarray, loss: str, apart_cost: float) -> np.ndarray:
    """Mean loss (p,) of estimates (p, n) over draws (draws, n), straight from the definition; VI in bits."""
    n, labels = draws.shape[1], int(max(draws.max(), estimates.max())) + 1

    def of(many: np.ndarray, codes: int) -> np.ndarray:
        counts = np.zeros((many.shape[0], codes))
        for column in many.T:
            counts[np.arange(many.shape[0]), column] += 1
        share = counts / n
        return (share * np.log2(np.where(share > 0, share, 1.0)) if loss == "vi" else share**2).sum(axis=1)

    mine, total = of(estimates, labels), np.zeros(estimates.shape[0])
    for draw in draws:
        both = of(estimates * labels + draw, labels**2)
        total += (2.0 - apart_cost) * (mine - both) + apart_cost * (of(draw[None], labels) - both)
    return total / draws.shape[0]


def small_sets(sets: int) -> Iterator[np.ndarray]:
    """Draws (draws, n) of at most seven rows: half of them anything, half scattered around one partition."""
    rng = np.random.default_rng(1900)
    for number in range(sets):
        n, many = int(rng.integers(2, MOST_ROWS + 1)), int(rng.integers(2, 30))
        k = int(rng.integers(1, n + 1))
        draws = rng.integers(0, k, (many, n))
        yield draws if number % 2 else np.where(rng.random((many, n)) < 0.3, draws, draws[0])


def hits(sets: int, loss: str, apart_cost: float) -> int:
    """For how many sets no partition has a smaller expected loss than the estimate."""
    found = 0
    for draws in small_sets(sets):
        estimate = dtree.point_estimate(draws, loss, apart_cost)
        every = np.vstack([estimate, all_partitions(draws.shape[1])])
        losses = expected_losses(draws, every, loss, apart_cost)
        found += int(losses[0] <= losses.min() + 1e-12)
    return found


def large(k: int, stray: float) -> list[list[object]]:
    """Seconds for 10,000 rows and 1,000 draws in k clusters, of which so many rows stray in every draw."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, k, 10_000)
    draws = np.where(rng.random((1000, 10_000)) < stray, rng.integers(0, k, (1000, 10_000)), base)
    lines: list[list[object]] = []
    for loss in ("vi", "binder"):
        began, processor = time.perf_counter(), time.process_time()
        estimate = dtree.point_estimate(draws, loss)
        took = [f"{time.process_time() - processor:.1f}", f"{time.perf_counter() - began:.1f}"]
        lines.append([k, f"{stray:.0%}", loss, int(estimate.max()) + 1, *took])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=500, help="sets of draws of few rows for every loss")
    parser.add_argument("--draws", type=Path, help="labels (draws, rows) as .npy")
    parser.add_argument("--skip-large", action="store_true", help="leave out 10,000 rows")
    arguments = parser.parse_args()
    print(machine())
    found = [[loss, cost, f"{hits(arguments.sets, loss, cost)} of {arguments.sets}"] for loss, cost in LOSSES]
    print_table("Optimum found, at most seven rows", ["loss", "apart_cost", "sets"], found)
    if not arguments.skip_large:
        header = ["clusters", "stray rows", "loss", "clusters found", "processor s", "s"]
        print_table("10,000 rows, 1,000 draws", header, large(10, 0.02) + large(30, 0.1))
    if arguments.draws is not None:
        draws, lines = np.load(arguments.draws), []
        for loss, cost in [(loss, cost) for loss in ("vi", "binder") for cost in (1.0, 0.5, 1.5)]:
            processor = time.process_time()
            estimate = dtree.point_estimate(draws, loss, cost)
            took = time.process_time() - processor
            value = float(expected_losses(draws, estimate[None], loss, cost)[0])
            lines.append([loss, cost, f"{value:.6f}", int(estimate.max()) + 1, took])
        print_table(str(arguments.draws), ["loss", "apart_cost", "expected loss", "clusters", "processor s"], lines)


if __name__ == "__main__":
    main()
