"""Markov chains as resumable tasks: every chain streams its draws into the run's folder, block by block."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from distributed import Client

from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.names import take_names
from dtree.core.priors import PRIORS, Prior
from dtree.engine.chain_estimator import DPMixtureMCMC
from dtree.engine.chain_folder import ChainRun, ChainStatus
from dtree.engine.execute import executor
from dtree.engine.folder import write_array
from dtree.engine.inputs import in_memory, with_names
from dtree.engine.tasks import with_room
from dtree.hierarchy.defaults import named
from dtree.mcmc.estimator import InMemoryDPMixtureMCMC
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import Checkpoint, Draws, begin_chain, run_chain
from dtree.store.readers import read_rows
from dtree.store.run import made_by_passes

OnProgress = Callable[[ChainStatus], None]

BLOCK_SECONDS = (
    2.0  # a block is committed after about so long: seldom enough to cost nothing, often enough to lose little
)
BLOCK_BYTES = 64_000_000  # or when its partitions take so much memory
MOST_LEAVES = 200_000
_SETTINGS = ("sampler", "chains", "draws", "thin", "resample_hyperparameters", "loss")


def sample_dataset(
    data_or_run: Any,
    out: str | os.PathLike[str],
    sampler: str = "tgmcmc",
    chains: int = 4,
    draws: int = 1000,
    *,
    warmup: int | None = None,
    thin: int = 1,
    family: str | Family | None = None,
    prior: str | Prior | None = None,
    resample_hyperparameters: bool = True,
    coarsening: float | None = None,
    loss: str = "vi",
    seed: int = 0,
    labels_column: str | None = None,
    block_draws: int | None = None,
    client: Client | None = None,
    progress: OnProgress | None = None,
) -> Path:
    """Run the chains of `DPMixtureMCMC` into the new folder `out`; returns it.

    `data_or_run` is an array, a data file (its rows are the leaves of every partition), or a finished run of
    `dtree.engine.fit.fit_dataset`: then its clusters are the leaves, of any number of rows, under its own family. With a `client` the
    workers run the chains and must see `out` under the same name; the draws are those of `DPMixtureMCMC(random_state=seed)` in one
    process, whatever the number of workers. If anything fails, `resume(out)` carries on; a chain repeats at most one block.

    >>> import tempfile
    >>> from dtree.core.families import DiagonalGaussian
    >>> X = np.random.default_rng(0).normal(size=(20, 1)) + np.repeat([[0.0], [9.0]], 10, axis=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     family = DiagonalGaussian([4.0], 0.05, 3.0, [3.0])
    ...     run = sample_dataset(X, folder + "/run", "gibbs", chains=2, draws=20, warmup=10, family=family)
    ...     model = open_run(run)
    >>> model.n_clusters_, model.partitions_.shape
    (2, (2, 20, 20))
    """
    out = Path(out)
    if (out / "zarr.json").exists():
        raise ValueError(f"{out} already holds a run: resume it, or choose another folder")
    estimator = InMemoryDPMixtureMCMC(
        sampler, family or "gaussian", prior or "dp", chains=chains, draws=draws, warmup=warmup, thin=thin,
        resample_hyperparameters=resample_hyperparameters, coarsening=1.0 if coarsening is None else coarsening,
        loss=loss, random_state=seed,
    )  # fmt: skip
    estimator._check_settings()
    if isinstance(data_or_run, str | os.PathLike) and made_by_passes(Path(data_or_run)):
        origin = _prepare_from_run(estimator, Path(data_or_run), family, prior, coarsening)
    else:
        origin = _prepare_from_rows(estimator, data_or_run, labels_column)
    # Names are kept as they were given; objects come back with the model.
    names = {name: value for name, value in (("family", family), ("prior", prior)) if isinstance(value, str)}
    return _begin(_new_run(out, estimator, origin, names, block_draws), client, progress)


def run_chains(estimator: DPMixtureMCMC, out: Path, client: Client | None) -> list[tuple[Draws, Checkpoint]]:
    """Run the chains of an estimator whose leaves are prepared into the new folder `out`; what each drew, and where it stopped."""
    names = {name: value for name in ("family", "prior") if isinstance(value := getattr(estimator, name), str)}
    origin = {"data": "an array", "leaves": "rows", "labels_column": None}
    return _results(ChainRun(_begin(_new_run(out, estimator, origin, names), client, None)))


def _new_run(
    out: Path,
    estimator: InMemoryDPMixtureMCMC,
    origin: dict[str, Any],
    names: dict[str, str],
    block_draws: int | None = None,
) -> ChainRun:
    settings = {name: getattr(estimator, name) for name in _SETTINGS}
    seed = estimator.random_state if isinstance(estimator.random_state, int) else None
    run = ChainRun.create(
        out,
        "chains",
        {
            **origin,
            "settings": {**settings, **names, "warmup": estimator.warmup, "random_state": seed},
            "warmup": estimator._warmup,
            "seed": estimator._seed,
            "block_draws": block_draws or _draws_per_block(estimator.atoms_.shape[0], estimator.draws),
            "versions": {name: version(name) for name in ("numpy", "numba", "zarr", "dask", "scipy")},
            "command": sys.argv,
            "prepared": False,
        },
    )
    with_room(lambda: _write_problem(run, estimator), str(out))
    return run


def _prepare_from_rows(estimator: InMemoryDPMixtureMCMC, data: Any, labels_column: str | None) -> dict[str, Any]:
    source = "an array"
    if isinstance(data, str | os.PathLike):
        rows = read_rows(str(data), labels_column=labels_column)
        source, data = str(data), with_names(rows)
    else:
        data = take_names(in_memory(data))
    if data.X.shape[0] > MOST_LEAVES:
        raise ValueError(
            f"{data.X.shape[0]:,} rows are too many leaves for a chain (at most {MOST_LEAVES:,}): reduce them first with "
            "'dtree fit --method bayes-kmeans' and sample over the clusters of that run"
        )
    estimator._prepare(data)
    return {"data": source, "leaves": "rows", "labels_column": labels_column}


def _prepare_from_run(
    estimator: InMemoryDPMixtureMCMC, path: Path, family: Any, prior: str | Prior | None, coarsening: float | None
) -> dict[str, Any]:
    """The clusters of a finished run in passes as atoms."""
    from dtree.engine.methods import method_of
    from dtree.engine.runs import Run

    if method_of(path) != "bayes-kmeans":
        raise ValueError(
            f"{path} is a run of '{method_of(path)}', which has no clusters to sample over: use 'dtree fit'"
        )
    run = Run(path)
    if not run.done:
        raise ValueError(f"{path} is not finished: resume it first")
    if family is not None or coarsening is not None:
        raise ValueError(f"{path} is a run with a family and a coarsening of its own: leave those options out")
    model = run.model()
    if prior is not None:
        chosen = prior if isinstance(prior, Prior) else named(PRIORS, prior, "prior")()
        model = Model(model.family, chosen, model.coarsening)
    estimator.coarsening = model.coarsening
    estimator.columns_ = np.arange(run.source.shape[1])
    estimator.n_features_in_ = run.source.shape[1]
    atoms = np.asarray(zarr.open_array(str(path / "statistics" / "clusters"), mode="r")[...])
    estimator._start_from(model, atoms)
    return {"data": str(path.resolve()), "leaves": "clusters", "labels_column": None}


def _write_problem(run: ChainRun, estimator: InMemoryDPMixtureMCMC) -> None:
    run.write_model(estimator.model_)
    group = zarr.open_group(str(run.path / "statistics"), mode="w", zarr_format=3)
    write_array(group, "atoms", estimator.atoms_)
    write_array(group, "columns", estimator.columns_)
    rows, features = getattr(estimator, "row_names_", None), getattr(estimator, "feature_names_in_", None)
    run.update(
        n_features=int(estimator.n_features_in_),
        feature_names=None if features is None else list(features),
        row_names=None if rows is None else list(rows),
        prepared=True,
    )


def _draws_per_block(m: int, draws: int) -> int:
    return max(1, min(draws, BLOCK_BYTES // (4 * m)))


# One chain -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _problem_of(path: str, run_id: str) -> tuple[ChainRun, Model, np.ndarray]:
    run = ChainRun(path)
    return run, run.model(), run.array("statistics/atoms")


def chain_task(path: str, run_id: str, chain: int) -> ChainStatus:
    """The next block of a chain: read where it stands, sample, commit."""
    run, model, atoms = _problem_of(path, run_id)
    settings = run.settings
    # Made anew each time: it holds a workspace, which chains in threads of one process must not share.
    problem = Problem(model, atoms, settings["resample_hyperparameters"])
    found = run.checkpoint(chain)
    block, checkpoint = found or (0, begin_chain(problem, settings["sampler"], run.attributes["seed"], chain))
    done, warmup = int(checkpoint["sweep"]), int(run.attributes["warmup"])
    sweeps = min(run.sweeps - done, run.attributes["block_draws"] * settings["thin"])
    draws, checkpoint = run_chain(
        problem, settings["sampler"], checkpoint, sweeps, warmup, settings["thin"], time_limit=BLOCK_SECONDS
    )
    if sweeps > 0:
        with_room(lambda: run.commit_block(chain, block, draws, checkpoint), path)
    return ChainStatus(
        chain,
        block,
        int(checkpoint["sweep"]),
        draws.n_clusters,
        draws.log_joint,
        int(checkpoint["state_labels"].max()) + 1,
        float(checkpoint["state_log_joint"]),
    )


# All chains ----------------------------------------------------------------------------------------------------------


def resume(path: str | os.PathLike[str], client: Client | None = None, progress: OnProgress | None = None) -> Path:
    """Carry the chains of a run on from their last blocks; a finished run is left as it is."""
    run = ChainRun(path)
    if not run.attributes.get("prepared"):
        raise ValueError(f"{run.path} was stopped before its data were read: remove the folder and sample again")
    return _carry_on(run, client, progress)


def _begin(run: ChainRun, client: Client | None, progress: OnProgress | None) -> Path:
    """The first go; chains that cannot even start leave nothing behind."""
    try:
        return _carry_on(run, client, progress)
    except ValueError:
        if not any(run.blocks(chain) for chain in range(run.settings["chains"])):
            shutil.rmtree(run.path, ignore_errors=True)
        raise


def _carry_on(run: ChainRun, client: Client | None, progress: OnProgress | None) -> Path:
    if run.done:
        return run.path
    path, workers, sweeps = str(run.path.resolve()), executor(client), run.sweeps
    left = [chain for chain in range(run.settings["chains"]) if run.traces(chain)[2] < sweeps]
    arguments = [(path, run.run_id, chain) for chain in left]
    for status in workers.streams(chain_task, arguments, lambda status: status.sweep < sweeps):
        if progress is not None:
            progress(status)
    with_room(lambda: _finish(run), path)
    return run.path


def _finish(run: ChainRun) -> None:
    """Write the posterior and the point estimate; can be done again after a crash."""
    estimator = _fitted(run)
    shutil.rmtree(run.path / "posterior", ignore_errors=True)
    estimator.posterior_.to_zarr(str(run.path / "posterior"), zarr_format=3, consolidated=False, mode="w")
    group = zarr.open_group(str(run.path), mode="a", zarr_format=3)
    write_array(group, "labels", estimator.labels_.astype(np.int32))
    run.update(status="done", n_clusters=estimator.n_clusters_)


def open_run(path: str | os.PathLike[str]) -> DPMixtureMCMC:
    """The fitted estimator of a finished run, as if it had been fitted in this process.

    Over the clusters of a run in passes, `labels_` and `partitions_` are those of its clusters, not of its rows.
    """
    run = ChainRun(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it")
    return _fitted(run)


def _fitted(run: ChainRun) -> DPMixtureMCMC:
    model = run.model()
    estimator = DPMixtureMCMC(family=model.family, prior=model.prior, coarsening=model.coarsening)
    estimator.set_params(**run.settings)
    estimator.columns_ = run.array("statistics/columns")
    estimator.n_features_in_ = int(run.attributes["n_features"])
    for name, attribute in (("feature_names", "feature_names_in_"), ("row_names", "row_names_")):
        if run.attributes.get(name) is not None:
            setattr(estimator, attribute, np.array(run.attributes[name], dtype=object))
    estimator._start_from(model, run.array("statistics/atoms"))
    estimator._seed = int(run.attributes["seed"])
    estimator._finish(_results(run))
    return estimator


def _results(run: ChainRun) -> list[tuple[Draws, Checkpoint]]:
    """The draws of all chains, which must be complete, and where each stopped."""
    results, wanted = [], run.settings["draws"]
    for chain in range(run.settings["chains"]):
        found = run.checkpoint(chain)
        draws = run.draws(chain)
        if found is None or draws.log_joint.shape[0] != wanted:
            raise ValueError(f"{run.path} is damaged: chain {chain} has {draws.log_joint.shape[0]} draws, not {wanted}")
        results.append((draws, found[1]))
    return results
