"""Watching chains while they run: where each is, and whether they agree so far."""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from dtree.cli.console import err
from dtree.methods.chain_records import ChainStatus, status_of
from dtree.methods.contract import Notice
from dtree.methods.facts import counted

_SECONDS_BETWEEN_LINES = 5.0  # in a log
_FEWEST_DRAWS = 8  # of a chain, before R-hat says anything


class Watch:
    """Collects the statuses of chains.

    >>> watch = Watch()
    >>> watch.take(ChainStatus(0, 0, 12, np.array([3, 4]), np.array([-9.0, -8.0]), 4, -8.0))
    >>> watch.rows()
    [('0', '12', '2', '4', '-8.0')]
    """

    def __init__(self) -> None:
        self.latest: dict[int, ChainStatus] = {}
        self.clusters: dict[int, list[np.ndarray]] = {}
        self.joint: dict[int, list[np.ndarray]] = {}

    def remember(self, run: str | os.PathLike[str]) -> None:
        """Take in what a stopped run already has."""
        from dtree.engine.drive import job_of
        from dtree.runs.run import Run

        job = job_of(Run.open(run))
        for chain in range(job.settings.chains):
            part = job.newest_part(chain)
            if part is not None:
                blocks = job.kept(chain)
                n_clusters = np.concatenate([block.n_clusters for block in blocks])
                log_joint = np.concatenate([block.log_joint for block in blocks])
                self.take(status_of(chain, part)._replace(n_clusters=n_clusters, log_joint=log_joint))

    def take(self, status: ChainStatus) -> None:
        """Add a block."""
        self.latest[status.chain] = status
        self.clusters.setdefault(status.chain, []).append(status.n_clusters)
        self.joint.setdefault(status.chain, []).append(status.log_joint)

    def rows(self) -> list[tuple[str, ...]]:
        """Chain, sweep, draws, clusters and log joint of every chain that has begun."""
        return [
            (
                str(chain),
                str(status.sweep),
                str(sum(part.shape[0] for part in self.clusters[chain])),
                str(status.now_clusters),
                f"{status.now_log_joint:.1f}",
            )
            for chain, status in sorted(self.latest.items())
        ]

    def r_hat(self) -> tuple[float, float]:
        """R-hat of the number of clusters and of the log joint, over the draws that all chains have; NaN before there
        are any."""
        from arviz_stats.base import array_stats

        found = []
        for series in (self.clusters, self.joint):
            parts = [np.concatenate(parts).astype(np.float64) for parts in series.values()]
            shortest = min((part.shape[0] for part in parts), default=0)
            if len(parts) < 2 or shortest < _FEWEST_DRAWS:
                found.append(math.nan)
                continue
            stacked = np.stack([part[:shortest] for part in parts])
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # constant chains have no R-hat; NaN says so
                found.append(float(array_stats.rhat(stacked, chain_axis=0, draw_axis=1)))
        return found[0], found[1]

    def agreement(self) -> str:
        """R-hat so far, in words."""
        clusters, joint = self.r_hat()
        if math.isnan(joint):
            return "R-hat: not enough draws yet"
        return f"R-hat so far: clusters {clusters:.3f}, log joint {joint:.3f}"

    def line(self) -> str:
        """Everything in one line, for a log."""
        draws = [sum(part.shape[0] for part in parts) for parts in self.clusters.values()]
        clusters = [status.now_clusters for status in self.latest.values()]
        best = max(status.now_log_joint for status in self.latest.values())
        return (
            f"{counted(len(draws), 'chain')}, {_range(min(draws), max(draws), 'draw')}, "
            f"{_range(min(clusters), max(clusters), 'cluster')}, best log joint {best:.1f}, {self.agreement()}"
        )


def _range(low: int, high: int, what: str) -> str:
    """How many there are.

    >>> _range(1, 1, "draw"), _range(2, 5, "draw")
    ('1 draw', '2 to 5 draws')
    """
    return counted(low, what) if low == high else f"{low} to {counted(high, what)}"


@contextmanager
def chain_table(sampler: str, run: str | os.PathLike[str] | None = None) -> Iterator[Callable[[Any], None]]:
    """A callback that shows where every chain is: a live table for a person, now and then a plain line for a log.

    run : a stopped run whose chains go on.
    """
    console, watch = err(), Watch()
    if run is not None:
        with suppress(ValueError):  # who carries the run on says what is damaged
            watch.remember(run)
    if not console.is_terminal:
        last = [time.monotonic()]

        def line(status: Any) -> None:
            if isinstance(status, Notice):
                console.print(status.line(), markup=False)
                return
            watch.take(status)
            if time.monotonic() - last[0] >= _SECONDS_BETWEEN_LINES:
                last[0] = time.monotonic()
                console.print(watch.line(), markup=False)

        yield line
        return
    from rich.live import Live

    with Live(console=console, refresh_per_second=4, transient=True) as live:

        def show(status: Any) -> None:
            if isinstance(status, Notice):
                live.console.print(status.line(), markup=False)
                return
            watch.take(status)
            live.update(_table(watch, sampler))

        yield show


def _table(watch: Watch, sampler: str) -> Any:
    from rich.table import Table

    table = Table("chain", "sweep", "draw", "clusters", "log joint", title=sampler, box=None, header_style="dim")
    for row in watch.rows():
        table.add_row(*row)
    table.caption = watch.agreement()
    return table
