"""Watching chains while they run: where each is, and whether they agree so far."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np

from dtree.engine.chain_folder import ChainRun, ChainStatus

_FEWEST_DRAWS = 8


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
        folder = ChainRun(run)
        for chain in range(folder.settings["chains"]):
            n_clusters, log_joint, sweep = folder.traces(chain)
            found = folder.checkpoint(chain)
            if found is not None:
                now = int(found[1]["state_labels"].max()) + 1, float(found[1]["state_log_joint"])
                self.take(ChainStatus(chain, found[0] - 1, sweep, n_clusters, log_joint, *now))

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
        """R-hat of the number of clusters and of the log joint, over the draws that all chains have; NaN before there are any."""
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
            f"{_range(len(draws), len(draws), 'chain')}, {_range(min(draws), max(draws), 'draw')}, "
            f"{_range(min(clusters), max(clusters), 'cluster')}, best log joint {best:.1f}, {self.agreement()}"
        )


def _range(low: int, high: int, what: str) -> str:
    """How many there are.

    >>> _range(1, 1, "chain"), _range(2, 5, "draw")
    ('1 chain', '2 to 5 draws')
    """
    return f"{low if low == high else f'{low} to {high}'} {what}{'' if low == high == 1 else 's'}"
