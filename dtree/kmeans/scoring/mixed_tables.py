"""What `kmeans.scoring.mixed` looks up of frozen clusters of independent columns."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from dtree.core.families.column_compile import columns_by_kind
from dtree.core.families.column_kernels import real_posteriors
from dtree.core.families.column_tables import COUNT, FIRST, PER_COUNT, PER_ROW, PLACE, RATE, SHIFT, STRENGTH, SUM
from dtree.core.families.mixed import Mixed
from dtree.core.jit import kernel as kernel  # the constant below is read by kernels
from dtree.core.model import Model
from dtree.kmeans.scoring.kappa import kappa_gains

TABLED_COUNTS = 64  # gains of the counts below are looked up


class MixedTables(NamedTuple):
    """One entry per cluster; the last, k, is the empty cluster. First the columns of the data of each kind."""

    real_columns: np.ndarray  # (r,)
    cell_columns: np.ndarray  # (c,)
    count_columns: np.ndarray  # (p,)
    binary: np.ndarray  # (c,) whether a column of cells holds 1 and 0, in that order
    units: np.ndarray  # (2, r) origin and 1 / unit
    real: np.ndarray  # (7, k+1, r) slope, offset; constant, exponent of joining; constant, exponent, factor of leaving
    cells: np.ndarray  # (2, k+1, l+1) what a level adds on joining and on leaving; the last is 0, for missing values
    counts: np.ndarray  # (2, k+1, p) posterior shape, posterior rate
    count_gains: np.ndarray  # (k+1, p, TABLED_COUNTS) what the counts 0, 1, ... add on joining
    kappa: np.ndarray  # (2, k+1) joining, leaving
    limits: np.ndarray  # (k+1, 2) the most that levels can add, the least exponent of joining
    alone: np.ndarray  # (k+1,) the cluster holds one row only
    statistics: np.ndarray  # (k+1, s)
    family: Any  # compiled, without tables of counts: it scores few rows


def mixed_tables(model: Model, statistics: np.ndarray) -> MixedTables:
    """Tables of clusters (k, s) for `assign_mixed`."""
    family = model.family
    assert isinstance(family, Mixed)
    padded = np.vstack([statistics, np.zeros((1, statistics.shape[1]))])
    compiled: Any = family.compile(np.zeros(padded.shape[1]), model.coarsening)
    kappa_join, kappa_leave, alone = kappa_gains(model, padded)
    real_columns, cell_columns, count_columns = columns_by_kind(family.blocks)
    origin, inverse = np.zeros(family.n_features), np.ones(family.n_features)
    for block in family.blocks:
        if hasattr(block.family, "origin"):
            origin[block.columns], inverse[block.columns] = block.family.origin, 1.0 / block.family.unit
    binary = np.array([kind == "binary" for kind, _ in family.column_kinds])
    at, count = compiled.poisson_at, compiled.poisson
    counts = np.stack([count[SHIFT] + padded[:, at[SUM]], count[RATE] + padded[:, at[COUNT]]])
    real, cells = _real_tables(compiled, padded), _cell_tables(compiled, padded)
    return MixedTables(
        real_columns, cell_columns, count_columns, binary[cell_columns], np.stack([origin, inverse])[:, real_columns],
        real, cells, counts, _count_gains(counts, 1.0 / count[PER_COUNT]),
        np.stack([kappa_join, kappa_leave]), _limits(compiled, real, cells), alone, padded, compiled,
    )  # fmt: skip


def _real_tables(compiled: Any, padded: np.ndarray) -> np.ndarray:
    real = compiled.real
    unit = 1.0 / real[PER_COUNT]
    count, strength, mean, rate = real_posteriors(compiled, padded)
    least = real_posteriors(compiled, np.zeros((1, padded.shape[1])))[3]
    rate = np.maximum(rate, least)  # rows only add to it; less is rounding
    shape = real[SHIFT] + 0.5 * count

    def term(n: np.ndarray) -> np.ndarray:
        return gammaln(real[SHIFT] + 0.5 * n) - 0.5 * np.log(real[STRENGTH] + n)

    slope = np.sqrt(unit * strength / ((strength + unit) * 2.0 * rate))
    fixed, rest = unit * real[PER_ROW] - 0.5 * unit * np.log(rate), np.maximum(count - unit, 0.0)
    join, leave = term(count + unit) - term(count) + fixed, term(count) - term(rest) + fixed
    factor = (strength + unit) / np.maximum(strength - unit, real[STRENGTH])
    return np.stack([slope, slope * mean, join, shape + 0.5 * unit, leave, shape - 0.5 * unit, factor])


def _count_gains(counts: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """`_count_gain` of the counts 0, 1, ... that are looked up."""
    shape, rate, unit = counts[0][..., None], counts[1][..., None], unit[:, None]
    x, grown = np.arange(TABLED_COUNTS), np.log(rate + unit)
    return shape * (np.log(rate) - grown) - unit * x * grown + gammaln(shape + unit * x) - gammaln(shape)


def _cell_tables(compiled: Any, padded: np.ndarray) -> np.ndarray:
    sizes = compiled.column_at[FIRST + 1] - compiled.column_at[FIRST]
    unit, unit_of_cell = 1.0 / compiled.column[PER_COUNT], 1.0 / compiled.cell[PER_COUNT]
    held, count = padded[:, compiled.cell_at[PLACE]], padded[:, compiled.column_at[COUNT]]
    out = np.zeros((2, padded.shape[0], held.shape[1] + 1))
    for which, (cells, total) in enumerate(
        ((held, count), (np.maximum(held - unit_of_cell, 0.0), np.maximum(count - unit, 0.0)))
    ):
        shift, whole = compiled.cell[SHIFT] + cells, compiled.column[SHIFT] + total
        fall = np.repeat(gammaln(whole + unit) - gammaln(whole), sizes, axis=1)
        out[which, :, :-1] = gammaln(shift + unit_of_cell) - gammaln(shift) - fall
    return out


def _limits(compiled: Any, real: np.ndarray, cells: np.ndarray) -> np.ndarray:
    best = np.zeros(cells.shape[1])
    for first, end in compiled.column_at[FIRST : FIRST + 2].T:
        best += np.maximum(cells[0][:, first:end].max(axis=1), 0.0)  # 0: what is missing
    least = real[3].min(axis=1) if real.shape[2] else np.zeros(best.shape[0])
    return np.column_stack([best, least])
