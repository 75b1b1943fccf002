"""Dirichlet diffusion trees [KVG11]: a density, a hierarchy with times, and clusters at a cut.

Every permutation is a walk of its own: it builds a tree, searches, then samples around what it found. A walk is the
same to the last bit however it is cut into pieces, so neither the number of workers nor a death nor a stop changes the
answer.
"""

import copy
import math
import time
from collections.abc import Sequence
from numbers import Integral
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from dtree.core.fingerprint import fingerprint
from dtree.diffusion import walk as walking
from dtree.diffusion.affine import SCALINGS
from dtree.diffusion.checkpoint import check_walk
from dtree.diffusion.clusters import cut, widest_gap
from dtree.diffusion.objective import Hyper
from dtree.diffusion.posterior import posterior_of
from dtree.diffusion.predictive import NODES, posterior_of_c, posterior_of_precision
from dtree.diffusion.prepare import prepare
from dtree.diffusion.records import kept_posterior
from dtree.diffusion.walk import Plan
from dtree.methods import diffusion_fitted as results
from dtree.methods import diffusion_records as records
from dtree.methods.clusters_as_leaves import prepare_clusters
from dtree.methods.contract import Job, Method, Standing, Workers, used_columns
from dtree.methods.diffusion_facts import facts_of
from dtree.methods.facts import Facts
from dtree.methods.incremental import generator_in, state_of
from dtree.methods.settings import option
from dtree.variational.threads import one_blas_thread

INFERENCES = ("laplace", "em", "message-passing", "mcmc")
LIKELIHOODS = ("gaussian", "probit")
INITS = ("sequential", "bhc")
SWEEPS = 80  # of the posterior sampler after a search, unless told otherwise: half settle, half are kept
SHAPE_RATE = tuple[float, float]  # of a gamma prior
LARGEST_READ = 4_000_000_000  # bytes of rows that one process reads at once: half the memory of a small worker


