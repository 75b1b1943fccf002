"""Bent scales: densities that are densities, equivariance, statistics that add up, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.families import Bent, DiagonalGaussian, Gaussian, moments_of
from dtree.core.families.bent import unbend
from dtree.methods.bends import chosen_bends
from dtree.runs.codec import decode, encode

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.gamma(2.0, size=(60, 2)) * [1.0, -30.0] + [5.0, 0.0]


def bent(kind: type, bend: list[float], step: list[float] | None = None) -> Bent:
    scale = Bent(DiagonalGaussian(np.zeros(2), 1.0, 2.0, np.ones(2)), [6.0, -50.0], [1.0, 20.0], bend)
    return Bent(kind.defaults(moments_of(scale.kept_rows(ROWS)[:, :2]), 0.5), [6.0, -50.0], [1.0, 20.0], bend, step)


@pytest.mark.parametrize("kind", [Gaussian, DiagonalGaussian])
@pytest.mark.parametrize("bend", [[1.0, 1.0], [0.0, 2.0], [0.5, 1.25]])
def test_the_predictive_density_is_one(kind: type, bend: list[float]) -> None:
    family = bent(kind, bend)
    statistics = family.statistics(ROWS).sum(axis=0)[None]
    x, y = np.linspace(-30, 80, 900), np.linspace(-3500, 900, 1500)
    grid = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = np.exp(family.log_predictive_of(grid, statistics)).sum() * (x[1] - x[0]) * (y[1] - y[0])
    assert 0.97 < mass < 1.01  # the rest lies outside the grid: tails of a bent Student t are long


@pytest.mark.parametrize("kind", [Gaussian, DiagonalGaussian])
def test_its_faces_agree(kind: type) -> None:
    family = bent(kind, [0.25, 1.5], [0.1, 0.0])
    statistics = np.stack([family.statistics(ROWS[:40]).sum(axis=0), family.statistics(ROWS[40:]).sum(axis=0)])
    np.testing.assert_allclose(family.log_marginal_of(statistics), family.soft_log_marginal_of(statistics))
    one_more = family.log_marginal_of(statistics + family.statistics(ROWS[:1])) - family.log_marginal_of(statistics)
    exact = bent(kind, [0.25, 1.5])
    plain = np.stack([exact.statistics(ROWS[:40]).sum(axis=0)])
    gained = exact.log_marginal_of(plain + exact.statistics(ROWS[:1])) - exact.log_marginal_of(plain)
    np.testing.assert_allclose(exact.log_predictive_of(ROWS[:1], plain)[0], gained)
    assert np.all(np.isfinite(one_more))
    slow = super(Bent, family).expected_log_density(statistics)
    np.testing.assert_allclose(family.expected_log_density(statistics), slow, rtol=1e-4, atol=1e-4)


def test_straight_is_the_base_family() -> None:
    base = Gaussian.defaults(moments_of((ROWS - [6.0, -50.0]) / [1.0, 20.0]), 0.3)
    family = Bent(base, [6.0, -50.0], [1.0, 20.0], [1.0, 1.0])
    expected = base.log_marginal((ROWS - [6.0, -50.0]) / [1.0, 20.0]) - 60 * np.log(20.0)
    np.testing.assert_allclose(family.log_marginal(ROWS), expected)


def test_the_way_back() -> None:
    z = RANDOM.normal(size=(50, 5)) * 3
    bend = np.array([0.0, 0.25, 1.0, 1.5, 2.0])
    family = Bent(DiagonalGaussian(np.zeros(5), 1.0, 2.0, np.ones(5)), np.zeros(5), np.ones(5), bend)
    np.testing.assert_allclose(unbend(family.kept_rows(z)[:, :5], bend), z, rtol=1e-6)


def test_bends_are_found_whatever_the_units() -> None:
    skewed = np.exp(RANDOM.normal(size=500))
    X = np.column_stack([skewed, -skewed * 1000.0 + 7.0, RANDOM.normal(size=500)])
    found = chosen_bends(X, np.ones(500), np.ones((500, 1)))
    assert found.bend[0] < 0.5
    assert found.bend[1] == 2.0 - found.bend[0]
    assert found.bend[2] == 1.0
    twice = chosen_bends(X, np.full(500, 2.0), np.ones((500, 1)))
    assert np.array_equal(twice.bend, found.bend)


def test_a_run_can_hold_it() -> None:
    arrays: dict[str, np.ndarray] = {}
    family = bent(Gaussian, [0.25, 1.5], [0.1, 0.0])
    again = decode(encode(family, "family", arrays), arrays)
    assert family.log_marginal(ROWS) == again.log_marginal(ROWS)
    with pytest.raises(ValueError, match="must be a Gaussian"):
        Bent(None, [0.0], [1.0], [1.0])
