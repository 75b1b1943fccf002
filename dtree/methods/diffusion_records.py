"""The records that a run of diffusion trees keeps while it works: prepared rows, and where every walk stands."""

from functools import cached_property
from typing import Self

import msgspec
import numpy as np

from dtree.diffusion.prepare import Prepared as PreparedRows
from dtree.diffusion.records import check_prepared
from dtree.diffusion.walk import Walk


class Prepared(msgspec.Struct, frozen=True, dict=True):
    """What walks stand on: leaves, units and noise."""

    columns: np.ndarray  # (d',) the columns that the tree uses
    fingerprint: str
    constants: np.ndarray  # (d,) of every column the value that all rows share, NaN where they differ or it is unknown
    found: PreparedRows

    @classmethod
    def of(cls, rows: PreparedRows, fingerprint: str) -> Self:
        """The record of prepared rows."""
        return cls(rows.columns, fingerprint, rows.constants, rows)

    @cached_property
    def rows(self) -> PreparedRows:
        """The prepared rows, checked."""
        check_prepared(self.found)
        return self.found


class Part(msgspec.Struct, frozen=True):
    """Where a walk stands: its tree and messages, the best trees, the draws so far, the random generator."""

    number: int  # steps and sweeps done
    walk: Walk
    generator: str  # the state of the random generator, as JSON


def check_used_columns(columns: np.ndarray, constants: np.ndarray, rows: PreparedRows, n_features: int) -> None:
    """ValueError unless these are the columns of the data that the leaves have, and one constant for every column."""
    fitting = columns.shape == rows.affine.offset.shape and constants.shape == (n_features,)
    if not fitting or columns.dtype.kind != "i" or not 0 <= columns.min() <= columns.max() < n_features:
        raise ValueError(f"its columns are not columns of rows with {n_features} features")
    if np.unique(columns).size != columns.size or np.isinf(constants).any() or rows.constants.size > n_features:
        raise ValueError("its columns are not distinct, or its constants are not one for each column")
