"""Split-merge sampling with restricted Gibbs proposals (Jain & Neal 2004), followed by Gibbs sampling.

Two atoms i, j are drawn uniformly. A launch state divides the other members of their clusters between i's side and
j's: at random, then by a few restricted Gibbs scans. A split is proposed by one more scan; a merge is weighed by the
probability that the same scan would have led back. `split-merge-subset` follows it with Gibbs moves of a random
subset only.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import implements, log_kappa
from dtree.mcmc.clusters import SPLITS_AND_MERGES, clear_slot, copy_slot, has_room, merge_slots, write_slot
from dtree.mcmc.gibbs import State, init, random_subset
from dtree.mcmc.problem import Problem
from dtree.mcmc.scores import join_gains, leave_gain, put_atom, refresh_slots, shift_atom
from dtree.mcmc.sweeps import Block, make_moves, several
from dtree.mcmc.worth import accept, gibbs_sweep, log_sigmoid, log_worth, true_count

__all__ = ["State", "block", "init", "step", "subset_step"]

LAUNCH_SCANS = 5  # the first of (5, 1, 1) in the terms of Jain & Neal


@kernel
def _shift_to(work, i, k):
    shift_atom(work.cache, work.clusters, work.atoms, i, k, 1.0)
    work.clusters.n_atoms[k] += 1


@kernel
def _restricted_log_odds(work, i, here, there):
    """log weight of side `there` over side `here` for an atom that sits in slot `here`, itself taken out."""
    clusters, prior, family = work.clusters, work.model.prior, work.model.family
    weight = work.atoms[i, 0] * work.model.per_count
    join_gains(work.cache, family, clusters, work.atoms, i, there, there + 1, np.inf, clusters.scores)
    stay = leave_gain(work.cache, family, clusters, work.atoms, i, here)
    stay += log_kappa(prior, true_count(work, here)) - log_kappa(prior, true_count(work, here) - weight)
    count = true_count(work, there)
    return clusters.scores[there] + log_kappa(prior, count + weight) - log_kappa(prior, count) - stay


@kernel
def _scan(work, side, target, forced, rng):
    """One restricted Gibbs scan over the first of work.members; returns the log probability of its choices.

    side (size,) 0 or 1: which of the two slots beyond the clusters. With `forced` the choices are those of `target`
    (replay).
    """
    first, log_q = work.clusters.open[0], 0.0
    for position in range(side.shape[0]):
        i = work.members[position]
        here = side[position]
        log_odds = _restricted_log_odds(work, i, first + here, first + 1 - here)
        cross = target[position] != here if forced else math.log(rng.random()) < log_sigmoid(log_odds)
        log_q += log_sigmoid(log_odds if cross else -log_odds)
        if cross:
            put_atom(work.cache, work.model.family, work.clusters, work.atoms, i, first + here, -1.0)
            put_atom(work.cache, work.model.family, work.clusters, work.atoms, i, first + 1 - here, 1.0)
            work.clusters.n_atoms[first + here] -= 1
            work.clusters.n_atoms[first + 1 - here] += 1
            side[position] = 1 - here
    return log_q


@kernel
def _launch(work, i, j, side, rng):
    """Build the launch state in the two slots beyond the clusters."""
    first = work.clusters.open[0]
    clear_slot(work, first)
    clear_slot(work, first + 1)
    _shift_to(work, i, first)
    _shift_to(work, j, first + 1)
    for position in range(side.shape[0]):
        side[position] = 1 if rng.random() < 0.5 else 0
        _shift_to(work, work.members[position], first + side[position])
    refresh_slots(work.cache, work.model.family, work.clusters, first, first + 2)
    for _ in range(LAUNCH_SCANS):
        _scan(work, side, side, False, rng)


@kernel
def split_merge_move(work, rng):
    """One proposal. Needs `has_room`."""
    clusters, labels = work.clusters, work.labels
    m = labels.shape[0]
    i = rng.integers(0, m)
    j = rng.integers(0, m - 1)
    if j >= i:
        j += 1
    a, b = labels[i], labels[j]
    log_uniform = math.log(rng.random())
    size = 0
    for atom in range(m):
        if (labels[atom] == a or labels[atom] == b) and atom != i and atom != j:
            work.members[size] = atom
            size += 1
    side = np.empty(size, dtype=np.int64)
    first = clusters.open[0]
    if a == b:
        _launch(work, i, j, side, rng)
        log_q = _scan(work, side, side, False, rng)
        gain = log_worth(work, first) + log_worth(work, first + 1) - log_worth(work, a)
        if not accept(work.acceptance, SPLITS_AND_MERGES, gain - log_q, log_uniform):
            return
        labels[j] = first
        for position in range(size):
            if side[position] == 1:
                labels[work.members[position]] = first
        copy_slot(work, first, a)
        copy_slot(work, first + 1, first)
        clusters.open[0] += 1
        return
    # A merge: the union first, since no launch state can rescue a union that is worth too little.
    row = work.row[0]
    for s in range(row.shape[0]):
        row[s] = clusters.columns[s, a] + clusters.columns[s, b]
    write_slot(work, first, row)
    gain = log_worth(work, first) - log_worth(work, a) - log_worth(work, b)
    if log_uniform >= gain and not work.acceptance.wanted[0]:
        return
    target = np.empty(size, dtype=np.int64)
    for position in range(size):
        target[position] = 1 if labels[work.members[position]] == b else 0
    _launch(work, i, j, side, rng)
    log_q = _scan(work, side, target, True, rng)
    if accept(work.acceptance, SPLITS_AND_MERGES, gain + log_q, log_uniform):
        merge_slots(work, a, b, row)


class Moves(NamedTuple):
    """A proposal, then Gibbs moves of the atoms in `order`."""

    order: np.ndarray


@implements(make_moves, Moves)
@kernel
def _make_moves(moves, number, work, rng):
    if work.labels.shape[0] > 1:
        if not has_room(work):
            return False
        split_merge_move(work, rng)
    return gibbs_sweep(work, moves.order, 0, rng) == moves.order.shape[0]


def block(problem: Problem, state: State, most: int, rng: np.random.Generator) -> Block:
    """Split-merge proposals, each with a Gibbs sweep over all atoms: (5, 1, 1) in the terms of Jain & Neal."""
    return several(problem, state, Moves(np.arange(problem.m)), most, rng)


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One of them."""
    return block(problem, state, 1, rng).state


def subset_step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """A split-merge proposal and Gibbs moves of a tenth of the atoms."""
    return several(problem, state, Moves(random_subset(problem, rng)), 1, rng).state