class Settings(msgspec.Struct, frozen=True):
    """How diffusion trees are found; see `dtree.DiffusionTree`."""

    inference: Annotated[
        str, option("laplace, em or message-passing (how trees are ranked), or mcmc (sample trees).")
    ] = "laplace"
    likelihood: Annotated[str, option("gaussian, or probit for rows of 0 and 1.")] = "gaussian"
    n_permutations: Annotated[int, option("Independent searches; with mcmc, chains.", ge=1, command="permutations")] = 3
    init: Annotated[str, option("Where searches start: sequential, or bhc for the tree of BHC.")] = "sequential"
    search_steps: Annotated[
        int | None, option("Search steps of each permutation; 100 + rows when left out.", ge=0, command="steps")
    ] = None
    posterior_sweeps: Annotated[
        int | None, option("Sampler sweeps after each search, for the density's average.", ge=0, command="sweeps")
    ] = None
    n_trees: Annotated[int, option("How many of the best distinct trees are kept.", ge=1, command=None)] = 10
    attachments: Annotated[int, option("Places that are tried exactly for a detached subtree.", ge=1, command=None)] = 3
    beam: Annotated[int, option("Branches that are followed to find those places.", ge=1, command=None)] = 12
    sigma2: Annotated[float | None, option("Diffusion variance; integrated out when left out.", command=None)] = None
    c: Annotated[float | None, option("Smoothness; integrated out when left out.", command=None)] = None
    start: Annotated[float | None, option("With probit: where all paths start.", command=None)] = None
    precision_prior: Annotated[SHAPE_RATE, option("The gamma prior of 1 / sigma2.", command=None)] = (2.0, 1.5)
    c_prior: Annotated[SHAPE_RATE, option("The gamma prior of c.", command=None)] = (2.0, 2.0)
    noise: Annotated[
        float | str, option("Variance of a row around its leaf, relative to sigma2, or auto, which learns it.")
    ] = "auto"
    scaling: Annotated[str, option("auto, whiten, standardize or none.")] = "auto"
    max_leaves: Annotated[int, option("More rows than this are summarised by atoms first.", ge=2)] = 2000
    importance_draws: Annotated[int, option("With laplace: draws that correct each evidence.", ge=0, command=None)] = 0
    mcmc_draws: Annotated[int, option("With mcmc: sweeps of each chain that are kept.", ge=1, command="draws")] = 100
    mcmc_warmup: Annotated[int, option("With mcmc: sweeps of each chain before that.", ge=0, command="warmup")] = 100
    n_nodes: Annotated[int, option("Nodes per branch in the predictive density.", ge=1, command=None)] = NODES
    n_clusters: Annotated[
        int | None, option("Cut the tree into so many clusters; else in its widest gap.", ge=1, command="clusters")
    ] = None
    # A stop or a death loses at most so many seconds of a walk; writing a checkpoint takes some hundredths of a second.
    checkpoint_seconds: Annotated[float, option("Seconds between checkpoints of a walk.", ge=0.0, command=None)] = 10.0

    def hyper(self) -> Hyper:
        """How sigma2 and c are treated."""
        return Hyper(self.sigma2, self.c, self.precision_prior, self.c_prior)

    def for_rows(self) -> dict[str, Any]:
        """What `prepare` is told of the rows."""
        names = ("noise", "scaling", "max_leaves", "likelihood", "start")
        return {name: getattr(self, name) for name in names}

    def plan(self, n_leaves: int) -> Plan:
        """What is asked of each walk over n_leaves leaves.

        >>> Settings().plan(50).search_steps
        150
        """
        keep = (self.n_trees, self.attachments, self.beam, self.init)
        if self.inference == "mcmc":
            return Plan(0, self.mcmc_warmup + self.mcmc_draws, self.mcmc_draws, *keep)
        steps = 100 + n_leaves if self.search_steps is None else self.search_steps
        sweeps = self.posterior_sweeps
        if sweeps is None:
            sweeps = SWEEPS if self.inference == "laplace" else 0
        if self.likelihood == "probit":
            sweeps = 0  # its sampler is slow: it is used when asked for
        return Plan(steps, sweeps, sweeps - sweeps // 2, *keep)

    def check(self) -> None:
        """ValueError with one sentence unless the settings make sense together."""
        choices = {"inference": INFERENCES, "likelihood": LIKELIHOODS, "init": INITS, "scaling": SCALINGS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.likelihood == "probit" and self.inference not in ("laplace", "mcmc"):
            raise ValueError(
                "The probit likelihood works with inference='laplace' (expectation propagation over locations, Laplace "
                f"over times) or 'mcmc', got inference={self.inference!r}."
            )
        if isinstance(self.noise, str) and self.noise != "auto":
            raise ValueError(f"noise must be 'auto' or a variance >= 0, got {self.noise!r}.")
        if not isinstance(self.noise, str) and not 0 <= self.noise < math.inf:
            raise ValueError(f"noise is a variance and cannot be negative or infinite, got {self.noise}.")
        for name in ("sigma2", "c"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive or None, got {value}.")
        for name in ("precision_prior", "c_prior"):
            value = getattr(self, name)
            if np.shape(value) != (2,) or not all(0 < number < math.inf for number in value):
                raise ValueError(f"{name} must be a pair of positive numbers, shape and rate, got {value!r}.")
        if self.start is not None and not math.isfinite(self.start):
            raise ValueError(f"start must be a number or None, got {self.start}.")
        if self.start is not None and self.likelihood != "probit":
            raise ValueError("start belongs to the probit likelihood; real-valued rows are centred instead.")


class Progress(NamedTuple):
    """How far a walk is, and the best score that it has seen.

    Gaussian leaves: the local Laplace evidence of the search, in the original units. Probit: the same of the Gaussian
    sites that stand in for the bits, good for comparing trees and not an evidence of the bits.
    """

    walk: int
    done: int
    length: int
    log_score: float
    is_evidence: bool

    def line(self) -> str:
        """What the console shows."""
        what = "log evidence" if self.is_evidence else "search score"
        return f"walk {self.walk + 1}: {self.done} of {self.length} steps, best {what} {self.log_score:.6g}"


class DiffusionTrees(Method, Settings=Settings, Prepared=records.Prepared, Part=records.Part, Fitted=results.Fitted):
    """Walks over trees, one for each permutation of the rows."""

    name = "ddt"
    estimator = "DiffusionTree"
    command = "ddt"
    instead = "--clusters K, or more --steps and --permutations"
    takes_runs = True
    predict_rows = 5_000  # a row meets every branch of every averaged tree

    def value_kind(self, settings: Settings) -> str:
        return "binary" if settings.likelihood == "probit" else "real"

    def seed_of(self, random_state: Any) -> int:
        """A number is the seed itself: the seeds of all walks are drawn from it."""
        return int(random_state) if isinstance(random_state, Integral) else super().seed_of(random_state)

    def tiny(self, settings: Any) -> Any:
        sweeps = min(1, settings.plan(2).sweeps)
        few = {"n_permutations": 1, "search_steps": 1, "posterior_sweeps": sweeps, "mcmc_draws": 1, "mcmc_warmup": 0}
        return msgspec.structs.replace(settings, **few, n_clusters=None)

    def prepare(self, job: Job, workers: Workers) -> records.Prepared:
        n, d = job.source.shape
        if job.reduction is None and 8 * n * d > LARGEST_READ:
            raise ValueError(
                f"{n:,} rows of {d} columns are too many to read at once: fit them by 'dtree fit --method "
                "bayes-kmeans' and give that run as the data"
            )
        prepared = workers.run(prepare_task, [(job,)])[0] if job.reduction is None else _prepare_clusters(job)
        leaves, wanted = prepared.rows.leaves.mean.shape[0], job.settings.n_clusters
        if wanted is not None and wanted > leaves:  # better said before a search than after
            raise ValueError(f"A tree over {leaves} leaves cannot be cut into {wanted} clusters.")
        return prepared

    def parts(self, job: Job) -> int:
        return job.settings.n_permutations

    def advance(self, job: Job, number: int, part: records.Part | None) -> tuple[records.Part, Progress]:
        rows, plan = job.prepared.rows, plan_of(job)
        until = time.monotonic() + job.settings.checkpoint_seconds
        if part is None:
            rng = np.random.default_rng(seeds_of(job)[1 + number])
            walk = walking.start_walk(rows.leaves, rows.hyper, plan, rng, rows.bits)
        else:
            walk = copy.deepcopy(part.walk)  # it changes in place, and what was committed must stay as it is
            rng = generator_in(part.generator)
        with one_blas_thread():
            while walk.done < plan.length:
                walk = walking.advance(walk, rows.leaves, rows.hyper, plan, 1, rng, rows.bits)
                if time.monotonic() > until:
                    break
        score = walk.log_score - rows.log_volume
        new = records.Part(walk.done, walk, state_of(rng))
        return new, Progress(number, walk.done, plan.length, score, rows.bits is None)

    def part_over(self, job: Job, part: records.Part) -> bool:
        return part.number >= plan_of(job).length

    def standing(self, job: Job) -> Standing:
        newest = [job.newest_part(number) for number in range(self.parts(job))]
        scores = [part.walk.log_score - job.prepared.rows.log_volume for part in newest if part is not None]
        name = "log evidence" if job.prepared.rows.bits is None else "search score"
        return Standing(*self.steps_done(job), "step", max(scores, default=None), name if scores else "")

    def how_far(self, job: Job) -> str:
        return "{:,} of {:,} steps done".format(*self.steps_done(job))

    def steps_done(self, job: Job) -> tuple[int, int]:
        """Steps and sweeps done by all walks, and all there are."""
        newest = [job.newest_part(number) for number in range(self.parts(job))]
        return sum(part.number for part in newest if part is not None), plan_of(job).length * len(newest)

    def finish(self, job: Job, workers: Workers, state: None) -> results.Fitted:
        return workers.run(finish_task, [(job,)])[0]

    def check_part(self, job: Job, number: int, part: records.Part) -> None:
        prepared = job.prepared
        records.check_used_columns(prepared.columns, prepared.constants, prepared.rows, job.n_features)
        if prepared.rows.leaf_of_row.shape != (job.n,):
            raise ValueError(f"it has leaves for {prepared.rows.leaf_of_row.size} rows instead of {job.n}")
        if part.number != part.walk.done:
            raise ValueError(f"walk {number} has done {part.walk.done} steps and not {part.number}")
        check_walk(part.walk, prepared.rows, plan_of(job))
        generator_in(part.generator)

    def check(self, fitted: results.Fitted, header: Any) -> None:
        fitted.check(header.n_rows, header.n_features)

    def checked(self, fitted: results.Fitted, rows: Any, first_row: int = 0) -> np.ndarray:
        return dense(rows, first_row)

    def predict(self, fitted: results.Fitted, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        used = np.ascontiguousarray(used_columns(rows, fitted.columns))
        return fitted.labels(used), fitted.log_density(used)

    def converged(self, fitted: results.Fitted) -> bool | None:
        return None if fitted.inference == "mcmc" else all(fit.converged for fit in fitted.posterior.best)

    def facts(self, fitted: results.Fitted, row_leaf: np.ndarray | None) -> Facts:
        return facts_of(fitted)


def seeds_of(job: Job) -> list[int]:
    """One seed for what comes before the walks, then one for each walk."""
    drawn = np.random.RandomState(job.seed).randint(2**31 - 1, size=job.settings.n_permutations + 1)
    return [int(seed) for seed in drawn]


def plan_of(job: Job) -> Plan:
    """How long each walk is."""
    return job.settings.plan(job.prepared.rows.leaves.mean.shape[0])


def dense(rows: Any, first_row: int = 0) -> np.ndarray:
    """Rows as float64, NaN where missing; one sentence for infinite values."""
    rows = np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
    if np.isinf(rows).any():
        row = first_row + int(np.flatnonzero(np.isinf(rows).any(axis=1))[0])
        raise ValueError(f"row {row} holds an infinite value")
    return rows


# What workers do -----------------------------------------------------------------------------------------------------


def prepare_task(job: Job) -> records.Prepared:
    """Read the rows, find units, leaves and noise."""
    rows = dense(job.load())
    with one_blas_thread():  # the last bit of a sum depends on how many there are, and so would every walk
        found = prepare(rows, seeds_of(job)[0], job.settings.hyper(), **job.settings.for_rows())
    return records.Prepared.of(found, fingerprint(rows))


def _prepare_clusters(job: Job) -> records.Prepared:
    """The clusters of another run as leaves; columns that it left out are left out here, their values unknown."""
    kept: Any = job.reduction
    found = prepare_clusters(kept.model, kept.statistics, job.settings.hyper(), seeds_of(job)[0], job.source.name)
    constants = np.full(job.source.shape[1], math.nan)
    constants[kept.columns] = found.constants
    record = records.Prepared.of(found, fingerprint(kept.statistics))
    return msgspec.structs.replace(record, columns=kept.columns[found.columns], constants=constants)


def finish_task(job: Job) -> results.Fitted:
    """Join the finished walks and write the labels."""
    newest = [job.newest_part(number) for number in range(job.method.parts(job))]
    missing = [number for number, part in enumerate(newest) if part is None]
    if missing:
        raise RuntimeError(
            f"walk {missing[0]} of {job.store.location} has no checkpoint: the run's folder was changed from outside"
        )
    prepared = job.prepared
    with one_blas_thread():
        fitted = joined([part.walk for part in newest], prepared, job.settings)
    job.store.create_rows("labels", job.n, job.n, np.int32, -1)
    job.store.write_rows("labels", 0, fitted.node_labels[prepared.rows.leaf_of_row].astype(np.int32))
    return fitted


def joined(walks: Sequence[walking.Walk], prepared: records.Prepared, settings: Settings) -> results.Fitted:
    """What finished walks have found: the posterior over trees, the best tree's hyperparameters and its cut."""
    rows = prepared.rows
    posterior = posterior_of(walks, rows, settings.inference, settings.n_trees, settings.importance_draws)
    best = posterior.best[0]
    n_clusters = widest_gap(best.tree) if settings.n_clusters is None else settings.n_clusters
    shape, rate = posterior_of_precision(best.tree, best.leaves, rows.hyper)
    sigma2 = float(1.0 / rate if np.isinf(shape) else rate / max(shape - 1.0, 0.5))
    shape, rate = posterior_of_c(best.tree, best.leaves, rows.hyper)
    return results.Fitted(
        columns=prepared.columns,
        constants=prepared.constants,
        prepared_rows=rows,
        kept=kept_posterior(posterior),
        node_labels=cut(best.tree, n_clusters)[0],
        n_clusters=n_clusters,
        sigma2=sigma2,
        c=float(rate if np.isinf(shape) else shape / rate),
        inference=settings.inference,
        n_nodes=settings.n_nodes,
    )
