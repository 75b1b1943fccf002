"""Memoised updates (Hughes & Sudderth 2013): batches come and come again, and the bound over all of them does not fall.

The sums of every batch are kept (T x s numbers each, no rows). Visiting a batch replaces its sums by new ones from the
present state and adds all batches up again in the order of their first visit, so nothing drifts and the bound is that
of all rows seen so far. With an uncollapsed variant a revisit is coordinate ascent on that bound.
"""

import math
from copy import copy
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from dtree.core.fingerprint import fingerprint as fingerprint_of
from dtree.variational.fitting import Fit
from dtree.variational.steps import Block, Rule, Sums, bound, e_step, m_step, order_of, with_learned_alpha


def fingerprint(X: Any, weight: np.ndarray) -> str:
    """A name for a batch: a hash of its rows and weights."""
    return fingerprint_of(X) + fingerprint_of(weight)


class Memory:
    """Sums of all batches seen, by name."""

    def __init__(self, rule: Rule, start: Sums) -> None:
        self.rule = rule
        self.start = start  # makes the first state; replaced by the first batch's own sums
        self.batches: dict[str, Sums] = {}
        self.trace: list[float] = []

    def copy(self) -> "Memory":
        """A memory to which a batch may be shown without this one knowing; sums are never written to."""
        other = copy(self)
        other.batches, other.trace = dict(self.batches), list(self.trace)
        return other

    def total(self) -> Sums:
        """Sums over all batches, or the start before the first visit."""
        return reduce(add, self.batches.values()) if self.batches else self.start

    def visit(self, name: str, block: Block, learn_alpha: bool = False) -> float:
        """One E-step over the rows of one batch; returns the bound over all batches seen."""
        self.batches[name] = e_step(block, m_step(self.total(), self.rule))
        total = self.total()
        if learn_alpha:
            self.rule = with_learned_alpha(total, self.rule)
        order = order_of(total, self.rule)
        if order is not None:
            self.batches = {key: sums.permuted(order) for key, sums in self.batches.items()}
            total = self.total()
        found = bound(total, self.rule)
        if not math.isfinite(found):
            m_step(total, self.rule)  # which may say why in the family's own words
            raise ValueError(
                "the bound is not finite with this batch: its rows lie so far out that rounding drowns the spread of a "
                "component; leave them out, or fit anew with rows of their kind"
            )
        self.trace.append(found)
        return found

    def fit(self) -> Fit:
        """Where the batches have led so far."""
        return Fit(self.total(), self.rule, self.trace[-1], not self.rule.variant.collapsed, list(self.trace))
