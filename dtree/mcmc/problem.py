"""What a chain is about: a model, atoms, and the workspace in which compiled steps run."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtree.core.families.base import _log_marginal_rows
from dtree.core.model import CompiledModel, Model
from dtree.core.priors import Prior
from dtree.mcmc.clusters import Acceptance, Work, canonical, load_partition, make_work
from dtree.mcmc.hyperparameters import from_parameter_vector, moving_of, parameter_vector, resample
from dtree.mcmc.scores import refresh_slots
from dtree.mcmc.worth import log_worth_of_all

_TABLE = 65_536  # tables are rebuilt at every sweep, so they stay short; larger counts call lgamma


class Problem:
    """A model and atoms (m, s), with everything that is computed from them once.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [1.0]), DirichletProcess(1.0))
    >>> problem = Problem(model, np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 2.0]]))
    >>> problem.n, problem.m
    (2.0, 2)
    """

    def __init__(self, model: Model, atoms: np.ndarray, resample_hyperparameters: bool = True) -> None:
        self.model = model
        self.atoms = np.ascontiguousarray(atoms, dtype=np.float64)
        if self.atoms.ndim != 2 or self.atoms.shape[0] == 0:
            raise ValueError("a chain needs at least one atom: an array (m, s) of statistics")
        self.resample_hyperparameters = resample_hyperparameters
        self.m = self.atoms.shape[0]
        self.total = self.atoms.sum(axis=0)
        self.counts = model.counts(self.atoms)
        self.n = float(self.counts.sum())
        self.family = model.family.compile(self.total, model.coarsening)
        self.log_alone = _log_marginal_rows(self.family, self.atoms)
        self.moving = moving_of(model.prior, min(self.n, _TABLE - 1), resample_hyperparameters)
        self.acceptance = Acceptance(np.zeros(1, dtype=np.bool_), np.zeros((3, 3)))
        self._work: Work | None = None
        self.guide: tuple[Any, ...] | None = None  # what `tgmcmc` makes of its guide tree

    def compile(self, prior: Prior) -> CompiledModel:
        """The model at another prior."""
        return CompiledModel(self.family, prior.compile(min(self.n, _TABLE - 1)), 1.0 / self.model.coarsening)

    def prior_at(self, vector: np.ndarray) -> Prior:
        """The prior at a vector of parameters, as kept in a chain's state."""
        return from_parameter_vector(self.model.prior, vector)

    def load(self, labels: np.ndarray, prior: Prior) -> Work:
        """The workspace, holding this partition under this prior."""
        self._work = self.work_for(int(labels.max()) + 4)._replace(model=self.compile(prior))
        load_partition(self._work, labels)
        return self._work

    def work_for(self, slots: int) -> Work:
        """The workspace, whatever it holds, with at least so many slots for clusters."""
        if self._work is None or self._work.clusters.columns.shape[1] < slots:
            self._work = self._room_for(self.compile(self.model.prior), max(32, 2 * slots))
        return self._work

    def _room_for(self, model: CompiledModel, capacity: int) -> Work:
        return make_work(model, self.atoms, self.log_alone, capacity, self.acceptance)

    def grown(self, work: Work) -> Work:
        """The same clusters with room for twice as many; bits of the statistics are kept."""
        k = int(work.clusters.open[0])
        new = self._room_for(work.model, 2 * work.clusters.columns.shape[1])
        load_partition(new, work.labels)
        new.clusters.columns[:, :k] = work.clusters.columns[:, :k]
        refresh_slots(new.cache, new.model.family, new.clusters, 0, k)
        self._work = new
        return new

    def repeat(self, work: Work, moves: Callable[..., int], count: int, *arguments: Any) -> Work:
        """Call moves(work, *arguments[:-1], begin, rng) until `count` are done, growing the workspace as needed."""
        *rest, rng = arguments
        done = moves(work, *rest, 0, rng)
        while done < count:
            work = self.grown(work)
            done = moves(work, *rest, done, rng)
        return work

    def finish(self, work: Work, prior: Prior, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """End of a sweep: canonical labels, the resampled prior's vector, log joint at the new prior."""
        k = int(work.clusters.open[0])
        counts = np.rint(work.clusters.columns[0, :k] / self.model.coarsening)
        prior = resample(prior, counts, rng, self.resample_hyperparameters)
        log_joint = self.log_joint_of(prior, counts, work.clusters.log_marginal[:k])
        return canonical(work.labels), parameter_vector(prior), np.array(log_joint)

    def log_joint_of(self, prior: Prior, counts: np.ndarray, log_marginal: np.ndarray) -> float:
        """The log joint of clusters with these counts and log marginals (k,)."""
        return prior.log_normaliser(self.n) + float(prior.log_kappa(counts).sum()) + float(log_marginal.sum())

    def log_joint(self, labels: np.ndarray, prior: Prior) -> float:
        """log p(X, partition), jointly with u where the prior has one."""
        work = self.load(canonical(np.asarray(labels, dtype=np.int64)), prior)
        value = prior.log_normaliser(self.n) + log_worth_of_all(work)
        return value if math.isfinite(value) else -math.inf
