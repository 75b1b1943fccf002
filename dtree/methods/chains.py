"""Markov chains over partitions. Every chain is a part that moves on its own, one block of sweeps after the other.

A block is a few seconds of sweeps. Its draws and where the chain stands after it are one record, so a chain that dies
repeats at most one block; stopping changes no draw.
"""

import threading
import time
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dtree.core.families import AUTO, expected
from dtree.core.fingerprint import fingerprint
from dtree.core.model import Model
from dtree.core.priors import prior_of
from dtree.core.recent import Recent
from dtree.core.shape import Shape, shape_of_tree
from dtree.mcmc.credibility import node_credibility
from dtree.mcmc.partition_posterior import credible_ball, uncertainty
from dtree.mcmc.point_estimate import best_partition, coclustering, evenly
from dtree.mcmc.posterior import as_datatree, stack_chains, summary_of, tree_at_medians, with_checksums
from dtree.mcmc.predictive import log_density_over_draws, log_membership_at
from dtree.mcmc.problem import Problem
from dtree.mcmc.run import Draws, begin_chain, run_chain, sampler_named
from dtree.methods import chain_records as records
from dtree.methods.contract import Job, Method, Standing, Workers, used_columns
from dtree.methods.degenerate import chains_that_stand
from dtree.methods.facts import Facts, counted
from dtree.methods.fitted_checks import check_columns, check_statistics
from dtree.methods.settings import option
from dtree.methods.whole_rows import look_at, whole_rows
from dtree.storage.places import Place, remove_tree
from dtree.storage.zarr_places import zarr_at

_MOST_DRAWS_TOLD = 1000  # that `info` and the report look at: more take seconds and change the second digit
BLOCK_SECONDS = 2.0  # a block ends after about so long: seldom enough to cost nothing, often enough to lose little
BLOCK_BYTES = 64_000_000  # or when its partitions take so much memory
MOST_LEAVES = 200_000  # a sweep over more takes minutes, and every draw of every chain is kept

_problems = Recent(8)  # by run, chain and thread: a problem holds a workspace, which two threads must not share


