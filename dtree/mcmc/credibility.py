"""How credible the nodes of a tree are as clusters, by the draws of chains.

A tree gives every node a probability under one greedy hierarchy; the draws say how often the rows below a node really
were together, whatever else was split or merged around them.
"""

from typing import NamedTuple

import numpy as np

from dtree.core.tree import Tree
from dtree.mcmc.guide import make_guide


class Credibility(NamedTuple):
    """For every node of a tree (2m-1,), the share of the draws in which ..."""

    together: np.ndarray  # ... all leaves below it are in one cluster
    cluster: np.ndarray  # ... they are a cluster, they alone


def node_credibility(tree: Tree, labels: np.ndarray) -> Credibility:
    """Credibility of the nodes of a tree over m leaves, by partitions labels (draws, m). O(m) a draw.

    >>> from dtree.core.tree import Tree
    >>> tree = Tree.from_merges([[0, 1], [2, 3]], [1, 1, 1], np.zeros(5))
    >>> found = node_credibility(tree, np.array([[0, 0, 1], [0, 0, 0], [0, 1, 1], [0, 0, 1]]))
    >>> found.together.tolist(), found.cluster.tolist()
    ([1.0, 1.0, 1.0, 0.75, 0.25], [0.25, 0.0, 0.5, 0.5, 0.25])
    """
    m = tree.n_leaves
    if labels.ndim != 2 or labels.shape[1] != m:
        raise ValueError(f"the tree has {m} leaves but the partitions have shape {labels.shape}")
    guide = make_guide(tree.left, tree.right, np.ones(2 * m - 1))
    size = guide.stop - guide.start
    together, cluster = np.zeros(2 * m - 1), np.zeros(2 * m - 1)
    changes = np.zeros(m, dtype=np.int64)  # how often the label changes up to each place of the depth-first order
    for draw in labels:
        along = draw[guide.order]
        np.cumsum(along[1:] != along[:-1], out=changes[1:])
        one = changes[guide.stop - 1] == changes[guide.start]
        together += one
        cluster += one & (np.bincount(draw)[along[guide.start]] == size)
    return Credibility(together / labels.shape[0], cluster / labels.shape[0])
