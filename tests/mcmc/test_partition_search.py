"""The search for the best partition, against all partitions of a few rows and against the draws of many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import xlogy

import dtree
from dtree.core.partition import canonical_labels
from dtree.mcmc.point_estimate import best_partition
from tests.naive.partitions import all_partitions

PARTITIONS = {n: np.array(list(all_partitions(n))) for n in range(3, 8)}


def value(loss: str, counts: np.ndarray) -> float:
    return float(xlogy(counts, counts).sum() if loss == "vi" else counts @ counts)


def expected_loss(part: np.ndarray, draws: np.ndarray, weight: np.ndarray, loss: str, apart_cost: float) -> float:
    """The generalised loss of Dahl, Johnson & Mueller (2022) summed over the draws, as it is written there."""
    total = 0.0
    for draw in draws:
        cells = np.bincount(part * (draw.max() + 1) + draw, weights=weight)
        total += apart_cost * value(loss, np.bincount(draw, weights=weight))
        total += (2.0 - apart_cost) * value(loss, np.bincount(part, weights=weight)) - 2.0 * value(loss, cells)
    return total


def some_draws(rng: np.random.Generator, n: int, draws: int, groups: int) -> np.ndarray:
    """Draws around one partition, from hardly to wholly at random."""
    base, noise = rng.integers(0, groups, n), rng.random()
    moved = rng.random((draws, n)) < noise
    return np.array([canonical_labels(row) for row in np.where(moved, rng.integers(0, groups, (draws, n)), base)])


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_the_search_finds_the_best_of_all_partitions(loss: str) -> None:
    rng = np.random.default_rng(0)
    missed = []
    for case in range(250):
        n = int(rng.integers(3, 8))
        draws = some_draws(rng, n, int(rng.integers(1, 12)), int(rng.integers(2, n + 1)))
        weight = rng.integers(1, 4, n).astype(float) if case % 2 else np.ones(n)
        apart_cost = float(rng.choice([0.5, 1.0, 1.0, 1.5]))
        setting = (draws, weight, loss, apart_cost)
        best = min(expected_loss(part, *setting) for part in PARTITIONS[n])
        found = best_partition(*setting)
        if expected_loss(found, *setting) > best + 1e-9:
            missed.append(case)
    assert len(missed) <= 2  # of 250: in at least 99 of 100 the optimum


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_it_is_never_worse_than_any_draw(loss: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        draws, weight = some_draws(rng, 60, 40, 6), rng.integers(1, 5, 60).astype(float)
        found = expected_loss(best_partition(draws, weight, loss), draws, weight, loss, 1.0)
        assert found <= min(expected_loss(draw, draws, weight, loss, 1.0) for draw in draws) + 1e-9


def test_it_may_be_no_draw_at_all() -> None:
    base = np.repeat([0, 1, 2], 10)
    draws = np.tile(base, (30, 1))
    draws[np.arange(30), np.arange(30)] = 3  # every draw has one other row astray
    assert np.array_equal(best_partition(draws), base)
    assert not (draws == base).all(axis=1).any()


def test_parting_that_costs_more_gives_fewer_clusters() -> None:
    draws = some_draws(np.random.default_rng(5), 40, 50, 5)
    for loss in ("vi", "binder"):
        counts = [dtree.point_estimate(draws, loss, cost).max() + 1 for cost in (0.3, 1.0, 1.9)]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] > counts[2]


def test_weights_are_rows() -> None:
    rng = np.random.default_rng(6)
    draws, weight = some_draws(rng, 12, 20, 4), rng.integers(1, 5, 12)
    which = np.repeat(np.arange(12), weight)
    assert np.array_equal(dtree.point_estimate(draws, weight=weight)[which], dtree.point_estimate(draws[:, which]))


def test_heavy_weights_and_chains_as_an_axis() -> None:
    draws = some_draws(np.random.default_rng(7), 12, 20, 4)
    light = dtree.point_estimate(draws.reshape(2, 10, 12))
    assert np.array_equal(
        light, dtree.point_estimate(draws, weight=np.full(12, 10**9))
    )  # no table of values is that long


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dtree.point_estimate([[0, 0]], "zero-one"), "unknown loss"),
        (lambda: dtree.point_estimate([[0, 0]], apart_cost=2.0), "apart_cost must lie between 0 and 2"),
        (lambda: dtree.point_estimate([0, 0]), "draws are whole numbers"),
        (lambda: dtree.point_estimate([[0, -1]]), "draws are whole numbers"),
        (lambda: dtree.point_estimate([[0, 1]], weight=[1, 0.5]), "2 whole numbers above 0"),
        (lambda: dtree.credible_ball([[0, 1]], level=0.0), "level must be above 0"),
        (lambda: dtree.credible_ball([[0, 1]], estimate=[0]), "a label for each of 2 rows"),
        (lambda: dtree.compare_posteriors([[0, 1]], [[0, 1, 2]]), "not of the same ones"),
    ],
)
def test_bad_input_gets_a_sentence(call, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()
