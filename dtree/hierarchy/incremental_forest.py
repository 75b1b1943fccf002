"""The forest of incremental BHC: growing it, reading its clusters, and joining it into one canonical tree.

`Forest` owns a pool of nodes and the model at which its potentials were computed. Its clusters are its trees. Joining
the roots greedily (smallest d first, as in BHC) gives one binary tree over all atoms, with a bound on the evidence at
its root.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dtree.core.families.base import MOST_ROUNDING
from dtree.core.jit import kernel
from dtree.core.model import CompiledModel, Model
from dtree.core.partition import canonical_labels
from dtree.core.tree import Tree, log_add
from dtree.core.verbs import log_kappa, log_marginal, log_marginal_joined
from dtree.hierarchy.incremental import LEAVES, NODE_COLUMNS, NONE, ROOTS, USED, WAITING, Pool, empty_pool, grown_pool
from dtree.hierarchy.incremental_insert import insert_atoms

MAX_GREEDY_ROOTS = 4000  # beyond this many trees their pairs are too many; see `join_roots`
MAX_CUTS = 32  # how often inserting one atom may cut a tree


class Roots(NamedTuple):
    """Trees in slots 0..k-1 that are joined one by one; s statistics."""

    columns: np.ndarray  # (s, k) statistics
    log_own: np.ndarray  # (k,) log marginal of the tree as one cluster
    log_phi_t: np.ndarray  # (k,)
    alive: np.ndarray  # (k,) False once joined to another
    log_joined: np.ndarray  # (k,) scratch: log marginals of one slot with the others


@kernel
def _row_of_d(model, roots, a, start, stop, log_d):
    """roots.log_joined[b] and log_d[b] of slot a with every live slot start <= b < stop."""
    row = roots.columns[:, a].copy()
    log_marginal_joined(model.family, roots.columns, roots.log_own, row, start, stop, roots.log_joined)
    for b in range(start, stop):
        if roots.alive[b] and b != a:
            count = (row[0] + roots.columns[0, b]) * model.per_count
            together = roots.log_joined[b] + log_kappa(model.prior, count)
            log_d[b] = roots.log_phi_t[a] + roots.log_phi_t[b] - together
        else:
            log_d[b] = np.inf


@kernel
def join_roots(model, columns, log_phi_t):
    """Join k trees into one, the pair with the smallest d first.

    columns (s, k) and log_phi_t (k,) are overwritten. Returns merges (k-1, 2) of trees numbered 0..k-1 and then k.. in
    merge order, and log phi_h (k-1,) of the joints. All k^2 distances are kept, since one may cost thousands of lookups
    (words): a merge scores one row, and a slot that has lost its nearest looks the next one up.
    """
    k = log_phi_t.shape[0]
    merges = np.empty((k - 1, 2), dtype=np.int64)
    joint_log_phi_h = np.empty(k - 1)
    number = np.arange(k)
    roots = Roots(columns, np.empty(k), log_phi_t, np.ones(k, dtype=np.bool_), np.empty(k))
    nearest = np.full(k, NONE, dtype=np.int64)
    nearest_log_d = np.full(k, np.inf)
    log_d = np.full((k, k), np.inf)
    for a in range(k):
        roots.log_own[a] = log_marginal(model.family, columns[:, a].copy())
    for a in range(k):
        _row_of_d(model, roots, a, a + 1, k, log_d[a])
        for b in range(a + 1, k):
            log_d[b, a] = log_d[a, b]
        nearest[a] = np.argmin(log_d[a])
        nearest_log_d[a] = log_d[a, nearest[a]]
    for step in range(k - 1):
        a = int(np.argmin(nearest_log_d))
        b = int(nearest[a])
        if b < a:
            a, b = b, a
        _row_of_d(model, roots, a, b, b + 1, log_d[a])
        roots.log_own[a] = roots.log_joined[b]
        joint_log_phi_h[step] = log_phi_t[a] + log_phi_t[b] - log_d[a, b]
        merges[step, 0] = min(number[a], number[b])
        merges[step, 1] = max(number[a], number[b])
        number[a] = k + step
        log_phi_t[a] = log_add(joint_log_phi_h[step], log_phi_t[a] + log_phi_t[b])
        for s in range(columns.shape[0]):
            columns[s, a] += columns[s, b]
        roots.alive[b] = False
        nearest_log_d[b] = np.inf
        if step == k - 2:
            break
        _row_of_d(model, roots, a, 0, k, log_d[a])
        nearest[a] = np.argmin(log_d[a])
        nearest_log_d[a] = log_d[a, nearest[a]]
        for c in range(k):
            if not roots.alive[c] or c == a:
                continue
            log_d[c, a] = log_d[a, c]
            log_d[c, b] = np.inf
            if log_d[c, a] < nearest_log_d[c]:
                nearest[c] = a
                nearest_log_d[c] = log_d[c, a]
            elif nearest[c] == a or nearest[c] == b:
                nearest[c] = np.argmin(log_d[c])
                nearest_log_d[c] = log_d[c, nearest[c]]
    return merges, joint_log_phi_h


@kernel
def _number_nodes(pool, leaf_number, m, left, right, log_phi_h):
    """Canonical numbers of all nodes, tree by tree in postorder; returns the numbers of the roots.

    Leaves get leaf_number[atom], internal nodes m, m+1, ... so that children come first.
    """
    roots = pool.meta[ROOTS]
    number = np.full(pool.parent.shape[0], NONE, dtype=np.int64)
    root_number = np.empty(roots, dtype=np.int64)
    stack = np.empty(pool.parent.shape[0] + 1, dtype=np.int64)
    next_number = m
    for slot in range(roots):
        stack[0] = pool.root[slot]
        height = 1
        while height > 0:
            node = stack[height - 1]
            if pool.left[node] == NONE:
                number[node] = leaf_number[pool.atom[node]]
                log_phi_h[number[node]] = pool.log_phi_h[node]
                height -= 1
                continue
            a, b = number[pool.left[node]], number[pool.right[node]]
            if a == NONE or b == NONE:
                stack[height] = pool.right[node]
                stack[height + 1] = pool.left[node]
                height += 2
                continue
            left[next_number - m] = min(a, b)
            right[next_number - m] = max(a, b)
            log_phi_h[next_number] = pool.log_phi_h[node]
            number[node] = next_number
            next_number += 1
            height -= 1
        root_number[slot] = number[pool.root[slot]]
    return root_number


class ForestColumns(NamedTuple):
    """A forest as arrays without spare room: what `Forest.from_columns` needs to go on from there, bit for bit."""

    pool: Pool
    n_atoms: int
    total: np.ndarray  # (s,) sum of all atoms that were announced
    room: np.ndarray  # (s,) how far the tables of the model reach


@dataclass
class Forest:
    """Trees grown by incremental insertion.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> forest = Forest(model)
    >>> forest.insert(model.atoms([[1], [0], [30], [1], [31]]))
    >>> forest.labels().tolist()
    [0, 0, 1, 0, 1]
    >>> tree = forest.tree()
    >>> tree.validate(), tree.cut().tolist()
    (None, [0, 0, 1, 0, 1])
    """

    model: Model
    noisy: bool = False
    balanced: bool = True
    max_cuts: int = MAX_CUTS
    pool: Pool | None = None
    n_atoms: int = 0
    total: np.ndarray | None = None
    room: np.ndarray | None = None  # (s,) how far the tables of the compiled model reach
    _compiled: CompiledModel | None = field(default=None, repr=False)

    def compiled(self) -> CompiledModel:
        """The model with tables that reach at least as far as the statistics seen so far."""
        if self.total is None:
            raise ValueError("the forest is empty: insert atoms first")
        if self.room is None or self.total[0] > self.room[0]:
            self.room = 2.0 * np.maximum(self.total, 0.0)  # tables are rebuilt a logarithmic number of times
            self._compiled = None
        if self._compiled is None:
            self._compiled = self.model.compile(self.room)
        return self._compiled

    def insert(self, atoms: np.ndarray, order: np.ndarray | None = None) -> None:
        """Insert atoms (m, s), in the given order of rows; they are numbered on from those already in the forest."""
        atoms = np.ascontiguousarray(atoms, dtype=np.float64)
        if atoms.shape[0] == 0:
            return
        self.announce(atoms)
        self.insert_some(atoms, np.arange(atoms.shape[0]) if order is None else order)
        self.n_atoms += atoms.shape[0]

    def announce(self, atoms: np.ndarray) -> None:
        """Make ready for atoms (m, s) that are about to come, in one go or in several."""
        self.total = self.require_precision(atoms)
        self.compiled()
        if self.pool is None:
            self.pool = empty_pool(atoms.shape[1], 2 * min(atoms.shape[0], 1024), 16)

    def require_precision(self, atoms: np.ndarray) -> np.ndarray:
        """The sum (s,) of all atoms with these (m, s); one sentence when rounding would drown what they say."""
        with np.errstate(over="ignore"):
            added = atoms.sum(axis=0)
            total = added if self.total is None else self.total + added
            rounding = self.model.family.rounding(total)
        if not rounding <= MOST_ROUNDING:
            raise ValueError(
                "some rows lie so far from the others, or weigh so much, that rounding drowns the spread of a cluster: "
                "leave them out, use smaller weights, or give a family whose scale fits them"
            )
        return total

    def insert_some(self, atoms: np.ndarray, order: np.ndarray) -> None:
        """Insert those of the announced atoms (m, s) whose rows are in `order`; `n_atoms` is left to the caller."""
        order = np.ascontiguousarray(order, dtype=np.int64)
        model, done = self.compiled(), 0
        assert self.pool is not None
        while True:
            done = insert_atoms(
                model, self.pool, atoms, order, self.n_atoms, done, self.noisy, self.balanced, self.max_cuts
            )
            if done == order.shape[0] and self.pool.meta[WAITING] == 0:
                break
            self._grow()

    def columns(self) -> ForestColumns:
        """The forest as arrays, all of them copies."""
        assert self.pool is not None
        assert self.total is not None
        assert self.room is not None
        nodes, roots = int(self.pool.meta[USED]), int(self.pool.meta[ROOTS])
        kept = {name: getattr(self.pool, name)[:nodes].copy() for name in NODE_COLUMNS}
        scratch = empty_pool(self.total.shape[0], 0, 0)
        pool = scratch._replace(
            **kept,
            root=self.pool.root[:roots].copy(),
            root_statistics=self.pool.root_statistics[:, :roots].copy(),
            meta=self.pool.meta.copy(),
        )
        return ForestColumns(pool, self.n_atoms, self.total.copy(), self.room.copy())

    @classmethod
    def from_columns(cls, model: Model, columns: ForestColumns, noisy: bool = False, balanced: bool = True) -> Forest:
        """The forest that `columns` was taken from; the arrays are copied."""
        nodes, roots = columns.pool.parent.shape[0], columns.pool.root.shape[0]
        pool = grown_pool(columns.pool, max(2 * nodes, 1024), max(2 * roots, 16))
        return cls(model, noisy, balanced, MAX_CUTS, pool, columns.n_atoms, columns.total.copy(), columns.room.copy())

    def atoms(self) -> np.ndarray:
        """Statistics (m, s) of the atoms, in the order in which they were numbered."""
        assert self.pool is not None
        leaves = np.flatnonzero(self.pool.atom != NONE)
        atoms = np.empty((self.n_atoms, self.pool.statistics.shape[1]))
        atoms[self.pool.atom[leaves]] = self.pool.statistics[leaves]
        return atoms

    def _grow(self) -> None:
        assert self.pool is not None
        nodes, roots = self.pool.parent.shape[0], self.pool.root.shape[0]
        more_nodes = 2 * (self.pool.meta[LEAVES] + 1) > nodes
        more_roots = self.pool.meta[ROOTS] + 1 > roots
        self.pool = grown_pool(self.pool, nodes * (2 if more_nodes else 1), roots * (2 if more_roots else 1))

    @property
    def n_trees(self) -> int:
        """Number of trees, which are the forest's clusters."""
        return 0 if self.pool is None else int(self.pool.meta[ROOTS])

    def labels(self) -> np.ndarray:
        """The tree (canonical label) of every atom."""
        assert self.pool is not None
        parent = self.pool.parent
        top = np.where(parent == NONE, np.arange(parent.shape[0]), parent)
        while not np.array_equal(top, higher := top[top]):  # each round goes twice as far up as the one before
            top = higher
        leaves = np.flatnonzero(self.pool.atom != NONE)
        labels = np.empty(self.n_atoms, dtype=np.int64)
        labels[self.pool.atom[leaves]] = self.pool.slot[top[leaves]]
        return canonical_labels(labels)

    def cluster_statistics(self) -> np.ndarray:
        """Statistics (k, s) of the trees, in the order of their slots."""
        assert self.pool is not None
        return np.ascontiguousarray(self.pool.root_statistics[:, : self.n_trees].T)

    def tree(self, greedy: int = MAX_GREEDY_ROOTS) -> Tree:
        """One canonical tree over all atoms: the forest, its roots joined greedily.

        Above `greedy` trees the joining itself is done in groups of that many, so only approximately greedily.
        """
        if self.pool is None:
            raise ValueError("the forest is empty: insert atoms first")
        m = self.n_atoms
        left, right = np.empty(m - 1, dtype=np.int64), np.empty(m - 1, dtype=np.int64)
        log_phi_h = np.empty(2 * m - 1)
        numbers = _number_nodes(self.pool, np.arange(m), m, left, right, log_phi_h)
        model = self.compiled()
        k = self.n_trees
        columns = np.ascontiguousarray(self.pool.root_statistics[:, :k])
        log_phi_t = self.pool.log_phi_t[self.pool.root[:k]].copy()
        made = m - k
        while k > 1:
            next_numbers, next_columns, next_log_phi_t = [], [], []
            for start in range(0, k, greedy):
                stop = min(start + greedy, k)
                group_columns = np.ascontiguousarray(columns[:, start:stop])
                group_log_phi_t = log_phi_t[start:stop].copy()
                merges, joint = join_roots(model, group_columns, group_log_phi_t)  # none for a group of one
                done = made + joint.shape[0]
                name = np.concatenate([numbers[start:stop], m + np.arange(made, done)])
                left[made:done], right[made:done] = np.sort(name[merges], axis=1).T
                log_phi_h[m + made : m + done] = joint
                made = done
                survivor = int(np.argmax(group_columns[0]))  # the slot that holds everything
                next_numbers.append(name[-1])
                next_columns.append(group_columns[:, survivor])
                next_log_phi_t.append(group_log_phi_t[survivor])
            numbers, k = np.array(next_numbers), len(next_numbers)
            columns, log_phi_t = np.ascontiguousarray(np.column_stack(next_columns)), np.array(next_log_phi_t)
        counts = np.rint(self.model.counts(self.atoms()))
        return Tree.from_merges(np.column_stack([left, right]), counts, log_phi_h)


def incremental_tree(
    model: Model, atoms: np.ndarray, order: np.ndarray | None = None, greedy: int = MAX_GREEDY_ROOTS
) -> Tree:
    """A tree over all atoms (m, s) by incremental BHC, atoms inserted in the given order; `greedy` as in `Forest`."""
    forest = Forest(model)
    forest.insert(atoms, order)
    return forest.tree(greedy)


def noisy_partition(model: Model, atoms: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """The rough initial partition of [LC15] section 4.1: labels (m,) of never-cut trees grown at their tops."""
    forest = Forest(model, noisy=True)
    forest.insert(atoms, order)
    return forest.labels()
