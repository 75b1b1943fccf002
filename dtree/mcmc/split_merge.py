"""Split-merge sampling with restricted Gibbs proposals (Jain & Neal 2004), followed by Gibbs sampling.

Two atoms i, j are drawn uniformly. A launch state divides the other members of their clusters between i's side and j's:
at random, then by a few restricted Gibbs scans. A split is proposed by one more scan; a merge is weighed by the probability
that the same scan would have led back. `split-merge-subset` follows it with Gibbs moves of a random subset only.
"""

from __future__ import annotations

import math

import numpy as np

from dtree.core.jit import kernel
from dtree.core.verbs import log_kappa
from dtree.mcmc import gibbs
from dtree.mcmc.clusters import (
    SPLITS_AND_MERGES,
    clear_slot,
    close_slot,
    copy_slot,
    gibbs_sweep,
    log_worth,
    note_proposal,
    room_for_one_more,
    true_count,
)
from dtree.mcmc.gibbs import State, init
from dtree.mcmc.problem import Problem
from dtree.mcmc.scores import join_gains, leave_gain, put_atom, refresh_slot, refresh_slots, shift_atom

__all__ = ["State", "init", "step", "subset_step"]

LAUNCH_SCANS = 5
MOVES_PER_SWEEP = 1


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
def _log_sigmoid(x):
    return min(x, 0.0) - math.log1p(math.exp(-abs(x)))


@kernel
def _scan(work, members, size, side, first, target, forced, rng):
    """One restricted Gibbs scan over members[:size]; returns the log probability of its choices.

    side (size,) 0 or 1: slot first + side. With `forced` the choices are those of `target` (replay).
    """
    log_q = 0.0
    for position in range(size):
        i = members[position]
        here = side[position]
        log_odds = _restricted_log_odds(work, i, first + here, first + 1 - here)
        if forced:
            cross = target[position] != here
        else:
            cross = math.log(rng.random()) < _log_sigmoid(log_odds)
        log_q += _log_sigmoid(log_odds if cross else -log_odds)
        if cross:
            put_atom(work.cache, work.model.family, work.clusters, work.atoms, i, first + here, -1.0)
            put_atom(work.cache, work.model.family, work.clusters, work.atoms, i, first + 1 - here, 1.0)
            work.clusters.n_atoms[first + here] -= 1
            work.clusters.n_atoms[first + 1 - here] += 1
            side[position] = 1 - here
    return log_q


@kernel
def _launch(work, i, j, members, size, side, scans, rng):
    """Build the launch state in the two slots beyond the clusters."""
    first = work.clusters.open[0]
    clear_slot(work, first)
    clear_slot(work, first + 1)
    _shift_to(work, i, first)
    _shift_to(work, j, first + 1)
    for position in range(size):
        side[position] = 1 if rng.random() < 0.5 else 0
        _shift_to(work, members[position], first + side[position])
    refresh_slots(work.cache, work.model.family, work.clusters, first, first + 2)
    for _ in range(scans):
        _scan(work, members, size, side, first, side, False, rng)


@kernel
def split_merge_move(work, scans, rng):
    """One proposal; returns whether it was accepted. Needs `room_for_one_more`."""
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
        _launch(work, i, j, work.members, size, side, scans, rng)
        log_q = _scan(work, work.members, size, side, first, side, False, rng)
        gain = log_worth(work, first) + log_worth(work, first + 1) - log_worth(work, a)
        accepted = log_uniform < gain - log_q
        note_proposal(work.acceptance, SPLITS_AND_MERGES, gain - log_q, accepted)
        if not accepted:
            return False
        labels[j] = first
        for position in range(size):
            if side[position] == 1:
                labels[work.members[position]] = first
        copy_slot(work, first, a)
        copy_slot(work, first + 1, first)
        clusters.open[0] += 1
        return True
    # A merge: the union first, since no launch state can rescue a union that is worth too little.
    row = work.row[0]
    for s in range(row.shape[0]):
        row[s] = clusters.columns[s, a] + clusters.columns[s, b]
        clusters.columns[s, first] = row[s]
    refresh_slot(work.cache, work.model.family, clusters, first)
    gain = log_worth(work, first) - log_worth(work, a) - log_worth(work, b)
    if log_uniform >= gain and not work.acceptance.wanted[0]:
        return False
    target = np.empty(size, dtype=np.int64)
    for position in range(size):
        target[position] = 1 if labels[work.members[position]] == b else 0
    _launch(work, i, j, work.members, size, side, scans, rng)
    log_q = _scan(work, work.members, size, side, first, target, True, rng)
    accepted = log_uniform < gain + log_q
    note_proposal(work.acceptance, SPLITS_AND_MERGES, gain + log_q, accepted)
    if not accepted:
        return False
    for s in range(row.shape[0]):
        clusters.columns[s, a] = row[s]
    clusters.n_atoms[a] += clusters.n_atoms[b]
    refresh_slot(work.cache, work.model.family, clusters, a)
    for atom in range(m):
        if labels[atom] == b:
            labels[atom] = a
    clusters.n_atoms[b] = 0
    close_slot(work, b)
    return True


@kernel
def split_merge_moves(work, count, scans, begin, rng):
    """Moves begin..count-1; returns how many are done, fewer than all when out of room."""
    for done in range(begin, count):
        if not room_for_one_more(work):
            return done
        split_merge_move(work, scans, rng)
    return count


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """A split-merge proposal and a Gibbs sweep over all atoms: (5, 1, 1) in the terms of Jain & Neal."""
    return _sweep(problem, state, np.arange(problem.m), rng)


def subset_step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """A split-merge proposal and Gibbs moves of a tenth of the atoms."""
    size = max(1, int(gibbs.SUBSET_SHARE * problem.m))
    return _sweep(problem, state, rng.choice(problem.m, size, replace=False), rng)


def _sweep(problem: Problem, state: State, order: np.ndarray, rng: np.random.Generator) -> State:
    prior = problem.prior_at(state.prior)
    work = problem.load(state.labels, prior)
    if problem.m > 1:
        work = problem.repeat(work, split_merge_moves, MOVES_PER_SWEEP, MOVES_PER_SWEEP, LAUNCH_SCANS, rng)
    work = problem.repeat(work, gibbs_sweep, order.shape[0], order, rng)
    labels, vector, log_joint = problem.finish(work, prior, rng)
    return State(labels, vector, np.array(log_joint))
