"""Where fits of components start: what is not tried must not have been worth it."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.methods import components
from dtree.methods.bends import chosen_bends
from dtree.variational import defaults
from dtree.variational.fitting import InMemory, ascend
from dtree.variational.starts import kmeans_labels, one_hot
from dtree.variational.steps import Rule, make_block
from dtree.variational.variants import variant_named
from dtree.variational.whole import fit_rows


def groups(n: int, d: int, k: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 4.0 * rng.normal(size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))


@pytest.mark.parametrize("k", [1, 5, 20])
def test_candidates_that_are_not_tried_would_not_have_been_chosen(k: int) -> None:
    X, variant = groups(600, 3, k, k), variant_named("TSB")
    families, weight = defaults.family_from_data("gaussian", X), np.ones(600)
    family, centres, reached = defaults.choose_by_bound(families, X, variant, 50, 1.0, np.random.default_rng(0), weight)
    random, bounds = np.random.default_rng(0), {}
    for number in (2, 4, 8, 16, 32, 50):
        start = one_hot(kmeans_labels(families[0], X, number, random, weight), min(50, number + 1))
        for place, candidate in enumerate(families):
            held = InMemory(make_block(candidate, X), start.copy())
            rule = Rule(candidate, variant, 1.0)
            bounds[number, place] = ascend(held, held.sums(rule), rule, 12, 1e-3).elbo / 600
    best = max(bounds, key=lambda key: bounds[key])
    assert (centres, families.index(family)) == best
    assert reached == pytest.approx(bounds[best])


def test_several_straight_groups_are_not_searched_on_bent_scales() -> None:
    straight, skewed = groups(4000, 4, 8, 0), np.exp(0.3 * groups(4000, 4, 3, 1))
    for X, expected in ((straight, False), (skewed, True)):
        X, weight = components.in_own_order(X, np.ones(4000), True)
        one_group = chosen_bends(X, weight, np.ones((4000, 1)))
        assert not one_group.straight
        fits = components._from_centres(X, weight, "gaussian", (), 1.0, 0, [])
        assert components._may_bend(X, weight, 1.0, fits[0], one_group) is expected


def two_correlated_groups(n: int = 120, d: int = 24) -> np.ndarray:
    rng = np.random.default_rng(3)
    ways = rng.normal(size=(4, d))
    X = rng.normal(size=(n, 4)) @ ways + 0.3 * rng.normal(size=(n, d))
    X[n // 2 :] += 2.0 * ways[0]
    return X


def test_hyperparameters_are_learned_to_the_end() -> None:
    X = two_correlated_groups()
    fit = components.fit_components(X, np.ones(len(X)), ("gaussian", "gaussian-diag"), (), 1.0, 0)
    settings = components.settings_of(fit.rule.family, 1.0, fit.sums.counts.shape[0])
    assert components._learned(X, np.ones(len(X)), settings, 0, fit, rounds=1).elbo < fit.elbo + 1.0


def test_a_learned_scale_matrix_costs_what_its_covariances_cost() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 12))
    settings = [components.settings_of(structure, 1.0, 2) for structure in ("gaussian", "gaussian-diag")]
    full, diagonal = (fit_rows(X, np.ones(200), 2, one, 0) for one in settings)
    assert components._bound(diagonal) == diagonal.elbo
    counts = full.sums.counts[full.sums.counts >= 0.5]
    rows = np.sum(counts * full.rule.family.dof / (counts + full.rule.family.dof))
    assert full.elbo - components._bound(full) == pytest.approx(0.5 * 66 * np.log(rows / 14))  # 66 covariances
    few = fit_rows(X[:14], np.ones(14), 2, settings[0], 0)  # no more than the vaguest prior is worth
    assert components._bound(few) == few.elbo


def test_units_change_no_order() -> None:
    X = groups(150, 2, 3, 0)
    usual, _ = components.in_own_order(X, np.ones(150), full=True)
    units = np.array([1e-5, 1e5])  # squared, further apart than numbers have digits
    other, _ = components.in_own_order(X * units, np.ones(150), full=True)
    np.testing.assert_allclose(other / units, usual, rtol=1e-12)
