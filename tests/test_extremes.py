"""Rows far out, rows that are all equal, heavy weights and weights of zero: an answer, or one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dtree
from dtree.core.families import Multinomial
from dtree.data import open_source
from dtree.data.chunks import chunk_rows_for


def normal(n: int = 100, d: int = 5) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize("far", [1e9, 1e12, 1e100])
def test_a_row_that_is_refused_leaves_the_forest_whole(far: float) -> None:
    model, twin = dtree.IncrementalBHC(random_state=0).fit(normal()), dtree.IncrementalBHC(random_state=0).fit(normal())
    labels = model.labels_
    with pytest.raises(ValueError, match="so far from the others"):
        model.partial_fit(np.full((1, 5), far))
    assert np.array_equal(model.labels_, labels)
    assert model.n_seen_ == 100
    more = np.random.default_rng(1).normal(size=(30, 5))
    assert np.array_equal(model.partial_fit(more).labels_, twin.partial_fit(more).labels_)
    model.tree_.validate()


def test_a_row_not_quite_so_far_is_a_cluster() -> None:
    model = dtree.IncrementalBHC(random_state=0).fit(normal()).partial_fit(np.full((1, 5), 1e6))
    model.partial_fit(np.random.default_rng(1).normal(size=(30, 5))).tree_.validate()
    assert np.count_nonzero(model.labels_ == model.labels_[100]) == 1


@pytest.mark.parametrize("family", ["gaussian", "gaussian-diag"])
def test_equal_rows_stay_together_when_hyperparameters_are_learned(family: str) -> None:
    assert dtree.BHC(family, optimize=True).fit(np.ones((30, 3))).n_clusters_ == 1
    which = np.repeat(np.arange(4), 5)
    rows = normal(4, 3)[which]
    for weight in (1.0, 1e6):
        found = dtree.BHC(family, optimize=True).fit(rows, sample_weight=np.full(20, weight))
        assert np.array_equal(found.labels_, which)


def test_ones_that_weigh_much_are_one_component() -> None:
    model = dtree.DPMixtureVB("TSB", "bernoulli", random_state=0).fit(np.ones((20, 3)), sample_weight=np.full(20, 1e6))
    assert model.n_clusters_ == 1
    assert np.all(np.isfinite(model.score_samples(np.eye(3))))


@pytest.mark.parametrize("weight", [1e17, 1e18])
def test_counts_beyond_whole_numbers(weight: float) -> None:
    family = Multinomial(np.ones(4))
    counts = np.random.default_rng(0).integers(0, 5, size=(6, 4)) * weight
    assert np.all(np.isfinite(family.log_marginal_of(family.statistics(counts))))
    assert dtree.BHC("multinomial").fit(counts).labels_.shape == (6,)


@pytest.mark.parametrize("estimator", [dtree.IncrementalBHC, dtree.BHC])
def test_weights_beyond_rounding_get_one_sentence(estimator: type) -> None:
    with pytest.raises(ValueError, match="divide all weights"):
        estimator().fit(normal(), sample_weight=np.full(100, 1e12))


def test_weights_that_are_no_longer_exact_get_one_sentence() -> None:
    counts = np.random.default_rng(0).integers(0, 5, size=(10, 4))
    with pytest.raises(ValueError, match="no longer exact, so divide all weights"):
        dtree.BHC("multinomial").fit(counts, sample_weight=np.full(10, 1e18))  # sizes of nodes overflowed in silence


def test_a_batch_that_is_refused_leaves_the_mixture_whole() -> None:
    base = np.random.default_rng(0).normal(size=(26, 1))
    rows = np.hstack([base, base + 1e-9 * np.random.default_rng(1).normal(size=(26, 1))])
    settings = {"family": "gaussian", "truncation": 3, "max_iter": 1, "random_state": 0}
    model, twin = dtree.DPMixtureVB("O-TSB", **settings).fit(rows), dtree.DPMixtureVB("O-TSB", **settings).fit(rows)
    labels, bound = model.labels_, model.elbo_
    with pytest.raises(ValueError, match="not positive definite in double precision"):
        model.partial_fit(rows[:4] * 1e12)
    assert np.array_equal(model.labels_, labels)
    assert model.elbo_ == bound
    assert model.partial_fit(rows[:4]).elbo_ == twin.partial_fit(rows[:4]).elbo_


def test_a_batch_whose_bound_is_not_finite_is_refused() -> None:
    model = dtree.DPMixtureVB("O-CTSB", "gaussian", truncation=3, max_iter=5, random_state=0).fit(normal(27, 6))
    bound = model.elbo_
    with pytest.raises(ValueError, match="rounding drowns the spread of a component"):
        model.partial_fit(1e9 * normal(4, 6))
    assert model.elbo_ == bound


def test_rows_of_weight_zero_are_in_no_draw() -> None:
    weight = np.ones(30)
    weight[[3, 7]] = 0
    settings = {"family": "gaussian-diag", "chains": 2, "draws": 5, "warmup": 2, "random_state": 0}
    model = dtree.DPMixtureMCMC(**settings).fit(normal(30, 2), sample_weight=weight)
    held = np.flatnonzero(weight)
    assert model.partitions_.shape == (2, 5, 30)
    assert np.all(model.partitions_[:, :, [3, 7]] == -1)
    assert np.all(model.partitions_[:, :, held] >= 0)
    together = model.coclustering()
    assert together.shape == (30, 30)
    assert np.isnan(together[3]).all()
    assert np.isnan(together[:, 7]).all()
    draws = model.partitions_.reshape(10, 30)
    expected = (draws[:, held, None] == draws[:, None, held]).mean(axis=0)
    np.testing.assert_allclose(together[np.ix_(held, held)], expected)
    np.testing.assert_allclose(model.coclustering(rows=[2, 3, 4]), together[np.ix_([2, 3, 4], [2, 3, 4])])
    few = model.coclustering(least=0.5).toarray()
    np.testing.assert_allclose(few, np.where(together >= 0.5, together, 0.0))


def test_a_grown_forest_is_in_its_run(tmp_path: Path) -> None:
    model = dtree.IncrementalBHC(random_state=0, out=tmp_path / "run").fit(normal())
    model.partial_fit(normal(20) + 3.0)
    again = dtree.open(tmp_path / "run")
    assert again.n_seen_ == 120
    assert np.array_equal(again.labels_, model.labels_)
    more = normal(10) - 3.0
    assert np.array_equal(again.partial_fit(more).labels_, model.partial_fit(more).labels_)
    assert dtree.open(tmp_path / "run").n_seen_ == 130


def test_sentences_of_mixtures_say_what_is_meant() -> None:
    with pytest.raises(ValueError, match="number of rows 10 of the first batch"):
        dtree.DPMixtureVB(truncation=20).partial_fit(normal(10, 2))
    with pytest.raises(ValueError, match="each as often as it weighs, and 40000000 are too many"):
        dtree.DPMixtureVB("CTSB", expectation="exact").fit(normal(40, 2), sample_weight=np.full(40, 1e6))


def test_texts_without_a_word_are_fitted_staged_and_reported(tmp_path: Path) -> None:
    """No chunk of zeros is missed, and no share of nothing is taken; warnings are errors here."""
    sparse.save_npz(tmp_path / "empty.npz", sparse.csc_array(np.zeros((4, 4))))
    model = dtree.TreeClustering(family="multinomial", random_state=0, out=tmp_path / "run").fit(tmp_path / "empty.npz")
    assert model.n_clusters_ == 1
    dtree.report(tmp_path / "run", tmp_path / "page.html")
    source = open_source(tmp_path / "empty.npz")
    assert source.n_stored == 0
    assert chunk_rows_for(source) >= 4


def test_learning_from_rows_that_are_all_odd_ends_with_a_density() -> None:
    """The bound rises with alpha without end here; u is then far from where it usually is."""
    days = pd.to_datetime(["2004-05-30", "2003-03-17", "2004-07-10", "2002-03-07", "2005-08-09", "2005-07-15"])
    table = pd.DataFrame({"day": [*days, pd.NaT], "x": [-25.4, 20.3, -26.6, -61.0, -72.6, np.nan, np.nan]})
    model = dtree.BHC(prior="nggp", optimize=True).fit(table)
    assert model.prior_.alpha > 1e30
    assert np.all(np.isfinite(model.score_samples(table)))


@pytest.mark.parametrize("weight", [1.0, 1e3, 4e6, 1e8, 1e10])
def test_two_heavy_rows_do_not_round_a_scale_to_nothing(weight: float) -> None:
    first, second = [7.000000000001158, 0.86, 2.78, 1.64], [7.000000000000238, -2.37, 0.51, 4.06]
    given = [weight, np.floor(1.2 * weight)]
    model = dtree.TreeClustering(max_iter=1, random_state=310).fit([first, second], sample_weight=given)
    assert np.all(np.isfinite(model.score_samples([first, second])))


@pytest.mark.parametrize("estimator", [dtree.BHC, dtree.BayesKMeans, dtree.BayesKMeansBHC, dtree.IncrementalBHC])
def test_weights_that_round_off_more_than_a_cluster_spreads_are_refused(estimator: type) -> None:
    rows = np.repeat([[0.43, -0.76, -1.82, 0.09], [-0.18, -0.14, -1.23, -0.23]], [9, 6], axis=0)
    weight = np.full(15, 1e10)
    weight[2] = 1.2e11
    with pytest.raises(ValueError, match="rounding drowns the spread of a cluster"):
        estimator("gaussian").fit(rows, sample_weight=weight)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_rows_in_a_plane_are_fitted(seed: int) -> None:
    """A scale that is learned from rows without spread in two of four directions stays above rounding."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(23, 2)) @ rng.normal(size=(2, 4))
    model = dtree.TreeClustering(random_state=0).fit(rows)
    assert np.all(np.isfinite(model.score_samples(rows)))


def test_a_scale_that_is_drowned_by_rounding_is_worth_nothing() -> None:
    """A determinant that rounds to nothing, or to less, was worth infinitely much, or a division by zero."""
    family = dtree.Gaussian(np.zeros(3), 1.0, 5.0, 1e-20 * np.eye(3), np.zeros(3), np.ones(3))
    rows = np.array([[1.0, 2.0, 4.0], [2.0, 4.0, 8.0], [4.0, 8.0, 16.0]])
    assert family.log_marginal(rows) == -np.inf
    assert np.isfinite(family.log_marginal(1e-10 * np.random.default_rng(0).normal(size=(3, 3))))
