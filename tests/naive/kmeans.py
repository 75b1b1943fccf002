"""Slow obvious twins of Bayes K-means: every score is a fresh marginal likelihood of summed statistics."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, multigammaln

from dtree.core.families import DiagonalGaussian, Family, Gaussian, Multinomial
from dtree.core.model import Model
from dtree.core.tree import Tree
from dtree.hierarchy.bhc import build_tree


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


def refine_tree(model: Model, coarse: Tree, atoms: np.ndarray, labels: np.ndarray) -> Tree:
    """The tree over atoms (m, s) whose top is `coarse`, a tree over the clusters 0..k-1 that `labels` (m,) names.

    Hanging the greedy tree of its rows under each leaf of the coarse tree adds the partitions inside clusters to the
    sum, so the bound can only rise.
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


def log_marginal_of_rows(family: Family, X: np.ndarray) -> float:
    """Log marginal likelihood of rows X (n, d) from the rows themselves, deviations from their mean in long doubles.

    Nothing is subtracted that was added before, so nothing cancels.
    """
    n, d = X.shape
    if isinstance(family, Multinomial):
        counts, a = X.sum(axis=0), family.concentration
        return float(np.sum(_log_rise(a, counts)) - _log_rise(np.array(a.sum()), np.array(counts.sum())))
    assert isinstance(family, Gaussian | DiagonalGaussian)
    rows = X.astype(np.longdouble)
    centre = rows.mean(axis=0)
    apart = rows - centre
    pulled = (centre - family.mean) * np.sqrt(np.longdouble(family.strength) * n / (family.strength + n))
    scatter = apart.T @ apart + np.outer(pulled, pulled)
    log_shrink = 0.5 * d * np.log(family.strength / (family.strength + n))
    if isinstance(family, DiagonalGaussian):
        a, b = family.shape, family.rate
        log_rate = np.log(b + 0.5 * np.diag(scatter))
        total = gammaln(a + 0.5 * n) - gammaln(a) + a * np.log(b) - (a + 0.5 * n) * log_rate
        return float(total.sum() + log_shrink - 0.5 * n * d * np.log(2.0 * np.pi))
    dof = family.dof
    total = multigammaln(0.5 * (dof + n), d) - multigammaln(0.5 * dof, d) - 0.5 * n * d * np.log(np.pi) + log_shrink
    before, after = _log_det(family.scale.astype(np.longdouble)), _log_det(family.scale + scatter)
    return float(total + 0.5 * dof * before - 0.5 * (dof + n) * after)


def _log_rise(a: np.ndarray, times: np.ndarray) -> np.ndarray:
    return gammaln(a + times) - gammaln(a)


def _log_det(matrix: np.ndarray) -> np.longdouble:
    """By elimination, which numpy does not do in long doubles."""
    matrix = matrix.copy()
    total = np.longdouble(0.0)
    for a in range(matrix.shape[0]):
        total += np.log(matrix[a, a])
        matrix[a + 1 :] -= np.outer(matrix[a + 1 :, a] / matrix[a, a], matrix[a])
    return total
