"""The best fit to rows that are all in this process: starts, ascent, merges and splits.

Data of moderate size are fitted so and are then done; larger data are fitted in passes that start from the best fit to
a sample of their rows. `settings` is a record with the fields of `dtree.methods.variational.Settings`.

Products of matrices and k-means depend in their last bits on the number of threads, so both take one. The passes over
rows are shared out to threads of our own, which gives the same bits for any number of them.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dtree.core.columns import Column
from dtree.core.families import Family, Moments, has_holes
from dtree.variational.defaults import choose_by_bound, family_from_data, family_from_moments
from dtree.variational.escapes import escape
from dtree.variational.fitting import Fit, InMemory, ascend
from dtree.variational.starts import given_start, kmeans_labels, one_hot
from dtree.variational.steps import Rule, e_step, make_block
from dtree.variational.threads import available_threads, one_blas_thread
from dtree.variational.variants import variant_named

DEFAULT_TRUNCATION = 40
_EXACT_SWEEP_ROWS = 5000  # an exact sweep costs the square of the rows: with more it takes minutes
_SAMPLE_ITERATIONS = 500  # a sample is fitted to the end, however few passes over all rows may follow
_SAMPLE_TOLERANCE = 1e-6  # ... and no further than the passes will have to move it anyway
_DISTINCT_ROWS = 20_000  # above this, sorting rows to find equal ones costs more than it brings


def size_for(truncation: int | None, weight: np.ndarray, where: str = "") -> int:
    """The number of components T for rows of these weights (n,), or one sentence why there cannot be so many.

    >>> size_for(None, np.ones(7))
    7
    """
    rows = int(weight.sum() + 0.5) if np.all(weight == np.floor(weight)) else weight.shape[0]
    if rows < 2:
        raise ValueError(f"a mixture needs at least 2 rows, got n_samples = {rows} (1 sample is one cluster)")
    if truncation is None:
        return min(DEFAULT_TRUNCATION, rows)
    if truncation > rows:
        raise ValueError(f"truncation {truncation} is above the number of rows {rows}{where}: use at most {rows}")
    return truncation


def checked_weight(sample_weight: Any, rows: int) -> np.ndarray:
    """`sample_weight` as finite numbers (n,) of which not all are zero; ones when it is None.

    >>> checked_weight([0, 0], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight sums to zero: give at least one row a positive weight
    """
    if sample_weight is None:
        return np.ones(rows)
    weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
    if weight.shape != (rows,):
        raise ValueError(f"sample_weight must have one number per row ({rows}), not shape {weight.shape}")
    if not np.all(np.isfinite(weight)) or weight.min() < 0:
        raise ValueError(
            "sample_weight must be finite and not negative: it says how many equal rows each row stands for"
        )
    if weight.sum() <= 0:
        raise ValueError("sample_weight sums to zero: give at least one row a positive weight")
    return weight


def rule_of(settings: Any, family: Family, alpha: float) -> Rule:
    """What the settings say is fitted, with this family and this alpha."""
    return Rule(family, variant_named(settings.variant), alpha, settings.expectation != "taylor", settings.order)


# Fits ----------------------------------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """What is fitted: rows, how, and with how many threads."""

    X: Any  # (n, d) dense or CSR
    weight: np.ndarray  # (n,)
    settings: Any
    seed: int
    threads: int  # of our own, counted before the libraries are told to take one


def fit_whole(X: Any, weight: np.ndarray, settings: Any, seed: int, kinds: tuple[Column, ...] = ()) -> Fit:
    """The best fit to rows X (n, d) of weights (n,), whose columns are of these kinds (() when nothing is known)."""
    size = size_for(settings.truncation, weight)
    _check_exact(settings, weight)
    return fit_rows(*_distinct(X, weight, settings), size, settings, seed, kinds)


def fit_rows(X: Any, weight: np.ndarray, size: int, settings: Any, seed: int, kinds: tuple[Column, ...] = ()) -> Fit:
    """The same with T = size components for rows as they are, equal ones left apart."""
    return fit_candidates(X, weight, family_from_data(settings.family, X, weight, kinds), size, settings, seed)


def fit_candidates(X: Any, weight: np.ndarray, families: list[Family], size: int, settings: Any, seed: int) -> Fit:
    """The same with the best of some families, by short fits."""
    fit = fit_if_worth(X, weight, families, size, settings, seed, -np.inf)
    assert fit is not None
    return fit


def fit_if_worth(
    X: Any,
    weight: np.ndarray,
    families: list[Family],
    size: int,
    settings: Any,
    seed: int,
    worth: float,
    spare: int | None = None,
) -> Fit | None:
    """The same, or None when the best short fit does not reach a bound of `worth` nats a row.

    spare : a start that short fits have chosen gets so many places more than it has centres, instead of `size` in all:
    empty places cost as much as full ones.
    """
    rows = _Rows(X, weight, settings, seed, available_threads())
    with one_blas_thread():
        return _from_scratch(rows, families, size, worth=worth, spare=spare)


def fit_sample(X: Any, moments: Moments, n: int, settings: Any, seed: int) -> Fit:
    """Where passes over n rows start: the best fit to a sample X (m, d) of them, scaled up.

    `moments` are those of all rows.
    """
    size = size_for(settings.truncation, np.array([float(n)]))
    rows = _Rows(*_distinct(X, np.ones(X.shape[0]), settings), settings, seed, available_threads())
    with one_blas_thread():
        candidates = family_from_moments(settings.family, moments)
        limits = max(settings.max_iter, _SAMPLE_ITERATIONS), max(settings.tol, _SAMPLE_TOLERANCE)
        fit = _from_scratch(rows, candidates, size, limits)
    assert fit is not None
    return replace(fit, sums=fit.sums.scaled(n / fit.sums.rows))


def go_on(X: Any, weight: np.ndarray, settings: Any, seed: int, earlier: Fit) -> Fit:
    """A fit to rows X (n, d) that starts from the components of an earlier fit."""
    _check_exact(settings, weight)
    rows = _Rows(*_distinct(X, weight, settings), settings, seed, available_threads())
    with one_blas_thread():
        rule = rule_of(settings, earlier.rule.family, earlier.rule.alpha)
        start = np.empty((rows.X.shape[0], earlier.sums.counts.shape[0]))
        e_step(make_block(rule.family, rows.X, rows.weight), earlier.state, out=start)
        return _best_fit(rows, rule, [(_generators(seed, 1)[0], start)], (settings.max_iter, settings.tol))


def _from_scratch(
    rows: _Rows,
    candidates: list[Family],
    size: int,
    limits: tuple[int, float] | None = None,
    worth: float = -np.inf,
    spare: int | None = None,
) -> Fit | None:
    """The highest of `n_init` fits with the best of several families; `limits` stand for `max_iter` and `tol`.

    None when short fits were made and none of them reaches a bound of `worth` nats a row.
    """
    settings, family, centres = rows.settings, candidates[0], size
    automatic = isinstance(settings.init, str) and settings.init == "auto"
    if len(candidates) > 1 or automatic:
        variant, random = variant_named(settings.variant), _generators(rows.seed, 1)[0]
        family, found, reached = choose_by_bound(candidates, rows.X, variant, size, settings.alpha, random, rows.weight)
        if reached < worth:
            return None
        centres = found if automatic else size
        size = min(size, centres + spare) if automatic and spare is not None else size
    starts = (
        (random, _start(rows, family, size, centres, random)) for random in _generators(rows.seed, settings.n_init)
    )
    limits = (settings.max_iter, settings.tol) if limits is None else limits
    return _best_fit(rows, rule_of(settings, family, settings.alpha), starts, limits)


def _best_fit(
    rows: _Rows, rule: Rule, starts: Iterable[tuple[np.random.Generator, np.ndarray]], limits: tuple[int, float]
) -> Fit:
    """The highest fit from several starts (n, T), each with the random numbers for its merges and splits."""
    settings, block = rows.settings, make_block(rule.family, rows.X, rows.weight)
    best: Fit | None = None
    for random, start in starts:
        held = InMemory(block, start, settings.expectation, settings.schedule, rows.threads)
        last = settings.learn_alpha, settings.patience
        fit = ascend(held, held.sums(rule), rule, *limits, *last)
        if settings.split_merge:
            fit, _ = escape(held, fit, *limits, settings.split_merge, random, *last)
        if best is None or fit.elbo > best.elbo:
            best = fit
    assert best is not None
    return best


def _start(rows: _Rows, family: Family, size: int, centres: int, random: np.random.Generator) -> np.ndarray:
    """Responsibilities (n, T) to start from."""
    init, n = rows.settings.init, rows.X.shape[0]
    if not isinstance(init, str):
        return given_start(init, n, size)
    if init == "random":
        return random.dirichlet(np.ones(size), size=n)
    return one_hot(kmeans_labels(family, rows.X, centres, random, rows.weight), size)


def _generators(seed: int, number: int) -> list[np.random.Generator]:
    return [np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(number)]


def _distinct(X: Any, weight: np.ndarray, settings: Any) -> tuple[Any, np.ndarray]:
    """Equal rows as one row with their weights added, in sorted order; rows of weight zero left out.

    Equal rows have equal q(z) from a start by k-means, so a fit does not depend on how repetitions are written down
    or in which order rows come. Left as they are where rows have their own starts or their order matters.
    """
    own_start = not isinstance(settings.init, str) or settings.init == "random" or settings.schedule == "sequential"
    if own_start or sparse.issparse(X) or X.shape[0] > _DISTINCT_ROWS:
        return X, weight
    present = weight > 0
    X = X[present]
    if has_holes(X):  # no NaN equals another; infinity, which no row holds, stands for it
        _, at, which = np.unique(np.where(np.isnan(X), np.inf, X), axis=0, return_index=True, return_inverse=True)
        return np.ascontiguousarray(X[at]), np.bincount(which.ravel(), weight[present])
    distinct, which = np.unique(X, axis=0, return_inverse=True)
    return np.ascontiguousarray(distinct), np.bincount(which.ravel(), weight[present])


def _check_exact(settings: Any, weight: np.ndarray) -> None:
    if settings.expectation != "exact" or not variant_named(settings.variant).collapsed:
        return
    if np.any(weight != np.floor(weight)):
        raise ValueError("exact expectations need whole-number weights: use expectation='corrected'")
    if weight.sum() > _EXACT_SWEEP_ROWS:
        raise ValueError(
            "exact expectations cost the square of the number of rows, each as often as it weighs, and "
            f"{weight.sum():.0f} are too many (at most {_EXACT_SWEEP_ROWS}): use expectation='corrected'"
        )
