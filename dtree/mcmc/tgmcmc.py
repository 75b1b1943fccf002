"""Tree-guided MCMC, exactly invariant: the default sampler.

The state is the partition alone. A guide tree G over all atoms, built by incremental BHC from the data and never from
the partition, proposes where to split, merge and move whole subtrees:

- guided split-merge: a node g of G, an atom below each of its children; their cluster is divided along G, or their two
  clusters are joined (`allocate`);
- subtree Gibbs: the members of one cluster below a node of G move together to where they are worth most;
- births and deaths of clusters that are whole subtrees of G (`births`);
- growth and loss of small clusters, atom by atom (`small_clusters`);
- Gibbs moves of atoms in turn, as often as they are restless in the partition of G, now and then of all atoms.

Nodes are drawn by their uncertainty, and no weight depends on the state. The sampler of [LC15] as printed is
`tgmcmc_paper`.
"""

import math
from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import Model, log_phi_h
from dtree.core.verbs import implements
from dtree.hierarchy.incremental_forest import MAX_GREEDY_ROOTS, incremental_tree
from dtree.mcmc.allocate import allocate, division_of
from dtree.mcmc.births import birth_odds, births_and_deaths
from dtree.mcmc.clusters import SPLITS_AND_MERGES, canonical, clear_slot, close_slot, has_room, merge_slots, write_slot
from dtree.mcmc.gibbs import Visits
from dtree.mcmc.guide import Guide, draw_leaf, draw_weighted, make_guide, uncertainty_weights
from dtree.mcmc.plan import EAGER_SWEEPS, FULL_SWEEP_ATOMS, YOUNG, Plan, later_plan
from dtree.mcmc.problem import Problem
from dtree.mcmc.small_clusters import Blocks, blocks_of, growths_and_losses, restlessness
from dtree.mcmc.sweeps import Block, make_moves, several
from dtree.mcmc.worth import accept, draw_index, gibbs_sweep, log_worth, score_block, take_away

POLISHING_ROUNDS = 2  # a few are enough: the weights read off afterwards shape proposals, never the answer
LEAST_VISITED = 0.3  # every atom is visited at least so often, in shares of the mean
FEWEST_JOINED, JOINED_NUMBERS = 64, 1_000_000  # trees in a group, and their statistics: no limit below 250 of them
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # multiples of it, taken modulo 1, stay as evenly spread as any


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
    log_joint = np.array(problem.log_joint(labels, at))
    if problem.m == 1:
        nothing = np.empty(0, dtype=np.int64)
        one, block = np.ones(1), np.zeros(1, dtype=np.int64)
        return State(labels, prior, log_joint, nothing, nothing.copy(), one, one, one, block, np.array(0))
    model = Model(problem.model.family, at, problem.model.coarsening)
    tree = incremental_tree(model, problem.atoms, rng.permutation(problem.m), _greedy(problem))
    weight = uncertainty_weights(tree)
    guide = make_guide(tree.left, tree.right, weight)
    birth, visit, block = _atom_weights(problem, guide, canonical(tree.cut()), prior, rng)
    return State(labels, prior, log_joint, tree.left, tree.right, weight, birth, visit, block, np.array(0))


