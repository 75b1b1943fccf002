"""One E-step and one M-step for six variants and every family.

The **E-step** is a pure function of a block of rows and a state: `e_step(block, state) -> Sums`. Sums of blocks add
(`total = first + second`), so a pass over partitions adds what its partitions return, in a fixed order, and the answer
does not depend on who computed which block. The **M-step** and the **bound** are functions of the total alone.

    sums = start                                     # e.g. from k-means labels: `sums_of(block, responsibilities)`
    repeat:
        sums  = reordered(sums)                      # O-TSB, O-CTSB
        state = m_step(sums, rule)
        bound(sums, rule)
        sums  = total of e_step(block, state) over blocks
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from dtree.core.families import Family
from dtree.variational.label_kernels import CollapsedWeights, collapsed_rows, collapsed_weights, softmax_rows
from dtree.variational.variants import Variant
from dtree.variational.weights import (
    CountMoments,
    approximate_log_prior,
    expected_log_weights,
    label_order,
    learned_alpha,
    log_prior_at_counts,
)

_BLOCK_VALUES = 1 << 17  # features, scores and products of one inner block fit the second-level cache (1 MB)


@dataclass(frozen=True)
class Rule:
    """What is being fitted: the family, the variant, alpha and how expectations of counts are taken."""

    family: Family
    variant: Variant
    alpha: float
    corrected: bool = True  # CFSD: N = 0 treated exactly; False is the paper's plain expansion
    order: str = "best"  # or "size", the paper's decreasing order


@dataclass(frozen=True)
class Block:
    """Some rows: what `kept_rows` made of them, their weights (n,), and their last responsibilities (n, T) if kept."""

    rows: Any
    weight: np.ndarray
    responsibilities: np.ndarray | None = None

    def __len__(self) -> int:
        return self.rows.shape[0]

    def part(self, start: int, stop: int) -> Block:
        """Rows start..stop as a block."""
        kept = None if self.responsibilities is None else self.responsibilities[start:stop]
        return Block(self.rows[start:stop], self.weight[start:stop], kept)


def make_block(family: Family, X: Any, sample_weight: np.ndarray | None = None) -> Block:
    """A block from rows of data (n, d), dense or SciPy sparse, and optional integer weights (n,)."""
    weight = np.ones(X.shape[0]) if sample_weight is None else np.ascontiguousarray(sample_weight, dtype=np.float64)
    return Block(family.kept_rows(X), weight)


@dataclass(frozen=True)
class Sums:
    """What a pass brings back; T x s numbers whatever the number of rows. Adding two is adding their fields."""

    statistics: np.ndarray  # (T, s) soft statistics, column 0 the expected counts
    entropy: float  # of q(z)
    gram: np.ndarray  # (T, T) sum of w r r'; (0, 0) for uncollapsed variants
    log_zero: np.ndarray  # (T,) sum of w log(1 - r); (0,) except for CFSD
    rows: float  # sum of weights

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(own + more for own, more in zip(vars(self).values(), vars(other).values(), strict=True)))

    @property
    def counts(self) -> np.ndarray:
        """Expected counts (T,)."""
        return self.statistics[:, 0]

    def scaled(self, factor: float) -> Sums:
        """What `factor` times as many rows of the same kind would give."""
        return Sums(*(factor * value for value in vars(self).values()))

    def permuted(self, order: np.ndarray) -> Sums:
        """The same sums with label order[i] renamed to i."""
        gram = self.gram[np.ix_(order, order)] if self.gram.size else self.gram
        log_zero = self.log_zero[order] if self.log_zero.size else self.log_zero
        return replace(self, statistics=self.statistics[order], gram=gram, log_zero=log_zero)

    def moments(self) -> CountMoments:
        """Means and variances of counts and tails (collapsed variants)."""
        log_zero = self.log_zero if self.log_zero.size else np.zeros(self.counts.shape[0])
        return CountMoments.from_sums(self.counts, self.gram, log_zero)


@dataclass(frozen=True)
class State:
    """What a pass takes out to the rows: T x s coefficients and the weights; arrays only, cheap to send."""

    family: Family
    variant: Variant
    coefficients: np.ndarray  # (T, s), E log pi already inside for uncollapsed variants
    weights: CollapsedWeights | None


def empty_sums(variant: Variant, size: int, width: int) -> Sums:
    """Sums of no rows for T = size labels and s = width statistics."""
    gram = size if variant.collapsed else 0
    zeros = size if variant.collapsed and not variant.sticks else 0
    return Sums(np.zeros((size, width)), 0.0, np.zeros((gram, gram)), np.zeros(zeros), 0.0)


def inner_rows(size: int, width: int) -> int:
    """How many rows are worked on at a time: a function of shapes alone, so that sums do not depend on the machine."""
    return int(max(64, _BLOCK_VALUES // (width + 2 * size)))


def _sums_of_part(
    variant: Variant, part: Block, features: Any, labels: np.ndarray, entropy: float, log_zero: np.ndarray
) -> Sums:
    weighted = labels * part.weight[:, None]
    if sparse.issparse(features):
        statistics = np.asarray((features.T @ weighted).T)
    else:
        statistics = weighted.T @ features
    gram = weighted.T @ labels if variant.collapsed else np.zeros((0, 0))
    return Sums(np.ascontiguousarray(statistics), entropy, gram, log_zero, float(part.weight.sum()))


def expected_log_likelihood(block: Block, state: State) -> np.ndarray:
    """E log p(x | eta_i), plus E log pi_i for uncollapsed variants: (n, T)."""
    features = state.family.statistics_of_kept(block.rows)
    return np.ascontiguousarray(features @ state.coefficients.T)


def e_step(
    block: Block,
    state: State,
    out: np.ndarray | None = None,
    statistics: Callable[[int, int], Any] | None = None,
) -> Sums:
    """New responsibilities of the rows of a block, summed; written into `out` (n, T) when it is given.

    `statistics(start, stop)` gives the statistics of some of the rows to someone who has kept them.

    A collapsed variant takes each row's own share out of the counts. If the block holds the row's last responsibilities
    these are the share; otherwise the share that agrees with its own removal is found (same fixed points).
    """
    variant = state.variant
    size, width = state.coefficients.shape
    coefficients = np.ascontiguousarray(state.coefficients.T)
    step = inner_rows(size, width)
    total = empty_sums(variant, size, width)
    for start in range(0, len(block), step):
        part = block.part(start, min(start + step, len(block)))
        features = statistics(start, start + len(part)) if statistics else state.family.statistics_of_kept(part.rows)
        labels = np.ascontiguousarray(features @ coefficients)
        log_zero = np.zeros(total.log_zero.shape[0])
        if state.weights is None:
            entropy = softmax_rows(labels, part.weight)
        else:
            known = part.responsibilities is not None
            shares = part.responsibilities if part.responsibilities is not None else labels
            entropy = collapsed_rows(state.weights, labels, shares, known, part.weight, log_zero)
        total = total + _sums_of_part(variant, part, features, labels, entropy, log_zero)
        if out is not None:
            out[start : start + labels.shape[0]] = labels
    return total


def sums_of(block: Block, responsibilities: np.ndarray, rule: Rule) -> Sums:
    """Sums of given responsibilities (n, T), where a fit starts and where escapes are tried."""
    size = responsibilities.shape[1]
    width = rule.family.statistics_of_kept(block.rows[:1]).shape[1]
    step = inner_rows(size, width)
    total = empty_sums(rule.variant, size, width)
    for start in range(0, len(block), step):
        part = block.part(start, min(start + step, len(block)))
        labels = np.ascontiguousarray(responsibilities[start : start + len(part)])
        positive = np.where(labels > 0, labels, 1.0)
        entropy = -float(part.weight @ (positive * np.log(positive)).sum(axis=1))
        log_zero = np.zeros(total.log_zero.shape[0])
        if log_zero.size:
            log_zero = part.weight @ np.log1p(-np.minimum(labels, 1.0 - 2.0**-53))
        features = rule.family.statistics_of_kept(part.rows)
        total = total + _sums_of_part(rule.variant, part, features, labels, entropy, log_zero)
    return total


def order_of(sums: Sums, rule: Rule) -> np.ndarray | None:
    """The order the labels should take now, or None when they stay."""
    if not rule.variant.ordered:
        return None
    order = label_order(rule.alpha, sums.counts, rule.order)
    return None if np.array_equal(order, np.arange(order.shape[0])) else order


def m_step(sums: Sums, rule: Rule) -> State:
    """q(eta), and q(v) or q(pi) where weights are not integrated out, from the total of a pass."""
    coefficients = rule.family.expected_log_density(sums.statistics)
    if rule.variant.collapsed:
        weights = collapsed_weights(rule.variant, rule.alpha, sums.moments(), rule.corrected)
        return State(rule.family, rule.variant, coefficients, weights)
    coefficients[:, 0] += expected_log_weights(rule.variant, rule.alpha, sums.counts)
    return State(rule.family, rule.variant, coefficients, None)


def log_prior_of(sums: Sums, variant: Variant, alpha: float, corrected: bool = True) -> float:
    """The bound's weight term from sums alone: exact for uncollapsed variants, an approximation for collapsed ones."""
    if variant.collapsed:
        return approximate_log_prior(variant, alpha, sums.moments(), corrected)
    return float(log_prior_at_counts(variant, alpha, sums.counts))


def with_learned_alpha(sums: Sums, rule: Rule) -> Rule:
    """The same rule at the alpha that raises the weight term most."""
    alpha = learned_alpha(lambda alpha: log_prior_of(sums, rule.variant, alpha, rule.corrected), rule.alpha)
    return replace(rule, alpha=alpha)


def bound(sums: Sums, rule: Rule, log_prior: float | None = None) -> float:
    """The evidence bound of q(z) with the best q(eta) (and q(v) or q(pi)), from the total of a pass.

    For collapsed variants `log_prior` is the exact E log p(z); without it the expansion stands in, and the value is an
    approximation, not a bound.
    """
    if log_prior is None:
        log_prior = log_prior_of(sums, rule.variant, rule.alpha, rule.corrected)
    return float(rule.family.soft_log_marginal_of(sums.statistics).sum() + sums.entropy + log_prior)
