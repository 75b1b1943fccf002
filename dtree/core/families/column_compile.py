"""Blocks of independent columns, compiled: hyperparameters of all columns of a kind side by side."""

import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from dtree.core.families import column_kernels as column_kernels  # registers the kernels of the compiled types
from dtree.core.families.bernoulli import Bernoulli
from dtree.core.families.categorical import Categorical
from dtree.core.families.column_tables import CompiledColumns, CompiledColumnsAndGaussian, Pool
from dtree.core.families.gaussian import Gaussian
from dtree.core.families.gaussian_diag import DiagonalGaussian
from dtree.core.families.poisson import Poisson

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_KINDS: tuple[Any, ...] = (DiagonalGaussian, (Bernoulli, Categorical), Poisson)  # in the order of the compiled arrays


def compile_blocks(blocks: Any, places: list[list[np.ndarray]], total: np.ndarray, coarsening: float) -> Any:
    """The compiled form of blocks (family, columns, weight) whose parts stand at `places` in a row of statistics."""
    held = [
        (family, at, np.full(columns.shape[0], coarsening * weight))
        for (family, columns, weight), at in zip(blocks, places, strict=True)
    ]
    pool = Pool()
    real, cells, counts = ([one for one in held if isinstance(one[0], kind)] for kind in _KINDS)
    arrays = *_real(real, total, pool), *_cells(cells, total, pool), *_counts(counts, total, pool)
    contiguous: list[Any] = [np.ascontiguousarray(one) for one in arrays]
    columns = CompiledColumns._make([*contiguous, pool.values(), 1.0 / coarsening])
    for family, at, unit in held:
        if isinstance(family, Gaussian):
            start, stop = int(at[0][0]), int(at[0][-1]) + 1
            return CompiledColumnsAndGaussian(columns, family.compile(total[start:stop], float(unit[0])), start, stop)
    return columns


def columns_by_kind(blocks: Any) -> list[np.ndarray]:
    """The columns of the data that stand for real columns, categories and counts in the compiled form."""
    return [_joined([b.columns for b in blocks if isinstance(b.family, kind)], np.int64) for kind in _KINDS]


def _joined(parts: list[Any], dtype: Any = np.float64) -> np.ndarray:
    return np.concatenate([np.empty(0), *parts]).astype(dtype)


def _places(held: list[Any], *parts: int) -> np.ndarray:
    return np.stack([_joined([at[part] for _, at, _ in held], np.int64) for part in parts])


def _real(held: list[Any], total: np.ndarray, pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    families, unit = [one[0] for one in held], _joined([one[2] for one in held])
    shape = _joined([one.shape for one in families])
    strength = _joined([np.full(one.n_features, one.strength) for one in families])
    mean = _joined([one._mean_in_units() for one in families])
    rate = _joined([one.rate / one.unit**2 for one in families])
    per_row = -_joined([np.log(one.unit) for one in families]) - _HALF_LOG_2PI
    at, keys = _places(held, 0, 1, 2), np.column_stack([shape, strength])
    group = np.unique(np.column_stack([keys, unit]), axis=0, return_inverse=True)[1].ravel()

    def term(key: np.ndarray, count: np.ndarray) -> np.ndarray:
        return gammaln(key[:, 0] + 0.5 * count) - gammaln(key[:, 0]) - 0.5 * np.log1p(count / key[:, 1])

    tables = pool.add(keys, total[at[0]], unit, term)
    rate_base, base = rate + 0.5 * strength * mean**2, shape * np.log(rate)
    values = np.stack([shape, gammaln(shape), 1.0 / unit, strength, strength * mean, rate_base, base, per_row])
    return np.concatenate([tables, at, group[None]]).astype(np.int64), values


def _cells(held: list[Any], total: np.ndarray, pool: Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    shifts, places, sizes = [], [], []
    for family, at, _ in held:
        if isinstance(family, Bernoulli):  # the two levels of each column: parts 1 and 2 are ones and zeros
            shifts += list(np.column_stack([family.a, family.b]))
            places.append(np.column_stack([at[1], at[2]]).ravel())
            sizes.append(np.full(family.n_features, 2))
        else:
            shifts += family.concentration
            places.append(at[1])
            sizes.append(family.n_levels)
    shift, place, each = _joined(shifts), _joined(places, np.int64), _joined(sizes, np.int64)
    unit, count_at, end = _joined([one[2] for one in held]), _places(held, 0), np.cumsum(each)
    sums = np.array([one.sum() for one in shifts])
    unit_of_cell = np.repeat(unit, each)
    totals, cells = (
        pool.add_log_gamma(sums, total[count_at[0]], unit),
        pool.add_log_gamma(shift, total[place], unit_of_cell),
    )
    column_at = np.concatenate([totals, count_at, (end - each)[None], end[None]])
    column, cell = np.stack([sums, gammaln(sums), 1.0 / unit]), np.stack([shift, gammaln(shift), 1.0 / unit_of_cell])
    return column_at.astype(np.int64), column, np.concatenate([cells, place[None]]).astype(np.int64), cell


def _counts(held: list[Any], total: np.ndarray, pool: Pool) -> tuple[np.ndarray, np.ndarray]:
    shape, rate = _joined([one[0].shape for one in held]), _joined([one[0].rate for one in held])
    unit, at = _joined([one[2] for one in held]), _places(held, 0, 1, 2)
    sums = pool.add_log_gamma(shape, total[at[1]], unit)
    logs = pool.add(rate[:, None], total[at[0]], unit, lambda key, count: np.log(key[:, 0] + count))
    values = np.stack([shape, gammaln(shape), 1.0 / unit, rate, shape * np.log(rate)])
    return np.concatenate([sums, at, logs]).astype(np.int64), values
