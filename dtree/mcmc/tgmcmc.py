"""Tree-guided MCMC, exactly invariant: the default sampler.

The state is the partition alone. A guide tree G over all atoms, built by incremental BHC from the data and never from the
partition, proposes where to split, merge and move whole subtrees:

- guided split-merge: a node g of G, an atom below each of its children; their cluster is divided along G, or their two
  clusters are joined (`allocate`);
- subtree Gibbs: the members of one cluster below a node of G move together to where they are worth most;
- births and deaths of clusters that are whole subtrees of G (`births`);
- growth and loss of small clusters, atom by atom (`small_clusters`);
- Gibbs moves of atoms drawn by how restless they are in the partition of G, now and then of all atoms.

Nodes are drawn by their uncertainty, and no weight depends on the state. The sampler of [LC15] as printed is `tgmcmc_paper`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import Model, log_phi_h
from dtree.core.verbs import log_kappa
from dtree.hierarchy.incremental_forest import incremental_tree
from dtree.mcmc.allocate import allocate, gather_members
from dtree.mcmc.births import birth_odds, births_and_deaths
from dtree.mcmc.clusters import (
    SPLITS_AND_MERGES,
    canonical,
    clear_slot,
    close_slot,
    draw_index,
    gibbs_sweep,
    log_worth,
    note_proposal,
    room_for_one_more,
    true_count,
)
from dtree.mcmc.guide import Guide, draw_leaf, draw_weighted, make_guide, uncertainty_weights
from dtree.mcmc.plan import YOUNG, Plan, plan_at
from dtree.mcmc.problem import Problem
from dtree.mcmc.scores import block_gains, refresh_slot
from dtree.mcmc.small_clusters import Blocks, blocks_of, growths_and_losses, restlessness

POLISHING_ROUNDS = 2
LEAST_RESTLESS = 0.3  # every atom is visited at least so often, in shares of the mean


class State(NamedTuple):
    """A partition, the parameters of its prior, and the guide tree with its node weights."""

    labels: np.ndarray  # (m,) canonical
    prior: np.ndarray  # parameters of the prior
    log_joint: np.ndarray  # () log p(X, partition [, u])
    guide_left: np.ndarray  # (m-1,)
    guide_right: np.ndarray  # (m-1,)
    guide_weight: np.ndarray  # (2m-1,)
    guide_birth: np.ndarray  # (2m-1,) weights of births
    guide_visit: np.ndarray  # (m,) weights of Gibbs moves
    guide_block: np.ndarray  # (m,) clusters of the guide's own partition
    age: np.ndarray  # () sweeps since the start


def init(problem: Problem, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator) -> State:
    """Start from a partition; the guide is built by incremental BHC over the atoms in random order."""
    at = problem.prior_at(prior)
    if problem.m == 1:
        nothing = np.empty(0, dtype=np.int64)
        log_joint = np.array(problem.log_joint(labels, at))
        one, block = np.ones(1), np.zeros(1, dtype=np.int64)
        return State(labels, prior, log_joint, nothing, nothing.copy(), one, one, one, block, np.array(0))
    tree = incremental_tree(
        Model(problem.model.family, at, problem.model.coarsening), problem.atoms, rng.permutation(problem.m)
    )
    weight = uncertainty_weights(tree)
    guide = make_guide(tree.left, tree.right, weight)
    birth, visit, block = _atom_weights(problem, guide, canonical(tree.cut()), prior, rng)
    log_joint = np.array(problem.log_joint(labels, at))
    return State(labels, prior, log_joint, tree.left, tree.right, weight, birth, visit, block, np.array(0))


def _atom_weights(
    problem: Problem, guide: Guide, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Odds of births (2m-1,), weights of visits (m,) and clusters (m,) of the tree's own partition, after a few sweeps from it.

    The chain's partition has no part in them.
    """
    work = problem.load(labels, problem.prior_at(prior))
    splits, moves = YOUNG.split_merges, YOUNG.subtree_moves
    for _ in range(POLISHING_ROUNDS):
        work = problem.repeat(work, guided_moves, splits + moves, guide, splits, moves, rng)
        work = problem.repeat(work, gibbs_sweep, problem.m, np.arange(problem.m), rng)
    odds, restless = np.empty(2 * problem.m - 1), np.empty(problem.m)
    birth_odds(work, guide, odds)
    restlessness(work, restless)
    return odds, restless + LEAST_RESTLESS * restless.mean() + 1e-12, canonical(work.labels)


