"""Incremental BHC (IBHC, [LC15] section 2.3): rows enter a forest of trees one after the other, block by block.

The fitted record holds the forest itself and the state of the random generator, so that a model that was saved and
opened goes on with `partial_fit` exactly as the one that was saved.
"""

import json
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dtree.core.checks import as_counts
from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.hierarchy.incremental import FREE, LEAVES, NONE, ROOTS, USED, WAITING, Pool, empty_pool
from dtree.hierarchy.incremental_forest import Forest, ForestColumns
from dtree.methods.bhc import facts_of_tree
from dtree.methods.contract import Job, Method, Told, Workers, used_columns
from dtree.methods.facts import Facts
from dtree.methods.fitted_checks import check_columns, check_statistics, check_tree
from dtree.methods.settings import AUTO, COARSENING, FAMILY, PRIOR, option
from dtree.methods.tree_predictive import labels_of_new, predict_with_tree
from dtree.methods.whole_rows import look_at

_MOST_BLOCKS = 16  # a commit writes the whole forest, so that more of them would cost more than what they save
_FEWEST_ROWS = 4096  # of a block: they enter in a second or so


class Settings(msgspec.Struct, frozen=True):
    """How rows are inserted; see `dtree.IncrementalBHC`."""

    family: FAMILY = AUTO
    prior: PRIOR = "dp"
    init: Annotated[
        Literal["exact", "noisy"], option("exact, or noisy: rows go on top of their best tree, which is never cut.")
    ] = "exact"
    coarsening: COARSENING = 1.0
    shuffle: Annotated[bool, option("Insert the rows in random order, since the tree depends on the order.")] = True
    balanced: Annotated[bool, option("Keep the trees shallow; without it they are exactly those of the paper.")] = True


class Weightless(msgspec.Struct, frozen=True):
    """Rows of weight 0: in no leaf, but labelled as new rows are, whatever the forest has become."""

    rows: np.ndarray  # (z, d') in the columns in use
    places: np.ndarray  # (z,) which of all rows they are, in order

    @classmethod
    def among(cls, rows: Any, weight: np.ndarray | None) -> "Weightless":
        """Those of rows (n, d'), dense or CSR."""
        places = np.zeros(0, dtype=np.int64) if weight is None else np.flatnonzero(weight == 0)
        found = rows[places]
        return cls(np.asarray(found.toarray() if hasattr(found, "tocsr") else found, dtype=np.float64), places)

    def after(self, n: int, others: "Weightless") -> "Weightless":
        """These among the first n rows, and others among those that came later."""
        return Weightless(np.concatenate([self.rows, others.rows]), np.concatenate([self.places, n + others.places]))

    def leaves(self, m: int) -> np.ndarray:
        """The leaf (n,) of every row, -1 for those in none of the m leaves."""
        found = np.full(m + self.places.shape[0], -1)
        found[np.setdiff1d(np.arange(found.shape[0]), self.places)] = np.arange(m)
        return found

    def labels(self, model: Model, atoms: np.ndarray, leaf_clusters: np.ndarray) -> np.ndarray:
        """The label (n,) of every row, given the atoms (m, s) of the others and their clusters (m,)."""
        if not self.places.size:
            return leaf_clusters
        leaves = self.leaves(atoms.shape[0])
        found = leaf_clusters[leaves]
        found[leaves < 0] = labels_of_new(model, atoms, leaf_clusters, self.rows)
        return found

    def check(self, model: Model, n: int) -> None:
        """ValueError unless they are some of n rows under the model."""
        places, shape = self.places, (self.places.shape[0], model.family.n_features)
        if places.dtype != np.int64 or np.any(np.diff(places) < 1) or np.any((places < 0) | (places >= n)):
            raise ValueError("its rows of weight 0 are not rows of the data")
        if self.rows.shape != shape or self.rows.dtype != np.float64:
            raise ValueError(f"its rows of weight 0 are not of shape {shape}")


class Prepared(msgspec.Struct, frozen=True):
    """The model, the rows as atoms, and the order in which they enter."""

    columns: np.ndarray  # (d',)
    fingerprint: str
    model: Model
    atoms: np.ndarray  # (m, s)
    order: np.ndarray  # (m,)
    generator: str  # the state of the random generator after the order was drawn
    weightless: Weightless


class State(msgspec.Struct, frozen=True):
    """The forest after a block of rows."""

    number: int
    inserted: int
    forest: ForestColumns


class Fitted(msgspec.Struct, frozen=True):
    """The forest, one tree over all its atoms, and what is needed to go on."""

    columns: np.ndarray  # (d',)
    model: Model
    forest: ForestColumns
    noisy: bool
    balanced: bool
    tree: Tree
    generator: str
    weightless: Weightless

    def grown(self) -> Forest:
        """The forest, ready for more."""
        return Forest.from_columns(self.model, self.forest, self.noisy, self.balanced)

    @property
    def leaf_clusters(self) -> np.ndarray:
        """The cluster (m,) of every atom."""
        return self.grown().labels() if self.noisy else self.tree.cut()


