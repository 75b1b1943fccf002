"""The loop: reorder, M-step, bound, E-step, until the bound stops rising.

It knows nothing of where rows live. Between two passes over them (`settle`) rows are asked two things:

    permute(order)                   labels were renamed; rows that keep responsibilities rename theirs
    exact_log_prior(rule) -> float | None    E log p(z) of a collapsed variant exactly, or None for too many rows

The loop (`ascend`) asks for a third, the pass itself; the engine's passes start from a run's folder in its own loop.

    run(state) -> Sums               the total of e_step over all blocks, added in a fixed order
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from dtree.core.families import Family
from dtree.variational.steps import (
    Block,
    Rule,
    State,
    Sums,
    bound,
    e_step,
    empty_sums,
    expected_log_likelihood,
    inner_rows,
    m_step,
    order_of,
    sums_of,
    with_learned_alpha,
)
from dtree.variational.sweeps import exact_sweep, expanded_sequential_sweep
from dtree.variational.threads import available_threads, one_blas_thread
from dtree.variational.weights import exact_log_prior

EXACT_BOUND_ROWS = 1000  # the exact collapsed bound costs T n^2 each iteration; above this the expansion is reported
_PARALLEL_WORK = 20_000_000  # multiplications below which threads cost more than they save
_MOST_REMEMBERED = 8_000_000  # statistics kept between passes: 64 MB
_PIECES_PER_PASS = 4  # inner blocks handed to a thread at once: fewer cost more than they save


class Labelled(Protocol):
    """Rows whose labels can be renamed, wherever they are."""

    def permute(self, order: np.ndarray) -> None: ...

    def exact_log_prior(self, rule: Rule) -> float | None: ...


class Pass(Labelled, Protocol):
    """Rows over which the E-step can be run at once."""

    def run(self, state: State) -> Sums: ...


@dataclass(frozen=True)
class Fit:
    """Where a fit stopped: sums and rule determine everything else."""

    sums: Sums
    rule: Rule
    elbo: float
    is_bound: bool  # False when a collapsed variant's E log p(z) was expanded instead of summed exactly
    trace: list[float] = field(default_factory=list)
    converged: bool = False

    @property
    def state(self) -> State:
        return m_step(self.sums, self.rule)


def ascend(
    rows: Pass, sums: Sums, rule: Rule, max_iter: int, tol: float, learn_alpha: bool = False, patience: int = 1
) -> Fit:
    """Iterate from `sums` until the bound changes by less than `tol` per row, `patience` times in a row, at most
    `max_iter` E-steps.

    The bound of `sums` themselves comes first in the trace, so that it has a value even without an E-step.
    """
    trace: list[float] = []
    for iteration in itertools.count():
        settled = settle(rows, sums, rule, learn_alpha)
        sums, rule = settled.sums, settled.rule
        trace.append(settled.elbo)
        converged = has_converged(trace, tol, sums.rows, patience)
        if converged or iteration >= max_iter:
            break
        sums = rows.run(m_step(sums, rule))
    return Fit(sums, rule, trace[-1], settled.is_bound, trace, converged)


class Settled(NamedTuple):
    """Sums of a pass with everything that follows from them done."""

    sums: Sums
    rule: Rule
    elbo: float
    is_bound: bool


def settle(rows: Labelled, sums: Sums, rule: Rule, learn_alpha: bool) -> Settled:
    """What happens between two passes: alpha learned, labels brought into their best order, the bound."""
    if learn_alpha:
        rule = with_learned_alpha(sums, rule)
    order = order_of(sums, rule)
    if order is not None:
        sums = sums.permuted(order)
        rows.permute(order)
    log_prior = rows.exact_log_prior(rule)
    is_bound = log_prior is not None or not rule.variant.collapsed
    return Settled(sums, rule, bound(sums, rule, log_prior), is_bound)


def has_converged(trace: list[float], tol: float, rows: float, patience: int = 1) -> bool:
    """Whether each of the last `patience` passes changed the bound by less than `tol` nats per row.

    >>> has_converged([1.0, 5.0, 5.1], 0.1, 10), has_converged([1.0, 5.0, 5.1], 0.1, 10, patience=2)
    (True, False)
    """
    last = trace[-patience - 1 :]
    return len(last) > patience and all(abs(after - before) < tol * rows for before, after in itertools.pairwise(last))


def sum_of_pieces(rows: int, state: State, one: Callable[[int, int], Sums], threads: int) -> Sums:
    """The total of `one(start, stop)` over pieces of the rows, added in order.

    Pieces go to threads, each with a single-threaded BLAS, so the bits do not depend on the number of threads.
    """
    step = _PIECES_PER_PASS * inner_rows(*state.coefficients.shape)
    starts = range(0, rows, step)
    stops = [min(start + step, rows) for start in starts]
    total = empty_sums(state.variant, *state.coefficients.shape)
    if threads == 1 or len(starts) == 1:
        return sum(map(one, starts, stops), start=total)
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(one, starts, stops), start=total)


class Remembered:
    """Statistics of the pieces of a block under the family that last asked: hundreds of passes need the same ones."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._family: Family | None = None
        self._pieces: dict[tuple[int, int], Any] = {}

    def of(self, family: Family, width: int) -> Callable[[int, int], Any] | None:
        """What gives the statistics of rows start .. stop - 1, or None where keeping them all would take too much."""
        if len(self._block) * width > _MOST_REMEMBERED:
            return None
        if family is not self._family:
            self._family, self._pieces = family, {}
        pieces = self._pieces

        def piece(start: int, stop: int) -> Any:
            if (start, stop) not in pieces:
                pieces[start, stop] = family.statistics_of_kept(self._block.rows[start:stop])
            return pieces[start, stop]

        return piece


