"""The first look at the data: check every row, take the moments and a random sample, one chunk at a time.

A chunk's survey is combined with others in a fixed tree; moments about each chunk's own mean are joined by the update
formula for means and second moments, so nothing cancels. The sample is the rows with the smallest random keys, so it does not depend on
how the work was divided among workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dtree.core.families import Family, Moments
from dtree.core.jit import kernel
from dtree.kmeans.passes import SAMPLE_STREAM, stream


class Survey(NamedTuple):
    """Moments and a sample of the rows seen so far."""

    rows: int
    mean: np.ndarray  # (d,)
    second: np.ndarray  # (d(d+1)/2,) upper triangle of the summed squares about the mean, or (d,) its diagonal
    low: np.ndarray  # (d,)
    high: np.ndarray  # (d,)
    keys: np.ndarray  # (m,) random keys of the sampled rows, increasing
    sample: Any  # (m, d) dense or CSR

    def moments(self, with_covariance: bool) -> Moments:
        """What `Family.defaults` asks for."""
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
            variance = self.second / self.rows
        variance[self.low == self.high] = 0.0
        return Moments(float(self.rows), self.mean, variance, covariance)


@kernel
def _centred_products(X, mean, with_covariance):
    """Upper triangle of sum (x - mean)(x - mean)', or its diagonal; rows in order, no BLAS: the same bits everywhere."""
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


def check_rows(X: Any, family: type[Family] | Family, first_row: int = 0) -> None:
    """Raise one clear sentence naming the first row that the family cannot take; rows are numbered from first_row.

    >>> from dtree.core.families import Gaussian
    >>> check_rows(np.array([[1.0, 2.0], [np.nan, 1.0]]), Gaussian, first_row=100)
    Traceback (most recent call last):
    ...
    ValueError: row 101 holds NaN or infinity in column 0: remove or impute such rows before fitting
    """
    values = X.data if sparse.issparse(X) else np.asarray(X)
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"the data have type {values.dtype}; dtree takes numbers: convert the columns to float or integer"
        )
    kind = family.value_kind
    if values.dtype.kind == "f":
        _complain(
            X, ~np.isfinite(values), first_row, "holds NaN or infinity", "remove or impute such rows before fitting"
        )
    if kind == "binary":
        _complain(
            X, (values != 0) & (values != 1), first_row, "is not 0 or 1", "binarise the data or choose another family"
        )
    if kind == "count":
        wrong = values < 0
        if values.dtype.kind == "f":
            wrong = wrong | (values != np.floor(values))
        _complain(X, wrong, first_row, "is not a whole number of 0 or more", "give counts or choose another family")


def _complain(X: Any, wrong: np.ndarray, first_row: int, what: str, remedy: str) -> None:
    if not wrong.any():
        return
    if sparse.issparse(X):
        position = int(np.argmax(wrong))
        row, column = int(np.searchsorted(X.indptr, position, side="right") - 1), int(X.indices[position])
    else:
        row, column = (int(i) for i in np.argwhere(wrong)[0])
    raise ValueError(f"row {first_row + row} {what} in column {column}: {remedy}")


def survey_chunk(
    X: Any, family: type[Family] | Family, seed: int, chunk: int, first_row: int, sample_rows: int
) -> Survey:
    """Check one chunk of rows (n, d), and take its moments and at most `sample_rows` rows for the sample."""
    if sparse.issparse(X) and not family.accepts_sparse:
        raise ValueError(f"the {family.name} family takes dense rows: convert the data with toarray()")
    check_rows(X, family, first_row)
    keys = stream(seed, SAMPLE_STREAM, 0, chunk).random(X.shape[0])
    order = np.argsort(keys, kind="stable")[:sample_rows]
    rows = X.shape[0]
    if sparse.issparse(X):
        X = X.tocsr()
        floats = X.astype(np.float64)
        mean = np.asarray(floats.sum(axis=0)).ravel() / rows
        squares = np.asarray(floats.multiply(floats).sum(axis=0)).ravel()
        second = np.maximum(squares - rows * mean**2, 0.0)
        low, high = (np.asarray(f(axis=0).todense()).ravel().astype(np.float64) for f in (X.min, X.max))
        return Survey(rows, mean, second, low, high, keys[order], X[order])
    dense = np.ascontiguousarray(X, dtype=np.float64)
    mean = dense.mean(axis=0)
    second = _centred_products(dense, mean, family.needs_covariance)
    return Survey(rows, mean, second, dense.min(axis=0), dense.max(axis=0), keys[order], np.array(X[order]))


def combine_surveys(parts: Sequence[Survey], sample_rows: int) -> Survey:
    """Join surveys in the given order."""
    total = parts[0]
    for part in parts[1:]:
        rows = total.rows + part.rows
        shift = part.mean - total.mean
        weight = total.rows * part.rows / rows
        d = shift.shape[0]
        a, b = np.triu_indices(d) if total.second.shape[0] != d else (np.arange(d), np.arange(d))
        total = total._replace(
            rows=rows,
            mean=total.mean + shift * (part.rows / rows),
            second=total.second + part.second + weight * shift[a] * shift[b],
            low=np.minimum(total.low, part.low),
            high=np.maximum(total.high, part.high),
        )
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")[:sample_rows]
    stack = sparse.vstack if sparse.issparse(parts[0].sample) else np.concatenate
    sample: Any = stack([part.sample for part in parts])
    sample = sample.tocsr()[order] if sparse.issparse(sample) else sample[order]
    return total._replace(keys=keys[order], sample=sample)


def share_of_sample(sample_rows: int, chunk_rows: int, n: int) -> int:
    """How many rows one chunk needs to offer: its share of the sample and six standard deviations, so that none is missed."""
    share = sample_rows * min(chunk_rows / n, 1.0)
    return min(sample_rows, int(share + 6.0 * share**0.5 + 20.0))
