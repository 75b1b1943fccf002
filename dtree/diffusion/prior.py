"""The Dirichlet diffusion tree prior with divergence function a(t) = c / (1 - t), and samplers of trees and data.

Two misprints of the paper are put right here: the branching term is (l-1)!(r-1)!/(m-1)! (m! is printed below Eq. 1),
and Eq. 1 lacks a factor c. Given the structure, `w = rest / rest of the parent` are independent Beta(c H_{m-1}, 1), and
the structure alone has probability prod (l-1)!(r-1)! / ((m-1)! H_{m-1}), whatever c.
"""

import numpy as np
from scipy.special import digamma, gammaln

from dtree.core.jit import kernel
from dtree.diffusion.tree import Columns, canonical, children_first, leaf_counts, rest_above, unlinked


def harmonic(n: np.ndarray | int) -> np.ndarray:
    """Harmonic numbers H_n, H_0 = 0.

    >>> harmonic(np.array([0, 1, 2]))
    array([0. , 1. , 1.5])
    """
    n = np.asarray(n, dtype=np.float64)
    return np.where(n > 0, digamma(n + 1.0) + np.euler_gamma, 0.0)


def harmonic_table(n: int) -> np.ndarray:
    """H_0 .. H_n as a table for kernels."""
    table = np.zeros(n + 1)
    table[1:] = np.cumsum(1.0 / np.arange(1, n + 1))
    return table


def log_structure_prior(tree: Columns) -> float:
    """Log probability of the tree structure with its times integrated out; it does not depend on c.

    >>> from dtree.diffusion.tree import from_nested
    >>> round(float(np.exp(log_structure_prior(from_nested([[0, 1], 2], [0.3, 0.7])))), 6)
    0.333333
    """
    order = children_first(tree.child, tree.root)
    count = leaf_counts(tree.child, order)
    m, l, r = count[order], count[tree.child[order, 0]], count[tree.child[order, 1]]
    return float(np.sum(gammaln(l) + gammaln(r) - gammaln(m) - np.log(harmonic(m - 1))))


@kernel
def _follow_paths(tree: Columns, c: float, rng: np.random.Generator) -> None:
    """Link the nodes of a tree by following the generative process path by path."""
    parent, child, rest = tree
    n = (parent.shape[0] + 1) // 2
    count = np.ones(2 * n - 1, np.int64)
    root = 0
    for leaf in range(1, n):
        node = root
        above = -1
        rest_above = 1.0
        while True:
            # the path is followed by count[node] earlier ones: P(no divergence before rest r) = (r / rest_above)^(c/m)
            diverge = rest_above * rng.random() ** (count[node] / c)
            if diverge > rest[node]:
                break
            count[node] += 1
            above = node
            rest_above = rest[node]
            left = child[node, 0]
            pick_left = rng.random() * (count[left] + count[child[node, 1]]) < count[left]
            node = left if pick_left else child[node, 1]
        new = n + leaf - 1
        parent[new] = above
        if above < 0:
            root = new
        else:
            child[above, 0 if child[above, 0] == node else 1] = new
        child[new, 0], child[new, 1] = node, leaf
        parent[node] = parent[leaf] = new
        rest[new] = diverge
        count[new] = count[node] + 1


def sample_tree(n: int, c: float, rng: np.random.Generator) -> Columns:
    """Draw a tree over n leaves from the prior; rows are exchangeable.

    >>> sample_tree(3, 1.0, np.random.default_rng(0)).n_leaves
    3
    """
    if n < 2:
        raise ValueError(f"A diffusion tree needs at least two leaves, got {n}.")
    tree = unlinked(2 * n - 1)
    _follow_paths(tree, float(c), rng)
    return canonical(tree)


def sample_locations(tree: Columns, d: int, sigma2: float, rng: np.random.Generator) -> np.ndarray:
    """Brownian locations (2n-1, d) of all nodes of a tree, starting from 0 at the origin."""
    location = np.zeros((tree.parent.shape[0], d))
    noise = rng.standard_normal(location.shape)
    for i in np.concatenate([children_first(tree.child, tree.root)[::-1], np.arange(tree.n_leaves)]):
        above, length = tree.parent[i], rest_above(tree.parent, tree.rest, i) - tree.rest[i]
        location[i] = (location[above] if above >= 0 else 0.0) + np.sqrt(sigma2 * length) * noise[i]
    return location


def sample_data(
    n: int, d: int, *, c: float = 1.0, sigma2: float = 1.0, noise: float = 0.0, rng: np.random.Generator
) -> tuple[np.ndarray, Columns]:
    """Draw a tree and n observed rows (n, d) from the prior.

    >>> rows, tree = sample_data(4, 2, rng=np.random.default_rng(1))
    >>> rows.shape
    (4, 2)
    """
    tree = sample_tree(n, c, rng)
    rows = sample_locations(tree, d, sigma2, rng)[:n]
    return rows + np.sqrt(noise) * rng.standard_normal(rows.shape), tree
