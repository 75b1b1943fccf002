"""What is meant by a family that is given by name, once the columns of the data are known.

Before the rows are read `expected` says what they may hold; after it, `resolve` says which family is fitted to which
columns. "auto" is a Gaussian where all values are numbers and none is missing, else `Mixed`. A family of independent
columns becomes a `Mixed` of one block where values are missing, because then every column needs a count of its own.
"""

from typing import Any, NamedTuple

import numpy as np

from dtree.core.checks import MOST_LEVELS
from dtree.core.columns import Column
from dtree.core.families.base import Family
from dtree.core.families.categorical import Categorical
from dtree.core.families.mixed import Mixed
from dtree.core.families.per_column import PerColumn
from dtree.core.families.registry import AUTO, FAMILIES, family_type

Kinds = tuple[Column, ...]


class Expected(NamedTuple):
    """What rows may hold, for those who check them; a family or its class has the same attributes."""

    name: str
    value_kind: str
    accepts_sparse: bool
    needs_covariance: bool
    takes_holes: bool
    column_kinds: list[tuple[str, int]]  # kind and number of codes of each column; [] where all are of `value_kind`
    complete_columns: np.ndarray  # of which no value may be missing
    kinds: Kinds  # for which the survey counts levels


def expected(family: str | Family, kinds: Kinds = (), d: int | None = None) -> Expected:
    """What rows of columns of these kinds (() when nothing is known of them) may hold for a family.

    >>> expected("auto").takes_holes, expected("gaussian").takes_holes
    (True, False)
    """
    nothing = np.empty(0, dtype=np.int64)
    if family == AUTO:
        family = "mixed" if any(column.kind != "real" for column in kinds) else AUTO
    if isinstance(family, str) and family == AUTO:
        kind = FAMILIES["gaussian"]
        return Expected(kind.name, "real", kind.accepts_sparse, kind.needs_covariance, True, [], nothing, kinds)
    if isinstance(family, str) and family == Mixed.name:
        each: list[tuple[str, int]] = [(column.kind, len(column.levels) + 1) for column in kinds]
        return Expected(Mixed.name, "mixed" if each else "real", False, False, True, each, nothing, kinds)
    cls = family_type(family)
    whole = getattr(family, "complete_columns", nothing)
    each = []
    if isinstance(family, Mixed):
        each = family.column_kinds
    elif isinstance(family, Categorical):
        each = [("category", int(number)) for number in family.n_levels]
    elif isinstance(family, str) and cls is Categorical:
        kinds = _as_categories(kinds, d)
        each = [("category", len(column.levels) + 1 if column.levels else MOST_LEVELS) for column in kinds]
    else:
        _refuse_categories(cls, kinds)
    named = cls.name, cls.value_kind, cls.accepts_sparse, cls.needs_covariance, cls.takes_holes
    return Expected(*named, each, np.asarray(whole if isinstance(whole, np.ndarray) else nothing), kinds)


def expected_to_predict(family: str | Family) -> Expected:
    """The same of rows to predict: some families learn from complete rows only, but can take others afterwards.

    >>> from dtree.core.families.gaussian import Gaussian
    >>> family = Gaussian([0.0], 0.1, 3.0, [[1.0]])
    >>> expected(family).takes_holes, expected_to_predict(family).takes_holes
    (False, True)
    """
    found = expected(family)
    return found._replace(takes_holes=found.takes_holes or family_type(family).predicts_holes)


def _as_categories(kinds: Kinds, d: int | None) -> Kinds:
    """Every column a category; levels that nobody named are as many as the rows turn out to hold."""
    columns = kinds or tuple(Column(str(j), "real") for j in range(d or 0))
    return tuple(
        Column(column.name, "category", column.levels if column.kind in ("category", "binary") else ())
        for column in columns
    )


def _refuse_categories(cls: type[Family], kinds: Kinds) -> None:
    for j, column in enumerate(kinds):
        if column.kind == "category":
            raise ValueError(
                f"column {j} ('{column.name}') holds categories, which the {cls.name} family cannot take: choose "
                "family='auto' or 'mixed', or leave the column out"
            )


class Resolved(NamedTuple):
    """What is fitted: a family or its name, the columns it uses, and their kinds."""

    family: str | Family
    columns: np.ndarray  # (d',)
    kinds: Kinds  # of these columns


def resolve(family: str | Family, kinds: Kinds, low: np.ndarray, high: np.ndarray, holes: bool) -> Resolved:
    """Which family is meant, from what is known of the columns: kinds, smallest and largest value (d,), missing values.

    >>> resolve("auto", (), np.zeros(2), np.ones(2), holes=True).family
    'mixed'
    """
    d = low.shape[0]
    if holes and not np.any(low <= high):
        raise ValueError("every value is missing (NaN): there is nothing to learn from")
    if isinstance(family, Family):
        by_column = isinstance(family, PerColumn) and not isinstance(family, Categorical)
        if holes and by_column and family.n_features == d:
            family = Mixed([(family, np.arange(d))])
        return Resolved(family, np.arange(d), ())
    if family == AUTO:
        numbers = all(column.kind == "real" for column in kinds)
        family = "gaussian" if numbers and not holes else Mixed.name
    elif holes and issubclass(family_type(family), PerColumn) and family != Categorical.name:
        kind: Any = family_type(family).value_kind
        kinds = tuple(Column(str(j), kind) for j in range(d))
        family = Mixed.name
    if family == Mixed.name and not kinds:
        kinds = tuple(Column(str(j), "real") for j in range(d))
    elif family == Categorical.name:
        kinds = _as_categories(kinds, d)
    columns = columns_in_use(family, low, high, kinds)
    return Resolved(family, columns, tuple(kinds[j] for j in columns) if kinds else ())


def columns_in_use(family: str | Family, low: np.ndarray, high: np.ndarray, kinds: Kinds = ()) -> np.ndarray:
    """The columns (d',) that a model uses, from the smallest and largest value (d,) of each.

    A family given by name leaves out constant columns of real numbers, of which it can say nothing, unless all are.

    >>> columns_in_use("gaussian", np.array([0.0, 5.0, 1.0]), np.array([2.0, 5.0, 3.0])).tolist()
    [0, 2]
    """
    every = np.arange(low.shape[0])
    if isinstance(family, Family) or family_type(family).value_kind not in ("real", "mixed"):
        return every
    real = np.ones(every.shape[0], dtype=np.bool_)
    if kinds and family == Mixed.name:
        real = np.array([column.kind == "real" for column in kinds])
    kept = every[(low < high) | ~real]
    return kept if kept.size else every
