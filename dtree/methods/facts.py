"""Facts: what `info`, the console, plots and the report say of a fitted run, for every method in the same words.

A method gives them from its fitted record (`Method.facts`); nothing that shows them knows estimators or their classes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dtree.core.levels import Level
from dtree.core.model import Model
from dtree.core.shape import Shape


def counted(number: int, what: str) -> str:
    """A number of things in words.

    >>> counted(1, "chain"), counted(4, "chain"), counted(2, "pass"), counted(2, "leaf")
    ('1 chain', '4 chains', '2 passes', '2 leaves')
    """
    several = "leaves" if what == "leaf" else what + ("es" if what.endswith("s") else "s")
    return f"{number:,} {what if number == 1 else several}"


class Cuts(NamedTuple):
    """The levels at which the tree of a run can be cut, coarsest first."""

    levels: list[Level]
    table: Callable[[], Any]  # a data frame of them, a line for each
    leaf_clusters: list[np.ndarray]  # (m,) for each
    valleys: list[np.ndarray]  # (k,) for each: how deep the valley around each cluster is, infinite around all rows
    chosen: int  # which of them the run was cut at
    reason: str  # why, in a sentence


class Facts(NamedTuple):
    """What is to be said of a fitted run; what a method does not have is empty."""

    title: str  # the method in words: "Bayesian hierarchical clustering"
    n_clusters: int
    headline: str  # what was found, in one line: "3 clusters, log evidence at least -123.4"
    shape: Callable[[], Shape]  # the tree to draw: the run's own, or one built over its clusters when it is asked for
    leaf_clusters: np.ndarray  # (m,) the cluster of each of its leaves
    row_leaf: np.ndarray | None = None  # (n,) the leaf of each row, where rows have one
    lines: Mapping[str, str] = {}  # more for `info`, by name: {"log joint": "-1234.5"}
    warnings: tuple[str, ...] = ()  # what a user must know, and what to do: "not converged: ..."
    remark: str = ""  # a sentence under the tree
    model: Model | None = None  # family, prior and coarsening, where there are some
    tree: Any = None  # the tree that the run holds, or None
    statistics: np.ndarray | None = None  # (m, s) of the leaves, from which the model's family makes profiles
    present: np.ndarray | None = None  # (m, d) how many of their rows have a value, when these were completed
    profile: Any = None  # a profile of the leaves, for a method without a family
    evidence: Mapping[str, float] = {}  # what is known of log p(X), by what it is: {"log evidence at least": -123.4}
    traces: Mapping[str, tuple[str, Sequence[np.ndarray]]] = {}  # by name: what a step is called, a line per chain
    tables: Mapping[str, Any] = {}  # data frames to show, by title
    clusters: Mapping[str, np.ndarray] = {}  # columns (k,) for the table of clusters, by name
    cuts: Cuts | None = None  # of a run with levels
    together: Callable[[np.ndarray], np.ndarray] | None = None  # of chains: how often given leaves are in one cluster