class IncrementalBHC(Method, Settings=Settings, Prepared=Prepared, State=State, Fitted=Fitted):
    """Sequential insertion into a forest."""

    name = "incremental"
    estimator = "IncrementalBHC"

    def prepare(self, job: Job, workers: Workers) -> Prepared:
        settings, rng = job.settings, np.random.default_rng(job.seed)
        seen = look_at(job, settings.family, settings.prior, settings.coarsening)
        m = seen.held.shape[0]
        order = rng.permutation(m) if settings.shuffle else np.arange(m)
        atoms = seen.model.atoms(seen.rows, seen.weight)
        weightless = Weightless.among(seen.rows, None)
        if m < job.n:
            weightless = Weightless.among(used_columns(job.load(), seen.columns), as_counts(job.weight, job.n))
        return Prepared(seen.columns, seen.fingerprint, seen.model, atoms, order, state_of(rng), weightless)

    def start(self, job: Job, workers: Workers) -> State:
        forest = Forest(job.prepared.model, noisy=job.settings.init == "noisy", balanced=job.settings.balanced)
        forest.announce(job.prepared.atoms)
        return State(0, 0, forest.columns())

    def step(self, job: Job, workers: Workers, state: State) -> State:
        prepared, settings, m = job.prepared, job.settings, job.prepared.order.shape[0]
        forest = Forest.from_columns(prepared.model, state.forest, settings.init == "noisy", settings.balanced)
        stop = min(state.inserted + max(_FEWEST_ROWS, -(-m // _MOST_BLOCKS)), m)
        forest.insert_some(prepared.atoms, prepared.order[state.inserted : stop])
        if stop == m:
            forest.n_atoms = m
        return State(state.number + 1, stop, forest.columns())

    def over(self, job: Job, state: State) -> bool:
        return state.inserted == job.prepared.order.shape[0]

    def told(self, state: State) -> Told:
        return Told(f"{state.inserted:,} rows in {state.forest.pool.root.shape[0]:,} trees")

    def finish(self, job: Job, workers: Workers, state: State) -> Fitted:
        prepared, settings = job.prepared, job.settings
        noisy, balanced = settings.init == "noisy", settings.balanced
        tree = Forest.from_columns(prepared.model, state.forest, noisy, balanced).tree()
        fitted = Fitted(
            prepared.columns, prepared.model, state.forest, noisy, balanced, tree, prepared.generator,
            prepared.weightless,
        )  # fmt: skip
        labels = prepared.weightless.labels(prepared.model, prepared.atoms, fitted.leaf_clusters)
        for name, values in row_arrays(prepared.weightless, labels).items():
            job.store.create_rows(name, job.n, job.chunk_rows, np.int32, -2)  # -1 stands for no leaf
            job.store.write_rows(name, 0, values)
        return fitted

    # After the fit ----------------------------------------------------------------------------------------------------

    def predict(self, fitted: Fitted, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        rows, atoms = used_columns(rows, fitted.columns), fitted.grown().atoms()
        return predict_with_tree(fitted.model, fitted.tree, atoms, fitted.leaf_clusters, rows)

    def check_state(self, job: Job, state: State) -> None:
        prepared, forest = job.prepared, state.forest
        check_columns(prepared.model, prepared.columns, job)
        check_statistics(prepared.model, prepared.atoms, "of its leaves")
        prepared.weightless.check(prepared.model, job.n)
        m = job.n - prepared.weightless.places.shape[0]
        if prepared.atoms.shape[0] != m or not np.array_equal(np.sort(prepared.order), np.arange(m)):
            raise ValueError(f"its order of rows is not one of {m} rows")
        generator_in(prepared.generator)
        if not 0 <= state.inserted <= m or forest.n_atoms != (m if state.inserted == m else 0):
            raise ValueError(f"its forest holds {state.inserted} of {m} rows")
        check_forest(prepared.model, forest, state.inserted)
        at_leaf = forest.pool.atom != NONE
        atoms, width = forest.pool.atom[at_leaf], prepared.atoms.shape[1]
        known = forest.total.shape == (width,) and set(atoms.tolist()) == set(prepared.order[: state.inserted].tolist())
        if not known or not np.array_equal(forest.pool.statistics[at_leaf], prepared.atoms[atoms]):
            raise ValueError("the leaves of its forest are not its rows")

    def check(self, fitted: Fitted, header: Any) -> None:
        check_columns(fitted.model, fitted.columns, header)
        fitted.weightless.check(fitted.model, header.n_rows)
        if fitted.forest.n_atoms + fitted.weightless.places.shape[0] != header.n_rows:
            raise ValueError(f"its forest has {fitted.forest.n_atoms} leaves for {header.n_rows} rows")
        check_forest(fitted.model, fitted.forest, fitted.forest.n_atoms)
        check_tree(fitted.model, fitted.tree, fitted.grown().atoms())
        generator_in(fitted.generator)

    def facts(self, fitted: Fitted, row_leaf: np.ndarray | None) -> Facts:
        title, atoms = "Incremental Bayesian hierarchical clustering", fitted.grown().atoms()
        found = facts_of_tree(title, fitted.model, fitted.tree, atoms, fitted.leaf_clusters, row_leaf)
        return found._replace(lines={"trees in the forest": str(fitted.forest.pool.root.shape[0])})


def row_arrays(weightless: Weightless, labels: np.ndarray) -> dict[str, np.ndarray]:
    """What a run holds for every row: the labels (n,), and the leaves where some rows are in none."""
    found = {"labels": labels.astype(np.int32)}
    if weightless.places.size:
        found["leaves"] = weightless.leaves(labels.shape[0] - weightless.places.shape[0]).astype(np.int32)
    return found


def state_of(rng: np.random.Generator) -> str:
    """The state of a random generator as text."""
    return json.dumps(rng.bit_generator.state)


def generator_in(text: str) -> np.random.Generator:
    """The generator in such a state, or one sentence when the text holds none.

    >>> rng = np.random.default_rng(3)
    >>> again = generator_in(state_of(rng))
    >>> bool(again.random() == rng.random())
    True
    """
    rng = np.random.default_rng(0)
    try:
        rng.bit_generator.state = json.loads(text)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError("the state of its random generator is none") from None
    return rng


def check_forest(model: Model, forest: ForestColumns, leaves: int) -> None:
    """One sentence unless these arrays are a forest with so many leaves.

    The kernels that grow a forest follow these numbers without looking, so each is looked at here.
    """
    pool, nodes, trees = forest.pool, forest.pool.parent.shape[0], forest.pool.root.shape[0]
    s = forest.total.shape[0]
    scratch = empty_pool(s, 0, 0)
    wanted = empty_pool(s, nodes, trees)._replace(scores=scratch.scores, queue=scratch.queue)
    for name, values, like in zip(pool._fields, pool, wanted, strict=True):
        if values.shape != like.shape or values.dtype.kind != like.dtype.kind:
            raise ValueError(f"the column '{name}' of its forest has the wrong shape or type")
        if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
            raise ValueError(f"the column '{name}' of its forest holds NaN or infinity")
    sums = (forest.total, forest.room)
    if any(values.shape != (s,) or values.dtype.kind != "f" or not np.all(np.isfinite(values)) for values in sums):
        raise ValueError("the sums of its forest are none")
    counts = {USED: nodes, ROOTS: trees, WAITING: 0, LEAVES: leaves}
    if any(pool.meta[at] != count for at, count in counts.items()) or not _links_hold(pool, leaves):
        raise ValueError("the nodes of its forest do not hang together")
    if leaves:
        at_leaf = pool.atom != NONE
        check_statistics(model, np.ascontiguousarray(pool.statistics[at_leaf]), "of its leaves")
        if not np.allclose(pool.statistics[pool.root], pool.root_statistics.T):
            raise ValueError("the roots of its forest are not those of its trees")


def _links_hold(pool: Pool, leaves: int) -> bool:
    """Whether all nodes are in trees with the right leaves, or in the list of free ones."""
    nodes = pool.parent.shape[0]
    is_leaf, is_fork = pool.atom != NONE, pool.left != NONE
    if np.any(is_leaf & is_fork):
        return False
    # A number of an atom is given when it enters, so those of a forest that is still growing have gaps.
    atoms = pool.atom[is_leaf]
    if atoms.shape[0] != leaves or np.unique(atoms).shape[0] != leaves or np.any(atoms < 0):
        return False
    forks = np.flatnonzero(is_fork)
    children = np.concatenate([pool.left[forks], pool.right[forks]])
    inside = np.concatenate([children, pool.root])
    if inside.size and not (inside.min() >= 0 and inside.max() < nodes):
        return False
    below = np.zeros(nodes, dtype=np.int64)
    np.add.at(below, children, 1)
    live, slots = is_leaf | is_fork, np.full(nodes, NONE)
    slots[pool.root] = np.arange(pool.root.shape[0])
    # Every live node is the root of one tree or the child of one fork; a fork has more leaves than either child, so
    # that no way down comes back to where it began.
    once = np.array_equal(below + (slots != NONE), live.astype(np.int64))
    known = np.array_equal(pool.slot[live], slots[live]) and np.all(pool.parent[pool.root] == NONE)
    parents = np.array_equal(pool.parent[children], np.concatenate([forks, forks]))
    sizes = np.all(pool.leaves[is_leaf] == 1) and np.all(pool.leaves[live] >= 1)
    sums = np.array_equal(pool.leaves[forks], pool.leaves[pool.left[forks]] + pool.leaves[pool.right[forks]])
    return bool(once and known and parents and sizes and sums) and _free_list_holds(pool, live)


def _free_list_holds(pool: Pool, live: np.ndarray) -> bool:
    """Whether the list of free nodes visits each of them once and then ends."""
    at, seen = int(pool.meta[FREE]), np.zeros(live.shape[0], dtype=np.bool_)
    while at != NONE:
        if not 0 <= at < live.shape[0] or live[at] or seen[at]:
            return False
        seen[at] = True
        at = int(pool.parent[at])
    return bool(np.array_equal(seen, ~live))
