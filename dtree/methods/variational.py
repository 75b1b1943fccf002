"""Variational mixtures [KWT07]: the best fit of all rows at once, or passes over chunks of rows.

How many rows there are decides, not where they are, so that arrays, files and clusters give one answer: no more than
`sample_rows` rows are fitted whole, in one process, and no step follows. Of more rows a random sample is fitted so, and
passes over all rows go on from there. What a pass needs and brings back is T x s numbers for T components.
"""

import time
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np

from dtree.core.columns import Column
from dtree.core.families import family_type, has_holes, resolve
from dtree.core.model import Model
from dtree.core.recent import Recent
from dtree.methods.contract import Job, Method, Workers, used_columns
from dtree.methods.facts import Facts
from dtree.methods.fitted_checks import check_columns
from dtree.methods.settings import AUTO, FAMILY, option
from dtree.methods.survey import fingerprint, kinds_of, resolved, survey_of
from dtree.methods.variational_facts import OCCUPIED, facts_of
from dtree.methods.whole_rows import limits
from dtree.storage.ahead import reads
from dtree.variational.fitting import Fit, has_converged, settle
from dtree.variational.mixture import Mixture, pass_over
from dtree.variational.steps import Rule, Sums
from dtree.variational.steps import State as PassState
from dtree.variational.threads import one_blas_thread
from dtree.variational.variants import VariantName
from dtree.variational.whole import DEFAULT_TRUNCATION, checked_weight, fit_sample, fit_whole, go_on, size_for

_ROWS_PER_COMPONENT = 50  # of a sample at least: with fewer a component cannot tell its shape
_RAW_LABELS = "passes/raw-labels"  # components in the order of the mixture, until the order users see is known
_states = Recent(2)  # what a pass takes out to the rows, by run and pass


