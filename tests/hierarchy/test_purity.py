"""Dendrogram purity against golden values and the definition read aloud."""

from __future__ import annotations

import numpy as np
import pytest

from dtree.core.tree import Tree
from dtree.hierarchy.purity import dendrogram_purity
from tests.golden import golden


def _by_definition(tree: Tree, y: np.ndarray) -> float:
    means = []
    for i in range(tree.n_leaves):
        partners = [j for j in range(tree.n_leaves) if j != i and y[j] == y[i]]
        purities = []
        for j in partners:
            node = next(k for k in range(2 * tree.n_leaves - 1) if {i, j} <= set(tree.leaves_below(k)))
            purities.append(np.mean(y[tree.leaves_below(node)] == y[i]))
        if purities:
            means.append(np.mean(purities))
    return float(np.mean(means))


@pytest.mark.parametrize("case", golden("purity"), ids=lambda case: f"{len(case['labels'])}-leaves")
def test_golden_purity(case):
    merges, y = np.array(case["merges"]), np.array(case["labels"])
    tree = Tree.from_merges(merges, np.ones(len(y)), np.zeros(2 * len(y) - 1))
    assert dendrogram_purity(tree, y) == pytest.approx(case["dendrogram_purity"], abs=1e-12)
    assert dendrogram_purity(tree, y) == pytest.approx(_by_definition(tree, y), abs=1e-12)


def test_bad_input_gets_a_sentence():
    merges = np.array([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="2 entries but the tree has 3 leaves"):
        dendrogram_purity(merges, [0, 1])
    with pytest.raises(ValueError, match="at least two members"):
        dendrogram_purity(merges, [0, 1, 2])