def _greedy(problem: Problem) -> int:
    """How many trees of the forest are joined greedily into a guide.

    What is above them only proposes to join what is apart already, so over wide rows it need not be the best tree:
    to join 800 trees of 12,400 words took three times as long as to grow them.
    """
    return min(MAX_GREEDY_ROOTS, max(FEWEST_JOINED, JOINED_NUMBERS // problem.atoms.shape[1]))


def _atom_weights(
    problem: Problem, guide: Guide, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Odds of births (2m-1,), weights of visits (m,) and clusters (m,) of the tree's own partition.

    A few sweeps from it settle them; the chain's partition has no part in them.
    """
    work = problem.load(labels, problem.prior_at(prior))
    splits, moves = YOUNG.split_merges, YOUNG.subtree_moves
    for _ in range(POLISHING_ROUNDS):
        work = problem.repeat(work, guided_moves, splits + moves, guide, splits, moves, rng)
        work = problem.repeat(work, gibbs_sweep, problem.m, np.arange(problem.m), rng)
    odds, restless = np.empty(2 * problem.m - 1), np.empty(problem.m)
    birth_odds(work, guide, odds)
    restlessness(work, restless)
    # A visit draws an atom's cluster anew. A sum over atoms forgets fastest when each is visited in proportion to its
    # standard deviation (Neyman's allocation): about the root of how probable it is to be elsewhere.
    visit = np.sqrt(restless)
    return odds, visit + LEAST_VISITED * visit.mean() + 1e-12, canonical(work.labels)


def rebuild(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """A new guide at the current hyperparameters; only for the warm-up of a chain."""
    return init(problem, state.labels, state.prior, rng)._replace(age=state.age)


class Moves(NamedTuple):
    """One sweep: so many moves of each kind, along a guide."""

    plan: Plan
    age: int  # sweeps before the first of a call
    guide: Guide
    births: np.ndarray  # (2m-1,) cumulative weights
    visits: np.ndarray  # (m,) cumulative weights
    blocks: Blocks


def moves_of(problem: Problem, state: State, plan: Plan) -> Moves:
    """What a sweep does. The guide in the form kernels take is kept with the problem while the state has the same."""
    kept = problem.guide
    if kept is None or kept[0] is not state.guide_left or kept[1] is not state.guide_weight:
        guide = make_guide(state.guide_left, state.guide_right, state.guide_weight)
        births, visits = np.cumsum(state.guide_birth), np.cumsum(state.guide_visit)
        kept = (state.guide_left, state.guide_weight, guide, births, visits, blocks_of(state.guide_block))
        problem.guide = kept
    return Moves(plan, int(state.age), *kept[2:])


@kernel
def guided_split_merge(work, guide, rng):
    """One proposal; returns whether it was accepted. Needs `has_room`."""
    clusters, labels = work.clusters, work.labels
    m = labels.shape[0]
    g = m + draw_weighted(guide.inner_weight, rng)
    i = draw_leaf(guide, guide.left[g], rng)
    j = draw_leaf(guide, guide.right[g], rng)
    log_uniform = math.log(rng.random())
    a, b = labels[i], labels[j]
    if a == b:
        division = division_of(guide, labels, a, b, work.members)
        size, side = division.members.shape[0], division.side
        log_q = allocate(work.model, work.atoms, work.row, guide, division, g, i, j, rng)
        ratio = division.log_sides[0] + division.log_sides[1] - log_worth(work, a) - log_q
        if not accept(work.acceptance, SPLITS_AND_MERGES, ratio, log_uniform):
            return False
        k = clusters.open[0]
        clusters.open[0] += 1
        clusters.n_atoms[k] = 0
        for position in range(size):
            if side[position] == 1:
                labels[work.members[position]] = k
                clusters.n_atoms[k] += 1
        clusters.n_atoms[a] -= clusters.n_atoms[k]
        write_slot(work, a, work.row[0])
        write_slot(work, k, work.row[1])
        return True
    union = work.row[6]
    for s in range(union.shape[0]):
        union[s] = clusters.columns[s, a] + clusters.columns[s, b]
    gain = log_phi_h(work.model, union) - log_worth(work, a) - log_worth(work, b)
    if log_uniform >= gain and not work.acceptance.wanted[0]:  # q <= 1, so the replay could not help
        return False
    division = division_of(guide, labels, a, b, work.members)
    log_q = allocate(work.model, work.atoms, work.row, guide, division, g, i, j, rng)
    accepted = accept(work.acceptance, SPLITS_AND_MERGES, gain + log_q, log_uniform)
    if accepted:
        merge_slots(work, a, b, union)
    return accepted


@kernel
def score_subtree(work, guide, g, i):
    """Log weights of all places for the members of i's cluster below g.

    Written to clusters.scores[:k + 1]: own cluster (its other members), clusters without a leaf of g, slot k a new one;
    -inf where they may not go. work.row[0] receives their statistics, work.members their numbers; returns how many.
    """
    clusters, labels = work.clusters, work.labels
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
    score_block(work, block)
    for slot in range(k):
        if touched[slot]:
            clusters.scores[slot] = -np.inf
    clusters.scores[k] = log_phi_h(work.model, block)
    if size < clusters.n_atoms[own]:
        rest = work.row[1]
        take_away(work, own, block, rest)
        clusters.scores[own] = log_worth(work, own) - log_phi_h(work.model, rest)
    return size


@kernel
def subtree_gibbs(work, guide, rng):
    """Move the members of one cluster below a node of the guide together. Needs `has_room`."""
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
    clusters.n_atoms[chosen] += size
    for s in range(work.row.shape[1]):
        work.row[0, s] += clusters.columns[s, chosen]
    write_slot(work, chosen, work.row[0])
    clusters.n_atoms[own] -= size
    if all_of_own:
        close_slot(work, own)
    else:
        write_slot(work, own, work.row[1])


@kernel
def guided_moves(work, guide, split_merges, subtree_moves, begin, rng):
    """Split-merge moves, then subtree moves; returns how many are done, fewer than all when out of room."""
    total = split_merges + subtree_moves
    for done in range(begin, total):
        if not has_room(work):
            return done
        if done < split_merges:
            guided_split_merge(work, guide, rng)
        else:
            subtree_gibbs(work, guide, rng)
    return total


@kernel
def turns(visits, count, sweep):
    """Which `count` atoms have their turn in a sweep, for cumulative weights (m,).

    Visits walk along the weights in steps of the golden ratio of their sum, from sweep to sweep. So every atom comes as
    often as it would if drawn by weight, but at almost even distances: drawn anew each time, it would take twice as
    many visits to forget as much.
    """
    chosen = np.empty(count, dtype=np.int64)
    start = sweep * (count * GOLDEN % 1.0)  # of the fraction, so that rounding stays small in long chains
    for visit in range(count):
        target = (start + visit * GOLDEN) % 1.0 * visits[-1]
        chosen[visit] = min(np.searchsorted(visits, target, side="right"), visits.shape[0] - 1)
    return chosen


@implements(make_moves, Moves)
@kernel
def _make_moves(moves, number, work, rng):
    """Guided moves, births and deaths, growth and loss, Gibbs moves."""
    plan, m = moves.plan, work.labels.shape[0]
    guided = plan.split_merges + plan.subtree_moves
    if guided_moves(work, moves.guide, plan.split_merges, plan.subtree_moves, 0, rng) < guided:
        return False
    if births_and_deaths(work, moves.guide, moves.births, plan.births_and_deaths, 0, rng) < plan.births_and_deaths:
        return False
    growths_and_losses(work, moves.blocks, plan.growths_and_losses, rng)
    if rng.random() < min(plan.full_sweep_share, FULL_SWEEP_ATOMS / m):
        visited = np.arange(m)
    else:
        visited = turns(moves.visits, plan.visits, moves.age + number)
    return gibbs_sweep(work, visited, 0, rng) == visited.shape[0]


def block(problem: Problem, state: State, most: int, rng: np.random.Generator) -> Block:
    """Sweeps, each followed by u and the hyperparameters."""
    left = EAGER_SWEEPS - int(state.age)
    if left > 0:
        return sweeps(problem, state, YOUNG, min(most, left), rng)
    return sweeps(problem, state, later_plan(state.guide_visit), most, rng)


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """One of them."""
    return block(problem, state, 1, rng).state


def sweeps(problem: Problem, state: State, plan: Plan, most: int, rng: np.random.Generator) -> Block:
    """A block with this plan."""
    moves: Moves | Visits = Visits(np.zeros(1, dtype=np.int64))  # one atom has no tree
    if problem.m > 1:
        moves = moves_of(problem, state, plan)
    made = several(problem, state, moves, most, rng)
    return made._replace(state=made.state._replace(age=state.age + made.labels.shape[0]))