class Settings(msgspec.Struct, frozen=True):
    """How a variational mixture is fitted; see `dtree.DPMixtureVB`."""

    variant: Annotated[
        VariantName,
        option(
            "Stick-breaking (TSB) or finite Dirichlet (FSD); C: weights integrated out, O: labels in the best order."
        ),
    ] = "O-CTSB"
    family: FAMILY = AUTO
    truncation: Annotated[
        int | None, option("Largest number of clusters; 40, or the number of rows if that is less.")
    ] = None
    alpha: Annotated[float, option("Concentration: more means more clusters.")] = 1.0
    learn_alpha: Annotated[bool, option("Move alpha to where the bound is highest.")] = False
    max_iter: Annotated[int, option("Most passes over the data.")] = 500
    tol: Annotated[float, option("Stop when a pass changes the bound by less than this per row.")] = 1e-6
    patience: Annotated[int, option("Passes in a row that may change the bound by less than that.", ge=1)] = 1
    n_init: Annotated[int, option("Starts; the one with the highest bound is kept.", command="restarts")] = 1
    init: Annotated[Any, option("Where a fit starts: auto, kmeans, random, labels or shares.", command=None)] = "auto"
    expectation: Annotated[
        Literal["exact", "corrected", "taylor"], option("How a collapsed variant takes expectations of counts.")
    ] = "corrected"
    schedule: Annotated[
        Literal["parallel", "sequential"], option("Rows all from the old counts, or counts refreshed after each row.")
    ] = "parallel"
    order: Annotated[Literal["best", "size"], option("Order of labels: the best one, or by decreasing size.")] = "best"
    split_merge: Annotated[int, option("Rounds of trying merges and splits after convergence.")] = 20
    warm_start: Annotated[bool, option("Start from the components of the last fit.", command=None)] = False
    # A whole fit of so many rows of 8 features, merges and splits included, takes a quarter of a minute on one core,
    # and more rows hardly move the components that the passes start from. Equal rows are found up to the same number.
    sample_rows: Annotated[int, option("More rows are fitted in passes that start from so many of them.", ge=2)] = (
        20_000
    )

    def check(self) -> None:
        """One sentence (ValueError) about the first value that makes no sense, whatever the data."""
        if not (np.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(f"alpha must be a positive number, got {self.alpha!r}")
        if not self.tol >= 0:
            raise ValueError(f"tol must be a number of at least 0, got {self.tol!r}")
        for name, least in (("max_iter", 1), ("patience", 1), ("n_init", 1), ("split_merge", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {getattr(self, name)!r}")
        if self.truncation is not None and self.truncation < 2:
            raise ValueError(
                f"truncation must be at least 2, got {self.truncation!r}: with one component there is nothing to infer"
            )
        if isinstance(self.init, str) and self.init not in ("auto", "kmeans", "random"):
            raise ValueError(f"unknown init {self.init!r}: give 'auto', 'kmeans', 'random', labels or responsibilities")

    @property
    def needs_all_rows(self) -> bool:
        """Whether something is asked for that passes cannot do: each row's own start, or one row after the other."""
        in_order = self.schedule == "sequential" or self.expectation == "exact"
        return self.warm_start or in_order or not isinstance(self.init, str)


class PassStep(NamedTuple):
    """What a progress callback is told after every pass."""

    number: int
    elbo: float
    n_clusters: int  # components expected to hold at least half a row
    rows: int
    seconds: float

    @property
    def rows_per_second(self) -> float:
        """How fast the pass went."""
        return self.rows / max(self.seconds, 1e-9)

    def line(self) -> str:
        """For the console."""
        found = f"ELBO {self.elbo:.8g}, {self.n_clusters} clusters"
        return f"iteration {self.number}: {found}, {self.rows_per_second:,.0f} rows/s"


class Prepared(msgspec.Struct, frozen=True):
    """What the survey of the rows found."""

    columns: np.ndarray  # (d',) the columns that the family uses
    fingerprint: str
    first: Mixture | None  # where the passes start; None when all rows are fitted whole


class State(msgspec.Struct, frozen=True):
    """The mixture after a pass, or after a fit of all rows at once."""

    mixture: Mixture
    is_bound: bool  # whether the last bound is exact, or the expansion of a collapsed variant
    bounds: list[float]  # after each iteration
    steps: list[PassStep]  # one for each pass
    converged: bool
    whole: bool = False  # all rows were fitted at once: there is nothing left to do

    @property
    def number(self) -> int:
        """Passes done."""
        return len(self.steps)


class Fitted(msgspec.Struct, frozen=True):
    """The mixture, and its components in the order that users see: those that hold rows first, in decreasing size."""

    columns: np.ndarray
    mixture: Mixture
    shown: np.ndarray  # (T,) the components in that order
    n_clusters: int  # components that are the most probable one of some row
    trace: np.ndarray  # (i,) the bound after each iteration
    n_iter: int
    steps: list[PassStep]  # one for each pass over the data; none when all rows were fitted at once
    is_bound: bool
    converged: bool
    alpha_learned: bool

    @property
    def model(self) -> Model:
        """Family and prior as other methods know them."""
        return self.mixture.model

    @property
    def fit(self) -> Fit:
        """The same for the numerics."""
        elbo = float(self.trace[-1])
        return Fit(self.mixture.sums, self.mixture.rule, elbo, self.is_bound, self.trace.tolist(), self.converged)


class Variational(Method, Settings=Settings, Prepared=Prepared, State=State, Fitted=Fitted):
    """A Dirichlet process mixture by one of six variational bounds."""

    name = "vb"
    estimator = "DPMixtureVB"
    command = "vb"
    instead = "--restarts 10, another --variant or --family, a larger --alpha, or 'dtree fit', which starts otherwise"
    leaf_rows = "labels"
    in_passes = True

    def __init__(self, earlier: Fitted | None = None, n_features: int = 0) -> None:
        """`earlier` is a fit to rows with `n_features` columns, from which a warm start goes on."""
        self.earlier, self.n_features = earlier, n_features

    def readings(self, settings: Any, n: int) -> tuple[int, int | None]:
        whole = n <= settings.sample_rows or settings.needs_all_rows
        return 3, 3 if whole else 2 + settings.max_iter

    def tiny(self, settings: Settings) -> Settings:
        few = {"truncation": 4, "max_iter": 2, "n_init": 1, "split_merge": min(settings.split_merge, 1)}
        return msgspec.structs.replace(settings, **few, init="auto", sample_rows=12)

    def _kinds(self, job: Job) -> tuple[Column, ...]:
        """What the columns in use hold."""
        kinds = kinds_of(job.source)
        return tuple(kinds[j] for j in job.prepared.columns) if kinds else ()

    def _going_on(self, job: Job) -> Fitted | None:
        """The earlier fit, when one was given that knows these columns."""
        return self.earlier if job.settings.warm_start and job.source.shape[1] == self.n_features else None

    def prepare(self, job: Job, workers: Workers) -> Prepared:
        settings, earlier = job.settings, self._going_on(job)
        weight = checked_weight(job.weight, job.n)
        if earlier is None:  # a truncation above the number of rows must not wait for the survey
            size_for(settings.truncation, weight)
        whole = job.n <= settings.sample_rows or job.weight is not None or settings.needs_all_rows
        least = _ROWS_PER_COMPONENT * (settings.truncation or DEFAULT_TRUNCATION)
        survey = survey_of(job, workers, settings.family, 1 if whole else max(settings.sample_rows, least))
        meant, mark = resolved(job, settings.family, survey), fingerprint(job.source, survey)
        columns = meant.columns
        if whole:
            if earlier is not None:
                columns = earlier.columns
            elif not np.all(weight > 0):  # what varies only in rows that do not count says nothing
                rows = job.source.load()[weight > 0]
                columns = resolve(settings.family, kinds_of(job.source), *limits(rows), has_holes(rows)).columns
            return Prepared(columns, mark, None)
        moments = survey.pick(columns).moments(family_type(meant.family).needs_covariance, meant.kinds)
        settings = msgspec.structs.replace(settings, family=meant.family)
        fit = fit_sample(used_floats(survey.sample, columns), moments, job.n, settings, job.seed)
        return Prepared(columns, mark, Mixture.of(fit.sums, fit.rule))

    def start(self, job: Job, workers: Workers) -> State:
        first = job.prepared.first
        if first is not None:
            return State(first, False, [], [], False)
        rows = used_floats(job.load(), job.prepared.columns)
        weight, earlier = checked_weight(job.weight, job.n), self._going_on(job)
        if earlier is None:
            fit = fit_whole(rows, weight, job.settings, job.seed, self._kinds(job))
        else:
            fit = go_on(rows, weight, job.settings, job.seed, earlier.fit)
        return State(Mixture.of(fit.sums, fit.rule), fit.is_bound, fit.trace, [], fit.converged, whole=True)

    def step(self, job: Job, workers: Workers, state: State) -> State:
        began = time.perf_counter()
        arguments = [(job, state.number, chunk) for chunk in job.chunks]
        sums = workers.map_reduce(sums_task, arguments, combine_sums_task, (), job.stage(f"pass {state.number + 1}"))
        with one_blas_thread():
            settled = settle(_Elsewhere(), sums, state.mixture.rule, job.settings.learn_alpha)
        clusters = int((settled.sums.counts > OCCUPIED).sum())
        told = PassStep(state.number + 1, settled.elbo, clusters, job.n, time.perf_counter() - began)
        bounds = [*state.bounds, settled.elbo]
        converged = has_converged(bounds, job.settings.tol, settled.sums.rows, job.settings.patience)
        mixture = Mixture.of(settled.sums, settled.rule)
        return State(mixture, settled.is_bound, bounds, [*state.steps, told], converged)

    def over(self, job: Job, state: State) -> bool:
        return state.whole or state.converged or state.number >= job.settings.max_iter

    def may_stop(self, job: Job, state: State) -> bool:
        return state.number > 0

    def told(self, state: State) -> PassStep:
        return state.steps[-1]

    def finish(self, job: Job, workers: Workers, state: State) -> Fitted:
        mixture, chunks = state.mixture, job.chunks
        job.store.create_rows(_RAW_LABELS, job.n, job.chunk_rows, np.int32, -1)
        held = sum(workers.run(raw_labels_task, [(job, state.number, chunk) for chunk in chunks]))
        shown = np.lexsort([-mixture.counts, held == 0])
        job.store.create_rows("labels", job.n, job.chunk_rows, np.int32, -1)
        counts = sum(workers.run(shown_labels_task, [(job, np.argsort(shown), chunk) for chunk in chunks]))
        if not np.array_equal(counts, held[shown]):
            raise RuntimeError("the labels on disk do not add up: the run's folder was changed from outside")
        return fitted_of(state, job.prepared.columns, shown, int((held > 0).sum()), job.settings.learn_alpha)

    # After the fit --------------------------------------------------------------------------------------------------

    def predict(self, fitted: Fitted, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        rows, mixture = used_floats(rows, fitted.columns), fitted.mixture
        with one_blas_thread():
            return mixture.best(rows, fitted.shown), mixture.log_density(rows, fitted.shown)

    def check_state(self, job: Job, state: State) -> None:
        first, mixture = job.prepared.first, state.mixture
        mixture.check()
        check_columns(mixture.model, job.prepared.columns, job)
        if first is not None:
            first.check()
        if state.whole != (first is None) or mixture.variant != job.settings.variant:
            raise ValueError("its mixture is not what its settings ask for")
        if first is not None and mixture.statistics.shape != first.statistics.shape:
            raise ValueError("its mixture has not the components that it started from")
        passes = [told.number for told in state.steps]
        if passes != list(range(1, len(passes) + 1)) or not (state.whole or len(state.bounds) == len(passes)):
            raise ValueError("its passes are not numbered one after the other")
        if not np.all(np.isfinite(state.bounds)) or (state.whole and not state.bounds):
            raise ValueError("its bounds are not a list of numbers")

    def check(self, fitted: Fitted, header: Any) -> None:
        mixture, shown = fitted.mixture, fitted.shown
        mixture.check()
        size = mixture.statistics.shape[0]
        if shown.dtype != np.int64 or not np.array_equal(np.sort(shown), np.arange(size)):
            raise ValueError("its order of components is not one")
        if not 1 <= fitted.n_clusters <= size or fitted.n_iter < 1:
            raise ValueError(f"its number of clusters {fitted.n_clusters} is not one of its components")
        if fitted.trace.dtype != np.float64 or fitted.trace.ndim != 1 or fitted.trace.size == 0:
            raise ValueError("its bounds are not a list of numbers")
        check_columns(fitted.model, fitted.columns, header)

    def facts(self, fitted: Fitted, row_leaf: np.ndarray | None) -> Facts:
        return facts_of(fitted, row_leaf)


def fitted_of(state: State, columns: np.ndarray, shown: np.ndarray, n_clusters: int, alpha_learned: bool) -> Fitted:
    """The fitted record of where a fit stopped."""
    # A fit of all rows says the bound of its start too.
    n_iter = max(1, len(state.bounds) - (1 if state.whole else 0))
    trace = np.array(state.bounds, dtype=np.float64)
    return Fitted(
        columns, state.mixture, shown, n_clusters, trace, n_iter, state.steps, state.is_bound, state.converged,
        alpha_learned,
    )  # fmt: skip


def used_floats(rows: Any, columns: np.ndarray) -> Any:
    """The columns of rows (n, d) that a mixture uses, as float64, dense ones row by row in memory."""
    rows = used_columns(rows, columns).astype(np.float64, copy=False)
    return np.ascontiguousarray(rows) if isinstance(rows, np.ndarray) else rows


# What workers do -----------------------------------------------------------------------------------------------------


class _Elsewhere:
    """Rows that keep no responsibilities between passes: there is nothing to rename, and no exact bound."""

    def permute(self, order: np.ndarray) -> None: ...

    def exact_log_prior(self, rule: Rule) -> float | None:
        return None


def chunk_rows(job: Job, chunk: int) -> Any:
    """The rows of a chunk, those columns that the family uses, as float64."""
    return used_floats(job.read(chunk), job.prepared.columns)


def _state(job: Job, number: int) -> PassState:
    def make() -> PassState:
        with one_blas_thread():
            return job.state(number).mixture.state

    return _states.get((job.run_id, number), make)


@reads(lambda job, number, chunk: job.ahead(chunk))
def sums_task(job: Job, number: int, chunk: int) -> Sums:
    """One chunk's part of the pass that starts from checkpoint `number`: the E-step's sums."""
    return pass_over(chunk_rows(job, chunk), _state(job, number))


def combine_sums_task(parts: Sequence[Sums]) -> Sums:
    """Add the sums of up to eight chunks or groups of chunks, in order."""
    return reduce(add, parts)


@reads(lambda job, number, chunk: job.ahead(chunk))
def raw_labels_task(job: Job, number: int, chunk: int) -> np.ndarray:
    """Write the most probable component of each row of a chunk; returns how many rows each component has (T,)."""
    mixture = job.state(number).mixture
    with one_blas_thread():
        best = mixture.by_size[mixture.best(chunk_rows(job, chunk), mixture.by_size)]
    job.store.write_rows(_RAW_LABELS, job.bounds(chunk)[0], best.astype(np.int32))
    return np.bincount(best, minlength=mixture.counts.shape[0])


@reads(lambda job, rank, chunk: job.ahead(chunk, _RAW_LABELS, rows=False))
def shown_labels_task(job: Job, rank: np.ndarray, chunk: int) -> np.ndarray:
    """Write the final labels of a chunk, component i renamed to rank[i]; returns their counts (T,)."""
    start, stop = job.bounds(chunk)
    raw = job.store.read_rows(_RAW_LABELS, start, stop)
    if raw.min(initial=0) < 0:  # what was never written reads as -1
        raise ValueError(f"labels of rows {start} to {stop - 1} are missing in {job.store.location}: it is damaged")
    labels = rank[raw]
    job.store.write_rows("labels", start, labels.astype(np.int32))
    return np.bincount(labels, minlength=rank.shape[0])
