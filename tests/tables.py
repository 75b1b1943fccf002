"""Tables for tests: columns of all kinds with missing values, and the families of the golden ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from dtree.core.columns import Column
from dtree.core.families import Bernoulli, Categorical, DiagonalGaussian, Mixed, Poisson
from dtree.data import open_source

KINDS = (
    Column("length", "real"),
    Column("width", "real"),
    Column("married", "binary", ("no", "yes")),
    Column("children", "count"),
    Column("city", "category", ("Bonn", "Rome", "Oslo", "Graz")),
)


def table(n: int = 60, holes: float = 0.1, seed: int = 0) -> np.ndarray:
    """Two groups of rows, n / 2 each, with columns of `KINDS`; with holes, one row has nothing but them."""
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], n // 2)
    columns = [
        rng.normal(6.0 * group, 1.0),
        rng.normal(0.0, 1.0, n),
        rng.random(n) < 0.15 + 0.7 * group,
        rng.poisson(2.0 + 8.0 * group),
        np.where(group == 0, rng.integers(0, 2, n), rng.integers(1, 4, n)),
    ]
    X = np.column_stack(columns).astype(float)
    if holes:
        X[rng.random(X.shape) < holes] = np.nan
        X[5] = np.nan
    return X


def family(weight: float = 1.0) -> Mixed:
    """A family for such tables, its blocks not in the order of the columns."""
    return Mixed(
        [
            (Categorical([np.full(5, 0.5)]), [4], weight),
            (DiagonalGaussian([3.0, 0.0], 0.1, 2.0, [1.0, 1.0]), [0, 1]),
            (Poisson([1.0], [0.2]), [3]),
            (Bernoulli([1.0], [1.0]), [2]),
        ]
    )


def with_kinds(X: np.ndarray, kinds: tuple[Column, ...] = KINDS) -> Any:
    """Rows as a source that knows the kinds of its columns."""
    return replace(open_source(X), kinds=kinds, columns=tuple(column.name for column in kinds))


def as_frame(X: np.ndarray) -> pd.DataFrame:
    """Rows of codes as the table they stand for; a code behind the last level is a word that no level has."""
    frame = pd.DataFrame(X, columns=[column.name for column in KINDS])
    for column in KINDS:
        if column.levels:
            words = np.array([*column.levels, "elsewhere"], dtype=object)
            codes = frame[column.name]
            frame[column.name] = [None if np.isnan(code) else words[int(code)] for code in codes]
    return frame


def golden_family_of(columns: list[Any]) -> Mixed:
    """The family of the golden file: a block for every column."""
    made = {
        "real": lambda m, k, a, b: DiagonalGaussian([m], k, a, [b]),
        "binary": lambda a, b: Bernoulli([a], [b]),
        "count": lambda shape, rate: Poisson([shape], [rate]),
        "category": lambda concentration: Categorical([concentration]),
    }
    return Mixed([(made[kind](*values), [j]) for j, (kind, *values) in enumerate(columns)])


def people_with_holes(n: int = 120) -> pd.DataFrame:
    """Three groups of people, told apart by height, city and visits; every tenth city and height is missing."""
    rng = np.random.default_rng(3)
    group = np.arange(n) % 3
    frame = pd.DataFrame(
        {
            "name": [f"p{i}" for i in range(n)],
            "height": (rng.normal(150, 3, n) + 20 * group).round(2),
            "city": np.array(["Rome", "Oslo", "Bonn"])[np.where(rng.random(n) < 0.9, group, rng.integers(0, 3, n))],
            "visits": rng.poisson(2 + 6 * group),
            "member": np.array(["no", "yes"])[rng.integers(0, 2, n)],
            "born": np.datetime64("1980-01-01") + (365 * group + rng.integers(0, 90, n)).astype("timedelta64[D]"),
        }
    )
    frame["born"] = frame["born"].dt.strftime("%Y-%m-%d")
    frame.loc[1::10, "city"] = None
    frame.loc[4::10, "height"] = np.nan
    frame.loc[7::20, ["member", "born"]] = None
    return frame
