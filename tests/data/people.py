"""One small table of people in every form in which tables come, and what the tests ask of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from dtree.core.columns import Column
from dtree.data import Source

N = 60
RNG = np.random.default_rng(0)
CITIES = np.array(["Rome", "Bonn", "Oslo"])[RNG.integers(0, 3, N)]
PEOPLE = pd.DataFrame(
    {
        "person": [f"p{i}" for i in range(N)],
        "height": RNG.normal(170, 8, N).round(1),
        "income": RNG.integers(10_000, 90_000, N),
        "children": RNG.integers(0, 5, N),
        "grade": RNG.integers(1, 6, N),
        "city": CITIES,
        "member": np.array(["no", "yes"])[RNG.integers(0, 2, N)],
        "born": pd.date_range("1990-01-01", periods=N, freq="97D").strftime("%Y-%m-%d"),
        "planet": "Earth",
        "customer_id": RNG.permutation(N) * 7 + 1000,
        "remark": [f"called again on day {2 * i // 3} of the week" for i in range(N)],
    }
)
PEOPLE.loc[3, "city"] = None
PEOPLE.loc[[4, 5], "height"] = np.nan
KINDS = {
    "height": "real", "income": "real", "children": "count", "grade": "category", "city": "category",
    "member": "binary", "born": "real",
}  # fmt: skip


def as_csv(folder: Path, frame: pd.DataFrame = PEOPLE) -> Path:
    frame.to_csv(folder / "people.csv", index=False)
    return folder / "people.csv"


def as_parquet(folder: Path, frame: pd.DataFrame = PEOPLE) -> Path:
    frame.to_parquet(folder / "people.parquet")
    return folder / "people.parquet"


def as_parts(folder: Path, frame: pd.DataFrame = PEOPLE, *, groups: int = 7) -> Path:
    (folder / "parts").mkdir(exist_ok=True)
    for number, start in enumerate(range(0, len(frame), 25)):
        frame[start : start + 25].to_parquet(folder / "parts" / f"{number}.parquet", row_group_size=groups)
    return folder / "parts"


def as_polars(folder: Path, frame: pd.DataFrame = PEOPLE) -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame})


FORMS: dict[str, Callable[..., Any]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "parquet folder": as_parts,
    "pandas": lambda folder, frame=PEOPLE: frame,
    "arrow": lambda folder, frame=PEOPLE: pyarrow.Table.from_pandas(frame),
    "polars": as_polars,
}


def kinds_of(source: Source) -> dict[str, str]:
    return {column.name: column.kind for column in source.kinds}


def column_of(source: Source, name: str) -> Column:
    return next(column for column in source.kinds if column.name == name)


def values_of(source: Source, name: str) -> np.ndarray:
    return source.load()[:, source.columns.index(name)]
