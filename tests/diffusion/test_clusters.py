"""Clusters at a cut, and new rows that join them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster

from dtree import DiffusionTree
from dtree.diffusion.clusters import cut, widest_gap
from dtree.diffusion.prior import sample_tree

QUICK = {"n_permutations": 1, "search_steps": 20, "posterior_sweeps": 2, "random_state": 0}


def test_cuts_are_those_of_scipy() -> None:
    tree = sample_tree(30, 1.0, np.random.default_rng(0))
    for k in (1, 2, 5, 29, 30):
        labels, tops = cut(tree, k)
        expected = fcluster(tree.to_linkage(), k, "maxclust")
        assert len(tops) == k == len(np.unique(expected))
        same = labels[:30, None] == labels[None, :30]
        assert np.array_equal(same, expected[:, None] == expected[None])
    with pytest.raises(ValueError, match="1 to 30 clusters, not 31"):
        cut(tree, 31)


def test_groups_that_stand_apart_are_found_and_joined() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    y = np.repeat(np.arange(3), 12)
    rows = centres[y] + 0.2 * rng.normal(size=(36, 2))
    model = DiffusionTree(**QUICK).fit(rows)
    assert model.n_clusters_ == widest_gap(model.tree_)
    by_three = DiffusionTree(n_clusters=3, **QUICK).fit(rows)
    assert np.array_equal(by_three.labels_, y)
    assert np.array_equal(by_three.predict(rows), y)
    assert np.array_equal(by_three.predict(centres + 0.5), [0, 1, 2])
    one = centres + 0.5
    one[1, 1] = np.nan
    assert by_three.predict(one)[1] == 1


def test_binary_rows_join_clusters() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 8)
    rows = ((y[:, None] + (np.arange(12) < 6)) % 2 == (rng.random((16, 12)) < 0.95)).astype(float)
    model = DiffusionTree(likelihood="probit", n_clusters=2, n_permutations=1, search_steps=20, random_state=0).fit(
        rows
    )
    assert np.array_equal(model.labels_, y)
    assert np.array_equal(model.predict(rows), y)
