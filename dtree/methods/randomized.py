"""Randomised BHC as passes (Heller & Ghahramani 2005b): a tree from the top down, for more rows than exact BHC takes.

The rows of a node are known by a random sample of them. Exact BHC on the sample gives the clusters in it and the top
split; one pass over the data then sends every row of every open node to the side of the cluster that claims it, and
takes the statistics and a sample of each side on the way. So a level of the tree costs one pass, whatever its width.
A node is left whole when its sample is one cluster, and is resolved into its clusters at once when the sample is all
there is.

A cluster so small that no sample of its node holds some of its rows is never seen: its rows go where they fit best.

The leaves are atoms (clusters of rows), the tree over them is approximate, its potentials and its bound are exact. Rows
meet only frozen statistics and keyed random numbers, so the answer does not depend on who did the work. What is fitted
is a record as of Bayes K-means with a tree, and opens as one.
"""

import math
import time
from typing import Annotated, Any

import msgspec
import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.hierarchy.statistics import node_statistics
from dtree.kmeans.passes import Progress
from dtree.methods import descent
from dtree.methods.bayes_kmeans import BayesKMeansBHC, Fitted, labels_of
from dtree.methods.contract import Job, Workers
from dtree.methods.fitted_checks import check_columns
from dtree.methods.settings import AUTO, COARSENING, CUT, FAMILY, PRIOR, option
from dtree.methods.survey import fingerprint, resolved, survey_of

_DEEPEST = 200  # levels; sides of a split shrink by a factor, so that only damage or a strange family gets so far


class Settings(msgspec.Struct, frozen=True):
    """How randomised BHC works."""

    family: FAMILY = AUTO
    prior: PRIOR = "dp"
    coarsening: COARSENING = 1.0
    cut: CUT = 0.5
    subset: Annotated[int, option("Rows that are clustered exactly at a time.", ge=2)] = 500


class Prepared(msgspec.Struct, frozen=True):
    """What the survey of the rows found."""

    columns: np.ndarray  # (d',)
    fingerprint: str
    model: Model
    root: descent.Frontier


class State(msgspec.Struct, frozen=True):
    """The tree after a pass, by which rows are sent on in the next, and what happened in each pass."""

    number: int
    frontier: descent.Frontier
    trace: list[Progress] = []


class RandomizedBHC(BayesKMeansBHC, Settings=Settings, Prepared=Prepared, State=State):
    """A tree from the top down, one level in a pass."""

    name = "randomized"
    title = "Randomised Bayesian hierarchical clustering"
    remark = "Every leaf is a cluster that was not split again."

    def readings(self, settings: Any, n: int) -> tuple[int, int | None]:
        return 2, None

    def tiny(self, settings: Any) -> Any:
        return msgspec.structs.replace(settings, subset=8)

    def prepare(self, job: Job, workers: Workers) -> Any:
        if job.weight is not None:
            raise ValueError("randomised BHC in passes takes no sample_weight: use BHC(method='randomized')")
        survey = survey_of(job, workers, job.settings.family)
        meant, subset = resolved(job, job.settings.family, survey), job.settings.subset
        seen = survey.pick(meant.columns)
        model, sample = self._model(job, seen, meant), seen.sample
        root = descent.root_of(model, sample[:subset], job.n <= subset)
        return Prepared(meant.columns, fingerprint(job.source, survey), model, root)

    def start(self, job: Job, workers: Workers) -> Any:
        return State(0, job.prepared.root)

    def step(self, job: Job, workers: Workers, state: Any) -> Any:
        began = time.perf_counter()
        model, subset, number = job.prepared.model, job.settings.subset, state.number + 1
        job.store.create_rows(labels_of(number), job.n, job.chunk_rows, np.int32, -1)
        chunks = [(job, number, chunk) for chunk in job.chunks]
        sums = workers.map_reduce(
            descent.filter_task, chunks, descent.combine_task, (subset,), job.stage(f"pass {number}")
        )
        job.store.flush_rows(labels_of(number))
        frontier, still_open = descent.arrive(state.frontier, model, sums, subset)
        leaf_of, _ = descent.leaves_of(frontier, model)
        objective = math.fsum(model.log_phi_h(frontier.statistics[leaf_of >= 0]))
        wanted = [(job, sample, whole) for _, sample, whole in still_open if number < _DEEPEST]
        found = workers.run(descent.split_task, wanted) if wanted else []
        splits = {node: split for (node, _, _), split in zip(still_open, found, strict=False) if split}
        frontier = descent.grow(frontier, splits)
        counts, owners = np.rint(model.counts(frontier.statistics)), np.unique(frontier.owner)
        moving, seconds = int(counts[owners].sum()), time.perf_counter() - began
        told = Progress(number, objective, int(leaf_of.max()) + 1, moving, sums.rows, seconds)
        return State(number, frontier, [*state.trace, told])

    def over(self, job: Job, state: Any) -> bool:
        return not state.frontier.owner.size

    def check_state(self, job: Job, state: Any) -> None:
        check_columns(job.prepared.model, job.prepared.columns, job)
        check_frontier(job.prepared.model, job.prepared.root)
        check_frontier(job.prepared.model, state.frontier)

    def may_stop(self, job: Job, state: Any) -> bool:
        return False  # rows are on their way down the tree

    def keep(self, state: Any) -> tuple[int, ...]:
        return ()

    def finish(self, job: Job, workers: Workers, state: Any) -> Fitted:
        model, number = job.prepared.model, state.number
        leaf_of, merges = descent.leaves_of(state.frontier, model)
        atoms = state.frontier.statistics[leaf_of >= 0][np.argsort(leaf_of[leaf_of >= 0])]
        counts = np.rint(model.counts(atoms))
        shape = Tree.from_merges(merges, counts, np.zeros(2 * atoms.shape[0] - 1))
        tree = Tree.from_merges(merges, counts, model.log_phi_h(node_statistics(shape, atoms)))
        leaf_clusters = tree.cut(job.settings.cut)
        chunks = [(job, number, chunk, leaf_of, leaf_clusters) for chunk in job.chunks]
        self._write_labels(job, workers, descent.final_nodes_task, chunks, counts)
        log_joint = math.fsum(model.log_phi_h(atoms)) + model.prior.log_normaliser(job.n)
        columns, settled = job.prepared.columns, number < _DEEPEST
        return Fitted(columns, model, atoms, leaf_clusters, tree, log_joint, number, state.trace, settled)


def check_frontier(model: Model, state: descent.Frontier) -> None:
    """One sentence when a checkpoint cannot be what a pass left."""
    nodes, width = state.left.shape[0], state.statistics.shape[-1]
    shapes = [state.left, state.right, state.first, state.final, state.statistics[..., 0]]
    same = all(column.shape == (nodes,) for column in shapes) and state.clusters.shape == (*state.owner.shape, width)
    numbers = np.concatenate([state.left, state.right, state.owner, state.target])
    whole = numbers.dtype == np.int64 and state.owner.shape == state.target.shape and nodes >= 1
    if not (same and whole and -1 <= numbers.min() <= numbers.max() < nodes):
        raise ValueError("the tree in its checkpoint is none")
    finite = np.all(np.isfinite(state.statistics)) and np.all(np.isfinite(state.clusters))
    if not finite or width != model.family.statistics(np.zeros((1, model.family.n_features))).shape[1]:
        raise ValueError("the statistics in its checkpoint are not those of its model")
