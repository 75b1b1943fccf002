"""Bayes K-means [XHG09, section 5] by passes over chunks of rows, and exact greedy BHC over its clusters as atoms.

Two methods, `bayes-kmeans` and `bayes-kmeans-bhc`, differ only in whether a tree is grown over the clusters at the end.
"""

import math
import time
from typing import Annotated, Any

import msgspec
import numpy as np

from dtree.core.checks import as_counts
from dtree.core.families import Resolved, family_type, moments_of
from dtree.core.model import Model
from dtree.core.partition import canonical_labels
from dtree.core.recent import Recent
from dtree.core.shape import shape_of_tree
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.predictive import log_mixture_density
from dtree.kmeans import passes
from dtree.kmeans.checkpoint import check_pass
from dtree.kmeans.defaults import model_for
from dtree.kmeans.greedy import improved_kmeans, sum_by_label
from dtree.kmeans.predictive import log_weights
from dtree.kmeans.scoring import Scorer
from dtree.kmeans.survey import Survey
from dtree.methods.contract import Job, Method, Workers, used_columns
from dtree.methods.facts import Facts, counted
from dtree.methods.fitted_checks import check_columns, check_statistics, check_tree
from dtree.methods.passes_facts import table_of_passes, traces_of_passes
from dtree.methods.settings import AUTO, COARSENING, CUT, FAMILY, PRIOR, option
from dtree.methods.survey import fingerprint, resolved, survey_of
from dtree.methods.whole_rows import require_spread_above_rounding
from dtree.storage.ahead import reads

_STILL_RISING = (
    "not converged: the objective was still rising after the last pass; fit again with a larger --max-iter or "
    "--time-limit"
)
_scorers = Recent(2)  # tables of frozen clusters, by run and pass


class Settings(msgspec.Struct, frozen=True):
    """How Bayes K-means works; see `dtree.BayesKMeans`."""

    family: FAMILY = AUTO
    prior: PRIOR = "dp"
    init_clusters: Annotated[
        int | None, option("Rows that open clusters at the start; the square root of all if not given.", ge=1)
    ] = None
    coarsening: COARSENING = 1.0
    max_iter: Annotated[int, option("Most passes over the data.", ge=1)] = 50
    patience: Annotated[int, option("Passes in a row that may fail to raise the objective.", ge=1)] = 2
    tol: Annotated[float, option("Relative rise of the objective that counts.", ge=0.0)] = 1e-7
    sample_rows: Annotated[
        int | None, option("Rows on which the starting clusters are found; as many as take seconds if not given.", ge=2)
    ] = None

    def of_passes(self, seed: int) -> passes.PassSettings:
        """The same for the numerics."""
        return passes.PassSettings(seed, self.max_iter, self.patience, self.tol)


class TreeSettings(Settings, frozen=True):
    """The same with a tree over the clusters; see `dtree.BayesKMeansBHC`."""

    cut: CUT = 0.5


class Prepared(msgspec.Struct, frozen=True):
    """What the survey of the rows found."""

    columns: np.ndarray  # (d',) the columns that the model uses
    fingerprint: str
    model: Model
    first: np.ndarray  # (k, s) clusters of a sample, which the first pass scores against


class State(msgspec.Struct, frozen=True):
    """Clusters after a pass, the best so far, and what happened in each pass."""

    clusters: passes.ClusterState
    race: passes.Race
    trace: list[passes.Progress]

    @property
    def number(self) -> int:
        """Passes done."""
        return self.clusters.number


class Fitted(msgspec.Struct, frozen=True):
    """The best clusters, numbered by their first row, and the tree over them."""

    columns: np.ndarray
    model: Model
    statistics: np.ndarray  # (k, s)
    leaf_clusters: np.ndarray  # (k,) the cluster of each after the cut of the tree
    tree: Tree | None
    log_joint: float  # log p(rows, partition into the k clusters)
    best_pass: int
    trace: list[passes.Progress]
    converged: bool

    @property
    def log_evidence_bound(self) -> float | None:
        """Lower bound on the log evidence of the rows, from the tree."""
        if self.tree is None:
            return None
        return self.model.prior.log_normaliser(float(self.tree.size[-1])) + float(self.tree.log_phi_t[-1])


