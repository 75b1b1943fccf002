"""Pictures of clusters, bounds, traces and co-clustering: what is drawn, not how it looks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

import dtree
from dtree.datasets import nested_creatures

matplotlib.use("agg")


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def creatures() -> tuple[Any, Any]:
    data = nested_creatures(54)
    return dtree.BHC("gaussian-diag").fit(data.X), data


def test_two_features_are_drawn_as_they_are() -> None:
    X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (20, 2)) for c in (0.0, 12.0)])
    model = dtree.BHC().fit(X)
    ax = dtree.plot_clusters(model)
    np.testing.assert_allclose(np.asarray(ax.collections[0].get_offsets()), X, atol=1e-9)
    assert len({tuple(colour) for colour in ax.collections[0].get_facecolors()}) == model.n_clusters_ == 2


def test_more_features_are_drawn_in_their_plane(creatures: Any) -> None:
    model, data = creatures
    first, second = dtree.plot_clusters(model), dtree.plot_clusters(model, data.X)
    assert "first component" in first.get_xlabel()
    places = [np.asarray(ax.collections[0].get_offsets()) for ax in (first, second)]
    np.testing.assert_allclose(*places, atol=1e-9)


def test_summaries_grow_with_their_rows() -> None:
    data = nested_creatures(200)
    model = dtree.BayesKMeansBHC("gaussian-diag", random_state=0).fit(data.X)
    sizes = dtree.plot_clusters(model).collections[0].get_sizes()
    assert np.array_equal(np.argmax(sizes), np.argmax(np.bincount(model.atom_labels_)))


def test_bounds_of_a_model_stand_in_order(creatures: Any) -> None:
    ax = dtree.plot_bounds(creatures[0])
    values = ax.lines[0].get_xdata()
    assert np.all(np.diff(values) >= -1e-9)
    assert values[0] == pytest.approx(creatures[0].log_evidence_bound_)
    with pytest.raises(ValueError, match="plot_bounds needs"):
        dtree.plot_bounds(3)


def test_traces_of_chains_have_one_line_each() -> None:
    X = nested_creatures(18).X
    model = dtree.DPMixtureMCMC("gibbs", "gaussian-diag", chains=3, draws=4, warmup=2, random_state=0).fit(X)
    axes = dtree.plot_traces(model)
    assert {ax.get_ylabel() for ax in axes} == {"n clusters", "log joint", "alpha"}
    for ax in axes:
        assert len(ax.lines) == 3
        for chain, line in enumerate(ax.lines):
            drawn = model.posterior_["posterior"][ax.get_ylabel().replace(" ", "_")].values[chain]
            assert np.array_equal(line.get_ydata(), drawn)
    with pytest.raises(ValueError, match="keeps no trace"):
        dtree.plot_traces(dtree.BHC("gaussian-diag").fit(X))
    with pytest.raises(ValueError, match="there is no report about a SimpleNamespace"):
        dtree.plot_traces(SimpleNamespace())


def test_coclustering_is_ordered_by_cluster() -> None:
    labels = np.array([0, 1, 0, 1, 2])
    matrix = (labels[:, None] == labels).astype(float)
    drawn = np.asarray(dtree.plot_coclustering(matrix).images[0].get_array())
    changes = np.abs(np.diff(drawn, axis=1)).sum(axis=1)
    assert np.all(changes <= 2)  # every row is one block of ones
    with pytest.raises(ValueError, match="square matrix"):
        dtree.plot_coclustering(np.ones((2, 3)))
    with pytest.raises(ValueError, match="2 labels but 5 rows"):
        dtree.plot_coclustering(matrix, labels=[0, 1])