class Settings(msgspec.Struct, frozen=True):
    """How chains run; see `dtree.DPMixtureMCMC`."""

    sampler: Annotated[
        str, option("tgmcmc, gibbs, split-merge, slice, gibbs-subset, split-merge-subset, or tgmcmc-paper (biased).")
    ] = "tgmcmc"
    family: Annotated[
        Any, option("What a cluster looks like: auto if not given, or what the run has whose clusters are sampled.")
    ] = None
    prior: Annotated[
        Any,
        option("Prior over partitions, dp or nggp: dp if not given, or what the run has whose clusters are sampled."),
    ] = None
    chains: Annotated[int, option("How many chains.", ge=1)] = 4
    draws: Annotated[int, option("Draws to keep of each chain.", ge=1)] = 1000
    warmup: Annotated[
        int | None, option("Sweeps before the first draw; half as many as draws, at least 100, if not given.")
    ] = None
    thin: Annotated[int, option("Sweeps per draw.", ge=1)] = 1
    resample_hyperparameters: Annotated[
        bool, option("Keep alpha (and sigma) as they are instead of sampling them.", command="!fixed")
    ] = True
    coarsening: Annotated[
        float | None, option("Trust in the likelihood, above 0 and at most 1; less gives broader clusters.")
    ] = None
    loss: Annotated[Literal["vi", "binder"], option("What the point estimate minimises in expectation.")] = "vi"
    n_jobs: Annotated[int, option("Chains run at the same time, in threads.", ge=1, command=None)] = 1
    block_draws: Annotated[
        int | None, option("Draws after which a chain is committed, at the latest.", ge=1, command=None)
    ] = None

    def check(self) -> None:
        """What the options themselves do not say."""
        sampler_named(self.sampler)
        if self.warmup is not None and self.warmup < 0:
            raise ValueError(f"warmup must not be negative, got {self.warmup}")

    @property
    def warmup_sweeps(self) -> int:
        """Sweeps before the first draw."""
        return max(100, self.draws // 2) if self.warmup is None else self.warmup

    @property
    def sweeps(self) -> int:
        """Sweeps of a whole chain."""
        return self.warmup_sweeps + self.draws * self.thin

    def block_sweeps(self, m: int) -> int:
        """Most sweeps in a block over m leaves."""
        most = max(1, BLOCK_BYTES // (4 * m)) if self.block_draws is None else self.block_draws
        return min(self.draws, most) * self.thin


class Chains(
    Method, Settings=Settings, Prepared=records.Prepared, Part=records.Part, Kept=Draws, Fitted=records.Fitted
):
    """Markov chain Monte Carlo over partitions."""

    name = "chains"
    estimator = "DPMixtureMCMC"
    command = "sample"
    instead = "more --draws, another --sampler or --family, or a larger --alpha"
    takes_runs = True

    def value_kind(self, settings: Settings) -> str:
        return expected(AUTO if settings.family is None else settings.family).value_kind

    def tiny(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, chains=2, draws=2, warmup=1, thin=1, n_jobs=1, block_draws=None)

    def prepare(self, job: Job, workers: Workers) -> records.Prepared:
        settings = job.settings
        if job.reduction is not None:
            return self._prepare_clusters(job)
        if job.n > MOST_LEAVES:
            raise ValueError(
                f"{job.n:,} rows are too many leaves for a chain (at most {MOST_LEAVES:,}): reduce them first with "
                "'dtree fit --method bayes-kmeans' and sample over the clusters of that run"
            )
        seen = look_at(
            job,
            AUTO if settings.family is None else settings.family,
            "dp" if settings.prior is None else settings.prior,
            1.0 if settings.coarsening is None else settings.coarsening,
        )
        leaves = np.full(job.n, -1)
        leaves[seen.held] = np.arange(seen.held.shape[0])
        atoms = seen.model.atoms(seen.rows, seen.weight)
        return records.Prepared(seen.columns, seen.fingerprint, seen.model, atoms, leaves)

    def _prepare_clusters(self, job: Job) -> records.Prepared:
        """The clusters of a run of Bayes K-means, or other atoms, as leaves."""
        settings, found = job.settings, job.reduction
        if settings.family is not None or settings.coarsening is not None:
            raise ValueError(
                f"{job.source.name} is a run with a family and a coarsening of its own: leave those options out"
            )
        model = found.model
        if settings.prior is not None:
            model = Model(model.family, prior_of(settings.prior), model.coarsening)
        atoms = found.statistics
        return records.Prepared(found.columns, fingerprint(atoms), model, atoms, np.arange(atoms.shape[0]))

    def parts(self, job: Job) -> int:
        return job.settings.chains

    def advance(self, job: Job, number: int, part: records.Part | None) -> tuple[records.Part, records.ChainStatus]:
        settings, prepared = job.settings, job.prepared
        problem = _problems.get(
            (job.run_id, number, threading.get_ident()),
            lambda: Problem(prepared.model, prepared.atoms, settings.resample_hyperparameters),
        )
        blocks, seconds = (0, 0.0) if part is None else (part.number, part.seconds)
        checkpoint = begin_chain(problem, settings.sampler, job.seed, number) if part is None else part.checkpoint
        began = time.perf_counter()
        sweeps = min(settings.sweeps - int(checkpoint["sweep"]), settings.block_sweeps(problem.m))
        draws, checkpoint = run_chain(
            problem, settings.sampler, checkpoint, sweeps, settings.warmup_sweeps, settings.thin, BLOCK_SECONDS
        )
        draws = draws._replace(seconds=draws.seconds + seconds)
        part = records.Part(blocks + 1, checkpoint, draws, seconds + time.perf_counter() - began)
        return part, records.status_of(number, part)

    def how_far(self, job: Job) -> str:
        lines = []
        for chain in range(job.settings.chains):
            part = job.newest_part(chain)
            if part is not None:
                draws = sum(block.log_joint.shape[0] for block in job.kept(chain))
                lines.append(f"{records.status_of(chain, part).line()}, {counted(draws, 'draw')}")
        return "; ".join(lines) if lines else "no chain has begun"

    def standing(self, job: Job) -> Standing:
        settings = job.settings
        found = {chain: job.newest_part(chain) for chain in range(settings.chains)}
        parts = [(records.status_of(chain, part), part) for chain, part in found.items() if part is not None]
        total, done = settings.sweeps * settings.chains, sum(status.sweep for status, _ in parts)
        if not parts:
            return Standing(0, total, "sweep")
        best = max(parts, key=lambda each: each[0].now_log_joint)[0]
        each = sum(part.seconds for _, part in parts) / max(done, 1)
        return Standing(done, total, "sweep", best.now_log_joint, "log joint", best.now_clusters, None, each)

    def part_over(self, job: Job, part: records.Part) -> bool:
        return int(part.checkpoint["sweep"]) >= job.settings.sweeps

    def finish(self, job: Job, workers: Workers, state: None) -> records.Fitted:
        settings, prepared = job.settings, job.prepared
        kept = [job.kept(chain) for chain in range(settings.chains)]
        for chain, blocks in enumerate(kept):
            found = sum(block.log_joint.shape[0] for block in blocks)
            if found != settings.draws:
                wrong = f"chain {chain} has {found} draws, not {settings.draws}"
                raise ValueError(f"{job.store.location} is damaged: {wrong}")
        _problems.forget(lambda key: key[0] == job.run_id)
        draws, model, atoms = stack_chains(kept), prepared.model, prepared.atoms
        best = best_partition(draws.labels.reshape(-1, atoms.shape[0]), model.counts(atoms), settings.loss)
        stops = [job.newest_part(chain).checkpoint for chain in range(settings.chains)]
        labels, warmup = best, settings.warmup_sweeps
        fitted = records.Fitted(prepared.columns, model, settings.sampler, atoms, draws, stops, best, warmup)
        if prepared.leaves.min() < 0:  # rows of weight 0 are in no draw
            rows = used_columns(whole_rows(job, AUTO if settings.family is None else settings.family), fitted.columns)
            labels = np.argmax(np.exp(log_membership_at(model, atoms, best, rows)), axis=1)
        for name, values in (("leaves", prepared.leaves), ("labels", labels)):
            job.store.create_rows(name, job.n, job.chunk_rows, np.int32, -2)  # -1 stands for no leaf
            job.store.write_rows(name, 0, values.astype(np.int32))
            job.store.flush_rows(name)
        return fitted

    def also_write(self, fitted: records.Fitted, folder: Place) -> None:
        """The posterior as ArviZ reads it."""
        remove_tree(folder / "posterior")  # half of one, when the disk was full
        posterior = as_datatree(fitted.model.prior, fitted.draws)
        posterior.to_zarr(
            zarr_at(folder / "posterior"),
            zarr_format=3,
            consolidated=False,
            mode="w",
            encoding=with_checksums(posterior),
        )

    # After the fit --------------------------------------------------------------------------------------------------

    def again(self, fitted: records.Fitted) -> tuple[records.Prepared, list[records.Part]]:
        """What a finished run was made from, for chains that go on: rows of weight 0 are forgotten."""
        atoms = fitted.atoms
        prepared = records.Prepared(fitted.columns, "", fitted.model, atoms, np.arange(atoms.shape[0]))
        parts = []
        for chain, checkpoint in enumerate(fitted.stops):
            draws = Draws(*(values[chain] for values in fitted.draws))
            parts.append(records.Part(1, checkpoint, draws, float(draws.seconds[-1])))
        return prepared, parts

    def predict(self, fitted: records.Fitted, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        rows = used_columns(rows, fitted.columns)
        member = log_membership_at(fitted.model, fitted.atoms, fitted.leaf_clusters, rows)
        density = log_density_over_draws(fitted.model, fitted.atoms, fitted.partitions, fitted.priors, rows)
        return np.argmax(np.exp(member), axis=1), density

    def check_part(self, job: Job, number: int, part: records.Part) -> None:
        prepared = job.prepared
        check_statistics(prepared.model, prepared.atoms, "of its leaves")
        check_columns(prepared.model, prepared.columns, job)
        m, prior, leaves = prepared.atoms.shape[0], prepared.model.prior, prepared.leaves
        if leaves.shape != (job.n,) or not np.array_equal(leaves[leaves >= 0], np.arange(m)):
            raise ValueError(f"its {m} leaves are not rows of the data")
        self.check_kept(job, part.kept)
        records.check_checkpoint(number, part.checkpoint, job.settings.sampler, m, prior)

    def check_kept(self, job: Job, kept: Draws) -> None:
        records.check_draws(kept, job.prepared.atoms.shape[0], job.prepared.model.prior)

    def check(self, fitted: records.Fitted, header: Any) -> None:
        records.check_fitted(fitted, header)

    def facts(self, fitted: records.Fitted, row_leaf: np.ndarray | None) -> Facts:
        chains, draws, m = fitted.draws.labels.shape
        k = int(fitted.leaf_clusters.max()) + 1
        length = f"{counted(chains, 'chain')} of {counted(draws, 'draw')}"
        if row_leaf is not None and np.any(row_leaf < 0):
            row_leaf = None  # rows of weight 0 are no leaves, so the leaves cannot stand for the rows
        posterior = as_datatree(fitted.model.prior, fitted.draws)
        told = fitted.partitions[evenly(fitted.partitions.shape[0], _MOST_DRAWS_TOLD)]
        sure = uncertainty(told, fitted.leaf_clusters, fitted.model.counts(fitted.atoms))
        drawn = {str(name): np.asarray(v, dtype=float) for name, v in posterior["posterior"].data_vars.items()}
        return Facts(
            title="Markov chain Monte Carlo over partitions",
            n_clusters=k,
            headline=f"{counted(k, 'cluster')} in the point estimate of {length}",
            shape=lambda: self._shape(fitted),
            leaf_clusters=fitted.leaf_clusters,
            row_leaf=row_leaf,
            lines={
                "chains": f"{length} after {fitted.warmup} sweeps, sampler {fitted.sampler}",
                "leaves": f"{m:,}",
                "seconds of all chains": f"{fitted.draws.seconds[:, -1].sum():.2f}",
            },
            warnings=tuple(chains_that_stand(fitted.draws.labels, fitted.sampler)),
            remark="Colours are the clusters of the point estimate, which need not be branches of this tree.",
            model=fitted.model,
            statistics=fitted.atoms,
            traces={name.replace("_", " "): ("draw", list(v)) for name, v in drawn.items() if v.ndim == 2},
            tables={"Summary of the draws": summary_of(posterior), "Credible ball": self._ball(fitted, told)},
            clusters={"found again": sure.cluster_found, "exactly": sure.cluster_exact},
            together=lambda leaves: coclustering(fitted.partitions[:, leaves]),
        )

    def _ball(self, fitted: records.Fitted, told: np.ndarray) -> Any:
        """The point estimate and the bounds of its credible ball, by the clusters they have and how far they are."""
        import pandas

        ball = credible_ball(told, fitted.leaf_clusters, fitted.model.counts(fitted.atoms))
        lines = {"point estimate": (int(fitted.leaf_clusters.max()) + 1, 0.0)}
        for name, bound in (("furthest", ball.horizontal), ("fewest clusters", ball.upper), ("most", ball.lower)):
            lines[f"{name} within {ball.level:.0%}"] = (bound.n_clusters, bound.distance)
        return pandas.DataFrame.from_dict(lines, orient="index", columns=["clusters", "distance (nats)"])

    def _shape(self, fitted: records.Fitted) -> Shape:
        tree = tree_at_medians(fitted.model, fitted.atoms, fitted.priors)
        found = node_credibility(tree, fitted.partitions)
        return replace(shape_of_tree(tree), r=found.together, p=found.cluster, by="draws")
