"""Credible balls, uncertainty and comparisons of draws of partitions, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

import dtree
from tests.mcmc.test_partition_search import some_draws
from tests.naive.mcmc import partition_distance


@pytest.mark.parametrize("loss", ["vi", "binder"])
@pytest.mark.parametrize("level", [0.5, 0.95, 1.0])
def test_a_credible_ball_is_what_its_definition_says(loss: str, level: float) -> None:
    rng = np.random.default_rng(2)
    draws, weight = some_draws(rng, 15, 60, 5), rng.integers(1, 4, 15).astype(float)
    ball = dtree.credible_ball(draws, level=level, loss=loss, weight=weight)
    far = np.array([partition_distance(ball.estimate, draw, weight, loss) for draw in draws])
    np.testing.assert_allclose(ball.distances, far, atol=1e-12)
    inside = far <= ball.radius + 1e-12
    assert ball.held == inside.mean() >= level
    assert (far < ball.radius - 1e-12).mean() < level  # a smaller ball holds too little
    clusters = np.array([len(set(draw.tolist())) for draw in draws])
    assert ball.horizontal.distance == pytest.approx(far[inside].max())
    for bound, count in ((ball.upper, clusters[inside].min()), (ball.lower, clusters[inside].max())):
        assert bound.n_clusters == count == len(set(bound.labels.tolist()))
        assert bound.distance == pytest.approx(far[inside & (clusters == count)].max())
        assert bound.distance == pytest.approx(partition_distance(ball.estimate, bound.labels, weight, loss))


def test_uncertainty_by_row_and_cluster() -> None:
    rng = np.random.default_rng(3)
    draws, weight = some_draws(rng, 12, 25, 4), rng.integers(1, 4, 12).astype(float)
    estimate = dtree.point_estimate(draws, weight=weight)
    found = dtree.partition_uncertainty(draws, estimate, weight)
    mean = np.mean([partition_distance(estimate, draw, weight, "vi") for draw in draws])
    assert np.average(found.row_loss, weights=weight) == pytest.approx(mean)

    def overlap(ours: np.ndarray, theirs: np.ndarray) -> float:
        return float(weight[ours & theirs].sum() / weight[ours | theirs].sum())

    by_row = [[overlap(estimate == estimate[i], draw == draw[i]) for i in range(12)] for draw in draws]
    np.testing.assert_allclose(found.row_overlap, np.mean(by_row, axis=0))
    for cluster in range(estimate.max() + 1):
        ours = estimate == cluster
        best = [max(overlap(ours, draw == other) for other in set(draw.tolist())) for draw in draws]
        assert found.cluster_found[cluster] == pytest.approx(np.mean(best))
        assert found.cluster_exact[cluster] == pytest.approx(np.mean(np.array(best) == 1.0))
        assert found.cluster_overlap[cluster] == pytest.approx(
            np.average(found.row_overlap[ours], weights=weight[ours])
        )


def test_a_comparison_of_posteriors() -> None:
    rng = np.random.default_rng(4)
    a, b = some_draws(rng, 10, 20, 3), some_draws(rng, 10, 30, 3)
    found = dtree.compare_posteriors(a, b)
    ones = np.ones(10)
    between = np.mean([[partition_distance(x, y, ones, "vi") for y in b] for x in a])
    assert found.between == pytest.approx(between)
    for within, draws in zip(found.within, (a, b)):
        pairs = [partition_distance(x, y, ones, "vi") for i, x in enumerate(draws) for y in draws[:i]]
        assert within == pytest.approx(np.mean(pairs))
    together = [np.mean([draw[:, None] == draw[None, :] for draw in draws], axis=0) for draws in (a, b)]
    np.testing.assert_allclose(found.row_shift, np.sqrt(((together[0] - together[1]) ** 2).mean(axis=1)), atol=1e-7)
    apart = partition_distance(dtree.point_estimate(a), dtree.point_estimate(b), ones, "vi")
    assert found.estimates_apart == pytest.approx(apart)
    halves = dtree.compare_posteriors(a[::2], a[1::2])
    assert abs(halves.excess) < 0.3 * found.between


def test_a_fitted_model_knows_its_draws_and_weights(tmp_path) -> None:
    X = np.concatenate([np.random.default_rng(0).normal(c, 1.0, (12, 2)) for c in (0.0, 6.0)])
    weight = np.ones(24)
    weight[3] = 0
    family = dtree.DiagonalGaussian([3.0, 3.0], 0.05, 3.0, [3.0, 3.0])
    model = dtree.DPMixtureMCMC(family=family, chains=2, draws=20, warmup=10, random_state=0, out=tmp_path / "run")
    model.fit(X, sample_weight=weight)
    leaves = model.labels_[weight > 0]
    assert np.array_equal(dtree.point_estimate(model), leaves)
    ball = dtree.credible_ball(model)
    assert np.array_equal(ball.estimate, leaves)
    assert ball.distances.shape == (40,)
    assert dtree.partition_uncertainty(model).row_overlap.shape == (23,)
    same = dtree.compare_posteriors(model, model)
    assert same.estimates_apart == 0.0
    np.testing.assert_allclose(same.row_shift, 0.0, atol=1e-7)
    dtree.report(tmp_path / "run", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Credible ball" in page
    assert "found again" in page
    with pytest.raises(ValueError, match="leave out weight"):
        dtree.point_estimate(model, weight=np.ones(23))


def test_the_distance_of_two_partitions() -> None:
    rng = np.random.default_rng(8)
    for loss in ("vi", "binder"):
        a, b, weight = rng.integers(0, 4, 20), rng.integers(0, 4, 20), rng.integers(1, 5, 20)
        expected = partition_distance(a, b, weight.astype(float), loss)
        assert dtree.partition_distance(a, b, loss, weight) == pytest.approx(expected)
        assert dtree.partition_distance(a, a, loss) == 0.0
