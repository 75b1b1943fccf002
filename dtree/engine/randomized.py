"""Randomised BHC as passes (Heller & Ghahramani 2005b): a tree for more rows than exact BHC can take, from the top down.

The rows of a node are known by a random sample of them. Exact BHC on the sample gives the clusters in it and the top split; one pass over
the data then sends every row of every open node to the side of the cluster that claims it, and takes the statistics and
a sample of each side on the way. So a level of the tree costs one pass, whatever its width. A node is left whole when its sample is one
cluster, and is resolved into its clusters at once when the sample is all there is.

A cluster so small that no sample of its node holds some of its rows is never seen: its rows go where they fit best.

The leaves are atoms (clusters of rows), the tree over them is approximate, its potentials and its bound are exact. Rows meet only frozen
statistics and keyed random numbers, so the answer does not depend on who did the work.

    checkpoints/gen-00000003    the tree so far and the clusters that rows will be filtered by in pass 4
    passes/labels-00000003      the node (n,) int32 of every row after pass 3
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from dtree.core.families import Family
from dtree.core.model import Model
from dtree.core.priors import Prior
from dtree.core.tree import Tree
from dtree.engine.begin import Wanted, begin_run, nothing_half_made
from dtree.engine.checks import check_clusters, check_folder
from dtree.engine.descent import (
    Frontier,
    Split,
    arrive,
    combine_task,
    filter_task,
    final_task,
    grow,
    leaves_of,
    read_frontier,
    split_node,
    split_task,
)
from dtree.engine.execute import Here, executor
from dtree.engine.folder import flush_tree
from dtree.engine.results import Ending, FitResult, conclude, read_result, read_tree
from dtree.engine.runs import Run
from dtree.engine.tasks import with_room
from dtree.hierarchy.statistics import node_statistics
from dtree.kmeans.passes import PassSettings, Progress

METHOD = "randomized"
OnProgress = Callable[[Progress], None]
_DEEPEST = 200


def fit_randomized(
    data: Any,
    out: str | os.PathLike[str],
    family: str | Family = "gaussian",
    prior: str | Prior = "dp",
    *,
    coarsening: float = 1.0,
    subset: int = 500,
    threshold: float = 0.5,
    seed: int = 0,
    chunk_bytes: int | None = None,
    labels_column: str | None = None,
    client: Client | None = None,
    progress: OnProgress | None = None,
) -> FitResult:
    """Randomised BHC by passes over `data` into the new folder `out`; takes what `fit_dataset` takes.

    subset : rows that are clustered exactly at a time.

    >>> import tempfile
    >>> X = np.random.default_rng(0).normal(size=(90, 2)) + np.repeat([[0.0], [9.0], [30.0]], 30, axis=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = fit_randomized(X, folder + "/run", family="gaussian-diag", subset=20)
    ...     result.n_clusters, read_tree(folder + "/run").merges[-1].tolist()
    (3, [2, 3])
    """
    out = Path(out)
    if subset < 2:
        raise ValueError(f"subset must be at least 2 rows, got {subset}")
    settings = PassSettings(seed, _DEEPEST)
    wanted = Wanted(data, family, prior, coarsening, settings, threshold, chunk_bytes, labels_column=labels_column)
    with nothing_half_made(out):
        run, model, survey = begin_run(out, METHOD, wanted, client, {"subset": subset})
        n = run.source.shape[0]
        sample = survey.sample[:subset]
        # Where the sample is one cluster, every row takes the first of two sides, and the other stays empty.
        everything = model.atoms(sample).sum(axis=0, keepdims=True)
        split = split_node(model, sample, n <= subset) or Split(everything, np.zeros(1, np.int64), [(0, 1)], True)
        nothing = np.zeros(1, dtype=np.int64)
        empty = np.zeros(0, dtype=np.int64)
        blank = np.zeros_like(everything)
        root = Frontier(nothing - 1, nothing - 1, blank, nothing, nothing, empty, empty, everything[:0])
        run.commit_generation(0, grow(root, {0: split})._asdict(), {"trace": []})
    return _carry_on(run, client, progress)


def resume(run: str | os.PathLike[str], client: Client | None = None, progress: OnProgress | None = None) -> FitResult:
    """Carry a run on from its last finished pass; a finished run is returned as it is."""
    check_folder(run)
    opened = Run(run)
    if opened.done:
        return read_result(check_clusters(run).path)
    if not opened.generations():
        raise ValueError(f"{run} has no checkpoint yet: remove the folder and fit again")
    return _carry_on(opened, client, progress)


def _carry_on(run: Run, client: Client | None, progress: OnProgress | None) -> FitResult:
    workers, path, model = executor(client), str(run.path.resolve()), run.model()
    number, subset = run.generations()[-1], int(run.attributes["subset"])
    state, trace = check_frontier(run, model, read_frontier(run, number)), run.trace(number)
    while state.owner.size:
        began = time.perf_counter()
        number += 1
        with_room(lambda: run.create_labels(number), path)  # noqa: B023 - called at once
        chunks = [(path, run.run_id, number, chunk) for chunk in range(run.n_chunks)]
        sums = workers.map_reduce(filter_task, chunks, combine_task, (subset,))
        state, still_open = arrive(state, model, sums, subset)
        leaf_of, _ = leaves_of(state, model)
        objective = math.fsum(model.log_phi_h(state.statistics[leaf_of >= 0]))
        wanted = [(path, run.run_id, sample, whole) for _, sample, whole in still_open if number < _DEEPEST]
        found = workers.run(split_task, wanted) if wanted else []
        state = grow(state, {node: split for (node, _, _), split in zip(still_open, found, strict=False) if split})
        moving = int(np.rint(model.counts(state.statistics))[np.unique(state.owner)].sum()) if state.owner.size else 0
        trace.append(
            Progress(number, objective, int(leaf_of.max()) + 1, moving, sums.rows, time.perf_counter() - began)
        )
        flush_tree(run.labels_path(number))
        attributes = {"trace": [list(step) for step in trace]}
        with_room(lambda: run.commit_generation(number, state._asdict(), attributes, (number - 1,)), path)  # noqa: B023
        if progress is not None:
            progress(trace[-1])
    return with_room(lambda: _finish(run, workers, model, number, state, trace), path)


def check_frontier(run: Run, model: Model, state: Frontier) -> Frontier:
    """The same, or one sentence when it cannot be what a pass left."""
    nodes, width = state.left.shape[0], state.statistics.shape[-1]
    shapes = [state.left, state.right, state.first, state.final, state.statistics[..., 0]]
    same = all(column.shape == (nodes,) for column in shapes) and state.clusters.shape == (*state.owner.shape, width)
    numbers = np.concatenate([state.left, state.right, state.owner, state.target])
    whole = numbers.dtype == np.int64 and state.owner.shape == state.target.shape and nodes >= 1
    if not (same and whole and -1 <= numbers.min() <= numbers.max() < nodes and int(run.attributes["subset"]) >= 2):
        raise ValueError(f"{run.path} is damaged: the tree in its checkpoint is none")
    finite = np.all(np.isfinite(state.statistics)) and np.all(np.isfinite(state.clusters))
    if not finite or width != model.family.statistics(np.zeros((1, model.family.n_features))).shape[1]:
        raise ValueError(f"{run.path} is damaged: the statistics in its checkpoint are not those of its model")
    return state


def _finish(run: Run, workers: Here, model: Model, number: int, state: Frontier, trace: list[Progress]) -> FitResult:
    """Write the results; every step can be done again after a crash."""
    path = str(run.path.resolve())
    leaf_of, merges = leaves_of(state, model)
    atoms = state.statistics[leaf_of >= 0][np.argsort(leaf_of[leaf_of >= 0])]
    counts = np.rint(model.counts(atoms))
    shape = Tree.from_merges(merges, counts, np.zeros(2 * atoms.shape[0] - 1))
    tree = Tree.from_merges(merges, counts, model.log_phi_h(node_statistics(shape, atoms)))
    ending = Ending(atoms, tree, math.fsum(model.log_phi_h(atoms)), number, trace)
    chunks = [(path, run.run_id, number, chunk, leaf_of) for chunk in range(run.n_chunks)]
    return conclude(run, model, ending, workers, final_task, chunks)


def open_run(path: str | os.PathLike[str]) -> Any:
    """The fitted estimator of a finished run, with the tree of the passes."""
    from dtree.engine.estimators import BayesKMeansBHC

    run, result = check_clusters(path), read_result(path)
    model = run.model()
    estimator = BayesKMeansBHC(
        model.family, model.prior, coarsening=model.coarsening, threshold=run.attributes["threshold"], out=str(path)
    )
    estimator._take(run, result.trace)
    estimator._grow(read_tree(path))
    return estimator
