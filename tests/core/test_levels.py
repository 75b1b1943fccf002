"""The tree of levels against brute force, nested cuts, and the valleys that rows show."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.levels import (
    COMPONENTS,
    LEAST_DEPTH,
    LevelTree,
    canonical_by_size,
    chosen_level,
    level_tree,
    mostly_alone,
    offered_levels,
    pair_matrix,
    stability,
    valleys_around,
)
from dtree.core.valleys import BINS, Labelled, add_odds, add_rows, depths, lines_between, odds_between
from tests.naive.levels import bounded_depth, joins_of


def random_hills(seed: int, m: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=m), pair_matrix(rng.exponential(size=m * (m - 1) // 2), m)


@pytest.mark.parametrize("seed", range(25))
def test_the_tree_is_the_level_set_tree_of_brute_force(seed: int) -> None:
    peaks, depth = random_hills(seed)
    tree = level_tree(peaks, depth, np.full(7, 10))
    tree.validate()
    expected = joins_of(peaks, depth)
    np.testing.assert_allclose(np.sort(tree.depth), np.sort(expected[np.isfinite(expected)]))
    for level in [COMPONENTS, *tree.depth]:
        assert tree.cut(level=level).max() + 1 == 7 - np.sum(expected <= level)


@pytest.mark.parametrize("seed", range(10))
def test_cuts_are_nested_and_cover_every_number_of_clusters(seed: int) -> None:
    peaks, depth = random_hills(seed)
    tree = level_tree(peaks, depth, np.arange(10, 17))
    finer = np.arange(7)
    for k in range(7, 0, -1):
        labels = tree.cut(n_clusters=k)
        assert labels.max() + 1 == k
        assert len({(a, b) for a, b in zip(finer, labels)}) == finer.max() + 1  # every finer cluster in one coarser
        finer = labels
    assert tree.cut(level=COMPONENTS).max() == 6
    assert tree.cut(level=np.inf).max() == 0
    assert np.all(valleys_around(tree, tree.cut(level=0.5)) > 0.5)


def test_a_thin_group_between_two_dense_ones_does_not_join_them() -> None:
    peaks = np.array([0.0, -5.0, 0.0])  # the one in the middle has a low peak, and no valley beside it
    depth = np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [5.0, 0.0, 0.0]])
    tree = level_tree(peaks, depth, np.array([100, 10, 100]))
    labels = tree.cut(level=1.0)
    assert labels[0] != labels[2]


def test_a_low_component_goes_with_the_neighbour_it_has_no_valley_to() -> None:
    # Two hills apart; the third shows no valley towards the second, the fourth towards neither but is nearer to it.
    peaks = np.array([3.0, 2.0, -4.0, -5.0])
    depth = np.array([[0, 5, 2, 0], [5, 0, 0, 0], [2, 0, 0, 3], [0, 0, 3, 0]], dtype=float)
    apart = np.array([[0, 9, 9, 4], [9, 0, 2, 1], [9, 2, 0, 9], [4, 1, 9, 0]], dtype=float)
    tree = level_tree(peaks, depth, np.full(4, 50), apart=apart)
    tree.validate()
    assert tree.cut(level=1.0).tolist() == [0, 1, 1, 1]
    order = np.array([1, 3, 0, 2])
    turned = level_tree(peaks[order], depth[np.ix_(order, order)], np.full(4, 50), apart=apart[np.ix_(order, order)])
    assert turned.cut(level=1.0).tolist() == [0, 0, 1, 0]


def test_small_components_go_with_their_host_at_once() -> None:
    peaks, depth = random_hills(0, 4)
    tree = level_tree(peaks, depth, np.array([50, 50, 3, 50]), host=np.array([0, 1, 1, 3]))
    labels = tree.cut(level=0.0)
    assert labels[2] == labels[1]


def test_levels_offered_hold_the_chosen_one_once_and_the_components() -> None:
    peaks, depth = random_hills(3, 40)
    tree = level_tree(peaks, depth, np.full(40, 10))
    chosen = chosen_level(tree)
    offered = [level.n_clusters for level in offered_levels(tree, chosen)]
    assert len(offered) <= 12
    assert offered == sorted(set(offered))
    assert int(tree.cut(level=chosen).max()) + 1 in offered
    assert offered[-1] == 40


def chain(depth: list[float], size: int = 50) -> LevelTree:
    """Components in a row with valleys of these depths between neighbours, and very deep ones between all others."""
    m = len(depth) + 1
    between = np.full((m, m), 50.0)
    between[np.arange(m - 1), np.arange(1, m)] = between[np.arange(1, m), np.arange(m - 1)] = depth
    np.fill_diagonal(between, 0.0)
    return level_tree(np.zeros(m), between, np.full(m, size))


def test_few_doubtful_valleys_are_closed_below_the_widest_gap() -> None:
    assert chosen_level(chain([0.0, 0.0, 0.7, 5.0, 0.0])) == LEAST_DEPTH
    assert chosen_level(chain([0.0, 0.0, 0.5, 5.0, 0.0])) == 0.5
    assert chosen_level(chain([0.0, 0.0, 0.5, 0.6, 0.7, 0.8, 5.0])) == LEAST_DEPTH
    assert chosen_level(chain([])) == LEAST_DEPTH


def test_where_most_components_are_clusters_no_valley_is_in_doubt() -> None:
    tree = chain([5.0, 6.0, 7.0, 0.5, 8.0])
    assert mostly_alone(tree, 0.5)
    assert chosen_level(tree) == LEAST_DEPTH
    tree = chain([5.0, 6.0, 7.0, 0.5, 0.0, 0.0, 0.0, 8.0])  # four of nine alone
    assert not mostly_alone(tree, 0.5)
    assert chosen_level(tree) == 0.5
    assert not mostly_alone(chain([0.0]), 0.0)
    assert not mostly_alone(chain([9.0, 9.0], size=5), 1.0)  # nothing is known of such small ones


def test_stability_is_one_for_the_same_clusters_and_less_for_others() -> None:
    labels, size = np.array([0, 0, 1, 1]), np.array([10, 10, 5, 5])
    assert stability(labels, [labels, labels], size).tolist() == [1.0, 1.0]
    np.testing.assert_allclose(
        stability(labels, [labels, np.zeros(4, dtype=int)], size), [(1 + 2 / 3) / 2, (1 + 1 / 3) / 2]
    )
    assert canonical_by_size(np.array([1, 0, 0]), np.array([1, 5, 5])).tolist() == [1, 0, 0]


# Valleys -------------------------------------------------------------------------------------------------------------


def depth_between(x: np.ndarray, labels: np.ndarray) -> float:
    centres = np.array([[x[labels == c].mean()] for c in (0, 1)])
    lines = lines_between(centres, centres[:1] - centres[1:])
    sums = add_rows(lines, Labelled(x[:, None], labels, np.ones(len(x)), 0), 2)
    return float(depths(*sums.together())[0])


@pytest.mark.parametrize("n", [50, 500, 5000])
@pytest.mark.parametrize("seed", range(3))
def test_an_even_stretch_has_no_valley(n: int, seed: int) -> None:
    x = np.random.default_rng(seed).uniform(0, 1, n)
    assert depth_between(x, (x < 0.5).astype(np.int64)) < 0.1


@pytest.mark.parametrize("apart", [5.0, 8.0])
def test_two_groups_apart_have_a_valley(apart: float) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(apart, 1, 400), rng.normal(0, 1, 400)])
    true = apart**2 / 8 - np.log(2)  # of the mixture, halfway between two peaks
    found = depth_between(x, np.repeat([0, 1], 400))
    assert 0.3 * true < found < 1.3 * true


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-3, 1e-2])
def test_groups_much_narrower_than_the_way_between_them_are_apart(spread: float) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(1, spread, 400), rng.normal(0, 2 * spread, 60)])
    assert depth_between(x, np.repeat([0, 1], [400, 60])) > 3.0


@pytest.mark.parametrize("deviations", [0.0, 1.5])
def test_the_depth_is_that_of_trying_every_depth(deviations: float) -> None:
    rng = np.random.default_rng(4)
    histogram, moments = [], []
    for _ in range(60):
        n, apart = int(10 ** rng.uniform(1, 4)), rng.uniform(0.5, 6)
        i = rng.normal(1, 1 / apart, n)
        j = np.concatenate([rng.normal(0, rng.uniform(0.3, 2) / apart, n), rng.uniform(0, 1, rng.integers(0, 200))])
        histogram.append(np.histogram(np.concatenate([i, j]), bins=BINS, range=(-0.25, 1.25))[0].astype(float))
        moments.append([[x.size, x.sum(), (x**2).sum()] for x in (i, j)])
    found = depths(np.array(histogram), np.array(moments), deviations)
    grid = np.concatenate([[0.0], np.geomspace(0.01, 3.0, 60)])
    tried = [
        bounded_depth(*np.array(m), counts, (-0.25, 1.25), 0.5 * deviations**2, grid)
        for m, counts in zip(moments, histogram)
    ]
    assert 0 < np.count_nonzero(tried) < 60
    np.testing.assert_allclose(found, tried, rtol=1e-9, atol=1e-12)


def test_chunks_add_up_to_the_whole_and_bins_are_those_of_a_plain_loop() -> None:
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(3, 2)) * 4
    labels = rng.integers(-1, 3, 300)
    X = centres[labels] + rng.normal(size=(300, 2))
    i, j = np.triu_indices(3, 1)
    lines, weight = lines_between(centres, centres[i] - centres[j]), rng.integers(0, 3, 300).astype(float)
    whole = add_rows(lines, Labelled(X, labels, weight, 0), 3)
    parts = [add_rows(lines, Labelled(X[a:b], labels[a:b], weight[a:b], a), 3) for a, b in ((0, 77), (77, 300))]
    for got, expected in zip(parts[0] + parts[1], whole):
        np.testing.assert_allclose(got, expected, atol=1e-9)
    counts = np.zeros((2, 3, BINS))
    for row in range(300):
        for pair, (a, b) in enumerate(zip(i, j)):
            if labels[row] in (a, b):
                direction = centres[a] - centres[b]
                place = (X[row] - centres[b]) @ direction / (direction @ direction)
                at = int(np.floor((place + 0.25) / 1.5 * BINS))
                if 0 <= at < BINS:
                    counts[row % 2, pair, at] += weight[row]
    np.testing.assert_array_equal(whole.histogram, counts)


def test_log_odds_are_lines_through_the_scores() -> None:
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(size=(200, 4)) * 5, rng.integers(0, 4, 200)
    scores[np.arange(200), labels] += 6.0
    means = np.array([scores[labels == c].mean(axis=0) for c in range(4)])
    i, j = np.triu_indices(4, 1)
    ways = np.eye(4)[i] - np.eye(4)[j]
    rows, odds = Labelled(scores, labels, np.ones(200), 3), odds_between(means)
    lines = lines_between(means, ways)  # through the means of the rows of each, as the log odds are measured
    np.testing.assert_allclose(odds.low, lines.low)
    for got, expected in zip(add_odds(odds, rows, 4), add_rows(lines, rows, 4)):
        np.testing.assert_allclose(got, expected, atol=1e-9)
