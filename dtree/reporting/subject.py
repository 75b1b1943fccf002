"""What a page or a picture is about: the facts of any fitted model or run, or a tree alone, in one shape."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from dtree.core.columns import Column
from dtree.core.shape import Shape, shape_of_tree
from dtree.core.tree import Tree
from dtree.methods import method_named
from dtree.methods.cluster_words import ClusterWords, cluster_words, words_between
from dtree.methods.degenerate import facts_of_run
from dtree.methods.facts import Facts, counted
from dtree.methods.fitted_checks import checked_fitted
from dtree.reporting.profile import Profile, profile_of
from dtree.runs.run import Run


class Points(NamedTuple):
    """What is drawn in two dimensions: some rows, or the leaves."""

    profile: Profile  # of m points
    cluster: np.ndarray  # (m,)
    names: list[str] | None  # (m,)
    in_all: int  # how many there are to choose from
    leaf: np.ndarray | None = None  # (m,) of the tree, -1 for none; None where it is not known


class Known(NamedTuple):
    """The column of labels that came with the data."""

    column: str
    names: list[str]  # (l,) the distinct labels
    codes: np.ndarray  # (n,) which of them each row has


@dataclass(eq=False)
class Subject:
    """Everything the sections draw from; what a method does not have is None.

    points : rows to draw in two dimensions; the leaves when None. columns : (d',) of n_features that the model uses.
    predict : the cluster of new rows.
    """

    facts: Facts
    profile: Profile | None = None
    columns: np.ndarray | None = None
    n_features: int = 0
    predict: Callable[[Any], np.ndarray] | None = None
    points: Points | None = None
    row_names: list[str] | None = None
    feature_names: list[str] | None = None  # of the columns in use
    image_shape: tuple[int, int] | None = None
    run: str | None = None  # where the run is, for the title
    origin: dict[str, Any] = field(default_factory=dict)  # where it came from, in words
    settings: dict[str, Any] = field(default_factory=dict)
    kinds: list[Column] = field(default_factory=list)  # of the columns, where the rows were a table
    left_out: list[tuple[str, str]] = field(default_factory=list)  # columns that are no features, and why
    known: Known | None = None
    confidence: np.ndarray | None = None  # (n,) probability of each row's cluster
    outlier_score: np.ndarray | None = None  # (n,)

    @cached_property
    def shape(self) -> Shape:
        """The tree to draw."""
        return self.facts.shape()

    def words(self, leaf_clusters: np.ndarray) -> ClusterWords | None:
        """What sets the clusters of a cut (m,) apart, in words; None where the rows were no table of several kinds."""
        if not self.kinds or self.columns is None:
            return None
        return cluster_words(self.facts, [self.kinds[column] for column in self.columns], leaf_clusters)

    def words_between(self, here: np.ndarray, there: np.ndarray, most: int) -> list[str] | None:
        """What sets some leaves of a table apart from others, in words; None where the rows were no table."""
        if not self.kinds or self.columns is None:
            return None
        return words_between(self.facts, [self.kinds[column] for column in self.columns], here, there, most)

    @property
    def n_rows(self) -> int:
        """Rows the model was fitted to."""
        return int(self.shape.size[-1])

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.facts.leaf_clusters.max()) + 1

    @property
    def headline(self) -> str:
        """What was found, in a few words."""
        return f"{counted(self.n_rows, 'row')}, {counted(self.n_clusters, 'cluster')}"

    @property
    def drawn(self) -> Points | None:
        """What to draw in two dimensions."""
        if self.points is not None or self.profile is None:
            return self.points
        cluster, names = self.facts.leaf_clusters, self.row_names
        names = names if names is not None and len(names) == len(cluster) else None
        return Points(self.profile, cluster, names, len(cluster), np.arange(len(cluster)))

    def feature(self, number: int) -> str:
        """Name of a feature."""
        return self.feature_names[number] if self.feature_names is not None else f"feature {number}"

    def leaf_names(self) -> list[str] | None:
        """Names of the leaves when every leaf is a row with a name."""
        m, leaf = self.shape.n_leaves, self.facts.row_leaf
        if self.row_names is None or leaf is None or len(self.row_names) != m or np.any(self.shape.size[:m] != 1):
            return None
        names = [""] * m
        for row, name in enumerate(self.row_names):
            names[leaf[row]] = name
        return names

    def first_rows(self) -> list[str] | None:
        """The name of the first row in each leaf, where rows have names."""
        leaf, m = self.facts.row_leaf, self.shape.n_leaves
        if self.row_names is None or leaf is None or len(self.row_names) != leaf.shape[0]:
            return None
        held, first = np.unique(leaf, return_index=True)
        return [self.row_names[row] for row in first] if np.array_equal(held, np.arange(m)) else None


def subject_of(model_or_run: Any) -> Subject:
    """The subject of a fitted model, the folder of a finished run or a tree, or one sentence why there is none."""
    if isinstance(model_or_run, Tree):
        rows = np.arange(model_or_run.n_leaves)
        tree, clusters = model_or_run, model_or_run.cut()
        shape = partial(shape_of_tree, tree)
        return Subject(Facts("Tree", int(clusters.max()) + 1, "", shape, clusters, rows, tree=tree))
    if isinstance(model_or_run, str | os.PathLike):
        run = Run.open(model_or_run)
        run.require_done()
        run.check_rows()
        return _of_run(run)
    if not hasattr(model_or_run, "_finished_run"):
        raise ValueError(
            f"there is no report about a {type(model_or_run).__name__}: give a fitted dtree model, a run or a Tree"
        )
    if not hasattr(model_or_run, "_run"):
        raise ValueError(f"this {type(model_or_run).__name__} is not fitted yet; call fit before the report")
    return _of_run(model_or_run._finished_run())


def _of_run(run: Run) -> Subject:
    header, fitted = run.header, checked_fitted(run)
    method = method_named(header.method)
    facts = facts_of_run(method, fitted, run)
    profile = facts.profile
    if profile is None and facts.model is not None and facts.statistics is not None:
        profile = profile_of(facts.model.family, facts.statistics, facts.model.coarsening)
    names = header.feature_names
    return Subject(
        facts,
        profile,
        fitted.columns,
        header.n_features,
        lambda rows: method.predict(fitted, method.checked(fitted, rows))[0],
        row_names=header.row_names,
        feature_names=None if names is None else [names[column] for column in fitted.columns],
        run=None if run.path is None else run.location,
        origin=header.origin,
        settings=dict(header.settings),
        kinds=header.kinds,
        left_out=header.left_out,
        known=_known(run, facts),
        confidence=run.row_array("confidence"),
        outlier_score=run.row_array("outlier_score"),
    )


def _known(run: Run, facts: Facts) -> Known | None:
    """The labels of the rows, where the run keeps some and its rows have leaves."""
    header, codes = run.header, run.row_array("known")
    if codes is None or facts.row_leaf is None or facts.row_leaf.shape != codes.shape:
        return None
    if codes.min() < 0 or codes.max() >= len(header.label_names):
        raise ValueError(f"{run.location} is damaged: its known labels are not among their names")
    return Known(header.labels_column or "labels", header.label_names, codes)
