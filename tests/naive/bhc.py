"""Bayesian hierarchical clustering as the paper says it, O(n^3): score every pair again before every merge."""

from __future__ import annotations

import numpy as np

from dtree.core.model import Model
from dtree.core.tree import Tree


def greedy_tree(model: Model, atoms: np.ndarray, resolution: float = 2.0**24) -> Tree:
    """The tree over atoms (m, s): merge the pair with the smallest log d, ties to the smallest indices.

    Scores that agree to 1/resolution are ties.
    """
    m = atoms.shape[0]
    nodes = {i: atoms[i] for i in range(m)}
    log_phi_h = {i: model.log_phi_h(atoms[i])[0] for i in range(m)}
    log_phi_t = dict(log_phi_h)
    merges: list[tuple[int, int]] = []
    for k in range(m, 2 * m - 1):
        best = None
        active = sorted(nodes)
        for at, a in enumerate(active):
            for b in active[at + 1 :]:
                joined = model.log_phi_h(nodes[a] + nodes[b])[0]
                log_d = np.floor((log_phi_t[a] + log_phi_t[b] - joined) * resolution + 0.5) / resolution
                if best is None or (log_d, a, b) < best[0]:
                    best = ((log_d, a, b), joined)
        assert best is not None
        (_, a, b), log_phi_h[k] = best
        log_phi_t[k] = np.logaddexp(log_phi_h[k], log_phi_t[a] + log_phi_t[b])
        nodes[k] = nodes.pop(a) + nodes.pop(b)
        merges.append((a, b))
    return Tree.from_merges(merges, model.counts(atoms), [log_phi_h[i] for i in range(2 * m - 1)])
