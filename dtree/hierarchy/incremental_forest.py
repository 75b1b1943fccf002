"""The forest of incremental BHC: growing it, reading its clusters, and joining it into one canonical tree.

`Forest` owns a pool of nodes and the model at which its potentials were computed. Its clusters are its trees. Joining the
roots greedily (smallest d first, as in BHC) gives one binary tree over all atoms, with a bound on the evidence at its root.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dtree.core.jit import kernel
from dtree.core.model import CompiledModel, Model
from dtree.core.tree import Tree, log_add, sum_over_partitions
from dtree.core.verbs import log_kappa, log_marginal, log_marginal_joined
from dtree.hierarchy.incremental import LEAVES, NONE, ROOTS, WAITING, Pool, empty_pool, grown_pool
from dtree.hierarchy.incremental_insert import insert_atoms

MAX_GREEDY_ROOTS = 4000  # beyond this many trees their pairs are too many; see `join_roots`
MAX_CUTS = 32  # how often inserting one atom may cut a tree


@kernel
def _row_of_d(model, columns, log_own, log_phi_t, alive, a, start, stop, log_joined, log_d):
    """log_joined[b] = log marginal of slot a with slot b, and log_d[b], for every live slot start <= b < stop."""
    row = columns[:, a].copy()
    log_marginal_joined(model.family, columns, log_own, row, start, stop, log_joined)
    for b in range(start, stop):
        if alive[b] and b != a:
            together = log_joined[b] + log_kappa(model.prior, (row[0] + columns[0, b]) * model.per_count)
            log_d[b] = log_phi_t[a] + log_phi_t[b] - together
        else:
            log_d[b] = np.inf


@kernel
def join_roots(model, columns, log_phi_t):
    """Join k trees into one, the pair with the smallest d first.

    columns (s, k) and log_phi_t (k,) are overwritten. Returns merges (k-1, 2) of trees numbered 0..k-1 and then k.. in
    merge order, and log phi_h (k-1,) of the joints. All k^2 distances are kept, since one may cost thousands of lookups (words): a merge
    scores one row, and a slot that has lost its nearest looks the next one up.
    """
    k = log_phi_t.shape[0]
    merges = np.empty((k - 1, 2), dtype=np.int64)
    joint_log_phi_h = np.empty(k - 1)
    number = np.arange(k)
    alive = np.ones(k, dtype=np.bool_)
    nearest = np.full(k, NONE, dtype=np.int64)
    nearest_log_d = np.full(k, np.inf)
    log_own = np.empty(k)
    log_joined = np.empty(k)
    log_d = np.full((k, k), np.inf)
    for a in range(k):
        log_own[a] = log_marginal(model.family, columns[:, a].copy())
    for a in range(k):
        _row_of_d(model, columns, log_own, log_phi_t, alive, a, a + 1, k, log_joined, log_d[a])
        for b in range(a + 1, k):
            log_d[b, a] = log_d[a, b]
        nearest[a] = np.argmin(log_d[a])
        nearest_log_d[a] = log_d[a, nearest[a]]
    for step in range(k - 1):
        a = int(np.argmin(nearest_log_d))
        b = int(nearest[a])
        if b < a:
            a, b = b, a
        _row_of_d(model, columns, log_own, log_phi_t, alive, a, b, b + 1, log_joined, log_d[a])
        log_own[a] = log_joined[b]
        joint_log_phi_h[step] = log_phi_t[a] + log_phi_t[b] - log_d[a, b]
        merges[step, 0] = min(number[a], number[b])
        merges[step, 1] = max(number[a], number[b])
        number[a] = k + step
        log_phi_t[a] = log_add(joint_log_phi_h[step], log_phi_t[a] + log_phi_t[b])
        for s in range(columns.shape[0]):
            columns[s, a] += columns[s, b]
        alive[b] = False
        nearest_log_d[b] = np.inf
        if step == k - 2:
            break
        _row_of_d(model, columns, log_own, log_phi_t, alive, a, 0, k, log_joined, log_d[a])
        nearest[a] = np.argmin(log_d[a])
        nearest_log_d[a] = log_d[a, nearest[a]]
        for c in range(k):
            if not alive[c] or c == a:
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


@kernel
def _forest_labels(pool, leaf_number, labels):
    """labels[leaf] = slot of the tree that holds it."""
    stack = np.empty(pool.parent.shape[0] + 1, dtype=np.int64)
    for slot in range(pool.meta[ROOTS]):
        stack[0] = pool.root[slot]
        height = 1
        while height > 0:
            height -= 1
            node = stack[height]
            if pool.left[node] == NONE:
                labels[leaf_number[pool.atom[node]]] = slot
            else:
                stack[height] = pool.left[node]
                stack[height + 1] = pool.right[node]
                height += 2


@kernel
def _sizes(left, right, size):
    m = left.shape[0] + 1
    for i in range(m - 1):
        size[m + i] = size[left[i]] + size[right[i]]


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
    _compiled: CompiledModel | None = field(default=None, repr=False)
    _compiled_count: float = field(default=0.0, repr=False)

    def compiled(self) -> CompiledModel:
        """The model with tables that reach at least as far as the statistics seen so far."""
        if self.total is None:
            raise ValueError("the forest is empty: insert atoms first")
        if self._compiled is None or self.total[0] > self._compiled_count:
            room = 2.0 * np.maximum(self.total, 0.0)  # tables are rebuilt a logarithmic number of times
            self._compiled, self._compiled_count = self.model.compile(room), room[0]
        return self._compiled

    def insert(self, atoms: np.ndarray, order: np.ndarray | None = None) -> None:
        """Insert atoms (m, s), in the given order of rows; they are numbered on from those already in the forest."""
        atoms = np.ascontiguousarray(atoms, dtype=np.float64)
        if atoms.shape[0] == 0:
            return
        order = np.arange(atoms.shape[0]) if order is None else np.ascontiguousarray(order, dtype=np.int64)
        added = atoms.sum(axis=0)
        self.total = added if self.total is None else self.total + added
        model = self.compiled()
        if self.pool is None:
            self.pool = empty_pool(atoms.shape[1], 2 * min(atoms.shape[0], 1024), 16)
        done = 0
        while True:
            done = insert_atoms(
                model, self.pool, atoms, order, self.n_atoms, done, self.noisy, self.balanced, self.max_cuts
            )
            if done == order.shape[0] and self.pool.meta[WAITING] == 0:
                break
            self._grow()
        self.n_atoms += atoms.shape[0]

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
        from dtree.core.partition import canonical_labels

        assert self.pool is not None
        labels = np.empty(self.n_atoms, dtype=np.int64)
        _forest_labels(self.pool, np.arange(self.n_atoms), labels)
        return canonical_labels(labels)

    def cluster_statistics(self) -> np.ndarray:
        """Statistics (k, s) of the trees, in the order of their slots."""
        assert self.pool is not None
        return np.ascontiguousarray(self.pool.root_statistics[:, : self.n_trees].T)

    def tree(self) -> Tree:
        """One canonical tree over all atoms: the forest, its roots joined greedily.

        Above MAX_GREEDY_ROOTS trees the joining itself is done in groups of that many, so only approximately greedily.
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
            for start in range(0, k, MAX_GREEDY_ROOTS):
                stop = min(start + MAX_GREEDY_ROOTS, k)
                group_columns = np.ascontiguousarray(columns[:, start:stop])
                group_log_phi_t = log_phi_t[start:stop].copy()
                size = stop - start
                if size == 1:
                    top = numbers[start]
                else:
                    merges, joint = join_roots(model, group_columns, group_log_phi_t)
                    name = np.concatenate([numbers[start:stop], m + made + np.arange(size - 1)])
                    children = np.sort(name[merges], axis=1)
                    left[made : made + size - 1], right[made : made + size - 1] = children[:, 0], children[:, 1]
                    log_phi_h[m + made : m + made + size - 1] = joint
                    made += size - 1
                    top = m + made - 1
                survivor = int(np.argmax(group_columns[0]))  # the slot that holds everything
                next_numbers.append(top)
                next_columns.append(group_columns[:, survivor])
                next_log_phi_t.append(group_log_phi_t[survivor])
            numbers, k = np.array(next_numbers), len(next_numbers)
            columns, log_phi_t = np.ascontiguousarray(np.column_stack(next_columns)), np.array(next_log_phi_t)
        sizes = np.empty(2 * m - 1, dtype=np.int64)
        sizes[:m] = self._leaf_counts()
        _sizes(left, right, sizes)
        return Tree(left, right, sizes, log_phi_h, sum_over_partitions(left, right, log_phi_h))

    def _leaf_counts(self) -> np.ndarray:
        assert self.pool is not None
        leaves = np.flatnonzero(self.pool.atom != NONE)
        counts = np.empty(self.n_atoms)
        counts[self.pool.atom[leaves]] = self.pool.statistics[leaves, 0] / self.model.coarsening
        return np.rint(counts).astype(np.int64)


def incremental_tree(model: Model, atoms: np.ndarray, order: np.ndarray | None = None) -> Tree:
    """A tree over all atoms (m, s) by incremental BHC, atoms inserted in the given order."""
    forest = Forest(model)
    forest.insert(atoms, order)
    return forest.tree()


def noisy_partition(model: Model, atoms: np.ndarray, order: np.ndarray | None = None) -> np.ndarray:
    """The rough initial partition of [LC15] section 4.1: labels (m,) of never-cut trees grown at their tops."""
    forest = Forest(model, noisy=True)
    forest.insert(atoms, order)
    return forest.labels()
