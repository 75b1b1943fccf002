"""Bayesian hierarchical clustering [HG05] of rows that are looked at all at once: one tree over all of them.

The tree is grown in the process that asks for it, on its cores, also where there are workers. Half of the scores are
those of merged nodes, one merge after the other; workers could take the other half only, so two of them would be at
most a third faster than one, and have to be sent all rows.
"""

from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from dtree.core.model import Model
from dtree.core.shape import shape_of_tree
from dtree.core.tree import Tree
from dtree.hierarchy.approximate import build_approximate_tree
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.hyperparameters import learn, log_bound
from dtree.hierarchy.randomized import build_randomized_tree
from dtree.methods.contract import Job, Method, Told, Workers, used_columns
from dtree.methods.facts import Facts, counted
from dtree.methods.fitted_checks import check_columns, check_statistics, check_tree
from dtree.methods.settings import AUTO, COARSENING, CUT, FAMILY, PRIOR, option
from dtree.methods.tree_predictive import labels_of_new, predict_with_tree
from dtree.methods.whole_rows import look_at


class Settings(msgspec.Struct, frozen=True):
    """How the tree is built; see `dtree.BHC`."""

    family: FAMILY = AUTO
    prior: PRIOR = "dp"
    method: Annotated[
        Literal["exact", "randomized", "approximate"],
        option("exact knows every pair of nodes, approximate near pairs only, randomized samples: both O(n log n)."),
    ] = "exact"
    optimize: Annotated[bool, option("Learn all hyperparameters by climbing the evidence bound.")] = False
    coarsening: COARSENING = 1.0
    cut: CUT = 0.5
    subset: Annotated[int, option("Rows that the randomized method clusters exactly at a time.", ge=2)] = 500


class Prepared(msgspec.Struct, frozen=True):
    """The model before any learning, and the rows as atoms."""

    columns: np.ndarray  # (d',)
    fingerprint: str
    model: Model
    atoms: np.ndarray  # (m, s)
    held: np.ndarray  # (m,) the rows of the data that are atoms; those of weight 0 are not


class State(msgspec.Struct, frozen=True):
    """Before and after the one step: the tree."""

    number: int
    model: Model
    tree: Tree | None = None
    bound_trace: list[float] = []


class Fitted(msgspec.Struct, frozen=True):
    """The tree over the atoms and where it is cut."""

    columns: np.ndarray  # (d',)
    model: Model
    atoms: np.ndarray  # (m, s)
    tree: Tree
    cut: float
    bound_trace: list[float]  # bounds while learning

    @property
    def log_evidence_bound(self) -> float:
        """Lower bound on the log evidence of the rows."""
        return log_bound(self.tree, self.model, float(self.model.counts(self.atoms).sum()))