class InMemory:
    """All rows and their responsibilities in this process.

    A pass over them gives the same answer for any number of threads.
    """

    def __init__(
        self,
        block: Block,
        responsibilities: np.ndarray,
        expectation: str = "corrected",
        schedule: str = "parallel",
        threads: int | None = None,
        memory: Remembered | None = None,
    ) -> None:
        self.block = block
        self._memory = Remembered(block) if memory is None else memory
        self._kept = np.ascontiguousarray(responsibilities, dtype=np.float64)
        self._order: np.ndarray | None = None  # a renaming of labels not yet carried out in `_kept`
        self.expectation = expectation
        self.schedule = schedule
        self.threads = threads
        whole = bool(np.all(block.weight == np.floor(block.weight)))
        self.countable = whole and block.weight.sum() <= EXACT_BOUND_ROWS

    def sums(self, rule: Rule) -> Sums:
        """Sums of the present responsibilities."""
        return sums_of(self.block, self.responsibilities, rule)

    @property
    def responsibilities(self) -> np.ndarray:
        """q(z) of every row (n, T) in the present order of labels."""
        if self._order is not None:
            self._kept = np.ascontiguousarray(self._kept[:, self._order])
            self._order = None
        return self._kept

    def permute(self, order: np.ndarray) -> None:
        # Carried out piece by piece in the next pass: moving all columns at once costs as much as the pass itself.
        self._order = order if self._order is None else self._order[order]

    def exact_log_prior(self, rule: Rule) -> float | None:
        if not (rule.variant.collapsed and self.countable):
            return None
        return exact_log_prior(rule.variant, rule.alpha, self.responsibilities, self.block.weight.astype(np.int64))

    def run(self, state: State) -> Sums:
        if state.weights is not None and (self.expectation == "exact" or self.schedule == "sequential"):
            return self._sweep(state)
        order, self._order = self._order, None
        known = self._memory.of(state.family, state.coefficients.shape[1])

        def one(start: int, stop: int) -> Sums:
            part, out = self.block.part(start, stop), self._kept[start:stop]
            if state.weights is not None:
                part = replace(part, responsibilities=out if order is None else np.ascontiguousarray(out[:, order]))
            return e_step(part, state, out, known and (lambda first, last: known(start + first, start + last)))

        threads = self.threads
        if threads is None:
            threads = available_threads() if len(self.block) * state.coefficients.size > _PARALLEL_WORK else 1
        return sum_of_pieces(len(self.block), state, one, threads)

    def _sweep(self, state: State) -> Sums:
        """Schedules that refresh counts row by row, and exact expectations."""
        assert state.weights is not None
        scores = expected_log_likelihood(self.block, state)
        labels, weight, alpha = self.responsibilities, self.block.weight, state.weights.alpha
        if self.expectation == "exact":
            exact_sweep(state.variant, alpha, scores, labels, weight, self.schedule == "sequential")
        else:
            expanded_sequential_sweep(state.variant, alpha, scores, labels, weight, self.expectation == "corrected")
        return sums_of(self.block, labels, Rule(state.family, state.variant, alpha))

    def with_responsibilities(self, responsibilities: np.ndarray) -> InMemory:
        """The same rows with other responsibilities, to try something on."""
        return InMemory(self.block, responsibilities, self.expectation, self.schedule, self.threads, self._memory)
