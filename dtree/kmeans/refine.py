"""A tree over rows from a tree over clusters: BHC under every cluster of Bayes K-means.

Hanging the greedy tree of its rows under each leaf of the coarse tree adds the partitions inside clusters to the sum, so the bound can
only rise: log phi_t of a leaf was log phi_h of the cluster, the first term of the subtree's own sum.
"""

from __future__ import annotations

import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree


def refine_tree(model: Model, coarse: Tree, atoms: np.ndarray, labels: np.ndarray) -> Tree:
    """The tree over atoms (m, s) whose top is `coarse`, a tree over the clusters 0..k-1 that `labels` (m,) names.

    >>> from dtree.core.families import Poisson
    >>> from dtree.core.priors import DirichletProcess
    >>> model = Model(Poisson([1.0], [0.1]), DirichletProcess(1.0))
    >>> atoms = model.atoms([[30], [1], [28], [2]])
    >>> coarse = build_tree(model, np.array([atoms[0] + atoms[2], atoms[1] + atoms[3]]))
    >>> refine_tree(model, coarse, atoms, np.array([0, 1, 0, 1])).merges.tolist()
    [[0, 2], [1, 3], [4, 5]]
    """
    m, k = atoms.shape[0], coarse.n_leaves
    merges: list[tuple[int, int]] = []
    log_phi_h = list(model.log_phi_h(atoms))
    top = np.empty(2 * k - 1, dtype=np.int64)  # the node of the new tree that stands for each node of the coarse one
    for cluster in range(k):
        members = np.flatnonzero(labels == cluster)
        below = build_tree(model, atoms[members])
        number = np.concatenate([members, m + len(merges) + np.arange(members.shape[0] - 1)])
        merges += [(int(number[a]), int(number[b])) for a, b in below.merges]
        log_phi_h += list(below.log_phi_h[members.shape[0] :])
        top[cluster] = number[-1]
    for i, (a, b) in enumerate(coarse.merges):
        top[k + i] = m + len(merges)
        merges.append((int(min(top[a], top[b])), int(max(top[a], top[b]))))
        log_phi_h.append(coarse.log_phi_h[k + i])
    return Tree.from_merges(merges, np.rint(model.counts(atoms)), log_phi_h)