class BayesKMeans(Method, Settings=Settings, Prepared=Prepared, State=State, Fitted=Fitted):
    """Hard assignment by marginal likelihood, the number of clusters inferred."""

    name = "bayes-kmeans"
    estimator = "BayesKMeans"
    in_passes = True
    title = "Bayes K-means"
    remark = "The tree over the clusters was built for this page."

    def readings(self, settings: Any, n: int) -> tuple[int, int | None]:
        return 2, 1 + settings.max_iter

    def tiny(self, settings: Any) -> Any:
        return msgspec.structs.replace(settings, init_clusters=None, sample_rows=12, max_iter=2)

    def prepare(self, job: Job, workers: Workers) -> Any:
        settings = job.settings
        weight = as_counts(job.weight, job.n)
        survey = survey_of(job, workers, settings.family, settings.sample_rows)
        meant, mark = resolved(job, settings.family, survey), fingerprint(job.source, survey)
        if weight is not None:
            return self._prepare_weighted(job, meant, mark, weight)
        seen = survey.pick(meant.columns)
        model = self._model(job, seen, meant)
        first = passes.start_state(model, seen.sample, job.seed, job.n, settings.init_clusters).statistics
        return Prepared(meant.columns, mark, model, first)

    def _model(self, job: Job, seen: Survey, meant: Resolved) -> Model:
        """The model that the evidence of a sample chooses."""
        prior, zeta = job.settings.prior, job.settings.coarsening
        moments = seen.moments(family_type(meant.family).needs_covariance, meant.kinds)
        return model_for(meant.family, prior, moments, seen.sample, job.seed, zeta)

    def start(self, job: Job, workers: Workers) -> Any:
        nothing = np.empty(0, dtype=np.int64)
        clusters = passes.ClusterState(0, job.prepared.first, -math.inf, nothing, {}, job.n, job.n)
        return State(clusters, passes.Race(), [])

    def step(self, job: Job, workers: Workers, state: Any) -> Any:
        if job.weight is not None:
            return self._step_weighted(job)
        began = time.perf_counter()
        number = state.number + 1
        job.store.create_rows(labels_of(number), job.n, job.chunk_rows, np.int32, -1)
        chunks = [(job, number, chunk) for chunk in job.chunks]
        stage = job.stage(f"pass {number}")
        sums = workers.map_reduce(assign_task, chunks, passes.combine_sums, (job.prepared.model,), stage)
        clusters = workers.central(consolidate_task, job.prepared.model, sums, number)
        job.store.flush_rows(labels_of(number))
        race = state.race.after(clusters, job.settings.of_passes(job.seed))
        seconds = time.perf_counter() - began
        told = passes.Progress(number, clusters.objective, clusters.k, clusters.moved, clusters.rows, seconds)
        return State(clusters, race, [*state.trace, told])

    def over(self, job: Job, state: Any) -> bool:
        if job.weight is not None:
            return state.number > 0
        return state.number > 0 and state.race.over(state.clusters, job.settings.of_passes(job.seed))

    def may_stop(self, job: Job, state: Any) -> bool:
        return state.number > 0

    def keep(self, state: Any) -> tuple[int, ...]:
        return (state.race.best_number,)

    def told(self, state: Any) -> passes.Progress | None:
        return state.trace[-1] if state.trace else None  # weighted rows are clustered without passes

    def finish(self, job: Job, workers: Workers, state: Any) -> Fitted:
        best = state.race.best_number
        model, clusters = job.prepared.model, job.state(best).clusters
        chunks = [(job, best, chunk) for chunk in job.chunks]
        order = np.arange(clusters.k)  # of weighted rows: by the first row that counts
        if job.weight is None:
            order = np.argsort(np.minimum.reduce(workers.run(first_rows_task, chunks)), kind="stable")
        statistics, rank = clusters.statistics[order], np.argsort(order)
        counts = np.rint(model.counts(statistics))
        tree = self._tree(job, workers, statistics)
        leaf_clusters = np.arange(rank.shape[0]) if tree is None else tree.cut(job.settings.cut)
        arguments = [(*chunk, rank, leaf_clusters) for chunk in chunks]
        self._write_labels(job, workers, final_labels_task, arguments, counts)
        log_joint = clusters.objective + model.prior.log_normaliser(float(counts.sum()))
        # Neither the most passes nor a time limit makes an answer a settled one.
        unlimited = job.settings.of_passes(job.seed)._replace(max_passes=state.number + 1)
        settled = state.race.over(state.clusters, unlimited)
        return Fitted(
            job.prepared.columns, model, statistics, leaf_clusters, tree, log_joint, best, state.trace, settled
        )

    def _tree(self, job: Job, workers: Workers, statistics: np.ndarray) -> Tree | None:
        return None

    def _write_labels(self, job: Job, workers: Workers, task: Any, arguments: list[Any], counts: np.ndarray) -> None:
        """Let every chunk write its leaves and labels; `task` returns the sizes (k,) of the leaves in a chunk."""
        for name in ("leaves", "labels"):
            job.store.create_rows(name, job.n, job.chunk_rows, np.int32, -1)
        sizes = sum(workers.run(task, arguments))
        if job.weight is None and not np.array_equal(sizes, counts):
            raise RuntimeError(
                "the labels of the run do not add up to its statistics: its folder was changed from outside"
            )

    # Weighted rows are atoms: the greedy moves in memory, without passes ---------------------------------------------

    def _prepare_weighted(self, job: Job, meant: Resolved, mark: str, weight: np.ndarray) -> Prepared:
        settings, columns, with_covariance = job.settings, meant.columns, family_type(meant.family).needs_covariance
        require_spread_above_rounding(weight, meant.family)
        held = np.flatnonzero(weight > 0)
        rows = used_columns(job.source.load(), columns)[held]
        moments = moments_of(rows, with_covariance, weight[held], meant.kinds)
        model = model_for(meant.family, settings.prior, moments, rows, job.seed, settings.coarsening, weight[held])
        return Prepared(columns, mark, model, np.zeros((0, model.atoms(rows[:1]).shape[1])))

    def _step_weighted(self, job: Job) -> State:
        """The whole fit: clusters of the atoms, and the best of them for rows of weight 0."""
        weight, model = np.asarray(as_counts(job.weight, job.n)), job.prepared.model
        rows = used_columns(job.source.load(), job.prepared.columns)
        held, rest = np.flatnonzero(weight > 0), np.flatnonzero(weight == 0)
        atoms = model.atoms(rows[held], weight[held])
        order = passes.stream(job.seed, passes.START_STREAM, 0, 0).permutation(held.size)
        found = improved_kmeans(model, atoms, order, job.settings.init_clusters, sweeps=job.settings.max_iter)
        labels = np.empty(job.n, dtype=np.int64)
        labels[held] = canonical_labels(found.labels)
        statistics = sum_by_label(atoms, labels[held], labels[held].max() + 1)
        if rest.size:
            labels[rest] = Scorer(model, statistics).assign(rows[rest]).best
        job.store.create_rows(labels_of(1), job.n, job.chunk_rows, np.int32, -1)
        job.store.write_rows(labels_of(1), 0, labels)
        objective = math.fsum(model.log_phi_h(statistics))
        clusters = passes.ClusterState(1, statistics, objective, np.arange(statistics.shape[0]), {}, 0, job.n)
        return State(clusters, passes.Race(1, objective, 0), [])

    # After the fit ----------------------------------------------------------------------------------------------------

    def predict(self, fitted: Fitted, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = used_columns(rows, fitted.columns)
        model, statistics = fitted.model, fitted.statistics
        best = np.full(rows.shape[0], -1)
        # A whole row joins the cluster that it is most probably of: one look at the clusters gives both answers.
        one_look = model.coarsening == 1.0 and getattr(model.family, "step", None) is None
        density = log_mixture_density(
            model.family, rows, statistics, *log_weights(model, statistics), best if one_look else None
        )
        left = np.flatnonzero(best < 0)
        if left.size:
            best[left] = Scorer(model, statistics).assign(rows[left]).best
        return fitted.leaf_clusters[best], density

    def facts(self, fitted: Fitted, row_leaf: np.ndarray | None) -> Facts:
        k, tree = int(fitted.leaf_clusters.max()) + 1, fitted.tree
        leaves = "" if tree is None else f" ({counted(tree.n_leaves, 'leaf')})"
        passes = f" after {counted(len(fitted.trace), 'pass')}" if fitted.trace else ""
        evidence = {"log joint probability of data and clusters": fitted.log_joint}
        if fitted.log_evidence_bound is not None:
            evidence["log evidence at least"] = fitted.log_evidence_bound
        name, value = list(evidence.items())[-1]
        return Facts(
            title=self.title,
            n_clusters=k,
            headline=f"{counted(k, 'cluster')}{leaves}{passes}, {name} {value:.6g}",
            shape=lambda: shape_of_tree(build_tree(fitted.model, fitted.statistics) if tree is None else tree),
            leaf_clusters=fitted.leaf_clusters,
            row_leaf=row_leaf,
            lines={"log joint": f"{fitted.log_joint:.6g}", "best pass": str(fitted.best_pass)},
            warnings=() if fitted.converged else (_STILL_RISING,),
            remark=self.remark,
            model=fitted.model,
            tree=tree,
            statistics=fitted.statistics,
            evidence=evidence,
            traces=traces_of_passes(fitted.trace),
            tables=table_of_passes(fitted.trace),
        )

    def check_state(self, job: Job, state: Any) -> None:
        prepared, clusters = job.prepared, state.clusters
        check_statistics(prepared.model, prepared.first, "of its first clusters")
        check_columns(prepared.model, prepared.columns, job)
        check_statistics(prepared.model, clusters.statistics, f"of the checkpoint after pass {state.number}")
        if state.number and np.rint(prepared.model.counts(clusters.statistics)).sum() != job.n:
            raise ValueError(f"the clusters of the checkpoint after pass {state.number} do not hold its {job.n} rows")
        check_pass(clusters, state.race, job.n, len(job.chunks))

    def check(self, fitted: Fitted, header: Any) -> None:
        model, k = fitted.model, fitted.statistics.shape[0]
        check_statistics(model, fitted.statistics, "of its clusters")
        check_columns(model, fitted.columns, header)
        if fitted.leaf_clusters.shape != (k,):
            raise ValueError(f"its {k} leaves are not each in a cluster")
        found = np.unique(fitted.leaf_clusters)
        if not np.array_equal(found, np.arange(found.shape[0])):
            raise ValueError("its clusters are not numbered 0, 1, 2, ...")
        if not math.isfinite(fitted.log_joint):
            raise ValueError("its log_joint is not a number")
        if fitted.tree is not None:
            check_tree(model, fitted.tree, fitted.statistics)


class BayesKMeansBHC(BayesKMeans, Settings=TreeSettings):
    """Bayes K-means, then the tree over its clusters."""

    name = "bayes-kmeans-bhc"
    estimator = "BayesKMeansBHC"
    command = "fit"
    title = "Bayes K-means, then Bayesian hierarchical clustering of its clusters"
    remark = "Every leaf is a cluster of Bayes K-means."

    def _tree(self, job: Job, workers: Workers, statistics: np.ndarray) -> Tree:
        return workers.central(tree_task, job.prepared.model, statistics)


# What workers do -----------------------------------------------------------------------------------------------------


def labels_of(number: int) -> str:
    """The row array with the raw labels of a pass."""
    return f"passes/labels-{number:08d}"


def _scorer(job: Job, number: int) -> tuple[passes.ClusterState, Scorer]:
    def make() -> tuple[passes.ClusterState, Scorer]:
        clusters = job.state(number).clusters
        return clusters, Scorer(job.prepared.model, clusters.statistics)

    return _scorers.get((job.run_id, number), make)


def _present_labels(job: Job, clusters: passes.ClusterState, number: int, chunk: int) -> np.ndarray:
    """Labels of a chunk after a pass, from the raw ones that it wrote."""
    (start, stop), run = job.bounds(chunk), job.store.location
    raw = job.store.read_rows(labels_of(number), start, stop).astype(np.int64)
    if raw.min(initial=0) < 0:  # what was never written reads as -1
        raise ValueError(f"labels of rows {start} to {stop - 1} are missing in {run}: it is damaged")
    try:
        return clusters.relabel(chunk, raw)
    except IndexError:
        raise ValueError(f"labels of chunk {chunk} name clusters that {run} has not: its folder is damaged") from None


@reads(lambda job, number, chunk: job.ahead(chunk, labels_of(number - 1)))
def assign_task(job: Job, number: int, chunk: int) -> passes.ChunkSums:
    """One chunk's part of pass `number`: score, write raw labels, return sums."""
    clusters, scorer = _scorer(job, number - 1)
    own = None if number == 1 else _present_labels(job, clusters, number - 1, chunk)
    labels, sums = passes.assign_chunk(scorer, job.rows(chunk), own, chunk, number, job.seed)
    job.store.write_rows(labels_of(number), job.bounds(chunk)[0], labels.astype(np.int32))
    return sums


def consolidate_task(pairs: Any, model: Model, sums: passes.ChunkSums, number: int) -> passes.ClusterState:
    """The central task of a pass: merge clusters and births while that raises the objective."""
    return passes.consolidate(model, sums, number, pairs.merge)


def tree_task(pairs: Any, model: Model, statistics: np.ndarray) -> Tree:
    """The central task of BHC: the tree over clusters as atoms."""
    return pairs.tree(model, statistics)


@reads(lambda job, number, chunk: job.ahead(chunk, labels_of(number), rows=False))
def first_rows_task(job: Job, number: int, chunk: int) -> np.ndarray:
    """The first row (k,) of each cluster of a pass in one chunk, or the number of all rows where there is none."""
    clusters = job.state(number).clusters
    first = np.full(clusters.k, job.n)
    found, at = np.unique(_present_labels(job, clusters, number, chunk), return_index=True)
    first[found] = job.bounds(chunk)[0] + at
    return first


@reads(lambda job, number, chunk, *_: job.ahead(chunk, labels_of(number), rows=False))
def final_labels_task(job: Job, number: int, chunk: int, rank: np.ndarray, leaf_clusters: np.ndarray) -> np.ndarray:
    """Write the leaves (clusters of a pass, numbered by `rank`) and labels of one chunk; returns the leaves' sizes."""
    leaves = rank[_present_labels(job, job.state(number).clusters, number, chunk)]
    start = job.bounds(chunk)[0]
    job.store.write_rows("leaves", start, leaves.astype(np.int32))
    job.store.write_rows("labels", start, leaf_clusters[leaves].astype(np.int32))
    return np.bincount(leaves, minlength=rank.shape[0])
