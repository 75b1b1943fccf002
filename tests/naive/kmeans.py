"""Slow obvious twins of Bayes K-means: every score is a fresh marginal likelihood of summed statistics."""

from __future__ import annotations

import numpy as np

from dtree.core.model import Model


def phi(model: Model, atoms: np.ndarray, members: list[int]) -> float:
    return float(model.log_phi_h(atoms[members].sum(axis=0))[0])


def assign_once(model: Model, atoms: np.ndarray, order: list[int], k: int) -> list[list[int]]:
    """[XHG09] section 5: the first k points open clusters, the others go where the sum of log phi_h is largest."""
    clusters = [[int(i)] for i in order[:k]]
    for i in order[k:]:
        gains = [phi(model, atoms, [*c, i]) - phi(model, atoms, c) for c in clusters] + [phi(model, atoms, [i])]
        best = int(np.argmax(gains))
        if best == len(clusters):
            clusters.append([])
        clusters[best].append(int(i))
    return clusters


def merge_while_rising(model: Model, atoms: np.ndarray, clusters: list[list[int]]) -> list[list[int]]:
    clusters = [list(c) for c in clusters]
    while True:
        best, pair = 0.0, None
        for a in range(len(clusters)):
            for b in range(a + 1, len(clusters)):
                gain = phi(model, atoms, clusters[a] + clusters[b])
                gain -= phi(model, atoms, clusters[a]) + phi(model, atoms, clusters[b])
                if gain > best:
                    best, pair = gain, (a, b)
        if pair is None:
            return clusters
        clusters[pair[0]] += clusters.pop(pair[1])


def frozen_gains(model: Model, atoms: np.ndarray, labels: np.ndarray, statistics: np.ndarray) -> np.ndarray:
    """Gain (n, k + 1) of putting each row into each cluster, its own taken without the row, or into a new one."""
    n, k = atoms.shape[0], statistics.shape[0]
    gains = np.empty((n, k + 1))
    for i in range(n):
        for c in range(k):
            rest = statistics[c].copy()
            if labels[i] == c:
                rest -= atoms[i]
            if rest[0] < 0.5 * atoms[i, 0]:
                gains[i, c] = model.log_phi_h(atoms[i])[0]
            else:
                gains[i, c] = model.log_phi_h(rest + atoms[i])[0] - model.log_phi_h(rest)[0]
        gains[i, k] = model.log_phi_h(atoms[i])[0]
    return gains
