"""Several sweeps in one call of machine code: to enter a kernel costs more than a sweep over a few atoms.

A sampler says what one sweep does: a NamedTuple on whose type `make_moves` dispatches. What ends every sweep is the
same for all: canonical labels, then u and the hyperparameters. A call that runs out of room is made again from where it
began, with room for twice as many clusters and the same random numbers, so room changes no draw.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel
from dtree.core.verbs import verb
from dtree.mcmc.clusters import Work, load_partition, renumber
from dtree.mcmc.hyperparameters import Moving, kappa_at, resample_vector
from dtree.mcmc.problem import Problem

# Sweeps of one call visit about so many atoms of at most so many statistics: milliseconds, so that a time limit is
# still kept and the first news come soon.
ATOMS_IN_A_CALL, STATISTICS = 4096, 64


class Block(NamedTuple):
    """Sweeps that were made one after the other, and the sampler's state after the last."""

    state: Any
    labels: np.ndarray  # (sweeps, m) canonical
    prior: np.ndarray  # (sweeps, p)
    log_joint: Any  # a function of the number of a sweep, since most may never be asked


@verb()
def make_moves(moves: Any, number: int, work: Work, rng: np.random.Generator) -> bool:
    """All moves of one sweep, the first of a call being number 0; False when they ended for want of room."""
    raise NotImplementedError


@kernel
def _sweeps(work, moves, moving, labels, vectors, counts, log_marginal, rng):
    """Fill rows 1, 2, ... of labels (b+1, m), vectors (b+1, p), counts and log_marginal (b+1, capacity) from row 0.

    Returns whether there was room.
    """
    for t in range(1, labels.shape[0]):
        load_partition(work, labels[t - 1])
        largest = work.clusters.columns[0, : work.clusters.open[0]].max() * work.model.per_count
        # A cluster that more than doubles in a sweep is weighed without a table: to fill it up to all rows took longer.
        moved = Moving(moving.what, moving.log_gamma[: int(2.0 * largest) + 2])
        prior = kappa_at(work.model.prior, moved, vectors[t - 1])
        model = CompiledModel(work.model.family, prior, work.model.per_count)
        at = Work(
            model,
            work.cache,
            work.clusters,
            work.atoms,
            work.log_alone,
            work.labels,
            work.members,
            work.row,
            work.acceptance,
        )
        if not make_moves(moves, t - 1, at, rng):
            return False
        k = at.clusters.open[0]
        for c in range(k):
            counts[t, c] = np.rint(at.clusters.columns[0, c] * model.per_count)
            log_marginal[t, c] = at.clusters.log_marginal[c]
        resample_vector(moving, vectors[t - 1], counts[t, :k], rng, vectors[t])
        renumber(at.labels, labels[t])
    return True


def several(problem: Problem, state: Any, moves: Any, most: int, rng: np.random.Generator) -> Block:
    """At most so many sweeps, at least one."""
    width = 1 + problem.atoms.shape[1] // STATISTICS
    size = 1 + max(1, min(most, ATOMS_IN_A_CALL // (problem.m * width)))
    labels, vectors = np.empty((size, problem.m), dtype=np.int64), np.empty((size, state.prior.shape[0]))
    labels[0], vectors[0] = state.labels, state.prior
    before, room = rng.bit_generator.state, int(state.labels.max()) + 4
    while True:
        work = problem.work_for(room)
        counts, log_marginal = np.empty((2, size, work.clusters.n_atoms.shape[0]))
        if _sweeps(work, moves, problem.moving, labels, vectors, counts, log_marginal, rng):
            break
        rng.bit_generator.state, room = before, 2 * work.clusters.n_atoms.shape[0]

    def log_joint(sweep: int) -> float:
        k = int(labels[sweep + 1].max()) + 1
        prior = problem.prior_at(vectors[sweep + 1])
        return problem.log_joint_of(prior, counts[sweep + 1, :k], log_marginal[sweep + 1, :k])

    last = {"labels": labels[-1].copy(), "prior": vectors[-1].copy(), "log_joint": np.array(log_joint(size - 2))}
    return Block(state._replace(**last), labels[1:], vectors[1:], log_joint)
