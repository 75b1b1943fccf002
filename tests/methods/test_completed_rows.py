"""Rows with gaps completed by draws: their distribution, what they depend on, and clusters that stay apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.methods.completed_rows import _chances, _quantiles
from tests.tables import family, table


def test_quantiles_are_those_of_the_predictive():
    mixed, X = family(), table(20)
    even = (np.arange(4001) + 0.5) / 4001
    for block, parts in mixed.block_parts(mixed.statistics(X[:10]).sum(axis=0)[None]):
        d = block.columns.shape[0]
        values = _quantiles(block.family, parts, np.tile(even[:, None], (1, d)))
        for j in range(d):
            alone = np.full((1, d), np.nan)

            def density(value, j=j, alone=alone, block=block, parts=parts):
                alone[0, j] = value
                return float(np.exp(block.family.log_cells(alone, parts)[0, j]))

            if block.family.name == "gaussian-diag":
                assert quad(density, -200.0, values[1000, j], limit=200)[0] == pytest.approx(even[1000], abs=1e-3)
                continue
            for value in np.unique(values[:, j])[:6]:
                assert np.mean(values[:, j] == value) == pytest.approx(density(value), abs=2e-3)


def test_draws_depend_on_what_a_row_holds_alone():
    mixed, X = family(), table(2000, holes=0.3)
    found, order = _chances(mixed, X), np.random.default_rng(0).permutation(len(X))
    assert np.array_equal(_chances(mixed, X[order]), found[order])
    assert found.min() > 0.0
    assert found.max() < 1.0
    assert np.corrcoef(found.T) == pytest.approx(np.eye(6), abs=0.1)
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(found, share, axis=0) == pytest.approx(np.full(6, share), abs=0.05)


def test_groups_stay_apart_when_rows_lack_half_of_their_values():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 400)
    X = 2.2 * rng.normal(size=(3, 8))[group] + rng.normal(size=(400, 8))
    X[rng.random(X.shape) < 0.5] = np.nan
    model = dtree.TreeClustering(random_state=0).fit(X)
    assert model.n_clusters_ == 3
    assert adjusted_rand_score(group, model.labels_) > 0.7
    one = rng.normal(size=(400, 8))
    one[rng.random(one.shape) < 0.5] = np.nan
    assert dtree.TreeClustering(random_state=0).fit(one).n_clusters_ == 1
