"""Rows: what a data file holds, and the questions that every reader asks about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True, eq=False)
class Rows:
    """What a file holds: X (n, d), dense or CSR, and what is known besides."""

    X: Any
    feature_names: list[str] | None = None
    row_names: list[str] | None = None
    labels: np.ndarray | None = None
    source: str = ""

    def __post_init__(self) -> None:
        n, d = self.X.shape
        for names, count, what in ((self.feature_names, d, "feature"), (self.row_names, n, "row")):
            if names is not None and len(names) != count:
                raise ValueError(f"{self.source} holds {len(names)} {what} names but {count} {what}s")
        if self.labels is not None and len(self.labels) != n:
            raise ValueError(f"{self.source} holds {len(self.labels)} labels but {n} rows")


class Choice(NamedTuple):
    """What the caller wants of a file."""

    array: str | None = None
    labels_column: str | None = None
    leave_out: tuple[str, ...] = ()


def numbers_in(values: Any, what: str) -> np.ndarray:
    """`values` as a two-dimensional array of real numbers, or one sentence why it is not."""
    dtype = values.dtype
    if dtype.hasobject:
        raise ValueError(f"{what} holds Python objects, which are never loaded; save it as an array of numbers")
    if dtype.kind in "USTV" or dtype.names:
        raise ValueError(f"{what} holds text or records, not numbers; save the numeric columns as an array of numbers")
    if dtype.kind not in "biuf":
        raise ValueError(f"{what} holds values of type {dtype}, not real numbers")
    if values.ndim == 1:
        raise ValueError(
            f"{what} has one dimension ({values.shape[0]} values); rows and columns are needed: reshape it with "
            "X.reshape(-1, 1) if every value is a row"
        )
    if values.ndim != 2:
        raise ValueError(f"{what} has {values.ndim} dimensions; two are needed, rows and columns")
    return values


def require_memory(size: int, what: str) -> None:
    """Refuse to load more bytes than the machine has: such a size is a mistake, damage or malice."""
    try:
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        available = 1 << 40
    if size > available:
        raise ValueError(f"{what} declares {size / 1e9:.0f} GB of data, more than this machine's memory")


def column_index(names: list[str], wanted: str, path: Path) -> int:
    """Where the column called `wanted` stands; a number counts from 0, or from the end when negative."""
    if wanted in names:
        return names.index(wanted)
    if wanted.lstrip("-").isdigit() and -len(names) <= int(wanted) < len(names):
        return int(wanted) % len(names)
    raise ValueError(f"{path} has no column '{wanted}'; it has {listed(names)}")


def take_labels(rows: Rows, labels_column: str | None) -> Rows:
    """The same rows with one column of X taken out as labels."""
    if labels_column is None:
        return rows
    names = rows.feature_names or [str(column) for column in range(rows.X.shape[1])]
    column = column_index(names, labels_column, Path(rows.source))
    labels = rows.X[:, [column]]
    labels = np.asarray(labels.toarray() if hasattr(labels, "toarray") else labels).ravel()
    return Rows(**{**vars(without(rows, [names[column]], names)), "labels": labels})


def without(rows: Rows, unwanted: Sequence[str], names: list[str] | None = None) -> Rows:
    """The same rows without the columns called `unwanted`."""
    names = names or rows.feature_names or []
    keep = [column for column, name in enumerate(names) if name not in unwanted]
    feature_names = None if rows.feature_names is None else [rows.feature_names[column] for column in keep]
    return Rows(rows.X[:, keep], feature_names, rows.row_names, rows.labels, rows.source)


def listed(names: Sequence[str], limit: int = 12) -> str:
    """Names for a sentence, the first few of many."""
    shown = ", ".join(f"'{name}'" for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "") if names else "none"
