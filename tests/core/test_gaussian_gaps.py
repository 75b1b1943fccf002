"""Rows with gaps, single values and columns of full Gaussians, straight and bent, against numerical integration."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

import dtree
from dtree.core.families import Bent, DiagonalGaussian, Gaussian
from dtree.core.families.some_columns import expected_log_densities
from dtree.core.model import Model
from dtree.kmeans.scoring import Scorer
from dtree.methods import cells

RNG = np.random.default_rng(4)
X = np.concatenate(
    [
        RNG.multivariate_normal(c, [[1.0, 0.8, 0.1], [0.8, 1.5, -0.3], [0.1, -0.3, 0.5]], 15)
        for c in ([0] * 3, [3, 1, 2])
    ]
)
FULL = Gaussian(
    X.mean(axis=0), 0.3, 7.0, [[1.0, 0.3, 0.0], [0.3, 2.0, 0.1], [0.0, 0.1, 0.7]], [0.5, 0.1, 0.2], [2.0, 1.0, 0.5]
)
BENDS = {"centre": [1.0, 0.5, 1.0], "unit": [1.0, 2.0, 0.7], "bend": [0.8, 1.0, 1.3]}
FAMILIES = {
    "full": FULL,
    "bent": Bent(FULL, **BENDS),
    "bent diagonal": Bent(DiagonalGaussian([0.0] * 3, 0.3, 3.0, [1.0, 0.5, 2.0]), **BENDS),
    "block": dtree.Mixed(
        [
            (Gaussian([1.0, 1.0], 0.2, 6.0, [[1.0, 0.4], [0.4, 1.0]]), [0, 2]),
            (DiagonalGaussian([0.0], 0.2, 3.0, [1.0]), [1]),
        ]
    ),
}  # fmt: skip
LOG_WEIGHTS = np.log([0.4, 0.6])
GAPS = np.array([[1.0, np.nan, 0.5], [np.nan, np.nan, 2.5], [2.0, 1.5, np.nan], [0.3, -0.2, 0.1]])


def clusters(family):
    return np.stack([family.statistics(part).sum(axis=0) for part in (X[:15], X[15:])])


def density(family, row):
    return np.exp(logsumexp(family.log_predictive_of(row[None], clusters(family))[0] + LOG_WEIGHTS))


def integral(family, row, j, function=lambda value: 1.0):
    """Over column j of the mixture's density of a row, in pieces: its tails are long and its middle narrow."""

    def at(value):
        filled = row.copy()
        filled[j] = value
        return function(value) * density(family, filled)

    ends = [-2000.0, -60.0, -8.0, 0.0, 2.0, 5.0, 12.0, 60.0, 2000.0]
    return sum(quad(at, low, high, limit=200)[0] for low, high in pairwise(ends))


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_with_gaps_have_the_integral_of_the_density(name):
    family = FAMILIES[name]
    for row, j in ((GAPS[0], 1), (GAPS[2], 2)):
        assert density(family, row) == pytest.approx(integral(family, row, j), rel=1e-6)
    single, other = GAPS[1], GAPS[1].copy()
    other[0] = np.nan  # two gaps: integrate over one, the other stays open
    assert density(family, single) == pytest.approx(integral(family, other, 0), rel=1e-6)
    assert density(family, np.full(3, np.nan)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", FAMILIES)
def test_surprisal_is_what_a_value_adds(name):
    family = FAMILIES[name]
    found = cells.surprisal(cells.Mixture(family, clusters(family), LOG_WEIGHTS), GAPS)
    assert np.array_equal(np.isnan(found), np.isnan(GAPS))
    for i, j in np.argwhere(~np.isnan(GAPS)):
        rest = GAPS[i].copy()
        rest[j] = np.nan
        assert found[i, j] == pytest.approx(np.log(density(family, rest) / density(family, GAPS[i])), abs=1e-9)


@pytest.mark.parametrize("name", ["full", "block"])
def test_means_that_are_filled_in_are_integrals(name):
    family = FAMILIES[name]
    found = cells.impute(cells.Mixture(family, clusters(family), LOG_WEIGHTS), GAPS).values
    assert np.array_equal(found[~np.isnan(GAPS)], GAPS[~np.isnan(GAPS)])
    for i, j in ((0, 1), (1, 0), (1, 1), (2, 2)):
        mean = integral(family, GAPS[i], j, lambda value: value) / density(family, GAPS[i])
        assert found[i, j] == pytest.approx(mean, rel=1e-5)


@pytest.mark.parametrize("name", ["bent", "bent diagonal"])
def test_on_bent_scales_the_middle_is_filled_in(name):
    family, one = FAMILIES[name], clusters(FAMILIES[name])[:1]
    found = cells.impute(cells.Mixture(family, one, np.zeros(1)), GAPS).values
    for i, j in ((0, 1), (2, 2)):

        def at(value, i=i, j=j):
            row = GAPS[i].copy()
            row[j] = value
            return np.exp(family.log_predictive_of(row[None], one)[0, 0])

        below = sum(quad(at, *ends, limit=200)[0] for ends in ((-500.0, -20.0), (-20.0, found[i, j])))
        whole = np.exp(family.log_predictive_of(GAPS[i : i + 1], one)[0, 0])
        assert below / whole == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("name", ["full", "bent", "bent diagonal"])
def test_some_columns_are_a_family_of_their_own(name):
    """Marginals and expected log densities of a family of fewer columns, and of all of them the same as ever."""
    family, statistics = FAMILIES[name], clusters(FAMILIES[name])
    every, places = family.narrowed(np.arange(3))
    assert np.array_equal(places, np.arange(statistics.shape[1]))
    assert every.log_marginal(X) == pytest.approx(family.log_marginal(X), abs=1e-9)
    plain = family.statistics(X[:4]) @ family.expected_log_density(statistics).T
    assert expected_log_densities(family, X[:4], statistics) == pytest.approx(plain, abs=1e-9)
    narrow, places = family.narrowed(np.array([0, 2]))
    slopes = narrow.statistics(X[:15][:, [0, 2]]).sum(axis=0)
    shown = slice(None) if name == "full" else slice(-1)  # the last statistic of a bent family is of all columns
    assert slopes[shown] == pytest.approx(statistics[0, places][shown], abs=1e-9)
    # By the definition: E over draws of the parameters, Jensen's gap included.
    if name == "full":
        strength, dof, mean, scale = family.posterior(statistics)
        from scipy.stats import invwishart, multivariate_normal

        rng, z = np.random.default_rng(0), family.points(X[:1])[0]
        drawn = []
        for covariance in invwishart(dof[0], scale[0]).rvs(4000, random_state=rng):
            centre = rng.multivariate_normal(mean[0], covariance / strength[0])
            part = multivariate_normal(centre[[0, 2]], covariance[np.ix_([0, 2], [0, 2])])
            drawn.append(part.logpdf(z[[0, 2]]) - np.log(family.unit[[0, 2]]).sum())
        row = np.array([[X[0, 0], np.nan, X[0, 2]]])
        error = np.std(drawn) / np.sqrt(len(drawn))
        assert expected_log_densities(family, row, statistics)[0, 0] == pytest.approx(np.mean(drawn), abs=5 * error)


@pytest.mark.parametrize("coarsening", [1.0, 0.5])
def test_assignment_of_rows_with_gaps(coarsening):
    model = Model(FULL, dtree.DirichletProcess(1.0), coarsening)
    statistics = coarsening * clusters(FULL)
    found = Scorer(model, statistics).assign(np.vstack([GAPS, np.full((1, 3), np.nan)]))
    assert found.best.shape == (5,)
    if coarsening == 1.0:
        sizes = np.log([15.0, 15.0])
        assert np.array_equal(found.best[:4], np.argmax(FULL.log_predictive_of(GAPS, clusters(FULL)) + sizes, axis=1))
    assert not found.unexplained[4]


def test_estimators_of_full_gaussians_take_gaps_after_the_fit():
    new = X[[0, 20]].copy()
    new[0, 1] = new[1, 2] = np.nan
    skewed = np.exp(0.6 * X)
    models = [
        dtree.TreeClustering(family="gaussian", random_state=0).fit(X),
        dtree.TreeClustering(random_state=0).fit(skewed),
        dtree.BHC(FULL).fit(X),
        dtree.BayesKMeans(FULL, random_state=0).fit(X),
        dtree.DPMixtureVB("TSB", family=FULL, truncation=4, random_state=0).fit(X),
    ]
    for model in models:
        rows = new if model is not models[1] else np.exp(0.6 * new)
        complete = X if model is not models[1] else skewed
        assert np.all(np.isfinite(model.score_samples(rows)))
        assert model.predict(rows).shape == (2,)
        filled = model.impute(rows)
        assert not np.isnan(filled).any()
        assert np.array_equal(np.isnan(model.surprisal(rows)), np.isnan(rows))
        assert np.array_equal(model.impute(complete), complete)
        assert dtree.column_influence(model).shape == (3,)
    with pytest.raises(ValueError, match="gaussian family takes no missing values"):
        dtree.BHC(FULL).fit(new)
