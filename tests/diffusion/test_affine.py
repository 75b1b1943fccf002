"""Units: the maps undo themselves, densities stay normalised, and the choice follows the data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dtree import DiffusionTree
from dtree.diffusion.affine import Affine, standardizing, unchanged, whitening
from dtree.diffusion.predictive import BranchMixture, log_density, seen_mixtures

QUICK = {"n_permutations": 1, "search_steps": 10, "posterior_sweeps": 4, "random_state": 0}
LINE = np.random.default_rng(0).normal(size=(60, 2)) @ np.array([[3.0, 2.9], [0.0, 0.2]]) + [5.0, -3.0]


@pytest.mark.parametrize("make", [standardizing, whitening, lambda x: unchanged(2)])
def test_there_and_back(make):
    affine = make(LINE)
    assert affine.outward(affine.inward(LINE)) == pytest.approx(LINE)


def test_whitening_does_not_depend_on_units():
    z, scaled = whitening(LINE).inward(LINE), LINE * [10.0, 0.1] + 7.0
    assert whitening(scaled).inward(scaled) == pytest.approx(z)
    assert np.cov(z.T, bias=True) == pytest.approx(np.eye(2), abs=1e-9)


@pytest.mark.parametrize(
    "rows",
    [LINE[:3], LINE[:, :1], np.column_stack([LINE, LINE.sum(axis=1)]), np.where(LINE.max() == LINE, np.nan, LINE)],
    ids=["few rows", "one column", "dependent", "missing"],
)
def test_whitening_is_refused_where_it_cannot_work(rows):
    assert whitening(rows) is None
    with pytest.raises(ValueError, match="scaling='standardize'"):
        DiffusionTree(scaling="whiten").fit(rows)


def test_missing_entries_are_marginalised_along_axes():
    """A mixture of one Gaussian, whose marginals scipy knows."""
    affine = Affine(np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0.3, 0.0], [0.1, 1.0, -0.4], [0.0, 0.2, 0.7]]))
    top, spread = np.array([[0.3, -0.1, 0.8]]), 0.7
    zero = np.zeros((1, 1, 1))
    mixture = BranchMixture(np.zeros((1, 1)), zero, np.full((1, 1, 1), spread), top, top, 0.0, 1.0)
    mean, covariance = affine.outward(top)[0], spread * affine.basis.T @ affine.basis
    rows = np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0], [np.nan, np.nan, 0.2], [0.0, np.nan, -1.0]])
    out = np.empty(4)
    for which, z, seen, log_volume in seen_mixtures(rows, affine, [mixture]):
        out[which] = log_density(z, seen, [0.0]) - log_volume
    for value, row in zip(out, rows, strict=True):
        has = ~np.isnan(row)
        expected = multivariate_normal(mean[has], covariance[np.ix_(has, has)]).logpdf(row[has])
        assert value == pytest.approx(expected)


def test_the_evidence_chooses_the_units():
    assert not DiffusionTree(**QUICK).fit(LINE).prepared_.affine.by_column
    # two tight groups along one axis: whitening would bring them together and gains nothing
    rng = np.random.default_rng(1)
    groups = np.concatenate([rng.normal(-5, 0.3, (30, 2)), rng.normal(5, 0.3, (30, 2))]) * [1.0, 0.05]
    groups[:, 1] = rng.normal(size=60)
    assert DiffusionTree(**QUICK).fit(groups).prepared_.affine.by_column


def test_a_whitened_density_is_normalised():
    model = DiffusionTree(scaling="whiten", **QUICK).fit(LINE)
    u = np.linspace(-4.5, 4.5, 121)
    grid = np.stack(np.meshgrid(np.sinh(u), np.sinh(u), indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.outer(np.cosh(u), np.cosh(u)).ravel() * (u[1] - u[0]) ** 2
    affine = model.prepared_.affine
    log_volume = np.linalg.slogdet(affine.basis)[1]
    assert (np.exp(model.score_samples(affine.outward(grid)) + log_volume) * weight).sum() == pytest.approx(1, abs=5e-3)
    only = LINE[:, 0].mean() + LINE[:, 0].std() * np.sinh(u)
    rows = np.column_stack([only, np.full(u.size, np.nan)])
    density = np.exp(model.score_samples(rows)) * LINE[:, 0].std() * np.cosh(u) * (u[1] - u[0])
    assert density.sum() == pytest.approx(1.0, abs=5e-3)
    mean, deviation = model.node_locations()
    assert mean[:60] == pytest.approx(LINE, abs=3.0)
    assert (deviation >= 0).all()
