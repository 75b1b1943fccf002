"""The folder of a diffusion-tree run: what is read from it and written to it.

run/                           a zarr group (format 3), method "diffusion"
  prepared/                    units, leaves and noise, found once before the walks
  walks/walk-0003/gen-00000120 walk 3 after 120 steps and sweeps: tree, messages, best trees, draws, generator
  posterior/                   the result: best trees with their evidences, sampled trees, weights
"""

from __future__ import annotations

import os
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

from dtree.diffusion.posterior import Posterior
from dtree.diffusion.prepare import Prepared
from dtree.diffusion.records import Pieces, posterior_from_pieces, prepared_from_pieces
from dtree.diffusion.settings import Settings
from dtree.diffusion.walk import Walk, plan_of, walk_from_arrays
from dtree.engine.diffusion_estimator import DiffusionTree
from dtree.engine.folder import RunFolder, write_in_place


class DiffusionResult(NamedTuple):
    """What a finished run holds; `open_run` gives the fitted model."""

    path: Path
    log_evidence: float  # of the best tree; with "mcmc" the highest log joint density
    n_trees: int
    n_leaves: int
    converged: bool


def open_run(path: str | os.PathLike[str]) -> DiffusionTree:
    """The fitted `DiffusionTree` of a finished run."""
    run = RunFolder(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it")
    prepared = read_prepared(run)
    model = model_of(run).put_together(prepared, read_posterior(run, prepared))
    names = run.attributes.get("row_names")
    if names is not None and len(names) == model.labels_.size:
        model.row_names_ = np.array(names, dtype=object)
    return model


def read_result(path: str | os.PathLike[str]) -> DiffusionResult:
    """What a finished run holds."""
    run = RunFolder(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it")
    at = run.attributes
    return DiffusionResult(
        run.path, float(at["log_evidence"]), int(at["n_trees"]), int(at["n_leaves"]), bool(at["converged"])
    )


def steps_done(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Steps and sweeps done by all walks of a run, and all there are (0 while the rows are being prepared)."""
    run = RunFolder(path)
    if not (run.path / "prepared").exists():
        return 0, 0
    settings = settings_of(run)
    length = plan_of(settings, read_prepared(run).leaves.mean.shape[0]).length * settings.n_permutations
    if run.done:
        return length, length
    done = [_generations(run, number) for number in range(settings.n_permutations)]
    return sum(steps[-1] for steps in done if steps), length


def settings_of(run: RunFolder) -> Settings:
    stored: dict[str, Any] = dict(run.attributes["settings"])
    stored |= {name: tuple(stored[name]) for name in ("precision_prior", "c_prior")}  # JSON knows lists only
    return Settings(**stored)


def model_of(run: RunFolder) -> DiffusionTree:
    return DiffusionTree(**settings_of(run)._asdict(), random_state=int(run.attributes["seed"]))


def _walk_path(run: RunFolder, number: int) -> Path:
    return run.path / "walks" / f"walk-{number:04d}"


def _generations(run: RunFolder, number: int) -> list[int]:
    return sorted(int(path.name[4:]) for path in _walk_path(run, number).glob("gen-*"))


def commit_walk(run: RunFolder, number: int, done: int, pieces: Pieces) -> None:
    """Make a walk's standing permanent; the one before it is kept as well."""
    folder = _walk_path(run, number)
    folder.mkdir(parents=True, exist_ok=True)
    write_in_place(folder / f"gen-{done:08d}", *pieces)
    for old in _generations(run, number)[:-2]:
        shutil.rmtree(folder / f"gen-{old:08d}", ignore_errors=True)


def read_walk(run: RunFolder, number: int) -> Walk | None:
    generations = _generations(run, number)
    if not generations:
        return None
    return walk_from_arrays(*_read_group(_walk_path(run, number) / f"gen-{generations[-1]:08d}"))


def finished_walk(run: RunFolder, number: int) -> Walk:
    walk = read_walk(run, number)
    if walk is None:
        raise RuntimeError(f"walk {number} of {run.path} has no checkpoint: the run's folder was changed from outside")
    return walk


def _read_group(path: Path) -> Pieces:
    group: Any = zarr.open_group(str(path), mode="r")
    return {name: np.asarray(array[...]) for name, array in group.arrays()}, dict(group.attrs)


def read_prepared(run: RunFolder) -> Prepared:
    try:
        return prepared_from_pieces(*_read_group(run.path / "prepared"))
    except (KeyError, TypeError, FileNotFoundError) as problem:
        raise ValueError(f"{run.path} is damaged: its prepared rows are missing or incomplete") from problem


def read_posterior(run: RunFolder, prepared: Prepared) -> Posterior:
    try:
        return posterior_from_pieces(*_read_group(run.path / "posterior"), prepared)
    except (KeyError, TypeError, FileNotFoundError) as problem:
        raise ValueError(f"{run.path} is damaged: its posterior is missing or incomplete") from problem


@lru_cache(maxsize=2)
def opened_run(path: str, run_id: str) -> tuple[RunFolder, Prepared]:
    run = RunFolder(path)
    return run, read_prepared(run)


@lru_cache(maxsize=2)
def opened_model(path: str, run_id: str) -> DiffusionTree:
    return open_run(path)
