"""The results of a run of clusters: how its end is written, whatever made the clusters, and how it is read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.engine.blocks import tree_columns
from dtree.engine.execute import Here
from dtree.engine.folder import write_array
from dtree.engine.runs import Run
from dtree.kmeans.passes import Progress


class FitResult(NamedTuple):
    """What a finished run holds; the arrays are in its folder."""

    path: Path
    n_clusters: int  # after cutting the tree
    n_leaves: int  # clusters of Bayes K-means, the leaves of the tree
    objective: float  # sum of log phi_h over clusters
    log_joint: float  # the same with the prior's normaliser: log p(data, partition)
    log_evidence_bound: float | None  # of the tree over the clusters
    trace: list[Progress]


class Ending(NamedTuple):
    """What the last pass leaves: clusters (k, s), the leaves of the tree, numbered by their first row."""

    clusters: np.ndarray
    tree: Tree | None
    objective: float
    best_pass: int
    trace: list[Progress]


def conclude(
    run: Run,
    model: Model,
    ending: Ending,
    workers: Here,
    label_task: Callable[..., np.ndarray],
    arguments: Sequence[tuple[Any, ...]],
) -> FitResult:
    """Write the results and call the run done; every step can be done again after a crash.

    label_task : writes the leaves and labels of one chunk and returns the sizes (k,) of the leaves in it.
    """
    clusters, tree = ending.clusters, ending.tree
    k = clusters.shape[0]
    normaliser = model.prior.log_normaliser(run.source.shape[0])
    leaf_clusters = np.arange(k) if tree is None else tree.cut(float(run.attributes["threshold"]))
    log_phi = model.log_phi_h(clusters)
    write_group(run, "statistics", {"clusters": clusters, "log_phi": log_phi, "leaf_clusters": leaf_clusters})
    if tree is not None:
        write_group(run, "tree", tree_columns(tree))
    columns = {name: np.array([getattr(step, name) for step in ending.trace]) for name in Progress._fields}
    write_group(run, "trace", columns)
    run.create_labels("leaves")
    run.create_labels("labels")
    if not np.array_equal(sum(workers.run(label_task, arguments)), np.rint(model.counts(clusters))):
        raise RuntimeError(
            "the labels on disk do not add up to the statistics: the run's folder was changed from outside"
        )
    run.update(
        status="done",
        best_pass=ending.best_pass,
        n_clusters=int(leaf_clusters.max()) + 1,
        n_leaves=k,
        objective=ending.objective,
        log_joint=ending.objective + normaliser,
        log_evidence_bound=None if tree is None else normaliser + float(tree.log_phi_t[-1]),
    )
    run.sweep(ending.best_pass)
    return read_result(run.path)


def write_group(run: Run, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    """A group of small arrays in the run's folder, in place of an earlier one."""
    group = zarr.open_group(str(run.path / name), mode="w", zarr_format=3)
    for array, values in arrays.items():
        write_array(group, array, values)


def read_result(path: str | os.PathLike[str]) -> FitResult:
    """What a finished run holds."""
    run = Run(path)
    if not run.done:
        raise ValueError(f"{run.path} is not finished: resume it")
    at = run.attributes
    bound = at["log_evidence_bound"]
    group: Any = zarr.open_group(str(run.path / "trace"), mode="r")
    columns = [np.asarray(group[name][...]).tolist() for name in Progress._fields]
    trace = [Progress(*step) for step in zip(*columns, strict=True)]
    n_clusters, n_leaves = int(at["n_clusters"]), int(at["n_leaves"])
    return FitResult(run.path, n_clusters, n_leaves, at["objective"], at["log_joint"], bound, trace)


def read_tree(path: str | os.PathLike[str]) -> Tree:
    """The tree over the clusters of a finished run."""
    group = zarr.open_group(str(Path(path) / "tree"), mode="r")
    return Tree(**{name: np.asarray(array[...]) for name, array in group.arrays()})
