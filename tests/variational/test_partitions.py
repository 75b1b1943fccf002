"""The loop over partitions, as an engine runs it: same bits whoever computes which block, same answer as in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dtree.core.families import Gaussian
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.starts import kmeans_labels, one_hot
from dtree.variational.steps import Rule, e_step, m_step, make_block, order_of, sums_of
from dtree.variational.variants import VARIANTS


class Partitions:
    """A pass over partitions by several workers, sums added in the order of partitions; keeps no responsibilities."""

    def __init__(self, family, parts, workers):
        self.blocks = [make_block(family, part) for part in parts]
        self.workers = workers

    def run(self, state):
        with ThreadPoolExecutor(self.workers) as pool:
            sums = list(pool.map(lambda block: e_step(block, state), self.blocks))
        total = sums[0]
        for part in sums[1:]:
            total = total + part
        return total

    def permute(self, order):
        pass

    def exact_log_prior(self, rule):
        return None


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_number_of_workers_gives_the_same_bits_and_the_answer_in_memory(variant):
    random = np.random.default_rng(0)
    X = 5.0 * np.eye(4, 3)[random.integers(4, size=2000)] + random.normal(size=(2000, 3))
    family = Gaussian(X.mean(axis=0), 0.1, 5.0, 0.3 * np.cov(X.T))
    rule = Rule(family, VARIANTS[variant], 1.0)
    sample = X[:300]
    start = sums_of(make_block(family, sample), one_hot(kmeans_labels(family, sample, 6, random), 6), rule)
    order = order_of(start, rule)
    start = start if order is None else start.permuted(order)
    parts = np.array_split(X, 7)
    one, three = (ascend(Partitions(family, parts, workers), start, rule, 20, 0.0) for workers in (1, 3))
    assert one.trace == three.trace
    assert np.array_equal(one.sums.statistics, three.sums.statistics)
    assert one.is_bound is not rule.variant.collapsed
    labels = np.empty((2000, 6))
    e_step(make_block(family, X), m_step(start, rule), out=labels)
    rows = InMemory(make_block(family, X), labels)
    memory = ascend(rows, rows.sums(rule), rule, 19, 0.0)
    # Collapsed variants find each row's share instead of remembering it: another path to the same fixed points.
    same = {"abs": 1e-6} if not rule.variant.collapsed else {"abs": 2.0}
    assert one.trace[1:] == pytest.approx(memory.trace, **same)
    assert one.sums.counts == pytest.approx(memory.sums.counts, **same)