class BHC(Method, Settings=Settings, Prepared=Prepared, State=State, Fitted=Fitted):
    """The most probable merge first, until all rows are one tree."""

    name = "bhc"
    estimator = "BHC"
    command = "fit"

    def tiny(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, subset=8)

    def prepare(self, job: Job, workers: Workers) -> Prepared:
        seen = look_at(job, job.settings.family, job.settings.prior, job.settings.coarsening)
        atoms = seen.model.atoms(seen.rows, seen.weight)
        return Prepared(seen.columns, seen.fingerprint, seen.model, atoms, seen.held)

    def start(self, job: Job, workers: Workers) -> State:
        return State(0, job.prepared.model)

    def step(self, job: Job, workers: Workers, state: State) -> State:
        settings, model, atoms = job.settings, state.model, job.prepared.atoms
        tree: Tree | None = None
        trace: list[float] = []
        if settings.optimize:
            model, tree, trace = learn(model, atoms)
        if settings.method == "randomized":
            rng = np.random.default_rng(job.seed)
            rows = self._rows(job, job.prepared.held)
            tree = build_randomized_tree(model, atoms, rows, rng, settings.subset)
        elif settings.method == "approximate":
            tree = build_approximate_tree(model, atoms, np.random.default_rng(job.seed))
        elif tree is None:
            tree = build_tree(model, atoms)
        return State(1, model, tree, trace)

    def _rows(self, job: Job, places: np.ndarray) -> Any:
        """Some rows in the columns in use, as float64."""
        rows = used_columns(job.load(), job.prepared.columns)
        return (rows if places.shape[0] == job.n else rows[places]).astype(np.float64)

    def over(self, job: Job, state: State) -> bool:
        return state.number > 0

    def told(self, state: State) -> Told:
        assert state.tree is not None
        return Told(f"a tree over {state.tree.n_leaves:,} leaves")

    def finish(self, job: Job, workers: Workers, state: State) -> Fitted:
        prepared, tree, cut = job.prepared, state.tree, job.settings.cut
        assert tree is not None
        labels, leaves = np.empty(job.n, dtype=np.int64), np.full(job.n, -1)
        labels[prepared.held], leaves[prepared.held] = tree.cut(cut), np.arange(tree.n_leaves)
        rest = np.flatnonzero(leaves < 0)
        found = {"labels": labels}
        if rest.size:  # rows of weight 0 are in no leaf, but get the label of a new row
            held = labels[prepared.held]
            labels[rest] = labels_of_new(state.model, prepared.atoms, held, self._rows(job, rest))
            found["leaves"] = leaves
        for name, values in found.items():
            job.store.create_rows(name, job.n, job.chunk_rows, np.int32, -2)  # -1 stands for no leaf
            job.store.write_rows(name, 0, values.astype(np.int32))
        return Fitted(prepared.columns, state.model, prepared.atoms, tree, cut, state.bound_trace)

    # After the fit ----------------------------------------------------------------------------------------------------

    def predict(self, fitted: Fitted, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        leaf_clusters, rows = fitted.tree.cut(fitted.cut), used_columns(rows, fitted.columns)
        return predict_with_tree(fitted.model, fitted.tree, fitted.atoms, leaf_clusters, rows)

    def check_state(self, job: Job, state: State) -> None:
        prepared, model = job.prepared, state.model
        check_columns(model, prepared.columns, job)
        check_statistics(model, prepared.atoms, "of its leaves")
        held = prepared.held
        are_rows = held.dtype == np.int64 and held.shape == prepared.atoms.shape[:1] and np.all(np.diff(held) > 0)
        if not (are_rows and held[0] >= 0 and held[-1] < job.n):
            raise ValueError("its leaves are not rows of the data")
        if (state.tree is None) != (state.number == 0) or not np.all(np.isfinite(state.bound_trace)):
            raise ValueError("its one step has left no tree")
        if state.tree is not None:
            check_tree(model, state.tree, prepared.atoms)

    def check(self, fitted: Fitted, header: Any) -> None:
        check_statistics(fitted.model, fitted.atoms, "of its leaves")
        check_columns(fitted.model, fitted.columns, header)
        check_tree(fitted.model, fitted.tree, fitted.atoms)
        if fitted.tree.n_leaves > header.n_rows:
            raise ValueError(f"its tree has {fitted.tree.n_leaves} leaves for {header.n_rows} rows")
        if not 0.0 <= fitted.cut <= 1.0:
            raise ValueError(f"its tree is cut at {fitted.cut}, which is no probability")

    def facts(self, fitted: Fitted, row_leaf: np.ndarray | None) -> Facts:
        title, model, tree, trace = "Bayesian hierarchical clustering", fitted.model, fitted.tree, fitted.bound_trace
        found = facts_of_tree(title, model, tree, fitted.atoms, tree.cut(fitted.cut), row_leaf)
        return found._replace(traces={"evidence bound": ("iteration", [np.array(trace)])} if trace else {})


def facts_of_tree(
    title: str, model: Model, tree: Tree, atoms: np.ndarray, leaf_clusters: np.ndarray, row_leaf: np.ndarray | None
) -> Facts:
    """What is to be said of a tree over rows."""
    bound, k = log_bound(tree, model, float(model.counts(atoms).sum())), int(leaf_clusters.max()) + 1
    return Facts(
        title=title,
        n_clusters=k,
        headline=f"{counted(k, 'cluster')}, log evidence at least {bound:.3f}",
        shape=lambda: shape_of_tree(tree),
        leaf_clusters=leaf_clusters,
        row_leaf=np.arange(tree.n_leaves) if row_leaf is None else row_leaf,
        model=model,
        tree=tree,
        statistics=atoms,
        evidence={"log evidence at least": bound},
    )
