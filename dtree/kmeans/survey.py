"""The first look at the data: check every row, take the moments and a random sample, one chunk at a time.

A chunk's survey is combined with others in a fixed tree; moments about each chunk's own mean are joined by the update
formula for means and second moments, so nothing cancels. The sample is the rows with the smallest random keys, so it
does not depend on how the work was divided among workers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dtree.core.checks import check_rows
from dtree.core.columns import Column
from dtree.core.families import Expected, Family, Moments, has_holes
from dtree.core.families.moments import count_levels, with_reserved
from dtree.core.jit import kernel
from dtree.kmeans.passes import SAMPLE_STREAM, stream

__all__ = ["Survey", "check_rows", "combine_surveys", "share_of_sample", "survey_chunk"]


class Survey(NamedTuple):
    """Moments and a sample of the rows seen so far."""

    rows: int
    mean: np.ndarray  # (d,)
    second: np.ndarray  # (d(d+1)/2,) upper triangle of the summed squares about the mean, or (d,) its diagonal
    low: np.ndarray  # (d,)
    high: np.ndarray  # (d,)
    present: np.ndarray  # (d,) how many values are not missing
    levels: tuple[np.ndarray, ...]  # how often each code of each column occurs, for categories; () when there are none
    keys: np.ndarray  # (m,) random keys of the sampled rows, increasing
    sample: Any  # (m, d) dense or CSR

    def pick(self, columns: np.ndarray) -> Survey:
        """The survey of some of the columns."""
        d = self.mean.shape[0]
        if columns.shape[0] == d:
            return self
        second = self.second
        if second.shape[0] == d:
            second = second[columns]
        else:
            place = np.zeros((d, d), dtype=np.int64)
            place[np.triu_indices(d)] = np.arange(second.shape[0])
            second = second[place[np.ix_(columns, columns)][np.triu_indices(columns.shape[0])]]
        levels = tuple(self.levels[j] for j in columns) if self.levels else ()
        by_column = {name: getattr(self, name)[columns] for name in ("mean", "low", "high", "present")}
        return self._replace(**by_column, second=second, levels=levels, sample=self.sample[:, columns])

    @property
    def has_holes(self) -> bool:
        """Whether a value is missing."""
        return bool(np.any(self.present < self.rows))

    def moments(self, with_covariance: bool, kinds: tuple[Column, ...] = ()) -> Moments:
        """What `Family.defaults` asks for, of columns of these kinds."""
        d = self.mean.shape[0]
        if with_covariance and self.second.shape[0] == d and d > 1:
            raise ValueError("the survey was made without covariances")
        covariance = None
        if with_covariance:
            upper = np.triu_indices(d)
            covariance = np.zeros((d, d))
            covariance[upper] = self.second / self.rows
            covariance = np.triu(covariance) + np.triu(covariance, 1).T
            variance = np.diag(covariance).copy()
        else:
            variance = diagonal(self.second, d) / np.maximum(self.present, 1.0)
        variance[self.low == self.high] = 0.0
        levels = with_reserved(self.levels)
        return Moments(float(self.rows), self.mean, variance, covariance, self.present, kinds, levels)


def diagonal(second: np.ndarray, d: int) -> np.ndarray:
    """The diagonal (d,) of an upper triangle, or what is a diagonal already."""
    if second.shape[0] == d:
        return second
    steps = np.arange(d, 0, -1)
    return second[np.cumsum(steps) - steps]


@kernel
def _centred_products(X, mean, with_covariance):
    """Upper triangle of sum (x - mean)(x - mean)', or its diagonal; rows in order, no BLAS: same bits everywhere."""
    n, d = X.shape
    z = np.empty(d)
    out = np.zeros(d * (d + 1) // 2 if with_covariance else d)
    for i in range(n):
        for a in range(d):
            z[a] = X[i, a] - mean[a]
        if with_covariance:
            position = 0
            for a in range(d):
                for b in range(a, d):
                    out[position] += z[a] * z[b]
                    position += 1
        else:
            for a in range(d):
                out[a] += z[a] * z[a]
    return out


@kernel
def _moments_of_known(X):
    """Mean, sum of squares about it and number (d,) of the values of X (n, d) that are there; rows in order.

    Neither a mask nor a copy of the rows is made, which a worker would have to hold beside its chunk.
    """
    n, d = X.shape
    mean, second, present = np.zeros(d), np.zeros(d), np.zeros(d)
    for i in range(n):
        for a in range(d):
            if not math.isnan(X[i, a]):
                mean[a] += X[i, a]
                present[a] += 1.0
    for a in range(d):
        mean[a] /= max(present[a], 1.0)
    for i in range(n):
        for a in range(d):
            if not math.isnan(X[i, a]):
                z = X[i, a] - mean[a]
                second[a] += z * z
    return mean, second, present


def survey_chunk(
    X: Any, family: type[Family] | Family | Expected, seed: int, chunk: int, first_row: int, sample_rows: int
) -> Survey:
    """Check one chunk of rows (n, d), and take its moments and at most `sample_rows` rows for the sample."""
    if sparse.issparse(X) and not family.accepts_sparse:
        raise ValueError(f"the {family.name} family takes dense rows: convert the data with toarray()")
    check_rows(X, family, first_row)
    keys = stream(seed, SAMPLE_STREAM, 0, chunk).random(X.shape[0])
    order = _smallest(keys, sample_rows)
    rows = X.shape[0]
    if sparse.issparse(X):
        X = X.tocsr()
        floats = X.astype(np.float64)
        mean = np.asarray(floats.sum(axis=0)).ravel() / rows
        squares = np.asarray(floats.multiply(floats).sum(axis=0)).ravel()
        second = np.maximum(squares - rows * mean**2, 0.0)
        low, high = (np.asarray(f(axis=0).todense()).ravel().astype(np.float64) for f in (X.min, X.max))
        return Survey(rows, mean, second, low, high, np.full(X.shape[1], float(rows)), (), keys[order], X[order])
    dense = np.ascontiguousarray(X, dtype=np.float64)
    levels = count_levels(dense, getattr(family, "kinds", ()))
    low, high = np.fmin.reduce(dense, axis=0), np.fmax.reduce(dense, axis=0)
    rest = levels, keys[order], np.array(X[order])
    if not has_holes(dense):
        mean = dense.mean(axis=0)
        second = _centred_products(dense, mean, family.needs_covariance)
        return Survey(rows, mean, second, low, high, np.full(X.shape[1], float(rows)), *rest)
    mean, second, present = _moments_of_known(dense)
    return Survey(rows, mean, second, low, high, present, *rest)


def _smallest(keys: np.ndarray, number: int) -> np.ndarray:
    """Where the `number` smallest of keys (n,) are, in their order; a few of many without sorting all.

    >>> _smallest(np.array([0.5, 0.1, 0.9, 0.3]), 2).tolist()
    [1, 3]
    """
    if 4 * number >= keys.shape[0]:
        return np.argsort(keys, kind="stable")[:number]
    few = np.flatnonzero(keys <= np.partition(keys, number - 1)[number - 1])
    return few[np.argsort(keys[few], kind="stable")[:number]]


def combine_surveys(parts: Sequence[Survey], sample_rows: int) -> Survey:
    """Join surveys in the given order."""
    total = parts[0]
    d = total.mean.shape[0]
    if len({part.second.shape[0] for part in parts}) > 1:  # rows with holes have no products of columns
        parts = [part._replace(second=diagonal(part.second, d)) for part in parts]
        total = parts[0]
    a, b = np.triu_indices(d) if total.second.shape[0] != d else (np.arange(d), np.arange(d))
    for part in parts[1:]:
        values = np.maximum(total.present + part.present, 1.0)
        shift = part.mean - total.mean
        weight = total.present * part.present / values
        total = total._replace(
            rows=total.rows + part.rows,
            mean=total.mean + shift * (part.present / values),
            second=total.second + part.second + weight[a] * shift[a] * shift[b],
            low=np.fmin(total.low, part.low),
            high=np.fmax(total.high, part.high),
            present=total.present + part.present,
            levels=tuple(_sum_of(pair) for pair in zip(total.levels, part.levels, strict=True)),
        )
    keys = np.concatenate([part.keys for part in parts])
    order = _smallest(keys, sample_rows)
    stack = sparse.vstack if sparse.issparse(parts[0].sample) else np.concatenate
    sample: Any = stack([part.sample for part in parts])
    sample = sample.tocsr()[order] if sparse.issparse(sample) else sample[order]
    return total._replace(keys=keys[order], sample=sample)


def _sum_of(pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Two vectors added, the shorter one taken as followed by zeros."""
    out = np.zeros(max(one.shape[0] for one in pair))
    for one in pair:
        out[: one.shape[0]] += one
    return out


def share_of_sample(sample_rows: int, chunk_rows: int, n: int) -> int:
    """How many rows one chunk needs to offer: its share of the sample and six standard deviations, to miss none."""
    share = sample_rows * min(chunk_rows / n, 1.0)
    return min(sample_rows, int(share + 6.0 * share**0.5 + 20.0))
