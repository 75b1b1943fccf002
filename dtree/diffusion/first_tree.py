"""Where a search may start other than with its own sequential build: the tree of Bayesian hierarchical clustering."""

import numpy as np

from dtree.diffusion.belief import Leaves
from dtree.diffusion.tree import Columns, canonical, unlinked
from dtree.hierarchy.bhc import build_tree
from dtree.hierarchy.defaults import choose_model


def tree_of_merges(merges: np.ndarray) -> Columns:
    """A diffusion tree with the structure of merges (n-1, 2), numbered as in SciPy's linkage; times are only a start.

    >>> tree_of_merges(np.array([[0, 2], [1, 3]])).rest
    array([0.  , 0.  , 0.  , 0.64, 0.8 ])
    """
    n = merges.shape[0] + 1
    parent, child, rest = unlinked(2 * n - 1)
    child[n:] = merges
    for k, pair in enumerate(merges):
        parent[pair] = n + k
    for i in range(2 * n - 2, n - 1, -1):
        rest[i] = 0.8 * (rest[parent[i]] if parent[i] >= 0 else 1.0)
    return canonical(Columns(parent, child, rest))


def bhc_tree(leaves: Leaves) -> Columns:
    """The structure that BHC with diagonal Gaussians gives the means of the leaves.

    >>> from dtree.diffusion.belief import leaves_from_data
    >>> from dtree.diffusion.tree import to_nested
    >>> to_nested(bhc_tree(leaves_from_data(np.array([[-2.0], [2.0], [-2.1], [2.1]]))))
    [[0, 2], [1, 3]]
    """
    if not np.isfinite(leaves.var).all():
        raise ValueError("init='bhc' needs complete rows; leave init to 'sequential' where entries are missing.")
    model = choose_model(leaves.mean, "gaussian-diag")
    return tree_of_merges(np.asarray(build_tree(model, model.atoms(leaves.mean)).merges))
