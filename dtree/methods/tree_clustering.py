"""The method for someone who sets nothing: components by evidence, then the clusters that they make up.

Up to `sample_rows` rows are fitted whole; of more rows a sample, and a few passes over all rows go on from there. One
more pass counts how rows of every two components lie between them (`core.valleys`), from which the tree over the
components and the level at which it is cut follow (`core.levels`); the last pass writes what is known of every row.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.families import has_holes, resolve
from dtree.core.levels import Level, LevelTree, offered_levels, reason_for
from dtree.core.model import Model
from dtree.core.recent import Recent
from dtree.core.streams import stream
from dtree.core.valleys import Lines, Odds
from dtree.hierarchy.statistics import cluster_statistics
from dtree.methods import variational as vb
from dtree.methods.component_levels import (
    Found,
    Look,
    Own,
    between,
    found_levels,
    lines_of,
    occupied_by,
    recounted,
)
from dtree.methods.components import fit_components, structures_of
from dtree.methods.contract import Job, Workers
from dtree.methods.facts import Facts
from dtree.methods.numbers_with_gaps import are_gapped_numbers, fit_gapped_numbers, is_of_completed_rows
from dtree.methods.settings import AUTO, FAMILY, option
from dtree.methods.survey import fingerprint, kinds_of, resolved, survey_of
from dtree.methods.tree_clustering_facts import facts_of
from dtree.methods.whole_rows import limits
from dtree.storage.ahead import reads
from dtree.variational.label_kernels import best_and_share
from dtree.variational.mixture import Mixture
from dtree.variational.steps import bound
from dtree.variational.threads import one_blas_thread
from dtree.variational.whole import checked_weight

_sights, _scorers = Recent(2), Recent(2)  # by run and pass
LOOK_STREAM = 3  # of random numbers, after those of `dtree.kmeans.passes`
# So many rows, drawn at random, are counted between components: twenty times as many as components are fitted to at
# most, so that what the fit saw in five rows is counted in a hundred. To count 494,000 took a fifth of a whole fit.
_LOOKED_AT = 200_000
_PIECE = 16_384  # rows whose scores are held at a time

_SAMPLE = 5000  # more rows show finer components, but the same valleys
# Rows times statistics of a covariance matrix that are fitted whole. 5,000 rows of ten features take a second, and more
# rows of fewer features no longer; of more than 10,000 rows most of the time would go into ever finer components.
_WHOLE_NUMBERS, _MOST_WHOLE = 330_000, 10_000


def whole_rows(d: int) -> int:
    """Up to how many rows of d features are fitted whole when nothing else was asked for.

    >>> whole_rows(2), whole_rows(8), whole_rows(50)
    (10000, 7333, 5000)
    """
    return min(max(_WHOLE_NUMBERS // (1 + d + d * (d + 1) // 2), _SAMPLE), _MOST_WHOLE)


class Settings(msgspec.Struct, frozen=True):
    """How clusters are found; see `dtree.TreeClustering`."""

    level: Annotated[
        float | str,
        option("How deep a valley between two clusters is: auto, components (nothing is joined), or a number of nats."),
    ] = "auto"
    family: FAMILY = AUTO
    alpha: Annotated[float, option("Concentration: more means more components.")] = 1.0
    max_iter: Annotated[int, option("Most passes over the data that move components.", ge=1)] = 4
    tol: Annotated[float, option("Stop when a pass changes the bound by less than this per row.", ge=0.0)] = 1e-3
    patience: Annotated[int, option("Passes in a row that may change the bound by less than that.", ge=1)] = 1
    sample_rows: Annotated[
        int | None,
        option(
            "More rows are fitted in passes that start from so many; 5,000, and with few columns up to 10,000.", ge=2
        ),
    ] = None

    variant, learn_alpha = "TSB", False  # of the mixture; not to be chosen

    def check(self) -> None:
        """One sentence (ValueError) about the first value that makes no sense, whatever the data."""
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(f"alpha must be a positive number, got {self.alpha!r}")
        if isinstance(self.level, str) and self.level not in ("auto", "components"):
            raise ValueError(f"level must be 'auto', 'components' or a depth in nats, got {self.level!r}")
        if not isinstance(self.level, str) and not self.level >= 0:
            raise ValueError(f"level must be at least 0, got {self.level!r}")


class Fitted(msgspec.Struct, frozen=True):
    """Components, the tree over them, and the level at which it is cut."""

    components: vb.Fitted
    held: np.ndarray  # (m,) the components of the mixture that hold rows, the leaves of the tree
    left: np.ndarray  # (m-1,)
    right: np.ndarray  # (m-1,)
    size: np.ndarray  # (2m-1,) rows
    depth: np.ndarray  # (m-1,)
    level: float
    leaf_clusters: np.ndarray  # (m,)
    cluster_stability: np.ndarray  # (k,) how well each cluster is found again on half of the rows
    cluster_confidence: np.ndarray  # (k,) mean probability of the rows of a cluster to belong to it
    density: np.ndarray  # (m,) mean log density of the rows of each component
    present: np.ndarray | None = None  # (m, d') rows with a value, of components fitted to completed rows

    @property
    def columns(self) -> np.ndarray:
        """The columns (d',) that the model uses."""
        return self.components.columns

    @property
    def model(self) -> Model:
        """Family and prior as other methods know them."""
        return self.components.model

    @property
    def mixture(self) -> Mixture:
        """The components."""
        return self.components.mixture

    @property
    def converged(self) -> bool:
        """Whether more passes would not have moved the components."""
        return self.components.converged

    @property
    def tree(self) -> LevelTree:
        """The tree over the components."""
        return LevelTree(self.left, self.right, self.size, self.depth)

    @property
    def levels(self) -> list[Level]:
        """The cuts of the tree that are worth a look."""
        return offered_levels(self.tree, self.level)

    @property
    def reason(self) -> str:
        """Why the tree is cut where it is."""
        return reason_for(self.tree, self.level)

    @property
    def is_estimate(self) -> bool:
        """Whether the bound was estimated from draws of missing values, see `numbers_with_gaps`."""
        return self.present is not None

    @property
    def log_evidence_bound(self) -> float:
        """The variational bound on the log evidence, or an estimate of it."""
        return float(self.components.trace[-1])


class TreeClustering(vb.Variational, Settings=Settings, Fitted=Fitted):
    """Components by evidence, joined where the density has no valley between them."""

    name = "tree-clustering"
    estimator = "TreeClustering"
    command = "fit"
    instead = "'dtree levels RUN', which shows finer cuts, --level components, --method exact or another --family"
    leaf_rows = "leaves"

    def readings(self, settings: Any, n: int) -> tuple[int, int | None]:
        return 4, 4 if n <= (settings.sample_rows or _SAMPLE) else 3 + settings.max_iter

    def tiny(self, settings: Any) -> Any:
        return msgspec.structs.replace(settings, max_iter=1, sample_rows=12)

    def prepare(self, job: Job, workers: Workers) -> vb.Prepared:
        settings, weight = job.settings, checked_weight(job.weight, job.n)
        if weight.sum() < 2:
            raise ValueError(f"there is nothing to cluster in n_samples = {job.n} (1 sample): give at least 2 rows")
        whole = job.n <= (settings.sample_rows or whole_rows(job.source.shape[1])) or job.weight is not None
        survey = survey_of(job, workers, settings.family, 1 if whole else settings.sample_rows or _SAMPLE)
        meant, mark = resolved(job, settings.family, survey), fingerprint(job.source, survey)
        if whole:
            columns = meant.columns
            if not np.all(weight > 0):  # what varies only in rows that do not count says nothing
                rows = job.source.load()[weight > 0]
                columns = resolve(settings.family, kinds_of(job.source), *limits(rows), has_holes(rows)).columns
            return vb.Prepared(columns, mark, None)
        sample = vb.used_floats(survey.sample, meant.columns)
        ones, structures = np.ones(sample.shape[0]), structures_of(settings.family, meant.family)
        with one_blas_thread():
            fit = fit_components(sample, ones, structures, meant.kinds, settings.alpha, job.seed)
        sums = fit.sums.scaled(job.n / fit.sums.rows)
        return vb.Prepared(meant.columns, mark, Mixture.of(sums, fit.rule))

    def start(self, job: Job, workers: Workers) -> vb.State:
        first, settings = job.prepared.first, job.settings
        if first is not None:
            return vb.State(first, True, [], [], False)
        rows, weight = job.load(), checked_weight(job.weight, job.n)
        held = rows[weight > 0]
        meant = resolve(settings.family, kinds_of(job.source), *limits(held), has_holes(held))
        rows, structures = vb.used_floats(rows, job.prepared.columns), structures_of(settings.family, meant.family)
        with one_blas_thread():
            if settings.family == "auto" and meant.family == "mixed" and are_gapped_numbers(rows, meant.kinds):
                fit = fit_gapped_numbers(rows, weight, meant.kinds, settings.alpha, job.seed)
            else:
                fit = fit_components(rows, weight, structures, meant.kinds, settings.alpha, job.seed)
        return vb.State(Mixture.of(fit.sums, fit.rule), True, fit.trace, [], fit.converged, whole=True)

    def finish(self, job: Job, workers: Workers, state: vb.State) -> Any:
        number, chunks, components = state.number, job.chunks, state.mixture.counts.shape[0]
        seen = workers.map_reduce(look_task, [(job, number, chunk) for chunk in chunks], combine_looks_task)
        found = found_levels(state.mixture, occupied_by(state.mixture), seen, job.settings.level)
        job.store.create_rows("leaves", job.n, job.chunk_rows, np.int32, -1)
        for name, kind, fill in (("labels", np.int32, -1), ("confidence", np.float32, np.nan)):
            job.store.create_rows(name, job.n, job.chunk_rows, kind, fill)
        job.store.create_rows("outlier_score", job.n, job.chunk_rows, np.float32, np.nan)
        rows, sure = sum(workers.run(label_task, [(job, number, found, chunk) for chunk in chunks]))
        counted, found = found.leaf_clusters, recounted(found, rows)
        if not np.array_equal(counted, found.leaf_clusters):  # those of some of the rows are not in the same order
            workers.run(number_task, [(job, found.leaf_clusters, chunk) for chunk in chunks])
        shown = np.concatenate([found.held, np.setdiff1d(np.arange(components), found.held)])
        if not state.bounds:
            state = msgspec.structs.replace(state, bounds=[bound(state.mixture.sums, state.mixture.rule)])
        mixture = vb.fitted_of(state, job.prepared.columns, shown, found.held.shape[0], False)
        tree, clusters = found.tree, found.leaf_clusters
        return Fitted(
            mixture, found.held, tree.left, tree.right, tree.size, tree.depth, found.level, clusters,
            found.stability, np.bincount(clusters, sure) / np.bincount(clusters, rows), found.density,
            self._present(job, state),
        )  # fmt: skip

    def _present(self, job: Job, state: vb.State) -> np.ndarray | None:
        """How many rows of each component have a value (m, d'), where components are of completed rows."""
        if not state.whole:
            return None
        rows = vb.used_floats(job.load(), job.prepared.columns)
        if not is_of_completed_rows(job.settings.family, state.mixture.family, rows):
            return None
        leaves, weight = job.store.read_rows("leaves", 0, job.n), checked_weight(job.weight, job.n)
        return cluster_statistics(leaves, weight[:, None] * ~np.isnan(rows))

    def predict(self, fitted: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        rows, mixture = vb.used_floats(rows, fitted.columns), fitted.mixture
        with one_blas_thread():
            return fitted.leaf_clusters[mixture.best(rows, fitted.held)], mixture.log_density(rows, fitted.held)

    def check(self, fitted: Any, header: Any) -> None:
        super().check(fitted.components, header)
        fitted.tree.validate()
        m, most = fitted.tree.n_leaves, fitted.mixture.counts.shape[0]
        if fitted.held.shape != (m,) or np.unique(fitted.held).size != m or fitted.held.min() < 0:
            raise ValueError("its leaves are not components")
        if fitted.held.max() >= most or fitted.leaf_clusters.shape != (m,) or fitted.density.shape != (m,):
            raise ValueError("its components are not each in a cluster")
        if fitted.present is not None and fitted.present.shape != (m, fitted.columns.shape[0]):
            raise ValueError("what its components lack is not told for every column")
        found = np.unique(fitted.leaf_clusters)
        if not np.array_equal(found, np.arange(found.shape[0])) or fitted.cluster_stability.shape != found.shape:
            raise ValueError("its clusters are not numbered 0, 1, 2, ...")

    def facts(self, fitted: Any, row_leaf: np.ndarray | None) -> Facts:
        return facts_of(fitted, row_leaf)


# What workers do -----------------------------------------------------------------------------------------------------


class Sight(NamedTuple):
    """What a look at rows takes with it, made once by every process."""

    held: np.ndarray  # (k,) the components that are looked for
    score: Callable[..., np.ndarray]  # see `Mixture.scorer`
    lines: tuple[Lines, Odds] | None  # between any two of them, see `lines_of`


def _weight(job: Job, rows: int) -> np.ndarray:
    return np.ones(rows) if job.weight is None else checked_weight(job.weight, job.n)


@reads(lambda job, number, chunk: job.ahead(chunk))
def look_task(job: Job, number: int, chunk: int) -> Look:
    """Count how rows of a chunk lie between components: all of them, or a random share of many."""
    mixture, rows, start = job.state(number).mixture, vb.chunk_rows(job, chunk), job.bounds(chunk)[0]
    weight = _weight(job, rows.shape[0])
    if job.n > _LOOKED_AT:
        some = np.flatnonzero(stream(job.seed, LOOK_STREAM, 0, chunk).random(rows.shape[0]) < _LOOKED_AT / job.n)
        rows, weight = rows[some], weight[some]

    def made() -> Sight:
        held = occupied_by(mixture)
        return Sight(held, mixture.scorer(held), lines_of(mixture, held))

    with one_blas_thread():
        held, score, lines = _sights.get((job.run_id, number), made)
        kept, k = mixture.kept(rows), held.shape[0]
        scores, density = score(rows, kept), mixture.log_density(rows, held, kept)
        best = scores.argmax(axis=1)  # scores rise with responsibilities
        pairs = between(mixture, held, lines, Own(rows, best, weight, start, scores))
    return Look(pairs, np.bincount(best, weight, minlength=k), np.bincount(best, weight * density, minlength=k))


def combine_looks_task(parts: Sequence[Look]) -> Look:
    """Add what up to eight chunks or groups of chunks found, in order."""
    return Look(*(reduce(add, fields) for fields in zip(*parts, strict=True)))


@reads(lambda job, number, found, chunk: job.ahead(chunk))
def label_task(job: Job, number: int, found: Found, chunk: int) -> np.ndarray:
    """Write what is known of every row of a chunk; returns the rows of the components and their summed confidence
    (2, m)."""
    mixture, rows, start = job.state(number).mixture, vb.chunk_rows(job, chunk), job.bounds(chunk)[0]
    weight, held, groups = _weight(job, rows.shape[0]), found.held, found.leaf_clusters.astype(np.int64)
    leaves, confidence = np.empty(rows.shape[0], dtype=np.int64), np.empty(rows.shape[0])
    density = np.empty(rows.shape[0])
    with one_blas_thread():
        score = _scorers.get((job.run_id, number), lambda: mixture.scorer(held))
        for first in range(0, rows.shape[0], _PIECE):
            piece = slice(first, first + _PIECE)
            kept = mixture.kept(rows[piece])
            leaves[piece], confidence[piece] = best_and_share(score(rows[piece], kept), groups)
            density[piece] = mixture.log_density(rows[piece], held, kept)
    job.store.write_rows("leaves", start, leaves.astype(np.int32))
    job.store.write_rows("labels", start, groups[leaves].astype(np.int32))
    job.store.write_rows("confidence", start, confidence.astype(np.float32))
    job.store.write_rows("outlier_score", start, (found.density[leaves] - density).astype(np.float32))
    m = held.shape[0]
    return np.stack([np.bincount(leaves, each, minlength=m) for each in (weight, weight * confidence)])


@reads(lambda job, clusters, chunk: job.ahead(chunk, "leaves", rows=False))
def number_task(job: Job, clusters: np.ndarray, chunk: int) -> None:
    """Write the labels of a chunk again, `clusters` (m,) of the components."""
    start, stop = job.bounds(chunk)
    leaves = job.store.read_rows("leaves", start, stop)
    if leaves.min(initial=0) < 0:  # what was never written reads as -1
        raise ValueError(f"labels of rows {start} to {stop - 1} are missing in {job.store.location}: it is damaged")
    job.store.write_rows("labels", start, clusters[leaves].astype(np.int32))
