"""Rows with gaps completed by draws: their distribution, what they depend on, and clusters that stay apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import ks_2samp
from sklearn.metrics import adjusted_rand_score

import dtree
from dtree.core.families import Bent, DiagonalGaussian, Gaussian
from dtree.methods.completed_rows import _chances, _quantiles, completed
from dtree.variational.mixture import Mixture
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


FULL = Gaussian([0.0, 1.0], 0.5, 6.0, [[4.0, 3.0], [3.0, 6.0]], [0.1, 0.2], [2.0, 0.5])
GAUSSIANS = {
    "full": FULL,
    "diagonal": DiagonalGaussian([0.0, 1.0], 0.5, 4.0, [2.0, 3.0]),
    "bent": Bent(FULL, [0.5, 0.0], [1.0, 2.0], [0.7, 1.2]),
}


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussian_draws_are_distributed_like_the_values_that_were_removed(name):
    """Complete rows are drawn from two components by completing rows of nothing; removed values come back alike."""
    kind, rng = GAUSSIANS[name], np.random.default_rng(0)
    parts = (rng.normal(size=(30, 2)), rng.normal(size=(20, 2)) + 4.0)
    statistics = np.stack([kind.statistics(part).sum(axis=0) for part in parts])
    mixture = Mixture(kind, "TSB", 1.0, False, "best", statistics, np.zeros((0, 0)), np.zeros(0), 0.0, 50.0)
    held = np.arange(2)
    nothing = np.full((1, 2), np.nan)
    rows = np.concatenate([completed(mixture, held, nothing, number) for number in range(3000)])
    gapped = rows.copy()
    gapped[:, 1] = np.nan
    again = completed(mixture, held, gapped)
    assert np.array_equal(again[:, 0], rows[:, 0])
    for feature in (again[:, 1] - rows[:, 1], again[:, 1]):
        assert np.all(np.isfinite(feature))
    for of in (lambda x: x[:, 1], lambda x: x[:, 1] - x[:, 0], lambda x: x[:, 1] + x[:, 0]):
        assert ks_2samp(of(again), of(rows)).pvalue > 0.001
    assert not np.array_equal(completed(mixture, held, gapped, 1), again)
    parts = np.stack([completed(mixture, held, gapped[start : start + 7]) for start in (0, 7)])
    assert np.array_equal(parts.reshape(14, 2), again[:14])  # chunks change nothing


def test_slanted_groups_with_gaps_are_one_component_each(tmp_path):
    rng = np.random.default_rng(1)
    group = rng.integers(0, 2, 300)
    X = rng.multivariate_normal(np.zeros(4), 0.1 * np.eye(4) + 0.9, 300)
    X[:, 0] += np.where(group == 0, 0.0, 3.0)
    X[rng.random(X.shape) < 0.15] = np.nan
    X[3] = np.nan
    model = dtree.TreeClustering(random_state=0).fit(X)
    assert model.family_.name == "gaussian"
    assert (model.n_clusters_, model.n_components_) == (2, 2)
    told = ~np.isnan(X[:, 0])  # nothing else knows of the groups
    assert adjusted_rand_score(group[told], model.labels_[told]) > 0.9
    assert model.log_evidence_bound_ > dtree.TreeClustering(family="mixed", random_state=0).fit(X).log_evidence_bound_
    dtree.save(model, tmp_path / "run")
    again = dtree.open(tmp_path / "run")
    assert np.array_equal(again.predict(X), model.labels_)
    dtree.report(tmp_path / "run", tmp_path / "page.html", X=X)
    page = (tmp_path / "page.html").read_text()  # an estimate is not called a bound
    assert "by draws of what is missing, about" in page
    assert "log evidence at least" not in page
    fitted = again._run.fitted(again._method.Fitted)
    for leaf in range(2):
        here = ~np.isnan(X[fitted.leaf_clusters[leaf] == model.labels_])
        assert fitted.present[leaf] == pytest.approx(here.sum(axis=0))
    order = rng.permutation(300)
    assert adjusted_rand_score(dtree.TreeClustering(random_state=0).fit(X[order]).labels_, model.labels_[order]) == 1.0