def rebuild(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """A new guide at the current hyperparameters; only for the warm-up of a chain."""
    return init(problem, state.labels, state.prior, rng)._replace(age=state.age)


def guide_of(problem: Problem, state: State) -> tuple[Guide, np.ndarray, np.ndarray, Blocks]:
    """The guide in the form kernels take, cumulative weights of births and of visits, and blocks; kept with the problem while the
    state's columns are the same objects."""
    kept = getattr(problem, "_guide", None)
    if kept is None or kept[0] is not state.guide_left or kept[1] is not state.guide_weight:
        guide = make_guide(state.guide_left, state.guide_right, state.guide_weight)
        births, visits = np.cumsum(state.guide_birth), np.cumsum(state.guide_visit)
        blocks = blocks_of(state.guide_block)
        kept = (state.guide_left, state.guide_weight, guide, births, visits, blocks)
        problem._guide = kept  # type: ignore[attr-defined]
    return kept[2:]


@kernel
def _write_slot(work, row, k):
    columns = work.clusters.columns
    for s in range(row.shape[0]):
        columns[s, k] = row[s]
    refresh_slot(work.cache, work.model.family, work.clusters, k)


@kernel
def guided_split_merge(work, guide, rng):
    """One proposal; returns whether it was accepted. Needs `room_for_one_more`."""
    clusters, labels = work.clusters, work.labels
    m = labels.shape[0]
    g = m + draw_weighted(guide.inner_weight, rng)
    i = draw_leaf(guide, guide.left[g], rng)
    j = draw_leaf(guide, guide.right[g], rng)
    log_uniform = math.log(rng.random())
    a, b = labels[i], labels[j]
    log_sides = np.empty(2)
    if a == b:
        size = gather_members(guide, labels, a, b, work.members)
        side = np.empty(size, dtype=np.int64)
        log_q = allocate(
            work.model, work.atoms, work.row, guide, work.members, size, g, i, j, side, side, False, log_sides, rng
        )
        ratio = log_sides[0] + log_sides[1] - log_worth(work, a) - log_q
        note_proposal(work.acceptance, SPLITS_AND_MERGES, ratio, log_uniform < ratio)
        if log_uniform >= ratio:
            return False
        k = clusters.open[0]
        clusters.open[0] += 1
        clusters.n_atoms[k] = 0
        for position in range(size):
            if side[position] == 1:
                labels[work.members[position]] = k
                clusters.n_atoms[k] += 1
        clusters.n_atoms[a] -= clusters.n_atoms[k]
        _write_slot(work, work.row[0], a)
        _write_slot(work, work.row[1], k)
        return True
    union = work.row[6]
    for s in range(union.shape[0]):
        union[s] = clusters.columns[s, a] + clusters.columns[s, b]
    gain = log_phi_h(work.model, union) - log_worth(work, a) - log_worth(work, b)
    if log_uniform >= gain and not work.acceptance.wanted[0]:  # q <= 1, so the replay could not help
        return False
    size = gather_members(guide, labels, a, b, work.members)
    side = np.empty(size, dtype=np.int64)
    target = np.empty(size, dtype=np.int64)
    for position in range(size):
        target[position] = 1 if labels[work.members[position]] == b else 0
    log_q = allocate(
        work.model, work.atoms, work.row, guide, work.members, size, g, i, j, side, target, True, log_sides, rng
    )
    note_proposal(work.acceptance, SPLITS_AND_MERGES, gain + log_q, log_uniform < gain + log_q)
    if log_uniform >= gain + log_q:
        return False
    for position in range(size):
        labels[work.members[position]] = a
    clusters.n_atoms[a] = size
    _write_slot(work, union, a)
    clusters.n_atoms[b] = 0
    close_slot(work, b)
    return True


@kernel
def score_subtree(work, guide, g, i):
    """Log weights of all places for the members of i's cluster below g.

    Written to clusters.scores[:k + 1]: own cluster (its other members), clusters without a leaf of g, slot k a new one;
    -inf where they may not go. work.row[0] receives their statistics, work.members their numbers; returns how many.
    """
    clusters, labels, prior = work.clusters, work.labels, work.model.prior
    own = labels[i]
    k = clusters.open[0]
    block = work.row[0]
    for s in range(block.shape[0]):
        block[s] = 0.0
    touched = np.zeros(k, dtype=np.bool_)
    size = 0
    for place in range(guide.start[g], guide.stop[g]):
        atom = guide.order[place]
        touched[labels[atom]] = True
        if labels[atom] == own:
            work.members[size] = atom
            size += 1
            for s in range(block.shape[0]):
                block[s] += work.atoms[atom, s]
    weight = block[0] * work.model.per_count
    block_gains(work.cache, work.model.family, clusters, block, k, clusters.scores)
    for slot in range(k):
        if touched[slot]:
            clusters.scores[slot] = -np.inf
        else:
            count = true_count(work, slot)
            clusters.scores[slot] += log_kappa(prior, count + weight) - log_kappa(prior, count)
    clusters.scores[k] = log_phi_h(work.model, block)
    if size < clusters.n_atoms[own]:
        rest = work.row[1]
        for s in range(rest.shape[0]):
            rest[s] = clusters.columns[s, own] - block[s]
        clusters.scores[own] = log_worth(work, own) - log_phi_h(work.model, rest)
    return size


@kernel
def subtree_gibbs(work, guide, rng):
    """Move the members of one cluster below a node of the guide together. Needs `room_for_one_more`."""
    g = draw_weighted(guide.node_weight, rng)
    i = draw_leaf(guide, g, rng)
    clusters, labels = work.clusters, work.labels
    own, k = labels[i], clusters.open[0]
    size = score_subtree(work, guide, g, i)
    all_of_own = size == clusters.n_atoms[own]
    chosen = draw_index(clusters.scores, k + 1, rng)
    if chosen == own or (chosen == k and all_of_own):
        return
    if chosen == k:
        clusters.open[0] += 1
        clear_slot(work, k)
    for position in range(size):
        labels[work.members[position]] = chosen
    for s in range(work.row.shape[1]):
        clusters.columns[s, chosen] += work.row[0, s]
    clusters.n_atoms[chosen] += size
    refresh_slot(work.cache, work.model.family, clusters, chosen)
    clusters.n_atoms[own] -= size
    if all_of_own:
        close_slot(work, own)
    else:
        _write_slot(work, work.row[1], own)


@kernel
def guided_moves(work, guide, split_merges, subtree_moves, begin, rng):
    """Split-merge moves, then subtree moves; returns how many are done, fewer than all when out of room."""
    total = split_merges + subtree_moves
    for done in range(begin, total):
        if not room_for_one_more(work):
            return done
        if done < split_merges:
            guided_split_merge(work, guide, rng)
        else:
            subtree_gibbs(work, guide, rng)
    return total


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """Guided moves, births and deaths, growth and loss, Gibbs moves; then u and the hyperparameters."""
    return sweep(problem, state, plan_at(int(state.age)), rng)


def sweep(problem: Problem, state: State, plan: Plan, rng: np.random.Generator) -> State:
    """A step with this plan."""
    prior = problem.prior_at(state.prior)
    work = problem.load(state.labels, prior)
    everyone = np.arange(problem.m)
    if problem.m > 1:
        guide, births, visits, blocks = guide_of(problem, state)
        splits, moves = plan.split_merges, plan.subtree_moves
        work = problem.repeat(work, guided_moves, splits + moves, guide, splits, moves, rng)
        work = problem.repeat(
            work, births_and_deaths, plan.births_and_deaths, guide, births, plan.births_and_deaths, rng
        )
        work = problem.repeat(work, growths_and_losses, plan.growths_and_losses, blocks, plan.growths_and_losses, rng)
        visited = everyone
        if rng.random() >= plan.chance_of_full_sweep(problem.m):
            drawn = np.searchsorted(visits, rng.random(plan.visits) * visits[-1], side="right")
            visited = np.minimum(drawn, problem.m - 1)
        work = problem.repeat(work, gibbs_sweep, visited.shape[0], visited, rng)
    labels, vector, log_joint = problem.finish(work, prior, rng)
    return state._replace(labels=labels, prior=vector, log_joint=np.array(log_joint), age=state.age + 1)
