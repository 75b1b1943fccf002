"""Tree-guided MCMC as printed in [LC15] section 3. **Biased**: kept for comparison, not for inference.

The trees are part of the state, but the reverse of a move does not restore them; forward and reverse probabilities
count different sets of paths (Eqs. 11 and 12); and the subset of the local move depends on the partition. So the
kernel does not leave the posterior invariant: at n = 4 to 6 its stationary law lies at a total variation of 0.02 to
0.2 from the posterior, growing with n, and at n = 20 it has E[K] = 2.1 where the truth is 4.2 (enumeration).
`dtree.mcmc.tgmcmc` is guided by a tree too and exactly invariant.

Readings where the text is ambiguous or misprinted: a merge removes c as well and includes it in the union; acceptance
uses q(Pi | Pi*); the subtrees in Q are inserted bottom-up; a singleton with empty M stays; SampleSub adds epsilon =
max d to every node and excludes leaves only when splitting.
"""

from typing import NamedTuple

import numpy as np

from dtree.core.jit import kernel
from dtree.hierarchy.incremental import NONE, Pool, add_leaf, empty_pool, link, open_tree, refresh, take_node
from dtree.hierarchy.incremental_forest import Forest, _number_nodes
from dtree.mcmc.paper_moves import global_moves, local_moves
from dtree.mcmc.problem import Problem

GLOBAL_MOVES, LOCAL_DEPTH = 20, 2  # G and D as in [LC15]


class State(NamedTuple):
    """A partition with a binary tree over each cluster."""

    labels: np.ndarray  # (m,) canonical
    prior: np.ndarray  # parameters of the prior
    log_joint: np.ndarray  # () log p(X, partition [, u])
    left: np.ndarray  # (m-1,) children of the internal nodes, filled up to the number there are
    right: np.ndarray  # (m-1,)
    roots: np.ndarray  # (m,) root of each cluster in the order of their labels, then NONE


def init(problem: Problem, labels: np.ndarray, prior: np.ndarray, rng: np.random.Generator) -> State:
    """Each cluster gets a tree by putting its atoms on top of each other in random order ("noisy", [LC15] 4.1)."""
    at = problem.prior_at(prior)
    m = problem.m
    left, right = np.full(max(m - 1, 0), NONE), np.full(max(m - 1, 0), NONE)
    roots = np.full(m, NONE)
    made = 0
    for atom in rng.permutation(m):
        label = labels[atom]
        if roots[label] == NONE:
            roots[label] = atom
        else:
            left[made], right[made] = sorted((int(roots[label]), int(atom)))
            roots[label] = m + made
            made += 1
    return State(labels, prior, np.array(problem.log_joint(labels, at)), left, right, roots)


@kernel
def _load(model, pool, atoms, left, right, roots):
    """Build the pool from the columns of a state: leaves are nodes 0..m-1, internal nodes follow in order."""
    m = atoms.shape[0]
    for atom in range(m):
        add_leaf(model, pool, atoms[atom], atom)
    for i in range(left.shape[0]):
        if left[i] == NONE:
            break
        node = take_node(pool)
        link(pool, node, left[i], right[i])
        refresh(model, pool, node)
    for slot in range(m):
        if roots[slot] == NONE:
            break
        open_tree(pool, roots[slot])


def _state_from(problem: Problem, pool: Pool, state: State, rng: np.random.Generator) -> State:
    m = problem.m
    left, right = np.full(max(m - 1, 0), NONE), np.full(max(m - 1, 0), NONE)
    numbers = _number_nodes(pool, np.arange(m), m, left, right, np.empty(2 * m))
    forest = Forest(problem.model, pool=pool, n_atoms=m)
    labels = forest.labels()
    order = np.argsort([labels[_first_leaf(pool, int(node))] for node in pool.root[: forest.n_trees]])
    roots = np.full(m, NONE)
    roots[: forest.n_trees] = numbers[order]
    prior = problem.prior_at(state.prior)
    return State(*problem.finish(problem.load(labels, prior), prior, rng), left, right, roots)


def _first_leaf(pool: Pool, node: int) -> int:
    while pool.left[node] != NONE:
        node = int(pool.left[node])
    return int(pool.atom[node])


def step(problem: Problem, state: State, rng: np.random.Generator) -> State:
    """G = 20 global moves and one local sweep with D = 2, as in [LC15]; then u and the hyperparameters."""
    prior = problem.prior_at(state.prior)
    m = problem.m
    # The copy of a tree that is being split stands beside it, so there may be twice as many nodes.
    pool = empty_pool(problem.atoms.shape[1], 4 * m + 2, m + 1)
    model = problem.compile(prior)
    _load(model, pool, problem.atoms, state.left, state.right, state.roots)
    global_moves(model, pool, GLOBAL_MOVES, problem.acceptance, rng)
    local_moves(model, pool, LOCAL_DEPTH, rng)
    return _state_from(problem, pool, state, rng)
