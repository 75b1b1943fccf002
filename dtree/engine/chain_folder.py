"""The folder of a run of chains: what is sampled, and every chain's draws in blocks.

    run/
      zarr.json                     attributes: method "chains", settings (the estimator's), warmup, seed, data, labels_column
      model/ statistics/atoms (m, s) statistics/columns
      chains/0003/block-00000007    draws of the eighth block of chain 3: labels (draws, m) in the smallest unsigned type,
                                    prior (draws, p), log_joint, n_clusters, seconds; and where the chain stood after it:
                                    state_*, generator, sweep
      posterior/ labels             at the end: an xarray DataTree in ArviZ's schema, and the point estimate

A block is written beside, flushed and renamed, its draws and the chain's state together: a chain that dies repeats at most one
block, and goes on bit for bit. Only the newest two blocks keep the state.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

from dtree.engine.folder import RunFolder, write_in_place
from dtree.mcmc.run import Checkpoint, Draws

_STATE = ("state_", "generator", "sweep")


class ChainStatus(NamedTuple):
    """Where a chain stands after a block, and the numbers it drew in it."""

    chain: int
    block: int
    sweep: int
    n_clusters: np.ndarray  # (draws of the block,)
    log_joint: np.ndarray  # (draws of the block,)
    now_clusters: int  # at the last sweep, also during warm-up
    now_log_joint: float


class ChainRun(RunFolder):
    """A run of chains."""

    @property
    def settings(self) -> dict[str, Any]:
        """Parameters of the estimator, without family and prior."""
        return dict(self.attributes["settings"])

    @property
    def sweeps(self) -> int:
        """Sweeps of a whole chain."""
        return int(self.attributes["warmup"]) + self.settings["draws"] * self.settings["thin"]

    def array(self, name: str) -> np.ndarray:
        """A small array of the run, whole."""
        return np.asarray(zarr.open_array(str(self.path / name), mode="r")[...])

    def chain_path(self, chain: int) -> Path:
        """The folder of a chain."""
        return self.path / "chains" / f"{chain:04d}"

    def blocks(self, chain: int) -> list[Path]:
        """The committed blocks of a chain, in order."""
        return sorted(self.chain_path(chain).glob("block-*"))

    def checkpoint(self, chain: int) -> tuple[int, Checkpoint] | None:
        """Number of blocks and the state after the last, or None for a chain that has not begun."""
        found = self.blocks(chain)
        if not found:
            return None
        group = _open(found[-1])
        arrays = {name: np.asarray(array[...]) for name, array in group.arrays() if name.startswith(_STATE)}
        return len(found), {n: v.reshape(()) if n in group.attrs["scalars"] else v for n, v in arrays.items()}

    def commit_block(self, chain: int, block: int, draws: Draws, checkpoint: Checkpoint) -> None:
        """Make a block permanent; then the state before the last but one is forgotten."""
        folder = self.chain_path(chain)
        zarr.open_group(str(folder), mode="a", zarr_format=3)
        for orphan in folder.glob(".writing-*"):
            shutil.rmtree(orphan, ignore_errors=True)
        scalars = [name for name, values in checkpoint.items() if values.ndim == 0]  # which come back as (1,)
        write_in_place(
            folder / f"block-{block:08d}", {**draws._asdict(), **checkpoint}, {"chain": chain, "scalars": scalars}
        )
        if block >= 2:
            old = folder / f"block-{block - 2:08d}"
            for name in (path.name for path in old.iterdir() if path.name.startswith(_STATE)):
                shutil.rmtree(old / name, ignore_errors=True)

    def draws(self, chain: int) -> Draws:
        """All draws of a chain so far."""
        found = self.blocks(chain)
        if not found:
            return Draws(*(np.empty(0) for _ in Draws._fields))
        groups = [_open(path) for path in found]
        return Draws(*(np.concatenate([np.asarray(group[name][...]) for group in groups]) for name in Draws._fields))

    def traces(self, chain: int) -> tuple[np.ndarray, np.ndarray, int]:
        """n_clusters and log joint of the draws so far, and the number of sweeps done; partitions are not read."""
        groups = [_open(path) for path in self.blocks(chain)]
        if not groups:
            return np.empty(0, dtype=np.int64), np.empty(0), 0
        clusters, joint = (
            np.concatenate([np.asarray(g[name][...]) for g in groups]) for name in ("n_clusters", "log_joint")
        )
        return clusters, joint, int(groups[-1]["sweep"][0])


def _open(path: Path) -> Any:
    try:
        return zarr.open_group(str(path), mode="r")
    except Exception as problem:
        raise ValueError(f"{path} cannot be read: the run's folder is damaged") from problem
